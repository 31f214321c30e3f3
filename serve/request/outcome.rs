//! How a request ends, and the counts of each outcome.
//!
//! A request ends once: when the head of its response is sent, or when the request is given up before that. The first of
//! these events decides, and later ones change nothing: once its head is sent, a request counts as answered, even if its
//! client, its time limit, the drain or the loss of its worker breaks the response off.
//!
//! ```text
//!   Open ──head is sent───▶ Answered   by a script, from a file, by the server
//!    │                      Refused    in front of the pool     refused, and wasted if so
//!    │                      TimedOut   504 of its time limit    cancelled: timeout
//!    │                      CutOff     503 of the drain         cancelled: shutdown
//!    │                      Dropped    500: its worker failed   dropped
//!    └────given up────────▶ Left       499: the client left     cancelled: client_abort, and abandoned if it was taken
//!                           CutOff     503, never sent
//! ```
//!
//! Each request leaves [`Open`](RequestOutcome::is_open) exactly once. Refused, cancelled and dropped therefore exclude each
//! other, and the status class, the access record, the reason and the gauge of pending requests agree. Nothing else
//! counts how a request ended. The class, the bytes and the duration are recorded together when the kernel has accepted
//! the last byte; over HTTP/2, `http::response_watch` detects that, because the library only accepts frames.
//!
//! Workers account for themselves (busy, age, fibers, duration). A worker has taken a request when it claims it, and has
//! finished it when the handler and its shutdown functions have ended, even if the response was sent earlier; a worker
//! that loses the request before that, for example because it dies, has not finished it. The request is in flight until
//! none of its code is left to run: while destructors run, the worker is busy; while they wait, they count among its
//! fibers. A fatal error that costs a persistent worker drops its request; any other fatal error is the script's own 500.

use svc_core::admission::ShedReason;
use svc_core::observe::{CancelReason, Metrics};
use svc_core::pool::Origin;

/// How one request ends.
#[derive(Debug, Default)]
pub(crate) struct RequestOutcome {
    /// Why the server answers instead of a worker.
    verdict: Option<Verdict>,
    /// Whether the drain ends it: giving it up does not mean that its client left.
    is_cut: bool,
    /// Whether it is counted as a pending request for PHP.
    is_pending: bool,
    decided: Option<(Outcome, u16)>,
}

/// Why the server answers in place of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Refused { reason: ShedReason, was_wasted: bool },
    CutOff,
}

/// How a request ended; see the diagram above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered,
    CutOff,
    Dropped,
    Left { was_taken: bool },
    Refused { reason: ShedReason, was_wasted: bool },
    TimedOut,
}

/// The status of a request whose client left before its response.
const CLIENT_CLOSED_REQUEST: u16 = 499;
/// The status of the rate limit, of the server's or of the application's own.
const TOO_MANY_REQUESTS: u16 = 429;
/// The status of a request that the drain cut off.
const SERVICE_UNAVAILABLE: u16 = 503;

impl RequestOutcome {
    /// Returns whether no head has been sent and the request has not been given up.
    pub(crate) fn is_open(&self) -> bool {
        self.decided.is_none()
    }

    /// Returns whether giving up now would mean that the client left.
    pub(crate) fn is_up_to_client(&self) -> bool {
        self.is_open() && !self.is_cut
    }

    /// Counts the request as pending, because it is offered to the pool.
    pub(crate) fn await_pool(&mut self, metrics: &Metrics) {
        debug_assert!(self.is_open() && !self.is_pending, "offered twice");
        self.is_pending = true;
        metrics.pending_requests.enter();
    }

    /// Makes the response a refusal. `was_wasted`: the request waited for its whole budget while the pool started nothing.
    pub(crate) fn refuse(&mut self, reason: ShedReason, was_wasted: bool) {
        self.judge(Verdict::Refused { reason, was_wasted });
    }

    /// Notes that the drain deadline has passed. An existing response is still sent if possible.
    pub(crate) fn note_drain_deadline(&mut self) {
        self.is_cut = true;
    }

    /// Makes the response say that the drain cut off the request.
    pub(crate) fn cut_off(&mut self) {
        self.note_drain_deadline();
        self.judge(Verdict::CutOff);
    }

    fn judge(&mut self, verdict: Verdict) {
        debug_assert!(self.is_open(), "judged after its end: {verdict:?}, {:?}", self.decided);
        self.verdict = Some(verdict);
    }

    /// Decides the outcome, because a head made by `origin` is sent.
    pub(crate) fn note_head_sent(&mut self, status: u16, origin: Origin, metrics: &Metrics) {
        let outcome = match (self.verdict, origin) {
            (Some(Verdict::Refused { reason, was_wasted }), _) => Outcome::Refused { reason, was_wasted },
            (Some(Verdict::CutOff), _) => Outcome::CutOff,
            (None, Origin::TimeLimit) => Outcome::TimedOut,
            (None, Origin::WorkerLost) => Outcome::Dropped,
            (None, Origin::Script | Origin::Server | Origin::Fatal) => Outcome::Answered,
        };
        self.decide(outcome, status, metrics);
    }

    /// Gives up the request: no head will be sent. `was_taken`: a worker had taken it. Has no effect once a head has been
    /// sent.
    pub(crate) fn give_up(&mut self, was_taken: bool, metrics: &Metrics) {
        if self.is_cut {
            self.decide(Outcome::CutOff, SERVICE_UNAVAILABLE, metrics);
        } else {
            self.decide(Outcome::Left { was_taken }, CLIENT_CLOSED_REQUEST, metrics);
        }
    }

    fn decide(&mut self, outcome: Outcome, status: u16, metrics: &Metrics) {
        if !self.is_open() {
            return;
        }
        self.decided = Some((outcome, status));
        if std::mem::take(&mut self.is_pending) {
            metrics.pending_requests.leave();
        }
        match outcome {
            Outcome::Answered => {}
            Outcome::CutOff => metrics.cancelled.incr(CancelReason::Shutdown),
            Outcome::Dropped => metrics.dropped.incr(),
            Outcome::Left { was_taken } => {
                metrics.cancelled.incr(CancelReason::ClientAbort);
                if was_taken {
                    metrics.work_abandoned();
                }
            }
            Outcome::Refused { reason, was_wasted } => {
                if was_wasted {
                    metrics.wait_wasted.incr();
                }
                metrics.refused.incr(reason);
            }
            Outcome::TimedOut => metrics.cancelled.incr(CancelReason::Timeout),
        }
    }

    /// Returns the status under which the request is recorded, once it has ended.
    pub(crate) fn status(&self) -> u16 {
        debug_assert!(!self.is_open(), "a request is recorded that has not ended");
        self.decided.map_or(CLIENT_CLOSED_REQUEST, |(_, status)| status)
    }

    /// Returns how the request ended, once it has.
    pub(crate) fn decided(&self) -> Option<Outcome> {
        self.decided.map(|(outcome, _)| outcome)
    }

    /// Returns whether the client received an answer to its request, good or bad, and not a refusal.
    pub(crate) fn is_served(&self) -> bool {
        match self.decided {
            Some((Outcome::Answered, status)) => status != TOO_MANY_REQUESTS,
            Some((Outcome::Dropped | Outcome::TimedOut, _)) => true,
            Some((Outcome::CutOff | Outcome::Left { .. } | Outcome::Refused { .. }, _)) | None => false,
        }
    }

    /// Returns whether the drain ends it.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns why the request was not admitted, if it was refused.
    pub(crate) fn shed_reason(&self) -> Option<ShedReason> {
        match self.decided {
            Some((Outcome::Refused { reason, .. }, _)) => Some(reason),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counts: pending, client_abort, timeout, shutdown, refused, wasted, dropped, abandoned.
    fn counted(metrics: &Metrics) -> [u64; 8] {
        let cancelled = |reason| metrics.cancelled.value(reason);
        [
            metrics.pending_requests.value(),
            cancelled(CancelReason::ClientAbort),
            cancelled(CancelReason::Timeout),
            cancelled(CancelReason::Shutdown),
            metrics.refused.total(),
            metrics.wait_wasted.value(),
            metrics.dropped.value(),
            metrics.abandoned_total(),
        ]
    }

    fn offered() -> (RequestOutcome, Metrics) {
        let (mut outcome, metrics) = (RequestOutcome::default(), Metrics::new());
        outcome.await_pool(&metrics);
        assert_eq!(counted(&metrics), [1, 0, 0, 0, 0, 0, 0, 0]);
        (outcome, metrics)
    }

    #[test]
    fn the_outcome_depends_on_the_source_of_the_head() {
        for (origin, expected) in [
            (Origin::Script, [0; 8]),
            (Origin::Server, [0; 8]),
            (Origin::Fatal, [0; 8]),
            (Origin::TimeLimit, [0, 0, 1, 0, 0, 0, 0, 0]),
            (Origin::WorkerLost, [0, 0, 0, 0, 0, 0, 1, 0]),
        ] {
            let (mut outcome, metrics) = offered();
            outcome.note_head_sent(504, origin, &metrics);
            assert_eq!((counted(&metrics), outcome.status()), (expected, 504), "{origin:?}");
        }
    }

    #[test]
    fn a_verdict_decides_for_any_source_of_the_head() {
        let (mut outcome, metrics) = offered();
        outcome.refuse(ShedReason::WaitTimeout, true);
        assert_eq!(counted(&metrics), [1, 0, 0, 0, 0, 0, 0, 0], "nothing has gone out");
        outcome.note_head_sent(529, Origin::Server, &metrics);
        assert_eq!(counted(&metrics), [0, 0, 0, 0, 1, 1, 0, 0]);
        assert_eq!((outcome.status(), outcome.shed_reason()), (529, Some(ShedReason::WaitTimeout)));
        let (mut outcome, metrics) = offered();
        outcome.cut_off();
        outcome.note_head_sent(503, Origin::Server, &metrics);
        assert_eq!((counted(&metrics), outcome.status()), ([0, 0, 0, 1, 0, 0, 0, 0], 503));
    }

    #[test]
    fn answers_are_served_and_refusals_are_not() {
        // One set of counts, which is large.
        let metrics = Metrics::new();
        for (status, origin, is_served) in [
            (200, Origin::Script, true),
            (304, Origin::Server, true),
            (404, Origin::Server, true),
            (429, Origin::Server, false),
            (429, Origin::Script, false),
            (500, Origin::Fatal, true),
            (500, Origin::WorkerLost, true),
            (504, Origin::TimeLimit, true),
        ] {
            let mut outcome = RequestOutcome::default();
            assert!(!outcome.is_served(), "it has not ended");
            outcome.note_head_sent(status, origin, &metrics);
            outcome.give_up(true, &metrics);
            assert_eq!(outcome.is_served(), is_served, "{status}, {origin:?}");
        }
        for reason in ShedReason::ALL {
            let mut outcome = RequestOutcome::default();
            outcome.refuse(reason, false);
            outcome.note_head_sent(reason.status(), Origin::Server, &metrics);
            assert!(!outcome.is_served(), "{reason:?}");
        }
        let mut left = RequestOutcome::default();
        left.give_up(true, &metrics);
        assert!(!left.is_served());
        let mut cut = RequestOutcome::default();
        cut.cut_off();
        cut.note_head_sent(503, Origin::Server, &metrics);
        assert!(!cut.is_served());
    }

    #[test]
    fn a_client_that_has_gone_before_the_head_is_499_whatever_was_to_come() {
        for was_refused in [false, true] {
            for was_taken in [false, true] {
                let (mut outcome, metrics) = offered();
                if was_refused {
                    outcome.refuse(ShedReason::QueueFull, false);
                }
                outcome.give_up(was_taken, &metrics);
                assert_eq!(counted(&metrics), [0, 1, 0, 0, 0, 0, 0, u64::from(was_taken)]);
                assert_eq!((outcome.status(), outcome.shed_reason()), (499, None));
            }
        }
    }

    #[test]
    fn a_request_aborted_by_the_drain_before_its_head_is_503_and_not_cancelled() {
        let (mut outcome, metrics) = offered();
        outcome.note_drain_deadline();
        assert!(!outcome.is_up_to_client());
        outcome.give_up(true, &metrics);
        assert_eq!((counted(&metrics), outcome.status()), ([0, 0, 0, 1, 0, 0, 0, 0], 503));
    }

    #[test]
    fn a_response_that_the_drain_finds_ready_is_counted_once_by_its_kind() {
        let (mut outcome, metrics) = offered();
        outcome.note_drain_deadline();
        outcome.note_head_sent(504, Origin::TimeLimit, &metrics);
        outcome.give_up(true, &metrics);
        assert_eq!((counted(&metrics), outcome.status()), ([0, 0, 1, 0, 0, 0, 0, 0], 504));
    }

    #[test]
    fn after_the_head_nothing_counts() {
        let (mut outcome, metrics) = offered();
        outcome.note_head_sent(200, Origin::Script, &metrics);
        assert!(!outcome.is_open() && !outcome.is_up_to_client());
        outcome.note_drain_deadline();
        outcome.give_up(true, &metrics);
        assert_eq!((counted(&metrics), outcome.status()), ([0; 8], 200));
    }
}
