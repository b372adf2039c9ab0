//! Millstream's own events.

use super::branches::PerBranch;
use super::checks::push_leaf;
use super::closing::Closing;
use super::handover;
use super::marks::Marks;
use super::options::{BranchName, EncoderOptions, Framing};
use super::wire::Wire;
use crate::log::{Leaf, Terminal};
use crate::record::{Kind, Record};
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_escaped, push_one_line, push_string};

/// How an event of one name opens, up to its first member.
struct Opening {
    /// The line of its name, for events that have other lines before their data.
    line: &'static [u8],
    sse: &'static [u8],
    ndjson: &'static [u8],
}

macro_rules! opening {
    ($name:literal) => {
        Opening {
            line: concat!("event: ", $name, "\n").as_bytes(),
            sse: concat!("event: ", $name, "\ndata: {").as_bytes(),
            ndjson: concat!("{\"event\":\"", $name, "\",").as_bytes(),
        }
    };
}

const TOKEN: Opening = opening!("token");
const FINISH: Opening = opening!("finish");
const USAGE: Opening = opening!("usage");
const ERROR: Opening = opening!("error");
const DONE: Opening = opening!("done");
const LEAF: Opening = opening!("leaf");
const HANDOVER: Opening = opening!("handover");
const BRANCH_DONE: Opening = opening!("branch_done");

/// Writes native events.
#[derive(Clone, Debug)]
pub(super) struct NativeFrames {
    integrity: bool,
    closing: Closing,
    /// `"model":…,` of each of several branches.
    models: PerBranch<Vec<u8>>,
    several: bool,
}

impl NativeFrames {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let several = options.branches.len() > 1;
        Self {
            integrity: options.integrity,
            closing: Closing::new(options),
            models: options.per_branch(|name| if several { model(name) } else { Vec::new() }),
            several,
        }
    }

    pub(super) fn encode(
        &self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        match record.kind {
            Kind::Token => self.token(wire, record, marks, out),
            Kind::Finish => self.finish(wire, record, marks, out),
            Kind::Usage => self.value(&USAGE, b"\"usage\":", wire, record, marks, out),
            Kind::Error => self.value(&ERROR, b"\"error\":", wire, record, marks, out),
            Kind::End => self.done(wire, record, marks, out),
            Kind::Handover => handover(wire, record, marks, out),
            Kind::BranchEnd => branch_done(wire, record, marks, out),
        }
    }

    fn token(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        open(&TOKEN, wire, record, marks, out);
        self.push_model(record, out);
        if record.choice == 0 {
            out.extend_from_slice(b"\"choice\":0,\"text\":\"");
        } else {
            out.extend_from_slice(b"\"choice\":");
            push_decimal(u64::from(record.choice), out);
            out.extend_from_slice(b",\"text\":\"");
        }
        push_escaped(record.text, out);
        out.extend_from_slice(b"\",\"tokens\":");
        push_decimal(u64::from(record.token_count), out);
        wire.close_object(record, marks, out);
        if let Some(leaf) = marks.leaf.filter(|_| self.integrity) {
            push_leaf_event(wire, leaf, out);
        }
    }

    fn finish(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        open(&FINISH, wire, record, marks, out);
        self.push_model(record, out);
        out.extend_from_slice(b"\"choice\":");
        push_decimal(u64::from(record.choice), out);
        out.extend_from_slice(b",\"finish_reason\":");
        push_string(record.text, out);
        wire.close_object(record, marks, out);
    }

    /// An event whose one member of its own is JSON already.
    fn value(
        &self,
        opening: &Opening,
        name: &[u8],
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        open(opening, wire, record, marks, out);
        if self.several {
            push_branch(record.branch, out);
        }
        out.extend_from_slice(name);
        push_one_line(record.text, out);
        wire.close_object(record, marks, out);
    }

    fn done(&self, wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
        open(&DONE, wire, record, marks, out);
        let terminal = Terminal::parse(record.text);
        out.extend_from_slice(b"\"outcome\":");
        push_string(terminal.outcome, out);
        self.closing.push(&terminal, marks, out);
        wire.close_object(record, marks, out);
    }

    fn push_model(&self, record: &Record<'_>, out: &mut Vec<u8>) {
        if self.several {
            push_branch(record.branch, out);
            out.extend_from_slice(self.models.of(record.branch));
        }
    }
}

fn open(
    opening: &Opening,
    wire: &mut Wire,
    record: &Record<'_>,
    marks: &Marks<'_>,
    out: &mut Vec<u8>,
) {
    if wire.framing() == Framing::Ndjson {
        out.extend_from_slice(opening.ndjson);
        wire.push_id_member(record, marks, out);
    } else if wire.is_bare() {
        out.extend_from_slice(opening.sse);
    } else {
        open_with_lines(opening, wire, record, marks, out);
    }
}

fn open_with_lines(
    opening: &Opening,
    wire: &mut Wire,
    record: &Record<'_>,
    marks: &Marks<'_>,
    out: &mut Vec<u8>,
) {
    wire.open(record, marks, out);
    if wire.has_fields() {
        out.extend_from_slice(opening.line);
        wire.push_fields(record, out);
        out.extend_from_slice(b"data: {");
    } else {
        out.extend_from_slice(opening.sse);
    }
}

/// Without an id: a leaf is no record, and a client that has it has the token before it.
fn push_leaf_event(wire: &Wire, leaf: &Leaf, out: &mut Vec<u8>) {
    out.extend_from_slice(match wire.framing() {
        Framing::Sse => LEAF.sse,
        Framing::Ndjson => LEAF.ndjson,
    });
    push_leaf(leaf, out);
    out.extend_from_slice(b",\"last\":\"");
    wire.ids().push_position(leaf.last_seq, out);
    out.push(b'"');
    wire.close(out);
}

fn handover(wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
    handover::announce_retry(wire, record);
    open(&HANDOVER, wire, record, marks, out);
    handover::push_members(wire, record, marks, out);
    wire.close_object(record, marks, out);
}

fn branch_done(wire: &mut Wire, record: &Record<'_>, marks: &Marks<'_>, out: &mut Vec<u8>) {
    open(&BRANCH_DONE, wire, record, marks, out);
    push_branch(record.branch, out);
    out.extend_from_slice(b"\"outcome\":");
    push_string(record.text, out);
    wire.close_object(record, marks, out);
}

fn push_branch(branch: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"branch\":");
    push_decimal(u64::from(branch), out);
    out.push(b',');
}

fn model(name: &BranchName) -> Vec<u8> {
    let mut member = b"\"model\":".to_vec();
    push_string(&name.model, &mut member);
    member.push(b',');
    member
}
