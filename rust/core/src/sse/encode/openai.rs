//! OpenAI's chunks: `chat.completion.chunk` and `text_completion`.

use super::marks::Marks;
use super::options::{Dialect, EncoderOptions, Framing};
use super::wire::Wire;
use crate::record::{Kind, Record};
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_escaped, push_one_line, push_string};

/// Outcomes after which a client may believe that it has the whole answer.
const WHOLE: [&str; 2] = ["completed", "length"];

/// Writes chunks, the error frame and `[DONE]`.
#[derive(Clone, Debug)]
pub(super) struct OpenAiFrames {
    dialect: Dialect,
    include_usage: bool,
    /// From the start of the frame (after its `id` line) into the array of choices.
    head: Vec<u8>,
    /// From the text of a token to the end of the chunk's own members.
    token_tail: Vec<u8>,
    /// From the finish reason to the end of the chunk's own members.
    finish_tail: Vec<u8>,
    roles: Roles,
}

impl OpenAiFrames {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let usage = if options.include_usage {
            ",\"usage\":null"
        } else {
            ""
        };
        let token_close = match options.dialect {
            Dialect::Completion => "\"",
            Dialect::Chat | Dialect::Native => "\"}",
        };
        Self {
            dialect: options.dialect,
            include_usage: options.include_usage,
            head: head(options),
            token_tail: format!("{token_close},\"logprobs\":null,\"finish_reason\":null}}]{usage}")
                .into_bytes(),
            finish_tail: format!("}}]{usage}").into_bytes(),
            roles: Roles::default(),
        }
    }

    pub(super) const fn omit_roles(&mut self) {
        self.roles.omitted = true;
    }

    pub(super) fn encode(
        &mut self,
        wire: &mut Wire,
        record: &Record<'_>,
        _marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        match record.kind {
            Kind::Token => self.token(wire, record, out),
            Kind::Finish => self.finish(wire, record, out),
            Kind::Usage => self.usage(wire, record, out),
            Kind::Error => error(wire, record, out),
            Kind::End => end(wire, record, out),
            Kind::Handover | Kind::BranchEnd => {}
        }
    }

    fn token(&mut self, wire: &mut Wire, record: &Record<'_>, out: &mut Vec<u8>) {
        self.open_choice(wire, record, out);
        out.extend_from_slice(match self.dialect {
            Dialect::Completion => b",\"text\":\"",
            _ if self.roles.first(record.choice) => {
                b",\"delta\":{\"role\":\"assistant\",\"content\":\"".as_slice()
            }
            _ => b",\"delta\":{\"content\":\"",
        });
        push_escaped(record.text, out);
        out.extend_from_slice(&self.token_tail);
        wire.close_object(record, out);
    }

    fn finish(&mut self, wire: &mut Wire, record: &Record<'_>, out: &mut Vec<u8>) {
        self.open_choice(wire, record, out);
        out.extend_from_slice(match self.dialect {
            Dialect::Completion => b",\"text\":\"\"",
            _ if self.roles.first(record.choice) => {
                b",\"delta\":{\"role\":\"assistant\"}".as_slice()
            }
            _ => b",\"delta\":{}",
        });
        out.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":");
        push_string(record.text, out);
        out.extend_from_slice(&self.finish_tail);
        wire.close_object(record, out);
    }

    fn usage(&self, wire: &mut Wire, record: &Record<'_>, out: &mut Vec<u8>) {
        if !self.include_usage {
            return;
        }
        wire.push_id(record, out);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"],\"usage\":");
        push_one_line(record.text, out);
        wire.close_object(record, out);
    }

    fn open_choice(&self, wire: &Wire, record: &Record<'_>, out: &mut Vec<u8>) {
        wire.push_id(record, out);
        out.extend_from_slice(&self.head);
        out.extend_from_slice(b"{\"index\":");
        push_decimal(u64::from(record.choice), out);
    }
}

/// An error is no chunk: clients look for the one member `error`.
fn error(wire: &Wire, record: &Record<'_>, out: &mut Vec<u8>) {
    wire.push_id(record, out);
    out.extend_from_slice(data_prefix(wire.framing()));
    out.extend_from_slice(b"{\"error\":");
    push_one_line(record.text, out);
    out.push(b'}');
    wire.close_frame(out);
}

fn end(wire: &Wire, record: &Record<'_>, out: &mut Vec<u8>) {
    if wire.framing() == Framing::Sse && WHOLE.contains(&record.text) {
        wire.push_id(record, out);
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

const fn data_prefix(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Sse => b"data: ",
        Framing::Ndjson => b"",
    }
}

fn head(options: &EncoderOptions) -> Vec<u8> {
    let mut head = data_prefix(options.framing).to_vec();
    head.extend_from_slice(b"{\"id\":");
    push_string(&options.chunk_id, &mut head);
    head.extend_from_slice(b",\"object\":\"");
    head.extend_from_slice(match options.dialect {
        Dialect::Completion => b"text_completion".as_slice(),
        Dialect::Chat | Dialect::Native => b"chat.completion.chunk",
    });
    head.extend_from_slice(b"\",\"created\":");
    push_decimal(options.created, &mut head);
    head.extend_from_slice(b",\"model\":");
    push_string(&options.model, &mut head);
    head.extend_from_slice(b",\"choices\":[");
    head
}

/// Which choices have had their role.
#[derive(Clone, Debug, Default)]
struct Roles {
    omitted: bool,
    seen: Vec<u64>,
}

impl Roles {
    /// Whether this is the first record of `choice`, which then counts as seen.
    fn first(&mut self, choice: u16) -> bool {
        if self.omitted {
            return false;
        }
        let (word, bit) = (usize::from(choice / 64), 1 << (choice % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let first = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        first
    }
}
