//! When to return free memory to the system: after a peak.
//!
//! libc keeps free memory between blocks in use for later allocations. After a peak, that can be most of the process.
//! Nothing is returned while clients hold a large part of the increase. If returning memory has no effect, it is
//! repeated a few times after increasing pauses, as connections may be closed meanwhile; after that, the process counts
//! as needing its memory, until clients let go of what they held then. The machine itself frees nothing.

use svc_core::limits::MEMORY_PEAK_MIN;

/// The memory that the process has needed so far, and the last reading.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeak {
    /// The resident memory that the process needs: the amount left when no more could be returned, or the lowest since
    /// then. `None` until then, since the start of the process is a peak.
    base: Option<u64>,
    last: MemoryReading,
    /// Whether memory was returned whose effect has not been checked.
    is_settling: bool,
    /// The number of attempts without effect, and the seconds left before the next one.
    vain: u32,
    pause: u32,
    /// The resident memory after the last attempt.
    tried: u64,
    /// If the base is an assumption after attempts without effect: the base before it, and the memory that clients held then.
    assumed: Option<(Option<u64>, u64)>,
}

/// The number of attempts without effect after which the process is assumed to need its memory.
const TRIES_MAX: u32 = 4;

/// The memory of the process at one time, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryReading {
    /// Resident memory.
    pub(crate) resident: u64,
    /// Memory held for clients.
    pub(crate) held: u64,
}

impl MemoryPeak {
    /// Takes a reading, once a second; returns whether a peak is over and free memory should be returned.
    pub(crate) fn tick(&mut self, now: MemoryReading) -> bool {
        let last = std::mem::replace(&mut self.last, now);
        self.pause = self.pause.saturating_sub(1);
        if let Some((base, _)) = self.assumed.take_if(|(_, held)| now.held + MEMORY_PEAK_MIN / 4 <= *held) {
            // Clients may have held more than was counted, and have let go of it.
            (self.base, self.vain, self.pause) = (base, 0, 0);
        }
        if self.vain > 0 && now.resident >= self.tried + MEMORY_PEAK_MIN {
            // This is a new peak.
            (self.vain, self.pause) = (0, 0);
        }
        if std::mem::take(&mut self.is_settling) {
            let has_helped = now.resident + MEMORY_PEAK_MIN / 2 <= last.resident;
            if has_helped {
                // Connections that are closed later leave more, so this is not the base.
                self.vain = 0;
            } else if self.vain == TRIES_MAX {
                self.assumed = Some((self.base, now.held));
                // The next peak may have begun.
                (self.base, self.vain) = (Some(last.resident.min(now.resident)), 0);
            } else {
                self.vain += 1;
                (self.pause, self.tried) = (1 << self.vain, now.resident);
            }
            return false;
        }
        self.base = self.base.map(|base| base.min(now.resident));
        let added = now.resident - self.base.unwrap_or(0);
        // Other activity adds a few pages.
        let is_steady = now.resident <= last.resident + MEMORY_PEAK_MIN / 8 && now.held >= last.held;
        self.is_settling = self.pause == 0 && is_steady && added >= MEMORY_PEAK_MIN && now.held <= added / 4;
        self.is_settling
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The resident and held memory in each second, the seconds in which memory is returned, and why.
    type Peak = (&'static [(u64, u64)], &'static [usize], &'static str);

    /// Returns the seconds in which memory is returned, given the resident and held memory; returned memory is no longer
    /// resident.
    fn trims(readings: &[(u64, u64)]) -> Vec<usize> {
        let mut peak = MemoryPeak::default();
        let tick = |(resident, held)| MemoryReading { resident: resident << 20, held: held << 20 };
        let over = readings.iter().enumerate().filter(|&(_, reading)| peak.tick(tick(*reading)));
        over.map(|(second, _)| second).collect()
    }

    /// Returns the same, counted from the end of a start whose memory was returned.
    fn trims_after_start(readings: &[(u64, u64)]) -> Vec<usize> {
        let start = [&[(50, 0); 2][..], &[(40, 0); 60]].concat();
        let seconds = trims(&[&start, readings].concat());
        let after = seconds.iter().filter_map(|second| second.checked_sub(start.len()));
        after.collect()
    }

    #[test]
    fn memory_is_given_back_once_behind_a_peak() {
        let peaks: [Peak; 5] = [
            (&[(140, 90), (140, 0), (140, 0), (45, 0), (45, 0)], &[2], "when clients have let it go"),
            (&[(140, 0), (140, 0), (140, 0), (140, 0), (140, 0), (45, 0)], &[1, 4], "what is let go late"),
            (&[(140, 0), (140, 0), (45, 0), (140, 0), (140, 0), (45, 0)], &[1, 4], "each, however short"),
            (&[(60, 0), (60, 0), (41, 0), (41, 0)], &[1], "a small one"),
            (&[(140, 0), (140, 0), (90, 0), (90, 0), (45, 0)], &[1, 3], "the part that is let go late"),
        ];
        for (readings, seconds, why) in peaks {
            assert_eq!(trims_after_start(readings), seconds, "{why}");
        }
        let held_long = [&[(200, 30); 100][..], &[(200, 0); 3], &[(45, 0); 2]].concat();
        assert!(trims_after_start(&held_long).contains(&101), "{:?}", trims_after_start(&held_long));
        let tries = trims_after_start(&[(140, 0); 1000]).len();
        assert!((2..=10).contains(&tries), "what is needed is given back {tries} times");
    }

    #[test]
    fn the_start_leaves_some_and_may_be_a_peak_itself() {
        let start = [&[(50, 0); 2][..], &[(40, 0); 1000]].concat();
        let tries = trims(&start);
        assert!(tries[0] == 1 && tries.len() <= 6, "{tries:?}");
        let at_once = [(50, 0), (95, 40), (95, 0), (95, 0), (80, 0), (80, 0), (60, 0)];
        assert_eq!(trims(&at_once), [3, 5], "connections are closed meanwhile");
        // Attempts without effect do not delay it.
        let late = [&start[..14], &[(140, 0); 3], &[(45, 0); 2]].concat();
        assert!(trims(&late).contains(&15), "{:?}", trims(&late));
    }

    #[test]
    fn memory_in_use_or_small_excess_is_not_trimmed() {
        for (readings, why) in [
            ([(140, 90), (140, 90), (140, 80), (140, 80)], "clients hold it"),
            ([(45, 0), (45, 0), (47, 0), (47, 0)], "it is little"),
            ([(60, 0), (80, 0), (100, 0), (120, 0)], "it grows"),
        ] {
            assert_eq!(trims_after_start(&readings), [0; 0], "{why}");
        }
    }
}
