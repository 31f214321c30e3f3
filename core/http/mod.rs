//! HTTP/1 and the fields of HTTP/2, as bytes in and bytes out: request headers, bodies, response headers, dates,
//! content negotiation, paths.
//!
//! A message has exactly one interpretation. Anything that two parsers could interpret differently (two lengths, a
//! length together with a transfer coding, bare CR or LF, space before a colon, folded lines) is rejected, so that no
//! request can be smuggled past a server in front of this one. Input may arrive in pieces of any size: the result is
//! the same, and the work is linear in the number of bytes. There is no socket and no clock, and no input from the
//! network causes a panic.
//!
//! | file | in | out |
//! |---|---|---|
//! | `token`, `quality` | the value of a field | tokens, members of lists, weights |
//! | `head`, `method`, `target`, `framing` | parts of a request header | the types that `parse` returns |
//! | `head_error`, `status` | an invalid request header; a code | its status code; the reason phrase |
//! | `fields` | lines of a response header | [`Fields`] |
//! | `head_reader` | bytes of a connection | the bytes of a request header |
//! | `parse` | the bytes of a request header | [`Head`], [`BodyFraming`] or a [`HeadError`] |
//! | `request_line` | the start of an invalid request header | method and path, for the access log |
//! | [`preface`] | the first bytes of a connection | whether it uses HTTP/2 |
//! | [`pseudo`] | a method, a target, an authority and fields of HTTP/2 | the same |
//! | `frame_faults` | the frames before a connection error of HTTP/2 | its error code |
//! | `frame_heads` | bytes of an HTTP/2 connection | the headers of its frames |
//! | `frame_watch` | bytes that a client sends on an HTTP/2 connection | where its frames end, and whether it abuses them |
//! | `response_watch` | bytes sent on an HTTP/2 connection, and how many the socket accepted | how much of each stream's response was sent |
//! | `body` | bytes after the request header | body bytes or a [`BodyError`] |
//! | [`encode`] | status, [`Fields`], framing | bytes of a response |
//! | [`uri`] | raw path | normalised path |
//! | `coding` | `Accept-Encoding`, the available content codings | a [`Choice`] |
//! | [`forwarded`] | `Forwarded`, `X-Forwarded-*` | the report of each proxy |
//! | `trace_context` | `traceparent`, `tracestate` | the trace that the request joins or starts |
//! | [`negotiate`] | `Accept` and `Accept-Encoding` of a collector | the format of the metrics, and whether to compress them |
//! | `date` | wall-clock time | IMF-fixdate |
//! | `named_file` | fields of a script's response | the file to send instead of its body |
//! | `https_location` | a request over plain HTTP | its URI over HTTPS |
//! | `ip_text` | an address | its text |
//! | [`range`] | `Range`, a length | the parts to send |

mod body;
mod coding;
mod date;
pub mod encode;
mod fields;
pub mod forwarded;
mod frame_faults;
mod frame_heads;
mod frame_watch;
mod framing;
mod head;
mod head_error;
mod head_reader;
mod https_location;
mod ip_text;
mod method;
mod named_file;
pub mod negotiate;
mod parse;
pub mod preface;
pub mod pseudo;
mod quality;
pub mod range;
mod request_line;
mod response_watch;
pub mod status;
mod target;
pub mod token;
mod trace_context;
pub mod uri;

pub use self::body::{BodyDecoder, BodyError, BodyProgress};
pub use self::coding::{Choice, Coding, choose};
pub use self::date::{DateCache, imf_fixdate, parse_date};
pub use self::fields::{Fields, InvalidField};
pub use self::frame_faults::ConnectionFault;
pub use self::frame_watch::FrameWatch;
pub use self::framing::BodyFraming;
pub use self::head::{Head, Version, is_cgi_safe_name};
pub use self::head_error::HeadError;
pub use self::head_reader::{HeadReader, parse};
pub use self::https_location::{CoveredNames, https_location};
pub use self::ip_text::ip_text;
pub use self::method::{MethodKind, wants_head_only};
pub use self::named_file::{NamedFile, asks_for_named_files};
pub use self::parse::{HeadLimits, Parsed};
pub use self::request_line::RequestLine;
pub use self::response_watch::{ResponseWatch, SentPart, StreamFrame};
pub use self::trace_context::{FreshIds, Trace, Traceparent};
