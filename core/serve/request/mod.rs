//! One request, from its head to its place in the books, whatever the protocol.
//!
//! | file | noun |
//! |---|---|
//! | `meta` | what is known of the request |
//! | `start`, `dispatch`, `respond`, `books` | its steps: who asks, what answers, the head of the response, its end |
//! | `ending` | what it ends as |
//! | `client_context`, `endpoints` | who asks; the two ends of the connection |
//! | `answer` | what the server answers by itself |

pub(in crate::serve) mod answer;
pub(in crate::serve) mod books;
pub(in crate::serve) mod client_context;
pub(in crate::serve) mod dispatch;
pub(in crate::serve) mod ending;
pub(in crate::serve) mod endpoints;
pub(in crate::serve) mod meta;
pub(in crate::serve) mod respond;
pub(in crate::serve) mod start;
