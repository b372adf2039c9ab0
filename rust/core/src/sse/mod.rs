//! Server-sent events and NDJSON: records to frames, frames to events.

mod decimal;
mod encode;
mod hex;
mod json;
mod parse;
mod scan;
mod timestamp;

pub use encode::{
    BranchName, ChoiceText, Dialect, Encoder, EncoderOptions, Framing, Ledger, Marks, OptionsError,
};
pub use parse::{Event, EventTooLarge, Parser};
