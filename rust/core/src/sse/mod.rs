//! Placeholder.

mod encode;

pub use encode::{Dialect, Encoder, EncoderOptions, Framing};
