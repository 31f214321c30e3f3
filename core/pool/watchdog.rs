//! The watchdog: which workers a single job holds up, and how.
//!
//! A job that has been with its worker for longer than the threshold is noted at each tick and classified once,
//! whatever other jobs the worker has in flight; the classification takes at most two questions, at two ticks. The
//! watchdog takes no action; a stuck job is not cancelled, and its worker is not replaced.
//!
//! ```text
//!   (each job of a worker)
//!           too old, parked or blocked: io
//!   Fine ─────────────────────────────────────────────────────────▶ Classified
//!    │ too old, running: asked        answered: cpu                    ▲
//!    └────────────────────▶ Asked ─── parked or blocked: io ───────────┤
//!                                     neither: c_call ─────────────────┘
//! ```

use std::time::Duration;

use super::stuck::{Finding, HeldJob, StuckKind};

/// How long a worker may hold a job before the job is noted.
pub const STUCK_THRESHOLD: Duration = Duration::from_secs(60);

/// Inspects a worker's thread.
pub trait Inspection {
    /// Returns whether the thread sleeps in the kernel.
    fn is_blocked(&self) -> bool;
    /// Asks the thread to answer if it executes instructions of a script.
    fn ask(&self);
    /// Returns whether the thread has answered since the question.
    fn is_answered(&self) -> bool;
}

/// Watches the jobs of all slots.
#[derive(Clone, Debug)]
pub struct Watchdog {
    threshold: Duration,
    /// The jobs that are too old, by slot.
    watches: Vec<Vec<Watch>>,
}

#[derive(Clone, Copy, Debug)]
struct Watch {
    serial: u64,
    is_classified: bool,
}

impl Watchdog {
    /// Notes jobs that are older than `threshold`.
    pub fn new(threshold: Duration) -> Self {
        Self { threshold, watches: Vec::new() }
    }

    /// Processes one tick for the worker of `slot`, which the jobs in `held` keep busy. Asks `thread` if necessary.
    pub fn tick(&mut self, slot: usize, held: &[HeldJob], thread: &dyn Inspection) -> Finding {
        if slot >= self.watches.len() {
            self.watches.resize(slot + 1, Vec::new());
        }
        let watches = &mut self.watches[slot];
        let is_old = |one: &&HeldJob| one.age > self.threshold;
        watches.retain(|watch| held.iter().filter(is_old).any(|one| one.serial == watch.serial));
        let mut finding = Finding::default();
        for one in held.iter().filter(is_old) {
            finding.is_long = true;
            let serial = one.serial;
            let is_waiting = || one.is_parked || thread.is_blocked();
            match watches.iter_mut().find(|watch| watch.serial == serial) {
                Some(watch) if watch.is_classified => {}
                Some(watch) => {
                    watch.is_classified = true;
                    finding.stuck.push((
                        serial,
                        match () {
                            () if thread.is_answered() => StuckKind::Cpu,
                            () if is_waiting() => StuckKind::Io,
                            () => StuckKind::CCall,
                        },
                    ));
                }
                None if is_waiting() => {
                    watches.push(Watch { serial, is_classified: true });
                    finding.stuck.push((serial, StuckKind::Io));
                }
                None => {
                    thread.ask();
                    watches.push(Watch { serial, is_classified: false });
                }
            }
        }
        finding
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct FakeThread {
        blocked: Cell<bool>,
        answers: Cell<bool>,
        asked: Cell<u32>,
    }

    impl Inspection for FakeThread {
        fn is_blocked(&self) -> bool {
            self.blocked.get()
        }
        fn ask(&self) {
            self.asked.set(self.asked.get() + 1);
        }
        fn is_answered(&self) -> bool {
            self.answers.get()
        }
    }

    fn aged(serial: u64, seconds: u64) -> [HeldJob; 1] {
        [HeldJob { serial, age: Duration::from_secs(seconds), is_parked: false }]
    }

    fn parked(serial: u64, seconds: u64) -> HeldJob {
        HeldJob { is_parked: true, ..aged(serial, seconds)[0] }
    }

    /// Too old, and classified as `stuck`.
    fn found(stuck: &[(u64, StuckKind)]) -> Finding {
        Finding { is_long: true, stuck: stuck.to_vec() }
    }

    #[test]
    fn a_young_request_causes_no_inspection() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        assert_eq!(watchdog.tick(3, &aged(1, 60), &thread), Finding::default());
        assert_eq!(watchdog.tick(3, &[], &thread), Finding::default());
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn fine_to_io_when_it_is_blocked_or_parked() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        assert_eq!(watchdog.tick(0, &[parked(1, 61)], &thread), found(&[(1, StuckKind::Io)]));
        thread.blocked.set(true);
        assert_eq!(watchdog.tick(1, &aged(1, 61), &thread), found(&[(1, StuckKind::Io)]));
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn asked_to_cpu_when_it_answers() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        assert_eq!(watchdog.tick(0, &aged(1, 61), &thread), found(&[]));
        thread.answers.set(true);
        assert_eq!(watchdog.tick(0, &aged(1, 62), &thread), found(&[(1, StuckKind::Cpu)]));
    }

    #[test]
    fn asked_to_c_call_when_it_neither_answers_nor_waits() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        watchdog.tick(0, &aged(1, 61), &thread);
        assert_eq!(watchdog.tick(0, &aged(1, 62), &thread), found(&[(1, StuckKind::CCall)]));
    }

    #[test]
    fn asked_to_io_when_it_waits_by_then() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        watchdog.tick(0, &aged(1, 61), &thread);
        thread.blocked.set(true);
        assert_eq!(watchdog.tick(0, &aged(1, 62), &thread), found(&[(1, StuckKind::Io)]));
    }

    #[test]
    fn a_request_is_classified_once_and_noted_at_each_tick() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        thread.blocked.set(true);
        assert_eq!(watchdog.tick(0, &aged(1, 61), &thread).stuck, [(1, StuckKind::Io)]);
        thread.blocked.set(false);
        for seconds in 62..100 {
            assert_eq!(watchdog.tick(0, &aged(1, seconds), &thread), found(&[]));
        }
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn the_next_request_begins_anew_from_any_state() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        watchdog.tick(0, &aged(1, 61), &thread);
        assert_eq!(watchdog.tick(0, &aged(2, 1), &thread), Finding::default());
        watchdog.tick(0, &aged(2, 61), &thread);
        watchdog.tick(0, &aged(2, 62), &thread);
        assert_eq!(watchdog.tick(0, &aged(3, 61), &thread), found(&[]), "asked again");
        assert_eq!(thread.asked.get(), 3);
        assert_eq!(watchdog.tick(0, &aged(3, 62), &thread).stuck, [(3, StuckKind::CCall)]);
    }

    #[test]
    fn each_of_several_is_classified_once() {
        let (mut watchdog, thread) = (Watchdog::new(STUCK_THRESHOLD), FakeThread::default());
        let held = |running| [parked(1, 90), parked(2, 61), aged(3, running)[0], parked(4, 60)];
        assert_eq!(
            watchdog.tick(0, &held(61), &thread),
            found(&[(1, StuckKind::Io), (2, StuckKind::Io)]),
            "the one that runs is asked, and the last one is young"
        );
        thread.answers.set(true);
        assert_eq!(watchdog.tick(0, &held(62), &thread), found(&[(3, StuckKind::Cpu)]));
        assert_eq!(watchdog.tick(0, &held(63), &thread), found(&[]));
        assert_eq!(watchdog.tick(0, &held(63)[1..], &thread), found(&[]), "the others are what they were");
        assert_eq!(thread.asked.get(), 1);
    }
}
