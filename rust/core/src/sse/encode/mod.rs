//! Records to frames: fixed parts are laid out once, a record is copies and one escape.

mod marks;
mod metadata;
mod native;
mod openai;
mod options;
mod wire;

pub use marks::{ChoiceText, Marks};
pub use options::{Dialect, EncoderOptions, Framing};

use crate::record::Record;
use native::NativeFrames;
use openai::OpenAiFrames;
use wire::Wire;

/// Turns records into frames; one per reader.
#[derive(Clone, Debug)]
pub struct Encoder {
    wire: Wire,
    frames: Frames,
}

#[derive(Clone, Debug)]
enum Frames {
    OpenAi(OpenAiFrames),
    Native(NativeFrames),
}

impl Encoder {
    /// An encoder at the start of a stream.
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one encoder"
    )]
    pub fn new(options: EncoderOptions) -> Self {
        let frames = match options.dialect {
            Dialect::Chat | Dialect::Completion => Frames::OpenAi(OpenAiFrames::new(&options)),
            Dialect::Native => Frames::Native(NativeFrames::new(options.framing)),
        };
        Self {
            wire: Wire::new(&options),
            frames,
        }
    }

    /// This encoder for a reader that joins later: chat deltas carry no role.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        if let Frames::OpenAi(frames) = &mut self.frames {
            frames.omit_roles();
        }
        self
    }

    /// Appends the frames of one record; the `End` record writes the terminal marker of the dialect.
    ///
    /// The text of `Usage` and `Error` records is taken as JSON and not checked.
    pub fn encode(&mut self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        match &mut self.frames {
            Frames::OpenAi(frames) => frames.encode(&mut self.wire, record, marks, out),
            Frames::Native(frames) => frames.encode(&mut self.wire, record, marks, out),
        }
    }
}

#[cfg(test)]
mod tests;
