//! The exporter: the thread that sends finished spans to the collector.
//!
//! | file | noun |
//! |---|---|
//! | `exporter` | the thread, and its end |
//! | `otlp_client` | one batch after another: attempts, deadlines |
//! | `connection` | a connection to the collector: socket, TLS, protocol |
//! | `resource` | the source of the spans |

pub(crate) mod connection;
pub(crate) mod exporter;
pub(crate) mod otlp_client;
pub(crate) mod resource;
