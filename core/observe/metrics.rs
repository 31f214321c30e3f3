//! Events that touch several cells of the metrics, or need a conversion of units.
//!
//! A method counts one event, and costs a few additions to cells that few threads share. An event that concerns a
//! single cell has no method; code counts in the cell.

use std::time::Duration;

use crate::admission::{Refusals, ShedReason};
use crate::time::as_micros;

use super::cell::MetricCell;
use super::families::Metrics;
use super::label::StatusClass;

/// Events of requests.
impl Metrics {
    /// Counts a request that has ended: its last byte was written, or its client has disconnected (499). `body_bytes`
    /// were sent; `duration` begins with the first byte of its header.
    #[inline]
    pub fn answered(&self, status: u16, body_bytes: u64, duration: Duration) {
        self.responses.incr(StatusClass::of(status));
        self.response_bytes.add(body_bytes);
        self.request_duration.record(as_micros(duration));
    }

    /// Records the duration of a request that was answered, neither refused nor left by its client.
    #[inline]
    pub fn served(&self, duration: Duration) {
        self.served_duration.record(as_micros(duration));
    }

    /// Counts a client that disconnected while a worker ran its request, before the response began.
    pub fn work_abandoned(&self) {
        self.abandoned.running.incr();
    }

    /// Counts a request that a worker took off the queue after it was answered because its client had disconnected; it
    /// may run nevertheless.
    pub fn departed_work_taken(&self) {
        self.abandoned.popped.incr();
    }

    /// Records the wait of a request that a worker took off the queue and runs.
    #[inline]
    pub fn queue_waited(&self, waited: Duration) {
        self.queue_wait.record(as_micros(waited));
    }

    /// Records the time that a request waited for its turn to use a connection, including waits that it gave up.
    pub fn connection_waited(&self, waited: Duration) {
        self.connection_wait.record(as_micros(waited));
    }

    /// Records the run time of a script.
    #[inline]
    pub fn php_ran(&self, duration: Duration) {
        self.php_duration.record(as_micros(duration));
    }

    /// Records the time that a persistent worker took for a request.
    #[inline]
    pub fn worker_request_handled(&self, duration: Duration) {
        self.worker_request_duration.record(as_micros(duration));
    }

    /// Counts a body of `before` bytes that was sent as `after` bytes. A body that grew saved nothing: a counter does
    /// not decrease.
    #[inline]
    pub fn coding_ended(&self, before: u64, after: u64) {
        self.coding_saved_bytes.add(before.saturating_sub(after));
    }
}

/// Sums over counts.
impl Metrics {
    /// Returns the requests that were refused under overload, by reason.
    pub fn overload_refusals(&self) -> Refusals {
        Refusals {
            queue_full: self.refused.value(ShedReason::QueueFull),
            wait_timeout: self.refused.value(ShedReason::WaitTimeout),
            waiting_full: self.refused.value(ShedReason::WaitingFull),
            waiting_bytes: self.refused.value(ShedReason::WaitingBytes),
        }
    }

    /// Returns the number of requests that a worker took off the queue and whose client had disconnected before the
    /// response began.
    pub fn abandoned_total(&self) -> u64 {
        self.abandoned.read()
    }

    /// Returns the number of requests that workers took off the queue and ran, or found answered with 499. Read after
    /// [`abandoned_total`](Self::abandoned_total), it is never the smaller number.
    pub fn work_started_total(&self) -> u64 {
        self.abandoned.popped.value() + self.queue_wait.snapshot().count()
    }

    /// Returns the number of requests that workers have finished, whether or not a client received the response.
    pub fn work_finished_total(&self) -> u64 {
        self.php_duration.snapshot().count()
    }
}
