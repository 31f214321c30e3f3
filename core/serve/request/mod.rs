//! One request, from its head to its place in the books, whatever the protocol.
//!
//! | file | noun |
//! |---|---|
//! | `stream` | the request and its phases |
//! | `dispatch`, `respond`, `books` | its steps: what answers, reply out, who is told what of its end |
//! | `ending` | what it ends as |
//! | `meta`, `client_context`, `endpoints` | what the books need to know of it; who asks; the two ends of the connection |
//! | `body_reader` | its body |
//! | `reply`, `answer` | what is sent; what the server answers by itself |

pub(in crate::serve) mod answer;
pub(in crate::serve) mod body_reader;
pub(in crate::serve) mod books;
pub(in crate::serve) mod client_context;
pub(in crate::serve) mod dispatch;
pub(in crate::serve) mod ending;
pub(in crate::serve) mod endpoints;
pub(in crate::serve) mod meta;
pub(in crate::serve) mod reply;
pub(in crate::serve) mod respond;
pub(in crate::serve) mod stream;
