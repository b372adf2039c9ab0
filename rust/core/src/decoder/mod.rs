//! A Llama-shaped decoder on the CPU, over the paged cache.
//!
//! Numbers between the operations are float32 and lie in panels: `[width / 32][tokens][32]`. So a
//! weight panel of 32 outputs writes one contiguous piece, pieces are handed to threads without
//! copies, and the next operation reads them as they are.

mod error;
mod gate;
mod linear;
mod llama;
mod norm;
mod pieces;
mod plain;
mod quantized;
mod rotary;
mod weights;

pub use error::DecoderError;
pub use linear::Linear;
pub use llama::Llama;
pub use quantized::Codes;
pub use weights::{LayerWeights, LlamaShape, LlamaWeights};
