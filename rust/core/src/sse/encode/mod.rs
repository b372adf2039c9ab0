//! Records to frames: fixed parts are laid out once, a record is copies and one escape.

mod branches;
mod checks;
mod closing;
mod event_id;
mod fields;
mod handover;
mod ledger;
mod marks;
mod member;
mod metadata;
mod native;
mod openai;
mod options;
mod responses;
mod roles;
mod wire;

pub use ledger::Ledger;
pub use marks::{ChoiceText, Marks};
pub use options::{BranchName, Dialect, EncoderOptions, Framing, OptionsError};

use crate::record::Record;
use native::NativeFrames;
use openai::OpenAiFrames;
use responses::ResponseEvents;
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
    Responses(Box<ResponseEvents>),
}

impl Encoder {
    /// An encoder at the start of a stream, of options that passed [`EncoderOptions::check`].
    #[must_use]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "options are made for one encoder"
    )]
    pub fn new(options: EncoderOptions) -> Self {
        let frames = match options.dialect {
            Dialect::Chat | Dialect::Completion => Frames::OpenAi(OpenAiFrames::new(&options)),
            Dialect::Native => Frames::Native(NativeFrames::new(&options)),
            Dialect::Responses => Frames::Responses(Box::new(ResponseEvents::new(&options))),
        };
        Self {
            wire: Wire::new(&options),
            frames,
        }
    }

    /// This encoder for a reader that joins later: what opens a stream is left out, the role of
    /// chat deltas and the prelude of a Response.
    #[must_use]
    pub fn resumed(mut self) -> Self {
        match &mut self.frames {
            Frames::OpenAi(frames) => frames.omit_roles(),
            Frames::Responses(events) => events.resume(),
            Frames::Native(_) => {}
        }
        self
    }

    /// Appends the frames that stand before the first record, unless they have been written.
    pub fn prelude(&mut self, out: &mut Vec<u8>) {
        if let Frames::Responses(events) = &mut self.frames {
            events.prelude(&mut self.wire, out);
        }
    }

    /// Appends the frames of one record; the `End` record writes the terminal marker of the dialect.
    ///
    /// The text of `Usage`, `Error` and `Handover` records is taken as JSON and not checked, and so
    /// are the figures of the `End` record.
    pub fn encode(&mut self, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        match &mut self.frames {
            Frames::OpenAi(frames) => frames.encode(&mut self.wire, record, marks, out),
            Frames::Native(frames) => frames.encode(&mut self.wire, record, marks, out),
            Frames::Responses(events) => events.encode(&mut self.wire, record, marks, out),
        }
    }
}

#[cfg(test)]
mod tests;
