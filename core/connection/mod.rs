//! A connection without its socket: bytes, time and answers in, commands and bytes out.
//!
//! Promises: a [`Connection`] owns no socket, no clock, no thread and no counter. Its owner feeds it
//! ([`receive`](Connection::receive), [`decide`](Connection::decide), [`handle_timeout`](Connection::handle_timeout)),
//! asks it what to do next ([`poll_command`](Connection::poll_command)), and writes what waits in its output. Requests
//! on HTTP/1 are answered one after the other and in order, those on HTTP/2 as their replies come. Each request that
//! [began](Connection::begin) ends in exactly one [`Command::Ended`], whatever becomes of the connection. What a peer
//! can make it keep is bounded, and while an HTTP/1 connection is idle, it holds no buffers: connections of one thread share
//! those.
//!
//! Refuses: it does not know what a request means, who may ask, or who answers. The owner decides that, request by
//! request, and keeps what it knows of a request in a value `R` that the connection carries and never looks at.
//!
//! | file | noun |
//! |---|---|
//! | `machine` | a connection, whatever it speaks |
//! | `command` | what it asks of its owner, and what its owner decides |
//! | `http1`, `http2` | the protocols |
//! | `buffers` | the bytes of an HTTP/1 connection |
//! | `lingering` | the end of a connection whose peer may still be sending |
//! | `stream`, `turn` | one request, and how its protocol carries it |
//! | `body_reader`, `reply` | a request's body on its way in, a reply on its way out |
//! | `output`, `source` | bytes that wait to be written, and where the bytes of a reply are |
//! | `http2_head`, `http2_stream`, `http2_streams` | what HTTP/2 needs: a head, a stream, all of them |
//! | `draining_stream` | a stream that was answered while its client was still sending |
//! | `spares` | buffers, for whichever connection of a thread has something on its way |
//! | `ready`, `duplex` | who of them has something to do; the library's bytes |
//! | `timers` | deadlines, sorted |

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
mod http2_uploads;
mod lingering;
mod machine;
mod output;
mod ready;
mod reply;
mod source;
mod spares;
mod stream;
mod timers;
mod turn;
mod upload_window;

pub use command::{
    Announced, Ask, Command, ConnectionTerms, Decision, Ended, Grant, Incoming, Peer, Rejected, Rejection,
    Sent, Unreadable, WireProtocol,
};
pub use machine::Connection;
pub use output::{Front, Output};
pub use reply::Reply;
pub use source::Source;
pub use timers::{Armed, Timers};
