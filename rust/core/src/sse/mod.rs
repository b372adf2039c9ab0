//! Server-sent events and NDJSON: records to frames, frames to events.

mod decimal;
mod encode;
mod json;
mod parse;
mod timestamp;

pub use encode::{Dialect, Encoder, EncoderOptions, Framing};
pub use parse::{Event, EventTooLarge, Parser};
