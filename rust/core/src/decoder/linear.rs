//! Products with a weight matrix that is kept in panels of 32 outputs.

use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::DecoderError;
use crate::attention::{AttentionError, PAGE, Storage, exponential, parts};

/// Tokens whose sums are held in registers at a time, with 32 and with 16 vector registers.
const MOST_TOKENS: usize = 12;
const FEW_TOKENS: usize = 6;

/// A weight matrix `[outputs][inputs]`.
#[derive(Debug)]
pub struct Linear<E: Storage> {
    inputs: usize,
    outputs: usize,
    /// For each panel of 32 outputs: a block for each input.
    panels: Vec<E::Block>,
    arch: Arch,
}

/// What becomes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Replace,
    Add,
}

impl<E: Storage> Linear<E> {
    /// Packs a row-major matrix; both sizes are multiples of 32.
    pub fn new(inputs: usize, rows: &[f32]) -> Result<Self, DecoderError> {
        let outputs = rows.len() / inputs.max(1);
        for (name, width) in [("inputs", inputs), ("outputs", outputs)] {
            if width == 0 || !width.is_multiple_of(PAGE) {
                return Err(DecoderError::Width { name, width });
            }
        }
        if rows.len() != inputs * outputs {
            return Err(DecoderError::Attention(AttentionError::Length {
                name: "weight",
                found: rows.len(),
                expected: inputs * outputs,
            }));
        }
        let panels = rows.chunks(PAGE * inputs).flat_map(|panel| {
            (0..inputs).map(move |input| {
                E::encode(&std::array::from_fn(|row| panel[row * inputs + input]))
            })
        });
        Ok(Self {
            inputs,
            outputs,
            panels: panels.collect(),
            arch: Arch::new(),
        })
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// One row of the matrix, as an embedding: `[inputs]`.
    pub(super) fn row(&self, index: usize) -> impl Iterator<Item = f32> {
        let first = index / PAGE * self.inputs;
        let panel = &self.panels[first..first + self.inputs];
        panel.iter().map(move |block| E::get(block, index % PAGE))
    }

    /// The product for all tokens, in panels.
    pub(super) fn apply(&self, tokens: usize, x: &[f32]) -> Vec<f32> {
        let mut output = vec![0.0; self.outputs * tokens];
        self.each_panel(tokens, x, &mut output, Ending::Replace);
        output
    }

    /// Adds the product to `residual`.
    pub(super) fn add_to(&self, tokens: usize, x: &[f32], residual: &mut [f32]) {
        self.each_panel(tokens, x, residual, Ending::Add);
    }

    /// `silu(gate) * up`, for a matrix whose panels are gate and up in turns.
    pub(super) fn gated(&self, tokens: usize, x: &[f32]) -> Vec<f32> {
        let mut output = vec![0.0; self.outputs / 2 * tokens];
        let work = output.par_chunks_mut(PAGE * tokens).enumerate();
        work.for_each(|(index, gate)| {
            let mut up = vec![0.0; gate.len()];
            self.panel(2 * index, tokens, x, gate, Ending::Replace);
            self.panel(2 * index + 1, tokens, x, &mut up, Ending::Replace);
            self.arch.dispatch(Gate { gate, up: &up });
        });
        output
    }

    /// Index of the greatest output of each token, the lowest of equals.
    pub(super) fn greatest(&self, tokens: usize, x: &[f32]) -> Vec<usize> {
        let panels = (0..self.outputs / PAGE).into_par_iter();
        let candidates = panels.map(|index| {
            let mut output = vec![0.0; PAGE * tokens];
            self.panel(index, tokens, x, &mut output, Ending::Replace);
            let (rows, _) = output.as_chunks::<PAGE>();
            rows.iter()
                .map(|row| greatest_of(row, index * PAGE))
                .collect::<Vec<_>>()
        });
        let none = || vec![(f32::NEG_INFINITY, usize::MAX); tokens];
        let best = candidates.reduce(none, |mut left, right| {
            for (held, offered) in left.iter_mut().zip(right) {
                *held = better(*held, offered);
            }
            left
        });
        // Nothing exceeds minus infinity only if every output is NaN: then the first id.
        best.into_iter()
            .map(|(_, index)| if index == usize::MAX { 0 } else { index })
            .collect()
    }

    fn each_panel(&self, tokens: usize, x: &[f32], output: &mut [f32], ending: Ending) {
        let work = output.par_chunks_mut(PAGE * tokens).enumerate();
        work.for_each(|(index, output)| self.panel(index, tokens, x, output, ending));
    }

    fn panel(&self, index: usize, tokens: usize, x: &[f32], output: &mut [f32], ending: Ending) {
        let panel = &self.panels[index * self.inputs..][..self.inputs];
        self.arch.dispatch(Panel::<E> {
            tokens,
            x: x.as_chunks().0,
            panel,
            output: output.as_chunks_mut().0,
            ending,
        });
    }
}

fn greatest_of(row: &[f32; PAGE], first: usize) -> (f32, usize) {
    let mut best = (f32::NEG_INFINITY, usize::MAX);
    for (index, value) in row.iter().enumerate() {
        if *value > best.0 {
            best = (*value, first + index);
        }
    }
    best
}

fn better(left: (f32, usize), right: (f32, usize)) -> (f32, usize) {
    let later = right.0 > left.0 || (right.0 == left.0 && right.1 < left.1);
    if later { right } else { left }
}

/// One panel of weights against all tokens.
struct Panel<'a, E: Storage> {
    tokens: usize,
    x: &'a [[f32; PAGE]],
    panel: &'a [E::Block],
    output: &'a mut [[f32; PAGE]],
    ending: Ending,
}

impl<E: Storage> WithSimd for Panel<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let most = if S::REGISTER_COUNT >= 32 {
            MOST_TOKENS
        } else {
            FEW_TOKENS
        };
        // Even pieces: 16 tokens as 8 and 8, because 12 and 4 would load the weights for 4.
        let size = self.tokens.div_ceil(self.tokens.div_ceil(most).max(1));
        let pieces = std::mem::take(&mut self.output).chunks_mut(size.max(1));
        for (index, output) in pieces.enumerate() {
            self.some(simd, index * size, output);
        }
    }
}

impl<E: Storage> Panel<'_, E> {
    #[inline(always)]
    fn some<S: Simd>(&self, simd: S, first: usize, output: &mut [[f32; PAGE]]) {
        match output.len() {
            1 => self.tokens::<S, 1>(simd, first, output),
            2 => self.tokens::<S, 2>(simd, first, output),
            3 => self.tokens::<S, 3>(simd, first, output),
            4 => self.tokens::<S, 4>(simd, first, output),
            5 => self.tokens::<S, 5>(simd, first, output),
            6 => self.tokens::<S, 6>(simd, first, output),
            7 => self.tokens::<S, 7>(simd, first, output),
            8 => self.tokens::<S, 8>(simd, first, output),
            9 => self.tokens::<S, 9>(simd, first, output),
            10 => self.tokens::<S, 10>(simd, first, output),
            11 => self.tokens::<S, 11>(simd, first, output),
            _ => self.tokens::<S, 12>(simd, first, output),
        }
    }

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
                let start = index * self.tokens + first;
                let Some(x) = self.x[start..].first_chunk::<COUNT>() else {
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

/// `gate = silu(gate) * up`.
struct Gate<'a> {
    gate: &'a mut [f32],
    up: &'a [f32],
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attention::{Bf16, F32};

    /// Numbers that bfloat16 holds exactly, so that both storages must agree with the plain sum.
    fn numbers(count: usize, seed: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 37 + seed * 11) % 61) as f32 / 8.0 - 3.5;
        (0..count).map(number).collect()
    }

    /// `[token][input]` as panels.
    fn panels(tokens: usize, rows: &[f32]) -> Vec<f32> {
        let inputs = rows.len() / tokens;
        let mut output = vec![0.0; rows.len()];
        for token in 0..tokens {
            for input in 0..inputs {
                output[(input / PAGE * tokens + token) * PAGE + input % PAGE] =
                    rows[token * inputs + input];
            }
        }
        output
    }

    fn plain(inputs: usize, weight: &[f32], x: &[f32]) -> Vec<f32> {
        x.chunks(inputs)
            .flat_map(|x| {
                weight.chunks(inputs).map(move |row| {
                    let products = row.iter().zip(x).map(|(a, b)| f64::from(a * b));
                    products.sum::<f64>() as f32
                })
            })
            .collect()
    }

    fn close(found: &[f32], expected: &[f32]) -> bool {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    fn check<E: Storage>(inputs: usize, outputs: usize, tokens: usize, seed: usize) {
        let (weight, x) = (
            numbers(inputs * outputs, seed),
            numbers(inputs * tokens, seed + 1),
        );
        let linear = Linear::<E>::new(inputs, &weight).unwrap();
        let expected = plain(inputs, &weight, &x);
        let packed = panels(tokens, &x);
        let product = linear.apply(tokens, &packed);
        assert!(close(&product, &panels(tokens, &expected)));
        let mut sum = vec![1.0; product.len()];
        linear.add_to(tokens, &packed, &mut sum);
        let one_more: Vec<f32> = product.iter().map(|value| value + 1.0).collect();
        assert!(close(&sum, &one_more));
        let first_greatest = |row: &[f32]| {
            let best = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            row.iter().position(|value| *value == best).unwrap()
        };
        let rows: Vec<usize> = expected.chunks(outputs).map(first_greatest).collect();
        assert_eq!(linear.greatest(tokens, &packed), rows);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn products_equal_the_plain_sum(
            inputs in 1usize..4, outputs in 1usize..5, tokens in 1usize..40, seed in 0usize..99
        ) {
            check::<F32>(inputs * PAGE, outputs * PAGE, tokens, seed);
            check::<Bf16>(inputs * PAGE, outputs * PAGE, tokens, seed);
        }
    }

    #[test]
    fn gate_and_up_meet_in_their_own_column() {
        let (inputs, outputs, tokens) = (PAGE, 2 * PAGE, 5);
        let (gate, up) = (numbers(inputs * outputs, 1), numbers(inputs * outputs, 2));
        let x: Vec<f32> = numbers(inputs * tokens, 3)
            .iter()
            .map(|v| v / 50.0)
            .collect();
        let joined = crate::decoder::LayerWeights::<F32>::interleave(inputs, &gate, &up);
        let found = Linear::<F32>::new(inputs, &joined)
            .unwrap()
            .gated(tokens, &panels(tokens, &x));
        let (gates, ups) = (plain(inputs, &gate, &x), plain(inputs, &up, &x));
        let silu = gates.iter().map(|value| value / (1.0 + (-value).exp()));
        let expected: Vec<f32> = silu.zip(&ups).map(|(gate, up)| gate * up).collect();
        assert!(close(&found, &panels(tokens, &expected)));
    }

    #[test]
    fn rows_are_embeddings() {
        let weight = numbers(3 * PAGE * PAGE, 4);
        let linear = Linear::<Bf16>::new(PAGE, &weight).unwrap();
        for index in [0, 31, 32, 95] {
            let row: Vec<f32> = linear.row(index).collect();
            assert_eq!(row, weight[index * PAGE..][..PAGE]);
        }
    }

    #[test]
    fn nothing_but_nan_gives_the_first_id() {
        let weight = vec![f32::NAN; PAGE * PAGE];
        let linear = Linear::<F32>::new(PAGE, &weight).unwrap();
        assert_eq!(linear.greatest(1, &[1.0; PAGE]), vec![0]);
    }

    #[test]
    fn sizes_must_be_whole_panels() {
        assert!(Linear::<F32>::new(33, &[0.0; 33 * 32]).is_err());
        assert!(Linear::<F32>::new(32, &[0.0; 33 * 32]).is_err());
        assert!(Linear::<F32>::new(32, &[0.0; 32 * 32 + 1]).is_err());
        assert!(Linear::<F32>::new(0, &[]).is_err());
    }
}
