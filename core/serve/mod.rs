//! The server: threads, sockets, and the straight line of a request through them. Only this folder names mio.
//!
//! Promises: nothing that serves clients waits for anything but its poller: disks belong to the file threads, PHP to
//! the pool, pipes to the log thread. Refuses: no rule of HTTP, admission or observation lives here; those folders
//! decide, this one moves bytes and keeps the books.
//!
//! | file | noun |
//! |---|---|
//! | `server` | all threads, from first to last |
//! | `shared` | what every thread can reach |
//! | `lifecycle` | where the server is in its life |
//! | `drain` | the steps of the way down |
//! | `reload` | what is read anew on demand |
//! | `accept` | the accepting thread |
//! | `reactor`, `io` | an io thread and its tools |
//! | `inbox`, `timers` | its messages and its deadlines |
//! | `transport`, `tls_stream`, `wire` | the way to one client |
//! | `link` | one client connection |
//! | `http1`, `http2` | its protocols |
//! | `http2_stream`, `ready`, `conduit` | what HTTP/2 needs: one stream, who has something to do, bytes in memory |
//! | `stream` | one request on a connection |
//! | `dispatch`, `respond`, `books` | its steps: what answers, reply out, who is told what of its end |
//! | `turn` | what the books need to know of it |
//! | `intake`, `reply`, `output` | a request body, a reply, the bytes that wait |
//! | `answer` | what the server answers by itself |
//! | `site` | where a path leads |
//! | `disk`, `file_job` | the file threads and their work |
//! | `warmth` | what of a file the system has in memory |
//! | `pool_events` | what workers report |
//! | `keeper` | how many workers there are, and what becomes of those that fail |
//! | `supervision`, `thread_state` | which workers are held up, and by what |
//! | `request_id` | the names of requests |
//! | `visitor` | who makes a request, and what it is told about itself |
//! | `scan` | what is looked at once a second |
//! | `control` | the control thread: the tick and the operations port |
//! | `ops_port`, `ops_link`, `ops_facts` | the answers of the operations port |
//! | `ops_reserve` | the descriptors that it holds back |

mod accept;
mod admit;
mod answer;
mod arrival;
mod books;
mod conduit;
mod control;
mod disk;
mod dispatch;
mod drain;
mod ending;
mod endpoints;
mod file_job;
#[cfg(test)]
mod fixture;
mod http1;
mod http2;
mod http2_stream;
mod inbox;
mod indispensable;
mod intake;
mod io;
mod keeper;
mod lifecycle;
mod link;
mod machinery;
mod ops_facts;
mod ops_link;
pub mod ops_port;
mod ops_reserve;
mod output;
mod pool_events;
mod reactor;
mod ready;
mod reload;
mod reply;
mod request_id;
mod respond;
mod scan;
mod server;
mod shared;
mod site;
mod source;
mod step;
mod stream;
mod supervision;
mod thread_state;
mod timers;
mod tls_stream;
mod transport;
mod turn;
mod visitor;
mod warmth;
mod wire;

pub use lifecycle::{Lifecycle, Phase};
pub use server::{Server, StartError};
pub use shared::Shared;
