//! Traces, metrics and log records, and their export.

mod collector;
mod exceptions;
mod jaeger;
mod php;
mod requests;
mod routes;
mod telemetry;
