//! The token path of Millstream, without Python: every part is usable and testable alone.

pub mod attention;
pub mod clock;
pub mod decoder;
pub mod detokenizer;
#[cfg(not(loom))]
pub mod jwt;
pub mod limiter;
pub mod log;
pub mod record;
pub mod ring;
pub mod sse;
