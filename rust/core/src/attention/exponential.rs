//! The exponential function on vectors.

use pulp::Simd;

// Below this the result would be subnormal; it is 1e-38 and counts as nothing in a softmax.
const LOWEST: f32 = -87.0;
const HIGHEST: f32 = 88.0;
// Adding this to a number of small size leaves the nearest integer in the lowest bits.
const ROUND: f32 = 12_582_912.0;
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;
// Cephes' expf: error below 2 units in the last place.
const POLYNOMIAL: [f32; 6] = [
    1.987_569_1e-4,
    1.398_199_9e-3,
    8.333_452e-3,
    4.166_579_6e-2,
    1.666_666_5e-1,
    5.000_000_3e-1,
];

/// `e^x` for each lane, with x held between -87 and 88.
#[inline(always)]
pub(crate) fn exponential<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let x = simd.max_f32s(x, simd.splat_f32s(LOWEST));
    let x = simd.min_f32s(x, simd.splat_f32s(HIGHEST));
    let round = simd.splat_f32s(ROUND);
    let shifted = simd.mul_add_f32s(x, simd.splat_f32s(std::f32::consts::LOG2_E), round);
    let whole = simd.sub_f32s(shifted, round);
    let rest = simd.mul_add_f32s(whole, simd.splat_f32s(-LN2_HIGH), x);
    let rest = simd.mul_add_f32s(whole, simd.splat_f32s(-LN2_LOW), rest);
    let mut sum = simd.splat_f32s(POLYNOMIAL[0]);
    for coefficient in &POLYNOMIAL[1..] {
        sum = simd.mul_add_f32s(sum, rest, simd.splat_f32s(*coefficient));
    }
    let square = simd.mul_f32s(rest, rest);
    let sum = simd.mul_add_f32s(sum, square, rest);
    let sum = simd.add_f32s(sum, simd.splat_f32s(1.0));
    let exponent =
        simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
    simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(sum), exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Each<'a>(&'a mut [f32; 16]);

    impl pulp::WithSimd for Each<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            for vector in S::as_mut_simd_f32s(self.0).0 {
                *vector = exponential(simd, *vector);
            }
        }
    }

    #[test]
    fn agrees_with_the_standard_library() {
        for step in 0..5_000 {
            let x = -86.9 + step as f32 * 0.034_9;
            let mut values = [x; 16];
            pulp::Arch::new().dispatch(Each(&mut values));
            let expected = x.exp();
            assert!((values[3] - expected).abs() <= expected * 3e-7, "{x}");
        }
    }

    #[test]
    fn minus_infinity_is_nothing() {
        let mut values = [f32::NEG_INFINITY; 16];
        pulp::Arch::new().dispatch(Each(&mut values));
        assert!(values[0] < 1e-37);
    }
}
