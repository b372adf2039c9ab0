//! One step of a Llama-shaped model.

use pulp::Arch;

use super::norm::rms_norm;
use super::rotary::Rotary;
use super::{DecoderError, LayerWeights, Linear, LlamaShape, LlamaWeights};
use crate::attention::{AttentionError, PAGE, PagedCache, RowSpec, Storage, Threads, TokenPlace};

/// A model with its cache and its threads.
#[derive(Debug)]
pub struct Llama<E: Storage> {
    shape: LlamaShape,
    weights: LlamaWeights<E>,
    cache: PagedCache<E>,
    rotary: Rotary,
    threads: Threads,
    arch: Arch,
}

impl<E: Storage> Llama<E> {
    /// Takes memory for the cache and checks that the weights fit together.
    pub fn new(
        shape: LlamaShape,
        weights: LlamaWeights<E>,
        threads: Threads,
    ) -> Result<Self, DecoderError> {
        if weights.layers.len() != shape.cache.layers {
            return Err(DecoderError::Layers {
                found: weights.layers.len(),
                expected: shape.cache.layers,
            });
        }
        check_sizes(&shape, &weights)?;
        Ok(Self {
            shape,
            cache: PagedCache::new(shape.cache)?,
            rotary: Rotary::new(shape.positions, &weights.frequencies),
            weights,
            threads,
            arch: Arch::new(),
        })
    }

    /// The cache, for its page tables.
    pub fn cache_mut(&mut self) -> &mut PagedCache<E> {
        &mut self.cache
    }

    /// Size of the vocabulary.
    pub fn vocabulary(&self) -> usize {
        self.head().outputs()
    }

    /// Computes the rows' tokens; returns the greatest logit's id for each of `samples`.
    pub fn greedy(
        &mut self,
        rows: &[RowSpec],
        ids: &[usize],
        samples: &[usize],
    ) -> Result<Vec<usize>, DecoderError> {
        let places = self.check(rows, ids, samples)?;
        Ok(self.in_pool(|model| {
            let last = model.forward(&places, ids, samples);
            model.head().greatest(samples.len(), &last)
        }))
    }

    /// Computes the rows' tokens; writes the logits of `samples` as `[samples][vocabulary]`.
    pub fn logits(
        &mut self,
        rows: &[RowSpec],
        ids: &[usize],
        samples: &[usize],
        output: &mut [f32],
    ) -> Result<(), DecoderError> {
        let places = self.check(rows, ids, samples)?;
        let expected = samples.len() * self.vocabulary();
        check_length("logits", output.len(), expected)?;
        self.in_pool(|model| {
            let last = model.forward(&places, ids, samples);
            let panels = model.head().apply(samples.len(), &last);
            from_panels(samples.len(), &panels, output);
        });
        Ok(())
    }

    fn in_pool<T: Send>(&mut self, step: impl FnOnce(&mut Self) -> T + Send) -> T {
        let threads = self.threads.clone();
        threads.run(|| step(self))
    }

    fn head(&self) -> &Linear<E> {
        self.weights
            .head
            .as_ref()
            .unwrap_or(&self.weights.embedding)
    }

    fn check(
        &self,
        rows: &[RowSpec],
        ids: &[usize],
        samples: &[usize],
    ) -> Result<Vec<TokenPlace>, DecoderError> {
        let places = self.cache.places(rows)?;
        check_length("ids", ids.len(), places.len())?;
        let vocabulary = self.weights.embedding.outputs();
        if let Some(&token) = ids.iter().find(|&&id| id >= vocabulary) {
            return Err(DecoderError::Token { token, vocabulary });
        }
        if let Some(&sample) = samples.iter().find(|&&sample| sample >= ids.len()) {
            check_length("samples", sample, ids.len())?;
        }
        Ok(places)
    }

    /// Fills the cache; returns the normed last hidden state of `samples` in panels.
    fn forward(&mut self, places: &[TokenPlace], ids: &[usize], samples: &[usize]) -> Vec<f32> {
        let tokens = ids.len();
        let mut hidden = self.embed(ids);
        for index in 0..self.weights.layers.len() {
            self.attend(index, places, &mut hidden);
            let layer = &self.weights.layers[index];
            let normed = self.norm(tokens, &hidden, &layer.mlp_norm);
            let gated = layer.gate_up.gated(tokens, &normed);
            layer.down.add_to(tokens, &gated, &mut hidden);
        }
        let last = select(tokens, &hidden, samples);
        self.norm(samples.len(), &last, &self.weights.norm)
    }

    fn embed(&self, ids: &[usize]) -> Vec<f32> {
        let tokens = ids.len();
        let mut hidden = vec![0.0; tokens * self.shape.hidden];
        for (token, &id) in ids.iter().enumerate() {
            for (index, value) in self.weights.embedding.row(id).into_iter().enumerate() {
                hidden[place(tokens, token, index)] = value;
            }
        }
        hidden
    }

    fn attend(&mut self, index: usize, places: &[TokenPlace], hidden: &mut [f32]) {
        let tokens = places.len();
        let layer = &self.weights.layers[index];
        let normed = self.norm(tokens, hidden, &layer.input_norm);
        let joined = layer.qkv.apply(tokens, &normed);
        let queries = self.store(index, places, &joined);
        let mut answers = vec![0.0; queries.len()];
        self.cache.attend(index, places, &queries, &mut answers);
        let panels = to_panels(tokens, &answers);
        let layer: &LayerWeights<E> = &self.weights.layers[index];
        layer.output.add_to(tokens, &panels, hidden);
    }

    /// Turns queries and keys, stores keys and values; returns the queries row by row, scaled.
    fn store(&mut self, layer: usize, places: &[TokenPlace], joined: &[f32]) -> Vec<f32> {
        let shape = self.shape.cache;
        let (width, tokens) = (shape.head_dim, places.len());
        let scale = 1.0 / (width as f32).sqrt();
        let mut queries = Vec::with_capacity(tokens * shape.heads * width);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for (token, token_place) in places.iter().enumerate() {
            for head in 0..shape.heads {
                let start = queries.len();
                read_head(tokens, joined, token, head * width, width, &mut queries);
                self.rotary
                    .turn(token_place.position, &mut queries[start..], scale);
            }
            for head in 0..shape.kv_heads {
                key.clear();
                value.clear();
                let first = (shape.heads + head) * width;
                read_head(tokens, joined, token, first, width, &mut key);
                let first = first + shape.kv_heads * width;
                read_head(tokens, joined, token, first, width, &mut value);
                self.rotary.turn(token_place.position, &mut key, 1.0);
                self.cache.write(layer, *token_place, head, &key, &value);
            }
        }
        queries
    }

    fn norm(&self, tokens: usize, x: &[f32], weight: &[f32]) -> Vec<f32> {
        if tokens == 0 {
            return Vec::new();
        }
        rms_norm(self.arch, tokens, x, weight, self.shape.norm_eps)
    }
}

fn place(tokens: usize, token: usize, index: usize) -> usize {
    (index / PAGE * tokens + token) * PAGE + index % PAGE
}

fn read_head(
    tokens: usize,
    panels: &[f32],
    token: usize,
    first: usize,
    width: usize,
    output: &mut Vec<f32>,
) {
    for index in (first..first + width).step_by(PAGE) {
        let start = place(tokens, token, index);
        output.extend_from_slice(&panels[start..start + PAGE]);
    }
}

fn select(tokens: usize, panels: &[f32], samples: &[usize]) -> Vec<f32> {
    let (rows, _) = panels.as_chunks::<PAGE>();
    rows.chunks(tokens.max(1))
        .flat_map(|panel| samples.iter().map(|&sample| panel[sample]))
        .flatten()
        .collect()
}

fn to_panels(tokens: usize, rows: &[f32]) -> Vec<f32> {
    let (chunks, _) = rows.as_chunks::<PAGE>();
    let panels = chunks.len() / tokens.max(1);
    (0..panels)
        .flat_map(|panel| (0..tokens).map(move |token| chunks[token * panels + panel]))
        .flatten()
        .collect()
}

fn from_panels(tokens: usize, panels: &[f32], output: &mut [f32]) {
    let (rows, _) = panels.as_chunks::<PAGE>();
    let width = panels.len() / tokens.max(1);
    for (panel, rows) in rows.chunks(tokens.max(1)).enumerate() {
        for (token, row) in rows.iter().enumerate() {
            output[token * width + panel * PAGE..][..PAGE].copy_from_slice(row);
        }
    }
}

fn check_length(name: &'static str, found: usize, expected: usize) -> Result<(), AttentionError> {
    if found == expected {
        return Ok(());
    }
    Err(AttentionError::Length {
        name,
        found,
        expected,
    })
}

fn check_sizes<E: Storage>(
    shape: &LlamaShape,
    weights: &LlamaWeights<E>,
) -> Result<(), AttentionError> {
    let cache = &shape.cache;
    let queries = cache.heads * cache.head_dim;
    let joined = queries + 2 * cache.kv_heads * cache.head_dim;
    check_length("frequencies", weights.frequencies.len(), cache.head_dim / 2)?;
    check_length("embedding width", weights.embedding.inputs(), shape.hidden)?;
    check_length("norm", weights.norm.len(), shape.hidden)?;
    for layer in &weights.layers {
        check_length("input norm", layer.input_norm.len(), shape.hidden)?;
        check_length("qkv outputs", layer.qkv.outputs(), joined)?;
        check_length("qkv inputs", layer.qkv.inputs(), shape.hidden)?;
        check_length("output inputs", layer.output.inputs(), queries)?;
        check_length("output outputs", layer.output.outputs(), shape.hidden)?;
        check_length("mlp norm", layer.mlp_norm.len(), shape.hidden)?;
        check_length("gate inputs", layer.gate_up.inputs(), shape.hidden)?;
        check_length(
            "down inputs",
            layer.down.inputs() * 2,
            layer.gate_up.outputs(),
        )?;
        check_length("down outputs", layer.down.outputs(), shape.hidden)?;
    }
    Ok(())
}
