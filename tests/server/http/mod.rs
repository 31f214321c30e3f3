//! HTTP/1.1, HTTP/2 and TLS on the main port.

mod codings;
mod conformance;
mod http2;
mod listeners;
mod memory;
mod redirect;
mod responses;
mod spool;
mod tls;
mod tls_certificates;
mod turns;
