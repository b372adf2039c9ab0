//! What an encoder is told once.

use thiserror::Error;

use super::branches::PerBranch;

/// Whose shapes the frames have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `chat.completion.chunk`.
    Chat,
    /// `text_completion`.
    Completion,
    /// Millstream's own events.
    Native,
    /// The events of OpenAI's Responses API.
    Responses,
}

/// How frames are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// `text/event-stream`.
    Sse,
    /// One JSON value a line.
    Ndjson,
}

/// How the frames of one branch name it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchName {
    /// The `model` member of its chunks.
    pub model: String,
    /// The `id` member of its chunks.
    pub chunk_id: String,
}

/// Everything that stays the same over a stream's frames.
#[derive(Clone, Debug)]
pub struct EncoderOptions {
    /// Whose shapes the frames have.
    pub dialect: Dialect,
    /// How frames are set apart.
    pub framing: Framing,
    /// The branches by number, at least one; native events name theirs if there are several.
    pub branches: Vec<BranchName>,
    /// Unix seconds.
    pub created: u64,
    /// Whether the usage record becomes a chunk; the native dialect always writes it.
    pub include_usage: bool,
    /// Whether each chunk carries a `stream` member: seq, time, model, chunk id, tokens.
    pub metadata: bool,
    /// Whether frames that metadata would mark carry lines of the same words (SSE only).
    pub fields: bool,
    /// Epoch of the event ids `<epoch>-<seq>`; none are written without it.
    pub epoch: Option<u64>,
    /// Whether what the log knows of the text's integrity is written.
    pub integrity: bool,
    /// Reconnection time, in milliseconds, that comes with the first frame (SSE only).
    pub retry_ms: Option<u64>,
    /// The Response object of the Responses dialect, as JSON without what changes.
    pub response: Option<String>,
    /// The last event of the Responses dialect that the client has.
    pub starting_after: Option<u64>,
    /// The last record of the Responses dialect that the client has; it and those before it are
    /// counted, not written.
    pub after_seq: Option<u64>,
}

/// Options that make no encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OptionsError {
    /// Records tell their branch in one byte.
    #[error("a stream has 1 to 256 branches, not {0}")]
    Branches(usize),
    /// A Response has one output.
    #[error("the Responses dialect has no several branches")]
    ResponseBranches,
    /// What is added to it needs an object.
    #[error("response must be a JSON object")]
    ResponseTemplate,
}

impl EncoderOptions {
    /// The usual stream: one branch, nothing asked for.
    #[must_use]
    pub fn new(dialect: Dialect, framing: Framing, branch: BranchName) -> Self {
        Self {
            dialect,
            framing,
            branches: vec![branch],
            created: 0,
            include_usage: false,
            metadata: false,
            fields: false,
            epoch: None,
            integrity: false,
            retry_ms: None,
            response: None,
            starting_after: None,
            after_seq: None,
        }
    }

    /// Whether an encoder can be made of these options.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn check(&self) -> Result<(), OptionsError> {
        let is_response = self.dialect == Dialect::Responses;
        match self.branches.len() {
            1..=256 => {}
            count => return Err(OptionsError::Branches(count)),
        }
        if is_response && self.branches.len() > 1 {
            return Err(OptionsError::ResponseBranches);
        }
        match self.response.as_deref().map(str::trim) {
            Some(json) if !(json.starts_with('{') && json.ends_with('}')) => {
                Err(OptionsError::ResponseTemplate)
            }
            _ => Ok(()),
        }
    }

    pub(super) const fn is_sse(&self) -> bool {
        matches!(self.framing, Framing::Sse)
    }

    pub(super) const fn is_openai(&self) -> bool {
        matches!(self.dialect, Dialect::Chat | Dialect::Completion)
    }

    pub(super) fn per_branch<T>(&self, make: impl Fn(&BranchName) -> T) -> PerBranch<T> {
        PerBranch::new(&self.branches, &BranchName::default(), make)
    }
}
