//! How a response ends: the last event and what its response says.

use super::shapes::{self, Event};
use crate::sse::json::push_string;
use crate::sse::scan;

/// The shape of the last event for one outcome.
pub(super) struct Ending<'a> {
    outcome: &'a str,
    pub(super) event: &'static Event,
    pub(super) status: &'static str,
    pub(super) item_status: &'static str,
}

impl<'a> Ending<'a> {
    /// OpenAI's clients know no event for a cancelled response, but its status.
    pub(super) fn of(outcome: &'a str) -> Self {
        let (event, status) = match outcome {
            "completed" => (&shapes::COMPLETED, "completed"),
            "length" => (&shapes::INCOMPLETE, "incomplete"),
            "cancelled" | "client_gone" => (&shapes::INCOMPLETE, "cancelled"),
            _ => (&shapes::FAILED, "failed"),
        };
        Self {
            outcome,
            event,
            status,
            item_status: if status == "completed" {
                status
            } else {
                "incomplete"
            },
        }
    }

    /// Appends `,"error":…`; `error` is the text of the error record, if there was one.
    pub(super) fn push_error(&self, error: Option<&str>, out: &mut Vec<u8>) {
        if self.status != "failed" {
            out.extend_from_slice(b",\"error\":null");
            return;
        }
        out.extend_from_slice(b",\"error\":{\"code\":");
        push_string(error_code(error), out);
        match error {
            Some(json) => shapes::push_error_member(json, "message", out),
            None => {
                out.extend_from_slice(b",\"message\":");
                let message = format!("The response ended early: {}.", self.outcome);
                push_string(&message, out);
            }
        }
        out.push(b'}');
    }

    /// Appends `,"incomplete_details":…`.
    pub(super) fn push_incomplete_details(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.status == "incomplete" {
            b",\"incomplete_details\":{\"reason\":\"max_output_tokens\"}".as_slice()
        } else {
            b",\"incomplete_details\":null"
        });
    }
}

/// The code of a response's error is one of OpenAI's own words.
fn error_code(error: Option<&str>) -> &'static str {
    match error.and_then(|json| scan::string(json, "type")) {
        Some("\"invalid_request_error\"") => "invalid_prompt",
        _ => "server_error",
    }
}

/// The status of the message after this finish reason.
pub(super) fn item_status(finish_reason: &str) -> &'static str {
    match finish_reason {
        "length" | "content_filter" => "incomplete",
        _ => "completed",
    }
}
