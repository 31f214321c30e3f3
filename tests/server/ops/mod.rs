//! The operations port, the log and the alerts.

pub(crate) mod alerts;
mod alerts_cache;
mod alerts_clients;
mod alerts_php;
mod alerts_servers;
mod board;
mod board_queries;
mod caches;
mod log;
pub(crate) mod page;
mod page_scenes;
mod php_errors;
mod port;
pub(crate) mod status;
