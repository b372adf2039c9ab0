//! Root-mean-square norm on panels.

use pulp::Arch;

use crate::attention::PAGE;

/// `x / rms(x) * weight` for each token, in panels.
pub(super) fn rms_norm(arch: Arch, tokens: usize, x: &[f32], weight: &[f32], eps: f32) -> Vec<f32> {
    let mut output = vec![0.0; x.len()];
    let (rows, _) = x.as_chunks::<PAGE>();
    let (weights, _) = weight.as_chunks::<PAGE>();
    let (outputs, _) = output.as_chunks_mut::<PAGE>();
    arch.dispatch(|| {
        let mut sums = vec![[0.0f32; PAGE]; tokens];
        for panel in rows.chunks_exact(tokens) {
            for (sum, row) in sums.iter_mut().zip(panel) {
                for lane in 0..PAGE {
                    sum[lane] += row[lane] * row[lane];
                }
            }
        }
        let width = weight.len() as f32;
        let factors = sums.iter().map(|lanes| {
            let square: f32 = lanes.iter().sum();
            1.0 / (square / width + eps).sqrt()
        });
        let factors: Vec<f32> = factors.collect();
        let panels = rows
            .chunks_exact(tokens)
            .zip(outputs.chunks_exact_mut(tokens));
        for ((panel, output), weight) in panels.zip(weights) {
            for ((row, output), factor) in panel.iter().zip(output).zip(&factors) {
                for lane in 0..PAGE {
                    output[lane] = row[lane] * factor * weight[lane];
                }
            }
        }
    });
    output
}
