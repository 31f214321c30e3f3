//! Background tasks: `Svc\async()` and the classes of `Svc\Async`.

mod api;
mod awaiting;
mod bounds;
mod cancel;
mod circles;
mod docs;
mod failures;
mod files;
mod functions;
mod isolation;
mod life;
mod loss;
mod memory;
mod metrics;
mod nested;
mod opcache;
mod places;
mod renewal;
mod request_end;
mod sessions;
mod shapes;
mod transfer;
mod values;
