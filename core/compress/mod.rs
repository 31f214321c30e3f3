//! Content codings at work: whether a response is coded, and the coding itself.
//!
//! Promises: what must not be coded is left alone, and a response that another client might get coded says so in
//! `Vary`, coded or not. An encoder gives out all it has when it is flushed, and what it holds is bounded, whatever
//! passes through it. Refuses: it knows no exchange and no file, and it counts nothing.
//!
//! | file | noun |
//! |---|---|
//! | `levels` | how hard each coding tries, and which are on offer |
//! | `media` | types whose bodies shrink |
//! | `verdict` | what becomes of one response |
//! | `encoder` | one body on its way into a coding |
//! | `stock` | what a thread keeps of its encoders |
//! | `whole` | a copy that is made once and sent many times |

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
