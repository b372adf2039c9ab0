//! OpenAI's chunks: `chat.completion.chunk` and `text_completion`.

use super::branches::PerBranch;
use super::closing::Closing;
use super::handover;
use super::marks::Marks;
use super::options::{BranchName, Dialect, EncoderOptions, Framing};
use super::roles::Roles;
use super::wire::Wire;
use crate::log::Terminal;
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
    closing: Closing,
    heads: PerBranch<Head>,
    /// From the text of a token to the end of the chunk's own members.
    token_tail: Vec<u8>,
    /// From the finish reason to the end of the chunk's own members.
    finish_tail: Vec<u8>,
    /// From the empty array of choices to the end of the chunk's own members.
    bare_tail: &'static str,
    roles: PerBranch<Roles>,
    omits_roles: bool,
}

/// How the data of a chunk begins.
#[derive(Clone, Debug)]
struct Head {
    /// Up to the index of its one choice.
    choice: Vec<u8>,
    /// Up to the text of a token of choice 0 that brings no role, as nearly all are.
    token: Vec<u8>,
    /// Through the empty array of choices.
    bare: Vec<u8>,
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
            _ => "\"}",
        };
        let token_members = ",\"logprobs\":null,\"finish_reason\":null}]";
        Self {
            dialect: options.dialect,
            include_usage: options.include_usage,
            closing: Closing::new(options),
            heads: options.per_branch(|name| head(options, name)),
            token_tail: format!("{token_close}{token_members}{usage}").into_bytes(),
            finish_tail: format!("}}]{usage}").into_bytes(),
            bare_tail: usage,
            roles: options.per_branch(|_| Roles::default()),
            omits_roles: options.dialect == Dialect::Completion,
        }
    }

    pub(super) const fn omit_roles(&mut self) {
        self.omits_roles = true;
    }

    pub(super) fn encode(
        &mut self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        match record.kind {
            Kind::Token => self.token(wire, record, marks, out),
            Kind::Finish => self.finish(wire, record, marks, out),
            Kind::Usage => self.usage(wire, record, marks, out),
            Kind::Error => error(wire, record, marks, out),
            Kind::End => self.end(wire, record, marks, out),
            Kind::Handover => self.handover(wire, record, marks, out),
            Kind::BranchEnd => {}
        }
    }

    fn token(
        &mut self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.is_first(record) {
            self.open_choice(wire, record, marks, out);
            out.extend_from_slice(b",\"delta\":{\"role\":\"assistant\",\"content\":\"");
        } else if record.choice == 0 {
            open(wire, record, marks, out);
            out.extend_from_slice(&self.heads.of(record.branch).token);
        } else {
            self.open_choice(wire, record, marks, out);
            out.extend_from_slice(token_opening(self.dialect));
        }
        push_escaped(record.text, out);
        out.extend_from_slice(&self.token_tail);
        wire.close_object(record, marks, out);
    }

    fn finish(
        &mut self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        self.open_choice(wire, record, marks, out);
        let is_first = self.is_first(record);
        out.extend_from_slice(match self.dialect {
            Dialect::Completion => b",\"text\":\"\"",
            _ if is_first => b",\"delta\":{\"role\":\"assistant\"}".as_slice(),
            _ => b",\"delta\":{}",
        });
        out.extend_from_slice(b",\"logprobs\":null,\"finish_reason\":");
        push_string(record.text, out);
        out.extend_from_slice(&self.finish_tail);
        wire.close_object(record, marks, out);
    }

    fn usage(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        if !self.include_usage {
            return;
        }
        wire.open(record, marks, out);
        self.push_bare_head(wire, record, out);
        out.extend_from_slice(b",\"usage\":");
        push_one_line(record.text, out);
        wire.close_object(record, marks, out);
    }

    fn handover(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        let mut member = b",\"handover\":{".to_vec();
        handover::push_members(wire, record, marks, &mut member);
        member.push(b'}');
        handover::announce_retry(wire, record);
        wire.open(record, marks, out);
        self.bare(wire, record, marks, &member, out);
    }

    /// The id stands on the last frame: whoever was cut off before `[DONE]` shall still get it.
    fn end(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        let terminal = Terminal::parse(record.text);
        let is_whole = wire.framing() == Framing::Sse && WHOLE.contains(&terminal.outcome);
        let mut member = Vec::new();
        self.closing.push(&terminal, marks, &mut member);
        if !member.is_empty() {
            if is_whole {
                wire.open_unstored(out);
            } else {
                wire.open(record, marks, out);
            }
            self.bare(wire, record, marks, &member, out);
        }
        if is_whole {
            wire.open(record, marks, out);
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
    }

    /// A chunk without choices, for what its `stream` member says.
    fn bare(
        &self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        member: &[u8],
        out: &mut Vec<u8>,
    ) {
        self.push_bare_head(wire, record, out);
        out.extend_from_slice(self.bare_tail.as_bytes());
        wire.close_object_with(record, marks, member, out);
    }

    fn open_choice(
        &self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        open(wire, record, marks, out);
        out.extend_from_slice(&self.heads.of(record.branch).choice);
        push_decimal(u64::from(record.choice), out);
    }

    fn push_bare_head(&self, wire: &Wire, record: &Record<'_>, out: &mut Vec<u8>) {
        wire.push_fields(record, out);
        out.extend_from_slice(&self.heads.of(record.branch).bare);
    }

    fn is_first(&mut self, record: &Record<'_>) -> bool {
        !self.omits_roles && self.roles.of_mut(record.branch).first(record.choice)
    }
}

#[inline]
fn open(wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
    if !wire.is_bare() {
        wire.open(record, marks, out);
        wire.push_fields(record, out);
    }
}

/// From the index of a choice to its text.
const fn token_opening(dialect: Dialect) -> &'static [u8] {
    match dialect {
        Dialect::Completion => b",\"text\":\"",
        _ => b",\"delta\":{\"content\":\"",
    }
}

/// An error is no chunk: clients look for the one member `error`.
fn error(wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
    wire.open(record, marks, out);
    out.extend_from_slice(data_prefix(wire.framing()));
    out.extend_from_slice(b"{\"error\":");
    push_one_line(record.text, out);
    wire.close(out);
}

const fn data_prefix(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Sse => b"data: ",
        Framing::Ndjson => b"",
    }
}

fn head(options: &EncoderOptions, name: &BranchName) -> Head {
    let mut head = data_prefix(options.framing).to_vec();
    head.extend_from_slice(b"{\"id\":");
    push_string(&name.chunk_id, &mut head);
    head.extend_from_slice(b",\"object\":\"");
    head.extend_from_slice(match options.dialect {
        Dialect::Completion => b"text_completion".as_slice(),
        _ => b"chat.completion.chunk",
    });
    head.extend_from_slice(b"\",\"created\":");
    push_decimal(options.created, &mut head);
    head.extend_from_slice(b",\"model\":");
    push_string(&name.model, &mut head);
    head.extend_from_slice(b",\"choices\":[");
    Head {
        choice: [head.as_slice(), b"{\"index\":"].concat(),
        token: [
            head.as_slice(),
            b"{\"index\":0",
            token_opening(options.dialect),
        ]
        .concat(),
        bare: [head.as_slice(), b"]"].concat(),
    }
}
