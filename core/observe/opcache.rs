//! OPcache's memory and counts, as the metrics show them.
//!
//! Pure. Counts never decrease, although OPcache resets them at each restart. The book queries nothing; a restart
//! goes unnoticed if OPcache has counted further than before by the next reading.

use svc_types::OpcacheMemory;

/// The readings so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpcacheBook {
    last: Option<OpcacheMemory>,
    /// The counts before the last restart.
    hits_before: u64,
    misses_before: u64,
}

impl OpcacheBook {
    /// Records a reading of OPcache.
    pub fn note(&mut self, now: OpcacheMemory) {
        if let Some(last) = self.last
            && (now.hits < last.hits || now.misses < last.misses)
        {
            self.hits_before += last.hits;
            self.misses_before += last.misses;
        }
        self.last = Some(now);
    }

    /// Returns the last reading, with the total counts; `None` before the first.
    pub fn reading(&self) -> Option<OpcacheMemory> {
        self.last.map(|last| OpcacheMemory {
            hits: self.hits_before + last.hits,
            misses: self.misses_before + last.misses,
            ..last
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
}
