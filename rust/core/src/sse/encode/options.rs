//! What an encoder is told once.

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
    /// Whether the usage record becomes a chunk; the native dialect always writes it.
    pub include_usage: bool,
    /// Whether each chunk carries a `stream` member: seq, time, model, chunk id, tokens.
    pub metadata: bool,
    /// Epoch of `id: <epoch>-<seq>` lines; none are written without it, and none in NDJSON.
    pub epoch: Option<u64>,
}
