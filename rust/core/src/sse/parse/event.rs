//! What a stream of events is made of.

use std::borrow::Cow;
use std::sync::Arc;

/// One dispatched event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The event type; `message` unless the stream named another.
    pub event: Cow<'static, str>,
    /// The data lines, joined by line feeds.
    pub data: String,
    /// The last event id of the stream so far; empty if there is none.
    pub id: Arc<str>,
    /// The reconnection time that came with this event, in milliseconds.
    pub retry_ms: Option<u64>,
}
