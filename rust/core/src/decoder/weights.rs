//! What a Llama-shaped model consists of.

use super::Linear;
use crate::attention::{CacheShape, Storage};

/// Sizes and constants of a model with its cache.
#[derive(Debug, Clone, Copy)]
pub struct LlamaShape {
    /// Sizes of the cache.
    pub cache: CacheShape,
    /// Width between the layers.
    pub hidden: usize,
    /// Most positions of a sequence.
    pub positions: usize,
    /// Added to the mean square before its root is taken.
    pub norm_eps: f32,
}

/// Weights of one layer.
#[derive(Debug)]
pub struct LayerWeights<E: Storage> {
    /// Norm before attention, `[hidden]`.
    pub input_norm: Vec<f32>,
    /// Queries, keys and values: `[(heads + 2 * kv_heads) * head_dim][hidden]`.
    pub qkv: Linear<E>,
    /// `[hidden][heads * head_dim]`.
    pub output: Linear<E>,
    /// Norm before the gated part, `[hidden]`.
    pub mlp_norm: Vec<f32>,
    /// Gate and up in turns of 32 rows each: `[2 * intermediate][hidden]`.
    pub gate_up: Linear<E>,
    /// `[hidden][intermediate]`.
    pub down: Linear<E>,
}

/// All weights.
#[derive(Debug)]
pub struct LlamaWeights<E: Storage> {
    /// One row for each token: `[vocabulary][hidden]`.
    pub embedding: Linear<E>,
    /// The layers in order.
    pub layers: Vec<LayerWeights<E>>,
    /// Norm before the head, `[hidden]`.
    pub norm: Vec<f32>,
    /// `[vocabulary][hidden]`; none where the embedding serves for both.
    pub head: Option<Linear<E>>,
    /// One rotary frequency for each pair of a head's dimensions.
    pub frequencies: Vec<f32>,
}
