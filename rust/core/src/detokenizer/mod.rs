//! From token ids to text, one step at a time: whole UTF-8 scalars only, stop strings never shown.

mod decoder;
mod emitter;
mod error;
mod stop;
mod utf8;
mod vocabulary;

pub use decoder::Detokenizer;
pub use emitter::Emitter;
pub use error::DetokenizerError;
pub use stop::StopStrings;
pub use utf8::Utf8Decoder;
pub use vocabulary::Vocabulary;
