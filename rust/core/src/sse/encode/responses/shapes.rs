//! The JSON of events: names, places, items, the response itself.

use super::super::options::{EncoderOptions, Framing};
use super::super::wire::Wire;
use crate::sse::decimal::push_decimal;
use crate::sse::json::{push_one_line, push_string};
use crate::sse::scan;

/// How an event of one type opens, up to its number.
pub(super) struct Event {
    sse: &'static [u8],
    ndjson: &'static [u8],
}

impl Event {
    pub(super) const fn opening(&self, framing: Framing) -> &'static [u8] {
        match framing {
            Framing::Sse => self.sse,
            Framing::Ndjson => self.ndjson,
        }
    }
}

macro_rules! object {
    ($type:literal) => {
        concat!("{\"type\":\"", $type, "\",\"sequence_number\":")
    };
}

macro_rules! event {
    ($type:literal) => {
        Event {
            sse: concat!("event: ", $type, "\ndata: ", object!($type)).as_bytes(),
            ndjson: object!($type).as_bytes(),
        }
    };
}

const CREATED: Event = event!("response.created");
const IN_PROGRESS: Event = event!("response.in_progress");
const ITEM_ADDED: Event = event!("response.output_item.added");
const PART_ADDED: Event = event!("response.content_part.added");
pub(super) const TEXT_DELTA: Event = event!("response.output_text.delta");
pub(super) const TEXT_DONE: Event = event!("response.output_text.done");
pub(super) const PART_DONE: Event = event!("response.content_part.done");
pub(super) const ITEM_DONE: Event = event!("response.output_item.done");
pub(super) const ERROR: Event = event!("error");
pub(super) static COMPLETED: Event = event!("response.completed");
pub(super) static INCOMPLETE: Event = event!("response.incomplete");
pub(super) static FAILED: Event = event!("response.failed");

/// The parts that stay the same over a response.
#[derive(Clone, Debug)]
pub(super) struct Shapes {
    /// The members of the response that do not change, without braces.
    response: Vec<u8>,
    /// The id of the message, with its quotes.
    item_id: Vec<u8>,
    /// `,"item_id":…,"output_index":0,"content_index":0`.
    place: Vec<u8>,
}

impl Shapes {
    pub(super) fn new(options: &EncoderOptions) -> Self {
        let item_id = item_id(options);
        let place = [
            b",\"item_id\":",
            item_id.as_slice(),
            b",\"output_index\":0,\"content_index\":0",
        ]
        .concat();
        Self {
            response: response(options),
            item_id,
            place,
        }
    }

    pub(super) fn push_place(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.place);
    }

    /// Appends one of the events before the first record, from its name on.
    pub(super) fn push_prelude(&self, wire: &Wire, number: u64, out: &mut Vec<u8>) {
        let event = match number {
            0 => &CREATED,
            1 => &IN_PROGRESS,
            2 => &ITEM_ADDED,
            _ => &PART_ADDED,
        };
        out.extend_from_slice(event.opening(wire.framing()));
        push_decimal(number, out);
        match number {
            0 | 1 => self.push_response_in_progress(out),
            2 => self.push_item_member("in_progress", None, out),
            _ => {
                self.push_place(out);
                out.extend_from_slice(b",\"part\":");
                push_part("", out);
            }
        }
        wire.close(out);
    }

    /// Opens a response, up to its status.
    pub(super) fn open_response(&self, status: &str, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.response);
        if !self.response.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"status\":");
        push_string(status, out);
    }

    /// Appends `,"output_index":0,"item":{…}`.
    pub(super) fn push_item_member(&self, status: &str, text: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"output_index\":0,\"item\":");
        self.push_item(status, text, out);
    }

    /// Appends the message; it has no content before there is a text.
    pub(super) fn push_item(&self, status: &str, text: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":");
        out.extend_from_slice(&self.item_id);
        out.extend_from_slice(b",\"type\":\"message\",\"status\":");
        push_string(status, out);
        out.extend_from_slice(b",\"role\":\"assistant\",\"content\":[");
        if let Some(text) = text {
            push_part(text, out);
        }
        out.extend_from_slice(b"]}");
    }

    fn push_response_in_progress(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"response\":");
        self.open_response("in_progress", out);
        out.extend_from_slice(
            b",\"error\":null,\"incomplete_details\":null,\"output\":[],\"usage\":null}",
        );
    }
}

/// Appends the part of the message that is its text.
pub(super) fn push_part(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"output_text\",\"text\":");
    push_string(text, out);
    out.extend_from_slice(b",\"annotations\":[],\"logprobs\":[]}");
}

/// Appends member `name` of an error, a string: a missing message is empty, the others are null.
pub(super) fn push_error_member(error: &str, name: &str, out: &mut Vec<u8>) {
    out.push(b',');
    push_string(name, out);
    out.push(b':');
    let missing = if name == "message" { "\"\"" } else { "null" };
    push_one_line(scan::string(error, name).unwrap_or(missing), out);
}

/// The id of the message follows from that of the response.
fn item_id(options: &EncoderOptions) -> Vec<u8> {
    let chunk_id = options
        .branches
        .first()
        .map_or("", |name| name.chunk_id.as_str());
    let id = chunk_id.strip_prefix("resp_").unwrap_or(chunk_id);
    let mut item_id = Vec::new();
    push_string(&format!("msg_{id}"), &mut item_id);
    item_id
}

fn response(options: &EncoderOptions) -> Vec<u8> {
    let mut members = Vec::new();
    match &options.response {
        Some(json) => push_one_line(scan::members(json), &mut members),
        None => push_least_response(options, &mut members),
    }
    members
}

/// The members that every response has.
fn push_least_response(options: &EncoderOptions, out: &mut Vec<u8>) {
    let (id, model) = options.branches.first().map_or(("", ""), |name| {
        (name.chunk_id.as_str(), name.model.as_str())
    });
    out.extend_from_slice(b"\"id\":");
    push_string(id, out);
    out.extend_from_slice(b",\"object\":\"response\",\"created_at\":");
    push_decimal(options.created, out);
    out.extend_from_slice(b",\"model\":");
    push_string(model, out);
    out.extend_from_slice(b",\"parallel_tool_calls\":true,\"tool_choice\":\"auto\",\"tools\":[]");
}
