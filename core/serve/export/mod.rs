//! The exporters: the threads that send finished spans, metrics and log records to the collector.
//!
//! | file | noun |
//! |---|---|
//! | `otlp_client` | one batch after another: attempts, deadlines |
//! | `connection` | a connection to the collector: socket, TLS, protocol |
//! | `resource` | the source of the items |
//! | `results` | the counts and log records about exports |
//! | `exporter` | a thread that exports one signal, and its end |
//! | `queue_exporter` | the exporters of spans and log records |
//! | `metric_exporter` | the exporter of metrics |
//! | `exporters` | all of them |

pub(in crate::serve) mod connection;
pub(in crate::serve) mod exporter;
pub(in crate::serve) mod exporters;
pub(in crate::serve) mod metric_exporter;
pub(in crate::serve) mod otlp_client;
pub(in crate::serve) mod queue_exporter;
pub(in crate::serve) mod resource;
pub(in crate::serve) mod results;
