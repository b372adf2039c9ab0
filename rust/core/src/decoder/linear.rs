//! Products with a weight matrix that is kept in panels of 32 outputs.

use pulp::Arch;
use rayon::prelude::*;

use super::DecoderError;
use super::gate::Gate;
use super::plain::PlainPanel;
use super::quantized::{Codes, Quantized};
use crate::attention::{AttentionError, PAGE, Storage};

/// A weight matrix `[outputs][inputs]`.
#[derive(Debug)]
pub struct Linear<E: Storage> {
    inputs: usize,
    outputs: usize,
    weights: Weights<E>,
    arch: Arch,
}

#[derive(Debug)]
enum Weights<E: Storage> {
    /// For each panel of 32 outputs: a block for each input.
    Plain(Vec<E::Block>),
    Nibbles(Quantized<4>),
    Bytes(Quantized<8>),
}

/// What becomes of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Replace,
    Add,
}

/// All tokens of a step in panels, with the sum of each block of 32 inputs.
#[derive(Debug)]
pub(super) struct Inputs<'a> {
    pub(super) tokens: usize,
    x: &'a [[f32; PAGE]],
    sums: Vec<f32>,
}

impl<'a> Inputs<'a> {
    fn new(tokens: usize, x: &'a [f32]) -> Self {
        let (x, _) = x.as_chunks();
        let sums = x.iter().map(|block: &[f32; PAGE]| block.iter().sum());
        Self {
            tokens,
            x,
            sums: sums.collect(),
        }
    }

    /// Block `block` of inputs of `COUNT` tokens from `first` on.
    #[inline(always)]
    pub(super) fn rows<const COUNT: usize>(
        &self,
        block: usize,
        first: usize,
    ) -> Option<&[[f32; PAGE]; COUNT]> {
        self.x[block * self.tokens + first..].first_chunk()
    }

    /// The sums of [`Self::rows`].
    #[inline(always)]
    pub(super) fn sums<const COUNT: usize>(
        &self,
        block: usize,
        first: usize,
    ) -> Option<&[f32; COUNT]> {
        self.sums[block * self.tokens + first..].first_chunk()
    }
}

/// Number of outputs of a matrix of `values` weights; both sizes must be multiples of 32.
pub(super) fn whole_panels(inputs: usize, values: usize) -> Result<usize, DecoderError> {
    let outputs = values / inputs.max(1);
    for (name, width) in [("inputs", inputs), ("outputs", outputs)] {
        if width == 0 || !width.is_multiple_of(PAGE) {
            return Err(DecoderError::Width { name, width });
        }
    }
    if values == inputs * outputs {
        return Ok(outputs);
    }
    Err(DecoderError::Attention(AttentionError::Length {
        name: "weight",
        found: values,
        expected: inputs * outputs,
    }))
}

impl<E: Storage> Linear<E> {
    /// Packs a row-major matrix; both sizes are multiples of 32.
    pub fn new(inputs: usize, rows: &[f32]) -> Result<Self, DecoderError> {
        let outputs = whole_panels(inputs, rows.len())?;
        let panels = rows.chunks(PAGE * inputs).flat_map(|panel| {
            (0..inputs).map(move |input| {
                E::encode(&std::array::from_fn(|row| panel[row * inputs + input]))
            })
        });
        Ok(Self::of(inputs, outputs, Weights::Plain(panels.collect())))
    }

    /// Packs a matrix of codes of 4 bits.
    pub fn nibbles(matrix: &Codes<'_>) -> Result<Self, DecoderError> {
        let outputs = whole_panels(matrix.inputs, matrix.codes.len())?;
        let weights = Weights::Nibbles(Quantized::new(matrix)?);
        Ok(Self::of(matrix.inputs, outputs, weights))
    }

    /// Packs a matrix of codes of 8 bits.
    pub fn bytes(matrix: &Codes<'_>) -> Result<Self, DecoderError> {
        let outputs = whole_panels(matrix.inputs, matrix.codes.len())?;
        let weights = Weights::Bytes(Quantized::new(matrix)?);
        Ok(Self::of(matrix.inputs, outputs, weights))
    }

    fn of(inputs: usize, outputs: usize, weights: Weights<E>) -> Self {
        Self {
            inputs,
            outputs,
            weights,
            arch: Arch::new(),
        }
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
    pub(super) fn row(&self, index: usize) -> Vec<f32> {
        match &self.weights {
            Weights::Plain(panels) => {
                let panel = &panels[index / PAGE * self.inputs..][..self.inputs];
                panel
                    .iter()
                    .map(|block| E::get(block, index % PAGE))
                    .collect()
            }
            Weights::Nibbles(codes) => codes.row(index).collect(),
            Weights::Bytes(codes) => codes.row(index).collect(),
        }
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
        let inputs = Inputs::new(tokens, x);
        let mut output = vec![0.0; self.outputs / 2 * tokens];
        let work = output.par_chunks_mut(PAGE * tokens).enumerate();
        work.for_each(|(index, gate)| {
            let mut up = vec![0.0; gate.len()];
            self.panel(2 * index, &inputs, gate, Ending::Replace);
            self.panel(2 * index + 1, &inputs, &mut up, Ending::Replace);
            self.arch.dispatch(Gate { gate, up: &up });
        });
        output
    }

    /// Index of the greatest output of each token, the lowest of equals.
    pub(super) fn greatest(&self, tokens: usize, x: &[f32]) -> Vec<usize> {
        let inputs = Inputs::new(tokens, x);
        let panels = (0..self.outputs / PAGE).into_par_iter();
        let candidates = panels.map(|index| {
            let mut output = vec![0.0; PAGE * tokens];
            self.panel(index, &inputs, &mut output, Ending::Replace);
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
        let inputs = Inputs::new(tokens, x);
        let work = output.par_chunks_mut(PAGE * tokens).enumerate();
        work.for_each(|(index, output)| self.panel(index, &inputs, output, ending));
    }

    fn panel(&self, index: usize, inputs: &Inputs<'_>, output: &mut [f32], ending: Ending) {
        let (output, _) = output.as_chunks_mut();
        match &self.weights {
            Weights::Plain(panels) => self.arch.dispatch(PlainPanel::<E> {
                inputs,
                panel: &panels[index * self.inputs..][..self.inputs],
                output,
                ending,
            }),
            Weights::Nibbles(codes) => {
                self.arch
                    .dispatch(codes.panel(index, inputs, output, ending));
            }
            Weights::Bytes(codes) => {
                self.arch
                    .dispatch(codes.panel(index, inputs, output, ending));
            }
        }
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

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attention::{Bf16, F32};

    /// Numbers that bfloat16 holds exactly, so that both storages must agree with the plain sum.
    pub(crate) fn numbers(count: usize, seed: usize) -> Vec<f32> {
        let number = |index: usize| ((index * 37 + seed * 11) % 61) as f32 / 8.0 - 3.5;
        (0..count).map(number).collect()
    }

    /// `[token][input]` as panels.
    pub(crate) fn panels(tokens: usize, rows: &[f32]) -> Vec<f32> {
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

    pub(crate) fn plain(inputs: usize, weight: &[f32], x: &[f32]) -> Vec<f32> {
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
        let turns = gate.chunks(PAGE * inputs).zip(up.chunks(PAGE * inputs));
        let joined: Vec<f32> = turns.flat_map(|(gate, up)| [gate, up].concat()).collect();
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
            assert_eq!(linear.row(index), weight[index * PAGE..][..PAGE]);
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
