//! A connection without its socket: bytes, time and decisions in, commands and bytes out.
//!
//! A [`Connection`] owns no socket, clock, thread or counter. Its owner passes it [inputs](Input), polls the next action
//! ([`poll_command`](Connection::poll_command)), handles each request ([`stream`](Connection::stream)), and writes the
//! pending output. HTTP/1 requests are answered one after the other, in order; HTTP/2 requests as their responses arrive.
//! Each request that [began](Connection::begin) ends in exactly one [`Command::Ended`], whatever happens to the
//! connection. The memory that a peer can occupy is bounded, and an idle HTTP/1 connection holds no buffers: the
//! connections of a thread share them.
//!
//! Routing, access control and the choice of a responder are up to the owner, for each request. The owner keeps its
//! data of a request in a value `R`, which the connection carries but never inspects.
//!
//! | file | content |
//! |---|---|
//! | `machine` | a connection of either protocol |
//! | `command` | the inputs and commands of a connection, and the owner's decisions |
//! | `http1`, `http2` | the protocols |
//! | `buffers` | the input and output of an HTTP/1 connection |
//! | `lingering` | the end of a connection whose peer may still be sending |
//! | `stream`, `body_reader`, `response` | one request, its body, and the response to it |
//! | `output`, `source` | pending output, and where the bytes of a response are |
//! | `http2_head`, `http2_stream`, `http2_streams` | the parts of HTTP/2: a head, a stream, all streams |
//! | `http2_transfer` | the bytes of an HTTP/2 stream in both directions |
//! | `http2_uploads`, `upload_window` | the receive windows of HTTP/2 |
//! | `draining_stream` | a stream that was answered while its client was still sending |
//! | `spares` | buffers shared by the connections of a thread |
//! | `ready`, `duplex` | the woken streams; the library's transport |
//! | `timers` | deadlines, by name and sorted |
//!
//! # The owner of a connection
//!
//! The main port (`serve/connection/client_connection.rs`) and the operations port (`serve/ops/connection.rs`)
//! each own connections:
//!
//! ```text
//! socket ──Bytes, End───▶ handle ─┐                        ┌─▶ Read, Transmit, ShutDown, Close   the owner's socket
//! clock ──Timeout, Turn─▶ handle ─┼─▶ machine ─▶ command ──┼─▶ Request, Offer, Slice, Spool…     the owner's pool and disks
//! owner ──Decision──────▶ stream ─┘                        └─▶ Ended                             the owner's records
//! ```
//!
//! The owner carries out each command before it polls the next. A request begins when the owner accepts it from
//! [`Command::Request`], and is a [`Stream`] from then on. Since the machine reads no clock, counts nothing and does not
//! know scripts, whole connections can be simulated and fuzzed.
//!
//! A connection is *at rest* while no request, byte or message of it is under way.

mod body_reader;
mod buffers;
mod command;
mod draining_stream;
mod duplex;
#[cfg(test)]
mod harness;
mod http1;
mod http2;
mod http2_head;
mod http2_stream;
mod http2_streams;
mod http2_transfer;
mod http2_uploads;
mod lingering;
mod machine;
mod output;
mod ready;
mod response;
mod source;
mod spares;
mod stream;
mod timers;
mod upload_window;

pub use command::{
    Announced, Ask, Command, ConnectionTerms, Decision, Ended, Grant, Incoming, Input, Peer, Rejected,
    Rejection, Sent, Unreadable, WireProtocol,
};
pub use machine::Connection;
pub use output::{Front, Output};
pub use response::Response;
pub use source::Source;
pub use stream::Stream;
pub use timers::{Armed, Deadlines};
