//! What a stream is made of: the one currency between engine, ring, log and encoder.

/// What a [`Record`] says; the discriminants are the wire values of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A piece of generated text.
    Token = 1,
    /// One choice has ended; the text is its finish reason (`stop`, `length`).
    Finish = 2,
    /// The engine's final count; the text is OpenAI's `usage` object as compact JSON.
    Usage = 3,
    /// The stream failed; the text is OpenAI's error object as compact JSON.
    Error = 4,
    /// The terminal record, written once by the owner of the stream; the text is the outcome.
    End = 5,
    /// The server leaves; the text says as compact JSON where and when to read on.
    Handover = 6,
    /// One branch of several has ended; the text is its outcome.
    BranchEnd = 7,
}

impl Kind {
    /// The kind with this wire value.
    #[must_use]
    pub const fn from_wire(value: u8) -> Option<Self> {
        match value {
            1 => Some(Self::Token),
            2 => Some(Self::Finish),
            3 => Some(Self::Usage),
            4 => Some(Self::Error),
            5 => Some(Self::End),
            6 => Some(Self::Handover),
            7 => Some(Self::BranchEnd),
            _ => None,
        }
    }

    /// Whether an engine may write it; the other kinds belong to the owner of the stream.
    #[must_use]
    pub const fn is_engines(self) -> bool {
        matches!(self, Self::Token | Self::Finish | Self::Usage | Self::Error)
    }
}

/// One entry of a stream's log, borrowed from where it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Position in the stream: 1, 2, 3, …
    pub seq: u64,
    /// Wall time in nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// What the text means.
    pub kind: Kind,
    /// Which of the requests that share the stream this belongs to; 0 in the usual stream of one.
    pub branch: u8,
    /// Which of the `n` choices of its branch this belongs to.
    pub choice: u16,
    /// How many tokens the text stands for.
    pub token_count: u32,
    /// The text, whole UTF-8 scalars only.
    pub text: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_write_text_and_their_last_word_only() {
        let written: Vec<u8> = (0..=u8::MAX)
            .filter(|&value| Kind::from_wire(value).is_some_and(Kind::is_engines))
            .collect();
        assert_eq!(written, [1, 2, 3, 4]);
    }
}
