//! HTTP/1.1 as bytes in and bytes out: heads, bodies, response heads, dates, negotiation, paths.
//!
//! Promises: one reading of a message and no other. Whatever two parsers could read differently (two lengths, a
//! length beside a transfer coding, bare CR or LF, space before a colon, folded lines) is refused, so nothing can be
//! smuggled past a server in front of this one. Input may arrive in any pieces: the result is the same, and slow
//! drips cost linear work.
//!
//! Refuses: it knows no socket and no clock, and it never panics on what comes from outside.
//!
//! | file | in | out |
//! |---|---|---|
//! | [`parse`] | bytes of a connection | [`Head`], [`BodyFraming`] or a [`HeadError`] |
//! | [`request_line`] | the start of what is no good head | method and path, for records |
//! | [`preface`] | the first bytes of a connection | whether it speaks HTTP/2 |
//! | [`pseudo`] | a method, a target, an authority and fields of HTTP/2 | the same |
//! | [`frame_watch`] | what a client sends on a connection of HTTP/2 | where its frames end and what they are worth |
//! | [`answer_watch`] | what is sent there, and how much has gone out | how far each stream's response has come |
//! | [`body`] | bytes after the head | body bytes or a [`BodyError`] |
//! | [`encode`] | status, [`Fields`], framing | bytes of a response |
//! | [`uri`] | raw path | normalised path |
//! | [`coding`] | `Accept-Encoding`, the codings on offer | a [`Choice`] |
//! | [`forwarded`] | `Forwarded`, `X-Forwarded-*` | what each proxy says |
//! | [`trace_context`] | `traceparent`, `tracestate` | the trace that goes on |
//! | [`negotiate`] | `Accept`, `Accept-Encoding` | what to answer with |
//! | [`date`] | wall-clock time | IMF-fixdate |
//! | [`range`] | `Range`, a length | the parts to send |

pub mod answer_watch;
pub mod body;
pub mod coding;
pub mod date;
pub mod encode;
pub mod fields;
pub mod forwarded;
mod frame_heads;
pub mod frame_watch;
pub mod framing;
pub mod head;
pub mod head_error;
pub mod method;
pub mod negotiate;
pub mod parse;
pub mod preface;
pub mod pseudo;
mod quality;
pub mod range;
pub mod request_line;
pub mod status;
mod target;
pub mod token;
pub mod trace_context;
pub mod uri;

pub use self::answer_watch::{AnswerWatch, Departed, FirstWord};
pub use self::body::{BodyDecoder, BodyError, Progress};
pub use self::coding::{Choice, Coding, choose};
pub use self::date::DateCache;
pub use self::encode::{Framing, Persistence, ResponseHead};
pub use self::fields::{Fields, InvalidField};
pub use self::frame_watch::FrameWatch;
pub use self::framing::BodyFraming;
pub use self::head::{Head, Version};
pub use self::head_error::HeadError;
pub use self::method::MethodKind;
pub use self::parse::{HeadLimits, HeadReader, Parsed};
pub use self::request_line::RequestLine;
pub use self::trace_context::Trace;
pub use self::uri::{Normalised, UriError};
