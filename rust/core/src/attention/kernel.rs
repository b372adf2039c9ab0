//! Attention of one token and one key/value head: page by page, with a running softmax.

use pulp::{Simd, WithSimd};

use super::exponential::exponential;
use super::storage::{Storage, parts};
use super::{PAGE, PagedCache};

/// Query heads that are answered in one pass over the pages.
const MOST_HEADS: usize = 4;

/// One unit of work; `output` receives the answer for each query head of the group.
#[derive(Debug)]
pub(crate) struct Query<'a, E: Storage> {
    pub(super) cache: &'a PagedCache<E>,
    pub(super) layer: usize,
    pub(super) head: usize,
    pub(super) pages: &'a [usize],
    pub(super) length: usize,
    pub(super) query: &'a [f32],
    pub(super) output: &'a mut [f32],
}

impl<E: Storage> WithSimd for Query<'_, E> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.cache.shape().head_dim;
        let rest = Rest {
            cache: self.cache,
            layer: self.layer,
            head: self.head,
            pages: self.pages,
            length: self.length,
        };
        let queries = self.query.chunks(width * MOST_HEADS);
        for (query, output) in queries.zip(self.output.chunks_mut(width * MOST_HEADS)) {
            match query.len() / width {
                1 => rest.attend::<S, 1>(simd, query, output),
                2 => rest.attend::<S, 2>(simd, query, output),
                3 => rest.attend::<S, 3>(simd, query, output),
                _ => rest.attend::<S, 4>(simd, query, output),
            }
        }
    }
}

struct Rest<'a, E: Storage> {
    cache: &'a PagedCache<E>,
    layer: usize,
    head: usize,
    pages: &'a [usize],
    length: usize,
}

/// Greatest score so far and the sum of the weights, which are relative to it.
#[derive(Clone, Copy)]
struct Running {
    greatest: f32,
    sum: f32,
}

impl<E: Storage> Rest<'_, E> {
    #[inline(always)]
    fn attend<S: Simd, const HEADS: usize>(&self, simd: S, query: &[f32], output: &mut [f32]) {
        let width = self.cache.shape().head_dim;
        output.fill(0.0);
        let mut running = [Running {
            greatest: f32::NEG_INFINITY,
            sum: 0.0,
        }; HEADS];
        for (index, &page) in self.pages.iter().enumerate() {
            let count = (self.length - index * PAGE).min(PAGE);
            let keys = self.cache.keys(self.layer, page, self.head);
            let mut scores = score::<S, E, HEADS>(simd, keys, query);
            let outputs = output.chunks_mut(width);
            for ((scores, running), output) in scores.iter_mut().zip(&mut running).zip(outputs) {
                scores[count..].fill(f32::NEG_INFINITY);
                let factor = weigh(simd, scores, running);
                scale(simd, output, factor);
            }
            let values = self.cache.values(self.layer, page, self.head);
            accumulate::<S, E, HEADS>(simd, values, &scores, count, output);
        }
        for (running, output) in running.iter().zip(output.chunks_mut(width)) {
            scale(simd, output, 1.0 / running.sum);
        }
    }
}

/// Scores of 32 tokens for each query head.
#[inline(always)]
fn score<S: Simd, E: Storage, const HEADS: usize>(
    simd: S,
    keys: &[E::Block],
    query: &[f32],
) -> [[f32; PAGE]; HEADS] {
    let mut scores = [[0.0; PAGE]; HEADS];
    let width = keys.len();
    let queries: [&[f32]; HEADS] = std::array::from_fn(|head| &query[head * width..][..width]);
    for part in 0..parts::<S>() {
        let mut low = [simd.splat_f32s(0.0); HEADS];
        let mut high = low;
        for (index, block) in keys.iter().enumerate() {
            let (first, second) = E::widen(simd, block, part);
            for head in 0..HEADS {
                let factor = simd.splat_f32s(queries[head][index]);
                low[head] = simd.mul_add_f32s(first, factor, low[head]);
                high[head] = simd.mul_add_f32s(second, factor, high[head]);
            }
        }
        for head in 0..HEADS {
            let vectors = S::as_mut_simd_f32s(&mut scores[head]).0;
            vectors[part] = low[head];
            vectors[parts::<S>() + part] = high[head];
        }
    }
    scores
}

/// Turns scores into weights; returns by what the earlier output must be multiplied.
#[inline(always)]
fn weigh<S: Simd>(simd: S, scores: &mut [f32; PAGE], running: &mut Running) -> f32 {
    let vectors = S::as_mut_simd_f32s(scores).0;
    let mut greatest = simd.splat_f32s(running.greatest);
    for vector in vectors.iter() {
        greatest = simd.max_f32s(greatest, *vector);
    }
    let greatest = simd.reduce_max_f32s(greatest);
    let shift = simd.splat_f32s(greatest);
    let mut sum = simd.splat_f32s(0.0);
    for vector in vectors.iter_mut() {
        *vector = exponential(simd, simd.sub_f32s(*vector, shift));
        sum = simd.add_f32s(sum, *vector);
    }
    let factor = (running.greatest - greatest).exp();
    running.sum = running.sum * factor + simd.reduce_sum_f32s(sum);
    running.greatest = greatest;
    factor
}

#[inline(always)]
fn scale<S: Simd>(simd: S, output: &mut [f32], factor: f32) {
    let factor = simd.splat_f32s(factor);
    for vector in S::as_mut_simd_f32s(output).0 {
        *vector = simd.mul_f32s(*vector, factor);
    }
}

/// Adds the weighted values of a page's first `count` tokens to the output.
#[inline(always)]
fn accumulate<S: Simd, E: Storage, const HEADS: usize>(
    simd: S,
    values: &[E::Block],
    weights: &[[f32; PAGE]; HEADS],
    count: usize,
    output: &mut [f32],
) {
    let blocks = values.len() / PAGE;
    let width = values.len();
    for block in 0..blocks {
        for part in 0..parts::<S>() {
            let mut low = [simd.splat_f32s(0.0); HEADS];
            let mut high = low;
            for (token, row) in values.chunks_exact(blocks).take(count).enumerate() {
                let (first, second) = E::widen(simd, &row[block], part);
                for head in 0..HEADS {
                    let weight = simd.splat_f32s(weights[head][token]);
                    low[head] = simd.mul_add_f32s(first, weight, low[head]);
                    high[head] = simd.mul_add_f32s(second, weight, high[head]);
                }
            }
            for head in 0..HEADS {
                let place = &mut output[head * width + block * PAGE..][..PAGE];
                let vectors = S::as_mut_simd_f32s(place).0;
                let second = parts::<S>() + part;
                vectors[part] = simd.add_f32s(vectors[part], low[head]);
                vectors[second] = simd.add_f32s(vectors[second], high[head]);
            }
        }
    }
}
