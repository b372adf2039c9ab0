//! The pool of pages, one for all layers, and attention over it.

use pulp::Arch;
use rayon::prelude::*;

use super::kernel::Query;
use super::storage::Storage;
use super::tables::PageTables;
use super::{AttentionError, PAGE, RowSpec, TokenPlace};

/// Sizes of a cache.
#[derive(Debug, Clone, Copy)]
pub struct CacheShape {
    /// Layers of the model.
    pub layers: usize,
    /// Pages of each layer, shared by all sequences.
    pub pages: usize,
    /// Sequences at a time.
    pub slots: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Values of one head, a multiple of 32.
    pub head_dim: usize,
}

impl CacheShape {
    /// Query heads that share a key/value head.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads
    }

    fn check(&self) -> Result<(), AttentionError> {
        let shaped = self.head_dim > 0 && self.head_dim.is_multiple_of(PAGE);
        if shaped && self.kv_heads > 0 && self.heads.is_multiple_of(self.kv_heads) {
            return Ok(());
        }
        Err(AttentionError::Shape {
            head_dim: self.head_dim,
            heads: self.heads,
            kv_heads: self.kv_heads,
        })
    }
}

/// Keys and values of all layers in pages, and the page tables of all slots.
#[derive(Debug)]
pub struct PagedCache<E: Storage> {
    shape: CacheShape,
    tables: PageTables,
    keys: Vec<E::Block>,
    values: Vec<E::Block>,
    arch: Arch,
}

impl<E: Storage> PagedCache<E> {
    /// Takes memory for all pages.
    pub fn new(shape: CacheShape) -> Result<Self, AttentionError> {
        shape.check()?;
        let blocks = shape.layers * shape.pages * shape.kv_heads * shape.head_dim;
        Ok(Self {
            shape,
            tables: PageTables::new(shape.slots, shape.pages),
            keys: vec![E::ZERO; blocks],
            values: vec![E::ZERO; blocks],
            arch: Arch::new(),
        })
    }

    /// The sizes.
    pub fn shape(&self) -> &CacheShape {
        &self.shape
    }

    /// Appends pages to a slot's table.
    pub fn extend_pages(&mut self, slot: usize, pages: &[usize]) -> Result<(), AttentionError> {
        self.tables.extend(slot, pages)
    }

    /// Empties a slot's table.
    pub fn clear_pages(&mut self, slot: usize) -> Result<(), AttentionError> {
        self.tables.clear(slot)
    }

    /// All tokens of the rows in order, once every position is known to have its page.
    pub fn places(&self, rows: &[RowSpec]) -> Result<Vec<TokenPlace>, AttentionError> {
        self.tables.places(rows)
    }

    /// Stores one token's key and value of one head; `place` comes from [`Self::places`].
    pub fn write(
        &mut self,
        layer: usize,
        place: TokenPlace,
        head: usize,
        key: &[f32],
        value: &[f32],
    ) {
        let Some(&page) = self.tables.pages_of(place.slot).get(place.position / PAGE) else {
            return;
        };
        let token = place.position % PAGE;
        let first = self.first_block(layer, page, head);
        let width = self.shape.head_dim;
        for (block, number) in self.keys[first..first + width].iter_mut().zip(key) {
            E::set(block, token, *number);
        }
        let row = first + token * (width / PAGE);
        let (chunks, _) = value.as_chunks::<PAGE>();
        for (block, chunk) in self.values[row..].iter_mut().zip(chunks) {
            *block = E::encode(chunk);
        }
    }

    /// Attends causally: `queries` (already scaled) and `output` are `[tokens][heads][head_dim]`.
    pub fn attend(&self, layer: usize, places: &[TokenPlace], queries: &[f32], output: &mut [f32]) {
        let width = self.shape.group() * self.shape.head_dim;
        let heads = self.shape.kv_heads;
        let work = queries.par_chunks(width).zip(output.par_chunks_mut(width));
        work.enumerate().for_each(|(index, (query, output))| {
            let Some(place) = places.get(index / heads) else {
                return;
            };
            self.attend_one(layer, *place, index % heads, query, output);
        });
    }

    fn attend_one(
        &self,
        layer: usize,
        place: TokenPlace,
        head: usize,
        query: &[f32],
        output: &mut [f32],
    ) {
        let length = place.position + 1;
        let table = self.tables.pages_of(place.slot);
        let used = &table[..table.len().min(length.div_ceil(PAGE))];
        self.arch.dispatch(Query::<E> {
            cache: self,
            layer,
            head,
            pages: used,
            length,
            query,
            output,
        });
    }

    /// Keys of one head in one page: `head_dim` blocks of 32 tokens.
    #[inline(always)]
    pub(super) fn keys(&self, layer: usize, page: usize, head: usize) -> &[E::Block] {
        let first = self.first_block(layer, page, head);
        &self.keys[first..first + self.shape.head_dim]
    }

    /// Values of one head in one page: 32 tokens of `head_dim / 32` blocks.
    #[inline(always)]
    pub(super) fn values(&self, layer: usize, page: usize, head: usize) -> &[E::Block] {
        let first = self.first_block(layer, page, head);
        &self.values[first..first + self.shape.head_dim]
    }

    fn first_block(&self, layer: usize, page: usize, head: usize) -> usize {
        ((layer * self.shape.pages + page) * self.shape.kv_heads + head) * self.shape.head_dim
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bf16, F32};
    use super::*;

    const SHAPE: CacheShape = CacheShape {
        layers: 2,
        pages: 9,
        slots: 2,
        heads: 6,
        kv_heads: 2,
        head_dim: 64,
    };

    fn number(position: usize, head: usize, index: usize) -> f32 {
        ((position * 31 + head * 17 + index * 7) % 23) as f32 / 8.0 - 1.25
    }

    fn vector(position: usize, head: usize) -> Vec<f32> {
        (0..64).map(|index| number(position, head, index)).collect()
    }

    fn plain(length: usize, query: &[f32], head: usize) -> Vec<f32> {
        let dot =
            |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum() };
        let scores: Vec<f64> = (0..length)
            .map(|at| dot(query, &vector(at, head)))
            .collect();
        let greatest = scores.iter().copied().fold(f64::MIN, f64::max);
        let weights: Vec<f64> = scores
            .iter()
            .map(|score| (score - greatest).exp())
            .collect();
        let sum: f64 = weights.iter().sum();
        let weighted = |index: usize| -> f64 {
            let terms = weights.iter().enumerate();
            terms
                .map(|(at, weight)| weight * f64::from(number(at, head + 5, index)))
                .sum()
        };
        (0..64)
            .map(|index| (weighted(index) / sum) as f32)
            .collect()
    }

    fn check<E: Storage>(length: usize) {
        let mut cache = PagedCache::<E>::new(SHAPE).unwrap();
        cache.extend_pages(1, &[7, 2, 5, 0]).unwrap();
        let row = RowSpec {
            slot: 1,
            start: 0,
            count: length,
        };
        let places = cache.places(&[row]).unwrap();
        for place in &places {
            for head in 0..2 {
                let (key, value) = (
                    vector(place.position, head),
                    vector(place.position, head + 5),
                );
                cache.write(1, *place, head, &key, &value);
            }
        }
        let query: Vec<f32> = (0..6 * 64)
            .map(|index| number(3, index / 64, index) / 4.0)
            .collect();
        let mut output = vec![9.0; query.len()];
        cache.attend(1, &places[length - 1..], &query, &mut output);
        for (head, found) in output.chunks(64).enumerate() {
            let expected = plain(length, &query[head * 64..][..64], head / 3);
            for (found, expected) in found.iter().zip(expected) {
                assert!(
                    (found - expected).abs() < 2e-6,
                    "{length} {found} {expected}"
                );
            }
        }
    }

    #[test]
    fn answers_equal_the_plain_sum_at_page_borders() {
        // Multiples of an eighth below 4 are exact in bfloat16 too.
        for length in [1, 2, 31, 32, 33, 63, 64, 65, 100, 128] {
            check::<F32>(length);
            check::<Bf16>(length);
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_named() {
        let mut cache = PagedCache::<F32>::new(SHAPE).unwrap();
        let page = cache.extend_pages(0, &[3, 9]);
        assert_eq!(page, Err(AttentionError::Page { page: 9, pages: 9 }));
        let slot = cache.clear_pages(2);
        assert_eq!(slot, Err(AttentionError::Slot { slot: 2, slots: 2 }));
        cache.extend_pages(0, &[3]).unwrap();
        let row = |start, count| RowSpec {
            slot: 0,
            start,
            count,
        };
        assert_eq!(cache.places(&[row(30, 2)]).unwrap().len(), 2);
        let position = cache.places(&[row(0, 32), row(31, 2)]);
        assert_eq!(
            position,
            Err(AttentionError::Unmapped {
                slot: 0,
                position: 32
            })
        );
        assert!(cache.places(&[row(usize::MAX, 2)]).is_err());
    }
}
