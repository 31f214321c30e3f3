//! Response compression: the decision, and the compression itself.
//!
//! A response that must not be compressed is left alone. A response that could be compressed for another client has a
//! `Vary`, whether it is compressed or not. An encoder outputs everything it has when it is flushed, and its memory is
//! bounded regardless of the length of the body. Exchanges and files are handled elsewhere, and no metric is counted
//! here.
//!
//! | file | noun |
//! |---|---|
//! | `levels` | the compression levels, and which codings are enabled |
//! | `media` | compressible media types |
//! | `decision` | the coding decision for a response |
//! | `encoder` | the compression of one body |
//! | `encoder_pool` | the encoders that a thread keeps |
//! | `whole` | a copy that is compressed once and sent many times |

mod decision;
mod encoder;
mod encoder_pool;
mod levels;
mod media;
#[cfg(test)]
mod samples;
mod whole;

pub use decision::{CodingDecision, UncodedResponse, decide};
pub use encoder::{Encoder, EncoderFailed};
pub use encoder_pool::EncoderPool;
pub use levels::{Levels, OfferedCodings};
pub use media::is_compressible;
pub use whole::encode_whole;
