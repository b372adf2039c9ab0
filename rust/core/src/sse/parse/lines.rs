//! Bytes to lines: ended by CR, LF or CRLF and by nothing else.

use std::mem;

use memchr::memchr2;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Holds what has come of the current line.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    /// `line` has been given out and is to be emptied.
    given: bool,
    /// The latest line ended in a CR, whose LF may come with the next bytes.
    after_carriage_return: bool,
    /// A byte-order mark is no longer possible.
    started: bool,
}

impl Lines {
    /// The next whole line of what is held and `rest`, which is shortened by what was used.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, rest: &mut &'b [u8]) -> Option<&'a [u8]> {
        if mem::take(&mut self.given) {
            self.line.clear();
        }
        self.skip_line_feed(rest);
        let Some(end) = memchr2(b'\r', b'\n', rest) else {
            self.line.extend_from_slice(mem::take(rest));
            return None;
        };
        let (tail, after) = rest.split_at(end);
        self.after_carriage_return = after[0] == b'\r';
        *rest = &after[1..];
        let first = !mem::replace(&mut self.started, true);
        let line = self.complete(tail);
        Some(if first { without_mark(line) } else { line })
    }

    /// What has come of the line that is not ended yet.
    pub(super) fn held(&self) -> &[u8] {
        if self.started {
            return &self.line;
        }
        if BYTE_ORDER_MARK.starts_with(&self.line) {
            return &[];
        }
        without_mark(&self.line)
    }

    fn complete<'a>(&'a mut self, tail: &'a [u8]) -> &'a [u8] {
        if self.line.is_empty() {
            return tail;
        }
        self.given = true;
        self.line.extend_from_slice(tail);
        &self.line
    }

    fn skip_line_feed(&mut self, rest: &mut &[u8]) {
        if let Some((&byte, after)) = rest.split_first()
            && mem::take(&mut self.after_carriage_return)
            && byte == b'\n'
        {
            *rest = after;
        }
    }
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}
