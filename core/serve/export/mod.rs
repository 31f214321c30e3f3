//! The exporter: the thread that sends finished spans to the collector.
//!
//! | file | noun |
//! |---|---|
//! | `exporter` | the thread, and its end |
//! | `courier` | one batch after another: attempts, deadlines |
//! | `link` | a connection to the collector: socket, TLS, protocol |
//! | `resource` | the source of the spans |

pub(in crate::serve) mod courier;
pub(in crate::serve) mod exporter;
pub(in crate::serve) mod link;
pub(in crate::serve) mod resource;
