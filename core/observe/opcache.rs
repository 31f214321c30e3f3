//! OPcache's memory and counts, as the metrics show them.
//!
//! Pure. Counts never decrease, although OPcache resets them at each restart. The book queries nothing; a restart
//! goes unnoticed if OPcache has counted further than before by the next reading.
//!
//! OPcache reports that it is full only once less than 64 KiB are free. A script that needs more is then compiled each
//! time without that report, so the book also takes the cache as full if scripts keep missing it while it does not grow.

use svc_types::OpcacheMemory;

/// The number of readings with misses and without growth after which the cache counts as full.
const STARVED_READINGS: u32 = 5;

/// The cache only counts as full if at most a quarter of it is free: scripts also miss it because they have just changed.
const FREE_SHARE_MAX: u64 = 4;

/// The readings so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpcacheBook {
    last: Option<OpcacheMemory>,
    /// The counts before the last restart.
    hits_before: u64,
    misses_before: u64,
    /// The number of readings with misses since the cache has grown.
    starved: u32,
    /// Whether the caller knows that it is full.
    is_full_reported: bool,
}

impl OpcacheBook {
    /// Records a reading of OPcache. Returns true once when it has been full for two readings: a restart that is due
    /// follows at once, and ends it.
    pub fn note(&mut self, now: OpcacheMemory) -> bool {
        let was_full = self.is_full();
        if let Some(last) = self.last {
            if now.hits < last.hits || now.misses < last.misses {
                self.hits_before += last.hits;
                self.misses_before += last.misses;
            }
            if (now.scripts, now.used_bytes, now.wasted_bytes)
                != (last.scripts, last.used_bytes, last.wasted_bytes)
            {
                self.starved = 0;
            } else if now.misses > last.misses {
                self.starved = self.starved.saturating_add(1);
            }
        }
        self.last = Some(now);
        let is_full = self.is_full();
        let has_filled = was_full && is_full && !self.is_full_reported;
        self.is_full_reported = is_full && (self.is_full_reported || has_filled);
        has_filled
    }

    /// Returns the last reading, with the total counts; `None` before the first.
    pub fn reading(&self) -> Option<OpcacheMemory> {
        self.last.map(|last| OpcacheMemory {
            hits: self.hits_before + last.hits,
            misses: self.misses_before + last.misses,
            is_full: self.is_full(),
            ..last
        })
    }

    fn is_full(&self) -> bool {
        self.last.is_some_and(|last| {
            let total = last.used_bytes + last.free_bytes + last.wasted_bytes;
            let is_starved = self.starved >= STARVED_READINGS && last.free_bytes <= total / FREE_SHARE_MAX;
            last.is_full || is_starved
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_go_on_after_a_restart() {
        let mut book = OpcacheBook::default();
        assert_eq!(book.reading(), None);
        let reading =
            |hits, misses| OpcacheMemory { hits, misses, scripts: hits, ..OpcacheMemory::default() };
        for (now, expected) in [((5, 2), (5, 2)), ((9, 2), (9, 2)), ((0, 1), (9, 3)), ((4, 1), (13, 3))] {
            book.note(reading(now.0, now.1));
            let read = book.reading().unwrap();
            assert_eq!((read.hits, read.misses, read.scripts), (expected.0, expected.1, now.0));
        }
    }

    #[test]
    fn a_full_cache_is_reported_once_until_it_has_restarted() {
        let mut book = OpcacheBook::default();
        let readings = [true, false, true, true, true, false, true, true, true];
        let reports =
            readings.map(|is_full| book.note(OpcacheMemory { is_full, ..OpcacheMemory::default() }));
        assert_eq!(reports, [false, false, false, true, false, false, false, true, false]);
    }

    #[test]
    fn a_cache_that_misses_without_growing_is_full_if_little_is_free() {
        let readings = |free_bytes: u64, grows: bool| {
            let mut book = OpcacheBook::default();
            (0..10).map(move |number| {
                let used_bytes = 80 + u64::from(grows) * number;
                // Every other reading has no misses, which proves nothing.
                let misses = number.div_ceil(2);
                book.note(OpcacheMemory { used_bytes, free_bytes, misses, ..OpcacheMemory::default() });
                book.reading().unwrap().is_full
            })
        };
        assert_eq!(readings(20, false).position(|is_full| is_full), Some(9));
        assert_eq!(readings(20, true).position(|is_full| is_full), None);
        assert_eq!(readings(40, false).position(|is_full| is_full), None);
    }
}
