//! Rotary positions.

/// Cosine and sine of every position and frequency.
#[derive(Debug)]
pub(super) struct Rotary {
    half: usize,
    cosine: Vec<f32>,
    sine: Vec<f32>,
}

impl Rotary {
    /// Tables for `positions`, from one frequency for each pair of dimensions.
    pub(super) fn new(positions: usize, frequencies: &[f32]) -> Self {
        let angles = || {
            (0..positions).flat_map(|position| {
                // The angle is rounded to float32 before the function, as transformers does.
                frequencies
                    .iter()
                    .map(move |frequency| position as f32 * frequency)
            })
        };
        Self {
            half: frequencies.len(),
            cosine: angles().map(f32::cos).collect(),
            sine: angles().map(f32::sin).collect(),
        }
    }

    /// Turns the two halves of one head against each other; `factor` scales the result.
    pub(super) fn turn(&self, position: usize, head: &mut [f32], factor: f32) {
        let start = position * self.half;
        let (Some(cosine), Some(sine)) = (
            self.cosine.get(start..start + self.half),
            self.sine.get(start..start + self.half),
        ) else {
            return;
        };
        let (first, second) = head.split_at_mut(self.half);
        let angles = cosine.iter().zip(sine);
        for ((first, second), (cosine, sine)) in first.iter_mut().zip(second).zip(angles) {
            let (a, b) = (*first, *second);
            *first = (a * cosine - b * sine) * factor;
            *second = (b * cosine + a * sine) * factor;
        }
    }
}
