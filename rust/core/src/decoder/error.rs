//! What can be wrong with weights or a step.

use crate::attention::AttentionError;

/// Weights that do not fit together, or a step that does not fit the cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecoderError {
    /// A width is not a multiple of 32.
    #[error("{name} is {width}, not a multiple of 32")]
    Width {
        /// What is measured.
        name: &'static str,
        /// Its size.
        width: usize,
    },
    /// A token that the vocabulary does not have.
    #[error("token {token} is not below {vocabulary}")]
    Token {
        /// The token.
        token: usize,
        /// Size of the vocabulary.
        vocabulary: usize,
    },
    /// No weights for a layer.
    #[error("{found} layers of weights, not {expected}")]
    Layers {
        /// How many there are.
        found: usize,
        /// How many the shape asks for.
        expected: usize,
    },
    /// The step does not fit the cache.
    #[error(transparent)]
    Attention(#[from] AttentionError),
}
