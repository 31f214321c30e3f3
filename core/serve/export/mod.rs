//! The exporter: the thread that sends finished spans to the collector.
//!
//! | file | noun |
//! |---|---|
//! | `exporter` | the thread, and its end |
//! | `otlp_client` | one batch after another: attempts, deadlines |
//! | `connection` | a connection to the collector: socket, TLS, protocol |
//! | `resource` | the source of the spans |

pub(in crate::serve) mod connection;
pub(in crate::serve) mod exporter;
pub(in crate::serve) mod otlp_client;
pub(in crate::serve) mod resource;
