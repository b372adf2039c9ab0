//! The gate of the feed-forward part.

use pulp::{Simd, WithSimd};

use crate::attention::exponential;

/// `gate = silu(gate) * up`.
pub(super) struct Gate<'a> {
    pub(super) gate: &'a mut [f32],
    pub(super) up: &'a [f32],
}

impl WithSimd for Gate<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let one = simd.splat_f32s(1.0);
        let gates = S::as_mut_simd_f32s(self.gate).0;
        for (gate, up) in gates.iter_mut().zip(S::as_simd_f32s(self.up).0) {
            let decay = exponential(simd, simd.neg_f32s(*gate));
            let silu = simd.div_f32s(*gate, simd.add_f32s(one, decay));
            *gate = simd.mul_f32s(silu, *up);
        }
    }
}
