//! The events of OpenAI's Responses API: one response with one message of one text.

mod ending;
mod numbers;
mod shapes;

use super::closing::Closing;
use super::marks::Marks;
use super::options::EncoderOptions;
use super::wire::Wire;
use crate::log::Terminal;
use crate::record::{Kind, Record};
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_one_line, push_string};
use crate::sse::scan;
use ending::Ending;
use numbers::Numbers;
use shapes::{Event, Shapes};

/// Events before the first record.
const PRELUDE_EVENTS: u64 = 4;

/// Writes events; only branch 0 and its choice 0 are looked at.
#[derive(Clone, Debug)]
pub(super) struct ResponseEvents {
    shapes: Shapes,
    closing: Closing,
    numbers: Numbers,
    prelude_due: bool,
    starting_after: Option<u64>,
    after_seq: Option<u64>,
    usage: Option<String>,
    error: Option<String>,
}

/// Where an event goes.
struct Sink<'a> {
    wire: &'a mut Wire,
    record: &'a Record<'a>,
    marks: &'a Marks<'a>,
    /// Further members of the `stream` member, each after its comma.
    more: Vec<u8>,
    out: &'a mut Vec<u8>,
}

impl ResponseEvents {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        Self {
            shapes: Shapes::new(options),
            closing: Closing::new(options),
            numbers: Numbers::new(),
            prelude_due: options.after_seq.is_none(),
            starting_after: options.starting_after,
            after_seq: options.after_seq,
            usage: None,
            error: None,
        }
    }

    pub(super) const fn resume(&mut self) {
        self.prelude_due = false;
        self.numbers.resume();
    }

    pub(super) fn prelude(&mut self, wire: &mut Wire, out: &mut Vec<u8>) {
        if !std::mem::take(&mut self.prelude_due) {
            return;
        }
        for number in 0..PRELUDE_EVENTS {
            if self.is_due(number) {
                wire.open_unstored(out);
                self.shapes.push_prelude(wire, number, out);
            }
        }
    }

    pub(super) fn encode(
        &mut self,
        wire: &mut Wire,
        record: &Record<'_>,
        marks: &Marks<'_>,
        out: &mut Vec<u8>,
    ) {
        self.prelude(wire, out);
        let number = self.numbers.first_of(record);
        let mut sink = Sink {
            wire,
            record,
            marks,
            more: Vec::new(),
            out,
        };
        match record.kind {
            Kind::Token if record.choice == 0 => self.delta(&mut sink, number),
            Kind::Finish if record.choice == 0 => self.finish(&mut sink, number),
            Kind::Usage => self.usage = Some(record.text.to_owned()),
            Kind::Error => self.error(&mut sink, number),
            Kind::End => self.end(&mut sink, number),
            Kind::Token | Kind::Finish | Kind::Handover | Kind::BranchEnd => {}
        }
    }

    fn delta(&self, sink: &mut Sink<'_>, number: u64) {
        self.write(sink, &shapes::TEXT_DELTA, number, |sink| {
            self.shapes.push_place(sink.out);
            sink.out.extend_from_slice(b",\"delta\":");
            push_string(sink.record.text, sink.out);
            sink.out.extend_from_slice(b",\"logprobs\":[]");
        });
    }

    /// The id stands on the last event: whoever was cut off before it gets all three again.
    fn finish(&mut self, sink: &mut Sink<'_>, number: u64) {
        let text = text(sink.marks);
        self.write_unstored(sink, &shapes::TEXT_DONE, number, |sink| {
            self.shapes.push_place(sink.out);
            sink.out.extend_from_slice(b",\"text\":");
            push_string(&text, sink.out);
            sink.out.extend_from_slice(b",\"logprobs\":[]");
        });
        self.write_unstored(sink, &shapes::PART_DONE, number + 1, |sink| {
            self.shapes.push_place(sink.out);
            sink.out.extend_from_slice(b",\"part\":");
            shapes::push_part(&text, sink.out);
        });
        let status = ending::item_status(sink.record.text);
        self.write(sink, &shapes::ITEM_DONE, number + 2, |sink| {
            self.shapes.push_item_member(status, Some(&text), sink.out);
        });
        self.numbers.finish(number);
    }

    fn error(&mut self, sink: &mut Sink<'_>, number: u64) {
        self.write(sink, &shapes::ERROR, number, |sink| {
            for name in ["code", "message", "param"] {
                shapes::push_error_member(sink.record.text, name, sink.out);
            }
        });
        self.numbers.wrote_one();
        self.error = Some(sink.record.text.to_owned());
    }

    fn end(&self, sink: &mut Sink<'_>, number: u64) {
        let terminal = Terminal::parse(sink.record.text);
        let ending = Ending::of(terminal.outcome);
        let text = text(sink.marks);
        self.closing.push(&terminal, sink.marks, &mut sink.more);
        self.write(sink, ending.event, number, |sink| {
            sink.out.extend_from_slice(b",\"response\":");
            self.shapes.open_response(ending.status, sink.out);
            ending.push_error(self.error.as_deref(), sink.out);
            ending.push_incomplete_details(sink.out);
            sink.out.extend_from_slice(b",\"output\":[");
            self.shapes
                .push_item(ending.item_status, Some(&text), sink.out);
            sink.out.extend_from_slice(b"],\"usage\":");
            push_usage(self.usage.as_deref(), sink.out);
            sink.out.push(b'}');
        });
    }

    fn write(
        &self,
        sink: &mut Sink<'_>,
        event: &Event,
        number: u64,
        members: impl FnOnce(&mut Sink<'_>),
    ) {
        if self.is_due(number) && self.is_new(sink.record) {
            sink.wire.open(sink.record, sink.marks, sink.out);
            write_event(sink, event, number, members);
        }
    }

    /// Writes an event that is not the last of its record.
    fn write_unstored(
        &self,
        sink: &mut Sink<'_>,
        event: &Event,
        number: u64,
        members: impl FnOnce(&mut Sink<'_>),
    ) {
        if self.is_due(number) && self.is_new(sink.record) {
            sink.wire.open_unstored(sink.out);
            write_event(sink, event, number, members);
        }
    }

    fn is_due(&self, number: u64) -> bool {
        self.starting_after.is_none_or(|last| number > last)
    }

    fn is_new(&self, record: &Record<'_>) -> bool {
        self.after_seq.is_none_or(|last| record.seq > last)
    }
}

fn write_event(
    sink: &mut Sink<'_>,
    event: &Event,
    number: u64,
    members: impl FnOnce(&mut Sink<'_>),
) {
    sink.out
        .extend_from_slice(event.opening(sink.wire.framing()));
    push_decimal(number, sink.out);
    members(sink);
    sink.wire
        .close_object_with(sink.record, sink.marks, &sink.more, sink.out);
}

fn text(marks: &Marks<'_>) -> String {
    marks.text.map(|read| read(0, 0)).unwrap_or_default()
}

/// The words of the Responses API for the counts of a chat's `usage`.
fn push_usage(usage: Option<&str>, out: &mut Vec<u8>) {
    let count = |name| scan::number(usage.unwrap_or_default(), name);
    let (Some(input), Some(output)) = (count("prompt_tokens"), count("completion_tokens")) else {
        out.extend_from_slice(b"null");
        return;
    };
    let detail = |object, name| {
        let details = scan::member(usage.unwrap_or_default(), object);
        details
            .and_then(|json| scan::number(json, name))
            .unwrap_or(0)
    };
    let cached = detail("prompt_tokens_details", "cached_tokens");
    let reasoning = detail("completion_tokens_details", "reasoning_tokens");
    let total = count("total_tokens").unwrap_or_else(|| input.saturating_add(output));
    push_one_line(
        &format!(
            "{{\"input_tokens\":{input},\"input_tokens_details\":\
             {{\"cached_tokens\":{cached},\"cache_write_tokens\":0}},\
             \"output_tokens\":{output},\"output_tokens_details\":\
             {{\"reasoning_tokens\":{reasoning}}},\"total_tokens\":{total}}}"
        ),
        out,
    );
}
