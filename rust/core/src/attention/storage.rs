//! How 32 values lie in memory: as float32, or as bfloat16 in pairs.

use pulp::Simd;

use super::PAGE;

/// A form in which weights, keys and values are kept; arithmetic is always in float32.
pub trait Storage: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// Memory of 32 values.
    type Block: Copy + Send + Sync + std::fmt::Debug + 'static;
    /// A block of zeros.
    const ZERO: Self::Block;

    /// Rounds 32 values into a block.
    fn encode(values: &[f32; PAGE]) -> Self::Block;

    /// Rounds one value into its place.
    fn set(block: &mut Self::Block, index: usize, value: f32);

    /// One value.
    fn get(block: &Self::Block, index: usize) -> f32;

    /// Two vectors of lanes `part * L ..` of the first and of the second 16 values.
    fn widen<S: Simd>(simd: S, block: &Self::Block, part: usize) -> (S::f32s, S::f32s);
}

/// Number of `part`s that [`Storage::widen`] knows for an instruction set.
pub(crate) const fn parts<S: Simd>() -> usize {
    16 / S::F32_LANES
}

/// Plain float32.
#[derive(Debug, Clone, Copy)]
pub struct F32;

/// 32 values as they are, on a cache line's border.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Values([f32; PAGE]);

/// 32 rounded values in 16 pairs: exactly one cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub struct Pairs([u32; PAGE / 2]);

impl Storage for F32 {
    type Block = Values;
    const ZERO: Self::Block = Values([0.0; PAGE]);

    #[inline(always)]
    fn encode(values: &[f32; PAGE]) -> Self::Block {
        Values(*values)
    }

    #[inline(always)]
    fn set(block: &mut Self::Block, index: usize, value: f32) {
        block.0[index] = value;
    }

    #[inline(always)]
    fn get(block: &Self::Block, index: usize) -> f32 {
        block.0[index]
    }

    #[inline(always)]
    fn widen<S: Simd>(_simd: S, block: &Self::Block, part: usize) -> (S::f32s, S::f32s) {
        let vectors = S::as_simd_f32s(&block.0).0;
        (vectors[part], vectors[parts::<S>() + part])
    }
}

/// bfloat16: lane `i` of 16 holds value `i` in its low half and value `16 + i` in its high half.
///
/// So one load, one shift and one mask give two float32 vectors on every instruction set. The
/// processor's own bfloat16 products are not used: on the machines at hand they run at half the
/// rate of float32 ones.
#[derive(Debug, Clone, Copy)]
pub struct Bf16;

const HIGH: u32 = 0xFFFF_0000;

/// Rounds to the nearest bfloat16, ties to even; NaN stays NaN.
#[inline(always)]
fn round(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) | 0x40;
    }
    bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16
}

impl Storage for Bf16 {
    type Block = Pairs;
    const ZERO: Self::Block = Pairs([0; PAGE / 2]);

    #[inline(always)]
    fn encode(values: &[f32; PAGE]) -> Self::Block {
        Pairs(std::array::from_fn(|lane| {
            round(values[lane]) | (round(values[16 + lane]) << 16)
        }))
    }

    #[inline(always)]
    fn set(block: &mut Self::Block, index: usize, value: f32) {
        let lane = &mut block.0[index % 16];
        *lane = if index < 16 {
            (*lane & HIGH) | round(value)
        } else {
            (*lane & !HIGH) | (round(value) << 16)
        };
    }

    #[inline(always)]
    fn get(block: &Self::Block, index: usize) -> f32 {
        let lane = block.0[index % 16];
        f32::from_bits(if index < 16 { lane << 16 } else { lane & HIGH })
    }

    #[inline(always)]
    fn widen<S: Simd>(simd: S, block: &Self::Block, part: usize) -> (S::f32s, S::f32s) {
        let pairs = S::as_simd_u32s(&block.0).0[part];
        let low = simd.wrapping_dyn_shl_u32s(pairs, simd.splat_u32s(16));
        let high = simd.and_u32s(pairs, simd.splat_u32s(HIGH));
        (
            simd.transmute_f32s_u32s(low),
            simd.transmute_f32s_u32s(high),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Widened<'a, E: Storage>(&'a E::Block);

    impl<E: Storage> pulp::WithSimd for Widened<'_, E> {
        type Output = [f32; PAGE];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let mut values = [0.0; PAGE];
            for part in 0..parts::<S>() {
                let (low, high) = E::widen(simd, self.0, part);
                let vectors = S::as_mut_simd_f32s(&mut values).0;
                vectors[part] = low;
                vectors[parts::<S>() + part] = high;
            }
            values
        }
    }

    fn widened<E: Storage>(block: &E::Block) -> [f32; PAGE] {
        pulp::Arch::new().dispatch(Widened::<E>(block))
    }

    proptest! {
        #[test]
        fn blocks_give_back_their_values(values in prop::array::uniform32(-1e6f32..1e6)) {
            prop_assert_eq!(widened::<F32>(&F32::encode(&values)), values);
            let block = Bf16::encode(&values);
            for (index, value) in widened::<Bf16>(&block).into_iter().enumerate() {
                prop_assert_eq!(value, Bf16::get(&block, index));
                prop_assert!((value - values[index]).abs() <= values[index].abs() / 256.0);
            }
        }

        #[test]
        fn setting_one_value_leaves_the_others(
            values in prop::array::uniform32(-1e6f32..1e6), index in 0usize..PAGE, new in -9f32..9.0
        ) {
            let mut changed = values;
            changed[index] = new;
            let mut block = Bf16::encode(&values);
            Bf16::set(&mut block, index, new);
            prop_assert_eq!(block.0, Bf16::encode(&changed).0);
        }
    }

    #[test]
    fn rounding_is_to_nearest_even_and_keeps_nan() {
        assert_eq!(round(1.0), 0x3F80);
        assert_eq!(round(f32::from_bits(0x3F80_8000)), 0x3F80);
        assert_eq!(round(f32::from_bits(0x3F81_8000)), 0x3F82);
        assert!(f32::from_bits(round(f32::NAN) << 16).is_nan());
    }
}
