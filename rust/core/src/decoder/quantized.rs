//! Weights of 4 or 8 bits as model files have them, widened in registers.
//!
//! A step at few tokens is bound by the memory that the weights come through: 4 bits and their
//! scales are a third of bfloat16. The numbers are those of the file, without a rounding to
//! bfloat16: in each block of 32 inputs a weight is `scale * code + offset`.

use pulp::{Simd, WithSimd};

use super::DecoderError;
use super::linear::{Ending, Inputs, whole_panels};
use super::pieces::{piece_size, with_count};
use crate::attention::{AttentionError, PAGE, parts};

const ONE: u32 = 0x3F80_0000;
const MANTISSA: u32 = 23;

/// A matrix of codes with a scale and an offset for each row and block of 32 inputs.
#[derive(Debug, Clone, Copy)]
pub struct Codes<'a> {
    /// Width of the matrix.
    pub inputs: usize,
    /// `[outputs][inputs]`.
    pub codes: &'a [u8],
    /// `[outputs][inputs / 32]`.
    pub scales: &'a [f32],
    /// `[outputs][inputs / 32]`.
    pub offsets: &'a [f32],
}

/// Codes of 16 pairs of outputs; each word holds several inputs, the lowest in its lowest bits.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([u32; 16]);

/// Scales and offsets of 32 outputs, for codes that were made floats between 1 and 2.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Scales {
    scale: [f32; PAGE],
    offset: [f32; PAGE],
}

/// Panels of 32 outputs of `BITS`-bit codes.
#[derive(Debug)]
pub(super) struct Quantized<const BITS: u32> {
    /// For each panel and block of 32 inputs: `2 * BITS` lines.
    lines: Vec<Line>,
    /// For each panel and block of 32 inputs.
    scales: Vec<Scales>,
    blocks: usize,
}

impl<const BITS: u32> Quantized<BITS> {
    /// Lines of one block, and inputs in one line.
    const LINES: usize = 2 * BITS as usize;
    const STEPS: usize = 16 / BITS as usize;
    const RANGE: f32 = (1 << BITS) as f32;

    pub(super) fn new(matrix: &Codes<'_>) -> Result<Self, DecoderError> {
        let outputs = whole_panels(matrix.inputs, matrix.codes.len())?;
        let blocks = matrix.inputs / PAGE;
        for (name, found) in [
            ("scales", matrix.scales.len()),
            ("offsets", matrix.offsets.len()),
        ] {
            let expected = outputs * blocks;
            if found != expected {
                return Err(AttentionError::Length {
                    name,
                    found,
                    expected,
                }
                .into());
            }
        }
        let places =
            || (0..outputs / PAGE).flat_map(|panel| (0..blocks).map(move |block| (panel, block)));
        Ok(Self {
            lines: places()
                .flat_map(|(panel, block)| Self::lines(matrix, panel, block))
                .collect(),
            scales: places()
                .map(|(panel, block)| Self::scales(matrix, panel, block))
                .collect(),
            blocks,
        })
    }

    fn lines(matrix: &Codes<'_>, panel: usize, block: usize) -> impl Iterator<Item = Line> {
        let code = move |output: usize, input: usize| {
            let row = (panel * PAGE + output) * matrix.inputs;
            u32::from(matrix.codes[row + block * PAGE + input]) & ((1 << BITS) - 1)
        };
        (0..Self::LINES).map(move |line| {
            Line(std::array::from_fn(|lane| {
                (0..Self::STEPS).fold(0, |word, step| {
                    let input = line * Self::STEPS + step;
                    let pair = code(lane, input) | (code(16 + lane, input) << BITS);
                    word | (pair << (2 * BITS as usize * step))
                })
            }))
        })
    }

    fn scales(matrix: &Codes<'_>, panel: usize, block: usize) -> Scales {
        let at = |output: usize| (panel * PAGE + output) * (matrix.inputs / PAGE) + block;
        let scale = |output| matrix.scales[at(output)] * Self::RANGE;
        Scales {
            scale: std::array::from_fn(scale),
            offset: std::array::from_fn(|output| matrix.offsets[at(output)] - scale(output)),
        }
    }

    /// One row as floats.
    pub(super) fn row(&self, index: usize) -> impl Iterator<Item = f32> {
        let (panel, output) = (index / PAGE, index % PAGE);
        (0..self.blocks * PAGE).map(move |input| {
            let block = panel * self.blocks + input / PAGE;
            let line = &self.lines[block * Self::LINES + input % PAGE / Self::STEPS];
            let position = 2 * BITS as usize * (input % Self::STEPS);
            let pair = line.0[output % 16] >> position;
            let code = if output < 16 { pair } else { pair >> BITS } & ((1 << BITS) - 1);
            let scales = &self.scales[block];
            let scale = scales.scale[output] / Self::RANGE;
            scale * code as f32 + (scales.offset[output] + scales.scale[output])
        })
    }

    /// One panel, for a dispatch.
    pub(super) fn panel<'a>(
        &'a self,
        index: usize,
        inputs: &'a Inputs<'a>,
        output: &'a mut [[f32; PAGE]],
        ending: Ending,
    ) -> QuantizedPanel<'a, BITS> {
        let first = index * self.blocks;
        QuantizedPanel {
            inputs,
            lines: &self.lines[first * Self::LINES..][..self.blocks * Self::LINES],
            scales: &self.scales[first..][..self.blocks],
            output,
            ending,
        }
    }
}

/// One panel against all tokens.
pub(super) struct QuantizedPanel<'a, const BITS: u32> {
    inputs: &'a Inputs<'a>,
    lines: &'a [Line],
    scales: &'a [Scales],
    output: &'a mut [[f32; PAGE]],
    ending: Ending,
}

impl<const BITS: u32> WithSimd for QuantizedPanel<'_, BITS> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        if self.ending == Ending::Replace {
            self.output.as_flattened_mut().fill(0.0);
        }
        let size = piece_size::<S>(self.inputs.tokens);
        let pieces = std::mem::take(&mut self.output).chunks_mut(size);
        for (index, output) in pieces.enumerate() {
            with_count!(output.len(), COUNT => self.tokens::<S, COUNT>(simd, index * size, output));
        }
    }
}

impl<const BITS: u32> QuantizedPanel<'_, BITS> {
    #[inline(always)]
    fn tokens<S: Simd, const COUNT: usize>(
        &self,
        simd: S,
        first: usize,
        output: &mut [[f32; PAGE]],
    ) {
        let blocks = self.lines.chunks_exact(Quantized::<BITS>::LINES);
        for (index, (lines, scales)) in blocks.zip(self.scales).enumerate() {
            let (Some(x), Some(sums)) = (
                self.inputs.rows::<COUNT>(index, first),
                self.inputs.sums::<COUNT>(index, first),
            ) else {
                return;
            };
            for part in 0..parts::<S>() {
                let second = parts::<S>() + part;
                let (low, high) = block::<S, BITS, COUNT>(simd, lines, x, part);
                let (scale, offset) = (
                    S::as_simd_f32s(&scales.scale).0,
                    S::as_simd_f32s(&scales.offset).0,
                );
                for (token, output) in output.iter_mut().enumerate() {
                    let sum = simd.splat_f32s(sums[token]);
                    let vectors = S::as_mut_simd_f32s(output).0;
                    for (place, product) in [(part, low[token]), (second, high[token])] {
                        let shifted = simd.mul_add_f32s(offset[place], sum, vectors[place]);
                        vectors[place] = simd.mul_add_f32s(scale[place], product, shifted);
                    }
                }
            }
        }
    }
}

/// Sums of 32 inputs times their codes, which are floats between 1 and 2 here.
#[inline(always)]
fn block<S: Simd, const BITS: u32, const COUNT: usize>(
    simd: S,
    lines: &[Line],
    x: &[[f32; PAGE]; COUNT],
    part: usize,
) -> ([S::f32s; COUNT], [S::f32s; COUNT]) {
    let mut low = [simd.splat_f32s(0.0); COUNT];
    let mut high = low;
    for (index, line) in lines.iter().enumerate() {
        let words = S::as_simd_u32s(&line.0).0[part];
        for step in 0..Quantized::<BITS>::STEPS {
            let position = 2 * BITS * step as u32;
            let lower = widen::<S, BITS>(simd, words, position);
            let upper = widen::<S, BITS>(simd, words, position + BITS);
            let input = index * Quantized::<BITS>::STEPS + step;
            for token in 0..COUNT {
                let factor = simd.splat_f32s(x[token][input]);
                low[token] = simd.mul_add_f32s(lower, factor, low[token]);
                high[token] = simd.mul_add_f32s(upper, factor, high[token]);
            }
        }
    }
    (low, high)
}

/// The code at a bit position as the highest bits of a float's mantissa: `1 + code / 2^BITS`.
#[inline(always)]
fn widen<S: Simd, const BITS: u32>(simd: S, words: S::u32s, position: u32) -> S::f32s {
    let target = MANTISSA - BITS;
    let moved = if position <= target {
        simd.wrapping_dyn_shl_u32s(words, simd.splat_u32s(target - position))
    } else {
        simd.wrapping_dyn_shr_u32s(words, simd.splat_u32s(position - target))
    };
    let mask = simd.splat_u32s(((1 << BITS) - 1) << target);
    let bits = simd.or_u32s(simd.and_u32s(moved, mask), simd.splat_u32s(ONE));
    simd.transmute_f32s_u32s(bits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::attention::F32;
    use crate::decoder::Linear;
    use crate::decoder::linear::tests::{numbers, panels, plain};

    /// A matrix of codes and the same matrix in floats.
    fn coded(inputs: usize, outputs: usize, bits: u32, seed: usize) -> (Vec<u8>, [Vec<f32>; 3]) {
        let code = |index: usize| ((index * 29 + seed * 7) % (1 << bits)) as u8;
        let codes: Vec<u8> = (0..inputs * outputs).map(code).collect();
        let count = outputs * inputs / PAGE;
        let scales: Vec<f32> = (0..count).map(|i| (i % 13) as f32 * 0.003 - 0.01).collect();
        let offsets: Vec<f32> = (0..count).map(|i| (i % 7) as f32 * 0.05 - 0.2).collect();
        let floats = codes.iter().enumerate().map(|(index, code)| {
            let block = index / PAGE;
            scales[block] * f32::from(*code) + offsets[block]
        });
        let floats = floats.collect();
        (codes, [scales, offsets, floats])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn codes_give_the_products_of_their_numbers(
            inputs in 1usize..4, outputs in 1usize..4, tokens in 1usize..30, seed in 0usize..99
        ) {
            let (inputs, outputs) = (inputs * PAGE, outputs * PAGE);
            for bits in [4, 8] {
                let (codes, [scales, offsets, floats]) = coded(inputs, outputs, bits, seed);
                let matrix = Codes { inputs, codes: &codes, scales: &scales, offsets: &offsets };
                let linear = match bits {
                    4 => Linear::<F32>::nibbles(&matrix),
                    _ => Linear::<F32>::bytes(&matrix),
                }
                .unwrap();
                let x = numbers(inputs * tokens, seed);
                let found = linear.apply(tokens, &panels(tokens, &x));
                let expected = panels(tokens, &plain(inputs, &floats, &x));
                for (found, expected) in found.iter().zip(&expected) {
                    prop_assert!((found - expected).abs() < 2e-3, "{found} {expected}");
                }
                for index in [0, 17, outputs - 1] {
                    let row = &floats[index * inputs..][..inputs];
                    for (found, expected) in linear.row(index).iter().zip(row) {
                        prop_assert!((found - expected).abs() < 1e-5);
                    }
                }
            }
        }
    }

    #[test]
    fn codes_with_a_missing_scale_are_refused() {
        let (codes, [scales, offsets, _]) = coded(PAGE, PAGE, 4, 1);
        let mut matrix = Codes {
            inputs: PAGE,
            codes: &codes,
            scales: &scales[1..],
            offsets: &offsets,
        };
        assert!(Linear::<F32>::nibbles(&matrix).is_err());
        matrix.scales = &scales;
        matrix.codes = &codes[1..];
        assert!(Linear::<F32>::bytes(&matrix).is_err());
    }
}
