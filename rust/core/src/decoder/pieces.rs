//! How the tokens of a step are cut into pieces whose sums fit the vector registers.

use pulp::Simd;

/// Tokens at a time with 32 and with 16 vector registers; each takes two.
const MOST_TOKENS: usize = 12;
const FEW_TOKENS: usize = 6;

/// Size of the pieces: even ones, because 12 and 4 would load the weights a second time for 4.
#[inline(always)]
pub(super) fn piece_size<S: Simd>(tokens: usize) -> usize {
    let most = if S::REGISTER_COUNT >= 32 {
        MOST_TOKENS
    } else {
        FEW_TOKENS
    };
    tokens.div_ceil(tokens.div_ceil(most).max(1)).max(1)
}

/// Evaluates `$call` with the constant `$name` equal to `$count`, which is at most 12.
macro_rules! with_count {
    ($count:expr, $name:ident => $call:expr) => {
        with_count!(@ $count, $name => $call, 1 2 3 4 5 6 7 8 9 10 11 12)
    };
    (@ $count:expr, $name:ident => $call:expr, $($number:literal)*) => {
        match $count {
            $($number => {
                const $name: usize = $number;
                $call
            })*
            _ => {}
        }
    };
}

pub(super) use with_count;
