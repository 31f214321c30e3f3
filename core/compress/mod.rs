//! Response compression: whether a response is compressed, and the compression itself.
//!
//! Promises: a response that must not be compressed is left alone. A response that could be compressed for another
//! client says so in `Vary`, whether it is compressed or not. An encoder outputs everything it has when it is flushed,
//! and its memory is bounded regardless of the length of the body. Refuses: it handles no exchanges and no files, and
//! it counts nothing.
//!
//! | file | noun |
//! |---|---|
//! | `levels` | the compression levels, and which codings are enabled |
//! | `media` | compressible media types |
//! | `verdict` | what happens to a response |
//! | `encoder` | the compression of one body |
//! | `stock` | the encoders that a thread keeps |
//! | `whole` | a copy that is compressed once and sent many times |

pub mod encoder;
pub mod encoder_pool;
pub mod levels;
pub mod media;
#[cfg(test)]
mod samples;
pub mod verdict;
pub mod whole;

pub use encoder::{Encoder, EncoderFailed};
pub use encoder_pool::EncoderPool;
pub use levels::{Levels, Offer};
pub use media::is_compressible;
pub use verdict::{Subject, Verdict, judge};
pub use whole::encode_whole;
