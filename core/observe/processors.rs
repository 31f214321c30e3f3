//! The idle time of the processors that this process may use.
//!
//! One short read from procfs; data that the system does not provide is `None`. It ignores the quota of a control
//! group; each processor counts as a whole.

use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity};

/// Returns how long the processors that the calling thread may use were idle since the system started, in total.
pub fn idle_time() -> Option<Duration> {
    let own = sched_getaffinity(None).ok()?;
    idle_ticks(&fs::read_to_string("/proc/stat").ok()?, &own)
        .map(|ticks| Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Adds up the fourth and fifth columns, idle and waiting for a disk, of the lines of these processors.
fn idle_ticks(stat: &str, processors: &CpuSet) -> Option<u64> {
    let of_line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        let processor: usize = words.next()?.parse().ok()?;
        let is_ours = processor < CpuSet::MAX_CPU && processors.is_set(processor);
        let idle: u64 = words.skip(3).take(2).map_while(|word| word.parse::<u64>().ok()).sum();
        is_ours.then_some(idle)
    };
    // The line that sums up all processors has no number. Lines about other things follow the processors.
    stat.lines()
        .skip(1)
        .take_while(|line| line.starts_with("cpu"))
        .filter_map(of_line)
        .reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  9 9 9 900 9 9 9 9 9 9\ncpu0 1 2 3 100 5 6 7 8 9 10\ncpu1 1 2 3 200 7 6 7 8 9 10\nintr 5 4\n";

    fn set(processors: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        set
    }

    #[test]
    fn only_own_processors_count() {
        assert_eq!(idle_ticks(STAT, &set(&[0, 1])), Some(312));
        assert_eq!(idle_ticks(STAT, &set(&[1])), Some(207));
        assert_eq!(idle_ticks(STAT, &set(&[7])), None);
    }

    #[test]
    fn missing_values_are_unknown() {
        assert_eq!(idle_ticks("", &set(&[0])), None);
        assert_eq!(idle_ticks("cpu 1 2 3 4 5\n", &set(&[0])), None);
    }

    #[test]
    fn the_idle_time_comes_from_the_system() {
        let before = idle_time().unwrap();
        assert!(idle_time().unwrap() >= before && before > Duration::ZERO);
    }
}
