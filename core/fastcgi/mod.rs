//! The client side of FastCGI 1.0, without sockets: requests become records, and records become events.
//!
//! A [`Connection`] carries one request at a time, because PHP does not multiplex. Received lengths are checked, and its
//! buffers are bounded: eight bytes of a record header, eight of an END_REQUEST, and the header of a response up to
//! [`FASTCGI_HEAD_BYTES_MAX`](crate::limits::FASTCGI_HEAD_BYTES_MAX). It reads no clock, owns no socket and knows no PHP.
//!
//! | file | noun |
//! |---|---|
//! | `balancer` | which of several responders gets a request |
//! | `connection` | the machine: one request after another |
//! | `fault` | the reasons to close a connection |
//! | `parameters` | the name-value pairs of a request, as records |
//! | `record` | the header of a record, and the stream of records |
//! | `response_head` | the header of a CGI response |

mod balancer;
mod connection;
mod fault;
mod parameters;
mod record;
mod response_head;

pub use balancer::Balancer;
pub use connection::{Connection, Event, probe};
pub use fault::{Fault, Refusal};
pub use record::{RECORD_CONTENT_MAX, RecordHeader, RecordPiece, RecordReader, RecordType};
pub use response_head::ResponseHead;
