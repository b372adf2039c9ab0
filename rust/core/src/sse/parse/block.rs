//! The fields between two blank lines, and what outlives them.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use memchr::memchr;

use super::event::Event;

/// The buffers of the WHATWG's interpretation, kept as bytes.
///
/// Decoding waits for a whole field: line ends are never part of a UTF-8 sequence, so decoding
/// piece by piece gives the same characters as decoding the stream.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Bytes of the lines so far, without comments and line ends.
    bytes: usize,
    data: Option<Vec<u8>>,
    event: Vec<u8>,
    id: Option<Vec<u8>>,
    retry_ms: Option<u64>,
    last_event_id: Arc<str>,
    reconnection_ms: Option<u64>,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            bytes: 0,
            data: None,
            event: Vec::new(),
            id: None,
            retry_ms: None,
            last_event_id: Arc::from(""),
            reconnection_ms: None,
        }
    }
}

impl Block {
    /// How long `line`, or what has come of it, may be when blocks are held to `max_bytes`.
    pub(super) fn allowance(&self, line: &[u8], max_bytes: usize) -> usize {
        if line.starts_with(b":") {
            max_bytes
        } else {
            max_bytes - self.bytes
        }
    }

    /// Whether a field has come since the latest blank line.
    pub(super) const fn is_open(&self) -> bool {
        self.bytes > 0
    }

    pub(super) fn last_event_id(&self) -> &str {
        &self.last_event_id
    }

    pub(super) const fn reconnection_ms(&self) -> Option<u64> {
        self.reconnection_ms
    }

    /// Takes a whole line, which must be within the allowance; a blank one may complete an event.
    pub(super) fn take_line(&mut self, line: &[u8]) -> Option<Event> {
        if line.is_empty() {
            return self.dispatch();
        }
        let (name, value) = split_field(line);
        if !name.is_empty() {
            self.bytes += line.len();
            self.take_field(name, value);
        }
        None
    }

    /// Forgets an unfinished block.
    pub(super) fn discard(&mut self) {
        self.bytes = 0;
        self.data = None;
        self.event.clear();
        self.id = None;
        self.retry_ms = None;
    }

    fn take_field(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"data" => self.push_data(value),
            b"event" => {
                self.event.clear();
                self.event.extend_from_slice(value);
            }
            b"id" if memchr(0, value).is_none() => self.id = Some(value.to_vec()),
            b"retry" => self.set_retry(value),
            _ => {}
        }
    }

    fn push_data(&mut self, value: &[u8]) {
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
    }

    fn set_retry(&mut self, value: &[u8]) {
        if let Some(milliseconds) = parse_digits(value) {
            self.retry_ms = Some(milliseconds);
            self.reconnection_ms = Some(milliseconds);
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        self.bytes = 0;
        if let Some(id) = self.id.take() {
            self.last_event_id = decode(id).into();
        }
        let retry_ms = self.retry_ms.take();
        let event = mem::take(&mut self.event);
        let data = decode(self.data.take()?);
        Some(Event {
            event: event_type(event),
            data,
            id: Arc::clone(&self.last_event_id),
            retry_ms,
        })
    }
}

/// Name and value of a line; a line without a colon is all name, a comment has an empty name.
fn split_field(line: &[u8]) -> (&[u8], &[u8]) {
    let Some(colon) = memchr(b':', line) else {
        return (line, b"");
    };
    let value = &line[colon + 1..];
    (&line[..colon], value.strip_prefix(b" ").unwrap_or(value))
}

fn event_type(name: Vec<u8>) -> Cow<'static, str> {
    if name.is_empty() {
        Cow::Borrowed("message")
    } else {
        Cow::Owned(decode(name))
    }
}

fn decode(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The number that ASCII digits alone stand for; one beyond 64 bits is no time to wait.
fn parse_digits(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}
