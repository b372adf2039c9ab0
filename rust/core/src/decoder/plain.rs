//! A panel of plain weights against all tokens.

use pulp::{Simd, WithSimd};

use super::linear::{Ending, Inputs};
use super::pieces::{piece_size, with_count};
use crate::attention::{PAGE, Storage, parts};

/// One panel of weights: a block of 32 outputs for each input.
pub(super) struct PlainPanel<'a, E: Storage> {
    pub(super) inputs: &'a Inputs<'a>,
    pub(super) panel: &'a [E::Block],
    pub(super) output: &'a mut [[f32; PAGE]],
    pub(super) ending: Ending,
}

impl<E: Storage> WithSimd for PlainPanel<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let size = piece_size::<S>(self.inputs.tokens);
        let pieces = std::mem::take(&mut self.output).chunks_mut(size);
        for (index, output) in pieces.enumerate() {
            with_count!(output.len(), COUNT => self.tokens::<S, COUNT>(simd, index * size, output));
        }
    }
}

impl<E: Storage> PlainPanel<'_, E> {
    #[inline(always)]
    fn tokens<S: Simd, const COUNT: usize>(
        &self,
        simd: S,
        first: usize,
        output: &mut [[f32; PAGE]],
    ) {
        for part in 0..parts::<S>() {
            let mut low = [simd.splat_f32s(0.0); COUNT];
            let mut high = low;
            for (index, weights) in self.panel.as_chunks::<PAGE>().0.iter().enumerate() {
                let Some(x) = self.inputs.rows::<COUNT>(index, first) else {
                    return;
                };
                for (input, block) in weights.iter().enumerate() {
                    let (lower, upper) = E::widen(simd, block, part);
                    for token in 0..COUNT {
                        let factor = simd.splat_f32s(x[token][input]);
                        low[token] = simd.mul_add_f32s(lower, factor, low[token]);
                        high[token] = simd.mul_add_f32s(upper, factor, high[token]);
                    }
                }
            }
            for (token, output) in output.iter_mut().enumerate() {
                let vectors = S::as_mut_simd_f32s(output).0;
                let second = parts::<S>() + part;
                if self.ending == Ending::Add {
                    low[token] = simd.add_f32s(low[token], vectors[part]);
                    high[token] = simd.add_f32s(high[token], vectors[second]);
                }
                vectors[part] = low[token];
                vectors[second] = high[token];
            }
        }
    }
}
