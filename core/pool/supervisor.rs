//! Which workers are held up by one request, and by what.
//!
//! Promises: a request that has been with its worker for longer than the threshold is noted at each look, and sorted
//! once; whoever sorts asks no more than two questions, at two looks. Refuses: it acts on nothing; a stuck request is
//! neither cancelled nor its worker replaced.
//!
//! ```text
//!           too old, parked or blocked: io
//!   Fine ─────────────────────────────────────────────────────────▶ Sorted
//!    │ too old, running: asked        answered: cpu                    ▲
//!    └────────────────────▶ Asked ─── parked or blocked: io ───────────┤
//!                                     neither: c_call ─────────────────┘
//!    (each one: another request, or none: Fine)
//! ```

use std::time::Duration;

use super::slot::Oldest;

/// For how long a request may be with its worker without being noted.
pub const STUCK_THRESHOLD: Duration = Duration::from_secs(60);

/// What holds a worker up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StuckKind {
    /// It waits: in a system call, or its fiber is parked.
    Io,
    /// It is inside a function that does not come back.
    CCall,
    /// It executes the script's own instructions.
    Cpu,
}

impl StuckKind {
    /// Every kind, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Io, Self::CCall, Self::Cpu];

    /// The kind's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Io => "io",
            Self::CCall => "c_call",
            Self::Cpu => "cpu",
        }
    }
}

/// What can be found out about a worker's thread.
pub trait Inspection {
    /// Whether it sleeps in the kernel.
    fn is_blocked(&self) -> bool;
    /// Asks it to answer if it executes instructions of a script.
    fn ask(&self);
    /// Whether it has answered since it was asked.
    fn is_answered(&self) -> bool;
}

/// What a look at one worker found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Its oldest request is older than the threshold.
    pub is_long: bool,
    /// What it was sorted as, just now.
    pub stuck: Option<StuckKind>,
}

/// The machine: one look at each slot a second.
#[derive(Clone, Debug)]
pub struct Supervisor {
    threshold: Duration,
    /// By slot.
    watches: Vec<Watch>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Watch {
    #[default]
    Fine,
    Asked {
        stay: u64,
    },
    Sorted {
        stay: u64,
    },
}

impl Supervisor {
    /// Notes requests that are older than `threshold`.
    pub fn new(threshold: Duration) -> Self {
        Self { threshold, watches: Vec::new() }
    }

    /// Looks at the worker of `slot`, whose thread can be inspected if need be.
    pub fn look(&mut self, slot: usize, oldest: Option<Oldest>, thread: &dyn Inspection) -> Finding {
        if slot >= self.watches.len() {
            self.watches.resize(slot + 1, Watch::Fine);
        }
        let watch = &mut self.watches[slot];
        let Some(oldest) = oldest.filter(|oldest| oldest.age > self.threshold) else {
            *watch = Watch::Fine;
            return Finding::default();
        };
        let stay = oldest.stay;
        let is_waiting = || oldest.is_parked || thread.is_blocked();
        let stuck = match *watch {
            Watch::Sorted { stay: sorted } if sorted == stay => None,
            Watch::Asked { stay: asked } if asked == stay => Some(match () {
                () if thread.is_answered() => StuckKind::Cpu,
                () if is_waiting() => StuckKind::Io,
                () => StuckKind::CCall,
            }),
            _ if is_waiting() => Some(StuckKind::Io),
            _ => {
                thread.ask();
                *watch = Watch::Asked { stay };
                return Finding { is_long: true, stuck: None };
            }
        };
        *watch = Watch::Sorted { stay };
        Finding { is_long: true, stuck }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Thread {
        blocked: Cell<bool>,
        answers: Cell<bool>,
        asked: Cell<u32>,
    }

    impl Inspection for Thread {
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

    fn aged(stay: u64, seconds: u64) -> Option<Oldest> {
        Some(Oldest { stay, age: Duration::from_secs(seconds), is_parked: false })
    }

    fn found(is_long: bool, stuck: Option<StuckKind>) -> Finding {
        Finding { is_long, stuck }
    }

    #[test]
    fn a_young_request_is_fine_and_nobody_is_asked() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        assert_eq!(supervisor.look(3, aged(1, 60), &thread), Finding::default());
        assert_eq!(supervisor.look(3, None, &thread), Finding::default());
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn fine_to_io_when_it_is_blocked_or_parked() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        let parked = aged(1, 61).map(|oldest| Oldest { is_parked: true, ..oldest });
        assert_eq!(supervisor.look(0, parked, &thread), found(true, Some(StuckKind::Io)));
        thread.blocked.set(true);
        assert_eq!(supervisor.look(1, aged(1, 61), &thread), found(true, Some(StuckKind::Io)));
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn asked_to_cpu_when_it_answers() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        assert_eq!(supervisor.look(0, aged(1, 61), &thread), found(true, None));
        thread.answers.set(true);
        assert_eq!(supervisor.look(0, aged(1, 62), &thread), found(true, Some(StuckKind::Cpu)));
    }

    #[test]
    fn asked_to_c_call_when_it_neither_answers_nor_waits() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        supervisor.look(0, aged(1, 61), &thread);
        assert_eq!(supervisor.look(0, aged(1, 62), &thread), found(true, Some(StuckKind::CCall)));
    }

    #[test]
    fn asked_to_io_when_it_waits_by_then() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        supervisor.look(0, aged(1, 61), &thread);
        thread.blocked.set(true);
        assert_eq!(supervisor.look(0, aged(1, 62), &thread), found(true, Some(StuckKind::Io)));
    }

    #[test]
    fn a_request_is_sorted_once_and_noted_at_each_look() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        thread.blocked.set(true);
        assert_eq!(supervisor.look(0, aged(1, 61), &thread).stuck, Some(StuckKind::Io));
        thread.blocked.set(false);
        for seconds in 62..100 {
            assert_eq!(supervisor.look(0, aged(1, seconds), &thread), found(true, None));
        }
        assert_eq!(thread.asked.get(), 0);
    }

    #[test]
    fn the_next_request_begins_anew_from_any_state() {
        let (mut supervisor, thread) = (Supervisor::new(STUCK_THRESHOLD), Thread::default());
        supervisor.look(0, aged(1, 61), &thread);
        assert_eq!(supervisor.look(0, aged(2, 1), &thread), Finding::default());
        supervisor.look(0, aged(2, 61), &thread);
        supervisor.look(0, aged(2, 62), &thread);
        assert_eq!(supervisor.look(0, aged(3, 61), &thread), found(true, None), "asked again");
        assert_eq!(thread.asked.get(), 3);
        assert_eq!(supervisor.look(0, aged(3, 62), &thread).stuck, Some(StuckKind::CCall));
    }
}
