//! What happens to requests, in the cells of the metrics.
//!
//! Promises: a method names a fact and costs a few additions to cells that few threads share. The number of requests
//! is the sum over the methods, so that the two cannot disagree. Refuses: nothing here is computed from settings;
//! readings of the queue and the pool are taken at the source when somebody asks.

use std::time::Duration;

use crate::admission::{Refusals, ShedReason};
use crate::http::MethodKind;
use crate::pool::RecycleReason;
use crate::sync::histogram::Snapshot;
use crate::time::as_micros;

use super::cell::MetricCell;
use super::families::Metrics;
use super::label::{CancelReason, StatusClass, TlsHandshake};

/// What the request path does.
impl Metrics {
    /// A request's head was parsed; or it was answered although it could not be, as `MethodKind::Other`.
    #[inline]
    pub fn request_received(&self, method: MethodKind) {
        self.requests_by_method.incr(method);
    }

    /// Bytes of a request body arrived.
    #[inline]
    pub fn request_bytes_received(&self, bytes: u64) {
        self.request_bytes.add(bytes);
    }

    /// A request has ended: its last byte was written, or its client is gone (499). `body_bytes` went out on the
    /// wire; `duration` runs from the first byte of its head.
    #[inline]
    pub fn answered(&self, status: u16, body_bytes: u64, duration: Duration) {
        self.responses.incr(StatusClass::of(status));
        self.response_bytes.add(body_bytes);
        self.request_duration.record(as_micros(duration));
    }

    /// A request ended without its result; it is also [`answered`](Self::answered).
    pub fn cancelled(&self, reason: CancelReason) {
        self.cancelled.incr(reason);
    }

    /// A request was refused admission; it is also [`answered`](Self::answered).
    pub fn refused(&self, reason: ShedReason) {
        self.refused.incr(reason);
    }

    /// A refused request had waited out its whole budget while the pool started nothing at all.
    pub fn wait_wasted(&self) {
        self.wait_wasted.incr();
    }

    /// A worker failed after it had accepted a request.
    pub fn dropped(&self) {
        self.dropped.incr();
    }

    /// A client left while a worker ran its request, before the answer began.
    pub fn work_abandoned(&self) {
        self.abandoned.running.incr();
    }

    /// A worker took a request off the queue whose client had left, which was its answer; it may run all the same.
    pub fn departed_work_taken(&self) {
        self.abandoned.popped.incr();
    }

    /// A worker took a request off the queue that had waited for `waited`, and runs it.
    #[inline]
    pub fn queue_waited(&self, waited: Duration) {
        self.queue_wait.record(as_micros(waited));
    }

    /// A script ran for `duration`.
    #[inline]
    pub fn php_ran(&self, duration: Duration) {
        self.php_duration.record(as_micros(duration));
    }

    /// A persistent worker handled a request for `duration`.
    #[inline]
    pub fn worker_request_handled(&self, duration: Duration) {
        self.worker_request_duration.record(as_micros(duration));
    }

    /// A worker has ended because it was not needed.
    pub fn worker_retired(&self) {
        self.workers_retired.incr();
    }

    /// The loop of a persistent worker has ended, to be replaced.
    pub fn worker_recycled(&self, reason: RecycleReason) {
        self.workers_recycled.incr(reason);
    }

    /// A persistent worker reset its state between two requests.
    pub fn soft_reset(&self) {
        self.soft_resets.incr();
    }

    /// A connection was accepted and had to wait for its permit.
    pub fn accept_had_to_wait(&self) {
        self.accept_stalls.incr();
    }

    /// A stream was refused because all connections together carried as many as they may.
    pub fn stream_refused(&self) {
        self.streams_refused.incr();
    }

    /// A TLS handshake ended like this.
    pub fn tls_handshake(&self, outcome: TlsHandshake) {
        self.tls_handshakes.incr(outcome);
    }

    /// The rate limiter rejected a request.
    pub fn rate_limited(&self) {
        self.rate_limited.incr();
    }

    /// A request was blocked where no PHP may run.
    pub fn php_denied(&self) {
        self.php_denied.incr();
    }

    /// A request was denied by a rule of the document root.
    pub fn path_denied(&self) {
        self.path_denied.incr();
    }

    /// A request was denied because what it asked for is never meant to be public.
    pub fn builtin_denied(&self) {
        self.builtin_denied.incr();
    }

    /// A static file came from memory.
    pub fn static_hit(&self) {
        self.static_hits.incr();
    }

    /// A static file came from the disk.
    pub fn static_miss(&self) {
        self.static_misses.incr();
    }

    /// A response goes out in a content coding, with a body.
    #[inline]
    pub fn response_coded(&self) {
        self.responses_coded.incr();
    }

    /// A body of `before` bytes went out as `after` bytes. One that grew saved nothing: a counter does not go back.
    #[inline]
    pub fn coding_ended(&self, before: u64, after: u64) {
        self.coding_saved_bytes.add(before.saturating_sub(after));
    }
}

/// What was counted.
impl Metrics {
    /// Requests received.
    pub fn requests_total(&self) -> u64 {
        self.requests_by_method.total()
    }

    /// Requests received with `method`.
    pub fn requests_by(&self, method: MethodKind) -> u64 {
        self.requests_by_method.value(method)
    }

    /// Requests that ended with a status of `class`.
    pub fn responses_by(&self, class: StatusClass) -> u64 {
        self.responses.value(class)
    }

    /// Bytes of request bodies.
    pub fn request_bytes_total(&self) -> u64 {
        self.request_bytes.value()
    }

    /// Bytes of response bodies.
    pub fn response_bytes_total(&self) -> u64 {
        self.response_bytes.value()
    }

    /// How long requests took, in microseconds.
    pub fn request_duration(&self) -> Snapshot {
        self.request_duration.snapshot()
    }

    /// Requests that were cancelled for `reason`.
    pub fn cancelled_by(&self, reason: CancelReason) -> u64 {
        self.cancelled.value(reason)
    }

    /// Requests that were refused for `reason`.
    pub fn refused_by(&self, reason: ShedReason) -> u64 {
        self.refused.value(reason)
    }

    /// Requests that were refused, whatever the reason.
    pub fn refused_total(&self) -> u64 {
        self.refused.total()
    }

    /// Requests that were refused under overload, by reason.
    pub fn overload_refusals(&self) -> Refusals {
        Refusals {
            queue_full: self.refused_by(ShedReason::QueueFull),
            wait_timeout: self.refused_by(ShedReason::WaitTimeout),
            waiting_full: self.refused_by(ShedReason::WaitingFull),
            waiting_bytes: self.refused_by(ShedReason::WaitingBytes),
        }
    }

    /// Refusals after a wait in which the pool started nothing.
    pub fn wait_wasted_total(&self) -> u64 {
        self.wait_wasted.value()
    }

    /// Requests that a failing worker dropped.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.value()
    }

    /// Requests that a worker took off the queue whose client was gone before the answer.
    pub fn abandoned_total(&self) -> u64 {
        self.abandoned.read()
    }

    /// Requests that workers took off the queue and ran, or found answered 499. Read after
    /// [`abandoned_total`](Self::abandoned_total) it is never the smaller one.
    pub fn work_started_total(&self) -> u64 {
        self.abandoned.popped.value() + self.queue_wait.snapshot().count()
    }

    /// Requests that workers were done with, whether or not a client got the answer.
    pub fn work_finished_total(&self) -> u64 {
        self.php_duration.snapshot().count()
    }

    /// How long requests waited for a worker, in microseconds.
    pub fn queue_wait(&self) -> Snapshot {
        self.queue_wait.snapshot()
    }

    /// How long persistent workers took for requests, in microseconds.
    pub fn worker_request_duration(&self) -> Snapshot {
        self.worker_request_duration.snapshot()
    }

    /// Workers that have ended because they were not needed.
    pub fn workers_retired_total(&self) -> u64 {
        self.workers_retired.value()
    }

    /// Persistent workers that have ended for `reason`.
    pub fn workers_recycled_by(&self, reason: RecycleReason) -> u64 {
        self.workers_recycled.value(reason)
    }

    /// Resets of persistent workers between two requests.
    pub fn soft_resets_total(&self) -> u64 {
        self.soft_resets.value()
    }

    /// Connections that had to wait for a permit.
    pub fn accept_stalls_total(&self) -> u64 {
        self.accept_stalls.value()
    }

    /// Streams that were refused because all connections together carried as many as they may.
    pub fn streams_refused_total(&self) -> u64 {
        self.streams_refused.value()
    }

    /// Requests that the rate limiter rejected.
    pub fn rate_limited_total(&self) -> u64 {
        self.rate_limited.value()
    }

    /// Requests that were blocked where no PHP may run.
    pub fn php_denied_total(&self) -> u64 {
        self.php_denied.value()
    }

    /// Requests that a rule of the document root denied.
    pub fn path_denied_total(&self) -> u64 {
        self.path_denied.value()
    }

    /// Static files served from the disk.
    pub fn static_misses_total(&self) -> u64 {
        self.static_misses.value()
    }
}
