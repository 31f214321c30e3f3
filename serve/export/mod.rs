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

pub(crate) mod connection;
pub(crate) mod exporter;
pub(crate) mod exporters;
pub(crate) mod metric_exporter;
pub(crate) mod otlp_client;
pub(crate) mod queue_exporter;
pub(crate) mod resource;
pub(crate) mod results;
