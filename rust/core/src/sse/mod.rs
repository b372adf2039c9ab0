//! Server-sent events and NDJSON: records to frames, frames to events.

mod decimal;
mod encode;
mod json;
mod parse;
mod timestamp;

pub use encode::{ChoiceText, Dialect, Encoder, EncoderOptions, Framing, Marks};
pub use parse::{Event, EventTooLarge, Parser};
