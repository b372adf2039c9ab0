//! Placeholder with the agreed interface.

use crate::record::Record;

/// Whose shapes the frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `chat.completion.chunk`.
    Chat,
    /// `text_completion`.
    Completion,
    /// Millstream's own events.
    Native,
}

/// How frames are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    Sse,
    /// One JSON value a line.
    Ndjson,
}

/// Everything that stays the same over a stream's frames.
#[derive(Clone, Debug)]
pub struct EncoderOptions {
    /// Whose shapes the frames have.
    pub dialect: Dialect,
    /// How frames are set apart.
    pub framing: Framing,
    /// The `id` member of every chunk.
    pub chunk_id: String,
    /// The `model` member of every chunk.
    pub model: String,
    /// Unix seconds.
    pub created: u64,
    /// Whether the usage record becomes a chunk.
    pub include_usage: bool,
    /// Whether each chunk carries the `stream` member of DESIGN §6.
    pub metadata: bool,
    /// Epoch of `id: <epoch>-<seq>` lines; none are written without it.
    pub epoch: Option<u64>,
}

/// Turns records into frames; one per reader.
#[derive(Clone, Debug)]
pub struct Encoder {
    options: EncoderOptions,
}

impl Encoder {
    /// An encoder at the start of a stream.
    #[must_use]
    pub const fn new(options: EncoderOptions) -> Self {
        Self { options }
    }

    /// Appends the frames of one record; the `End` record writes the terminal marker of the dialect.
    pub fn encode(&mut self, record: &Record<'_>, out: &mut Vec<u8>) {
        let _ = &self.options;
        out.extend_from_slice(record.text.as_bytes());
    }
}
