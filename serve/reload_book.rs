//! The progress and the outcome of reloads.
//!
//! Pure: a reload ends once, when all of its parts have ended: the files, and the pools whose workers are replaced. A
//! reload that begins while another is under way replaces it, and its outcome covers both. The outcome of a pool counts
//! only if its restart began after the reload. A pool that failed may succeed later, because its restart is attempted
//! again; the reload has then succeeded, unless another part failed too. The book reloads nothing.
//!
//! ```text
//!             begin                     the files are read, and no pool is awaited
//!   Resting ─────────▶ under way ─────────────────────────────────────────────────▶ Resting
//!                        │  ▲
//!                        └──┘ begin: all parts again
//! ```

use std::time::SystemTime;

use svc_core::observe::{ReloadFacts, ReloadReading};

/// A pool whose workers a reload replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadPool {
    /// The pool for requests.
    Workers,
    /// The pool for background tasks.
    Tasks,
}

/// The state of a pool in the current reload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PoolPart {
    /// It does not take part, or has finished.
    #[default]
    Done,
    /// Its workers will be replaced.
    Wanted,
    /// Its workers are being replaced.
    UnderWay,
    /// A new worker has failed to boot; it may succeed later.
    Failed,
}

/// The reloads of a server.
#[derive(Debug)]
pub struct ReloadBook {
    facts: ReloadFacts,
    reading: ReloadReading,
    /// Whether the files are being read.
    is_reading_files: bool,
    pools: [PoolPart; 2],
    /// The errors of the current or last reload that no later boot cures.
    errors: Vec<String>,
    /// The errors of the pools in it.
    pool_errors: [Option<String>; 2],
}

impl ReloadBook {
    /// Creates the book of a server that started `now`.
    pub fn new(now: SystemTime) -> Self {
        let facts = ReloadFacts { is_successful: true, succeeded_at: now };
        Self {
            facts,
            reading: ReloadReading::default(),
            is_reading_files: false,
            pools: Default::default(),
            errors: Vec::new(),
            pool_errors: Default::default(),
        }
    }

    /// Returns the outcome of the last reload.
    pub fn facts(&self) -> ReloadFacts {
        self.facts
    }

    /// Returns the progress of reloads.
    pub fn reading(&self) -> ReloadReading {
        self.reading.clone()
    }

    /// Begins a reload.
    pub fn begin(&mut self) {
        self.reading.begun += 1;
        self.is_reading_files = true;
        self.pools = Default::default();
        self.errors.clear();
        self.pool_errors = Default::default();
    }

    /// Makes the reload wait until all workers of a pool have been replaced. Must be called before their replacement begins.
    pub fn await_pool(&mut self, pool: ReloadPool) {
        self.pools[pool as usize] = PoolPart::Wanted;
    }

    /// Notes that the replacement of the workers of a pool begins.
    pub fn pool_begins(&mut self, pool: ReloadPool) {
        let part = &mut self.pools[pool as usize];
        if *part == PoolPart::Wanted {
            *part = PoolPart::UnderWay;
        }
    }

    /// Notes that the workers of a pool have been replaced, or that a new one has failed to boot. Returns whether that ends a
    /// reload, or makes one that failed a success.
    pub fn pool_ends(&mut self, pool: ReloadPool, error: Option<String>, now: SystemTime) -> bool {
        let part = &mut self.pools[pool as usize];
        let is_later = *part == PoolPart::Failed && error.is_none();
        if *part != PoolPart::UnderWay && !is_later {
            return false;
        }
        *part = if error.is_some() { PoolPart::Failed } else { PoolPart::Done };
        self.pool_errors[pool as usize] = error;
        let has_ended_before = self.reading.ended == self.reading.begun;
        self.end_if_done(now) && (!has_ended_before || self.facts.is_successful)
    }

    /// Notes that all files have been read, with these errors. Returns whether that ends the reload.
    pub fn files_read(&mut self, errors: Vec<String>, now: SystemTime) -> bool {
        self.is_reading_files = false;
        self.errors.extend(errors);
        self.end_if_done(now)
    }

    /// Ends the current reload because the server stops. Returns whether there was one.
    pub fn abandon(&mut self, now: SystemTime) -> bool {
        let is_under_way = self.reading.ended < self.reading.begun;
        if is_under_way {
            self.errors.push("the server is stopping".to_owned());
            self.pools = Default::default();
            self.is_reading_files = false;
        }
        is_under_way && self.end_if_done(now)
    }

    fn end_if_done(&mut self, now: SystemTime) -> bool {
        let has_ended = |part: &PoolPart| matches!(part, PoolPart::Done | PoolPart::Failed);
        let is_done = !self.is_reading_files && self.pools.iter().all(has_ended);
        if !is_done {
            return false;
        }
        self.reading.ended = self.reading.begun;
        let errors: Vec<_> = self.errors.iter().chain(self.pool_errors.iter().flatten()).cloned().collect();
        self.reading.error = (!errors.is_empty()).then(|| errors.join("; "));
        self.facts.is_successful = self.reading.error.is_none();
        if self.facts.is_successful {
            self.facts.succeeded_at = now;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn outcome(book: &ReloadBook) -> (u64, u64, Option<&str>, bool, SystemTime) {
        let ReloadReading { begun, ended, error } = &book.reading;
        (*begun, *ended, error.as_deref(), book.facts.is_successful, book.facts.succeeded_at)
    }

    #[test]
    fn files_alone_end_it() {
        let mut book = ReloadBook::new(at(0));
        assert_eq!(outcome(&book), (0, 0, None, true, at(0)));
        book.begin();
        assert!(book.files_read(Vec::new(), at(1)));
        assert_eq!(outcome(&book), (1, 1, None, true, at(1)));
        book.begin();
        assert!(book.files_read(vec!["a".to_owned(), "b".to_owned()], at(2)));
        assert_eq!(outcome(&book), (2, 2, Some("a; b"), false, at(1)), "the last success stays");
        book.begin();
        assert!(book.files_read(Vec::new(), at(3)));
        assert_eq!(outcome(&book), (3, 3, None, true, at(3)));
    }

    #[test]
    fn it_ends_with_the_last_of_its_parts_whichever_that_is() {
        for files_last in [false, true] {
            let mut book = ReloadBook::new(at(0));
            book.begin();
            book.await_pool(ReloadPool::Workers);
            book.await_pool(ReloadPool::Tasks);
            assert!(files_last || !book.files_read(Vec::new(), at(1)));
            book.pool_begins(ReloadPool::Tasks);
            book.pool_begins(ReloadPool::Workers);
            assert!(!book.pool_ends(ReloadPool::Workers, Some("no boot".to_owned()), at(2)));
            assert_eq!(outcome(&book), (1, 0, None, true, at(0)), "not before the other one");
            assert_eq!(book.pool_ends(ReloadPool::Tasks, None, at(3)), !files_last);
            assert!(!files_last || book.files_read(Vec::new(), at(3)));
            assert_eq!(outcome(&book), (1, 1, Some("no boot"), false, at(0)));
        }
    }

    #[test]
    fn the_outcome_of_a_restart_from_before_is_none() {
        let mut book = ReloadBook::new(at(0));
        assert!(!book.pool_ends(ReloadPool::Workers, Some("a renewal".to_owned()), at(1)));
        book.begin();
        book.await_pool(ReloadPool::Workers);
        assert!(!book.files_read(Vec::new(), at(1)));
        assert!(!book.pool_ends(ReloadPool::Workers, Some("old code".to_owned()), at(2)));
        book.pool_begins(ReloadPool::Workers);
        assert!(book.pool_ends(ReloadPool::Workers, None, at(3)));
        assert_eq!(outcome(&book), (1, 1, None, true, at(3)));
    }

    #[test]
    fn a_pool_that_succeeds_later_makes_it_a_success() {
        let mut book = ReloadBook::new(at(0));
        book.begin();
        book.await_pool(ReloadPool::Workers);
        book.await_pool(ReloadPool::Tasks);
        book.pool_begins(ReloadPool::Workers);
        book.pool_begins(ReloadPool::Tasks);
        book.files_read(Vec::new(), at(1));
        book.pool_ends(ReloadPool::Workers, Some("no boot".to_owned()), at(2));
        assert!(book.pool_ends(ReloadPool::Tasks, Some("no task".to_owned()), at(3)));
        assert_eq!(outcome(&book), (1, 1, Some("no boot; no task"), false, at(0)));
        assert!(!book.pool_ends(ReloadPool::Tasks, None, at(4)), "it is a failure still");
        assert_eq!(outcome(&book), (1, 1, Some("no boot"), false, at(0)));
        assert!(book.pool_ends(ReloadPool::Workers, None, at(5)));
        assert_eq!(outcome(&book), (1, 1, None, true, at(5)));
        assert!(!book.pool_ends(ReloadPool::Workers, None, at(6)));
        assert_eq!(outcome(&book), (1, 1, None, true, at(5)), "the time of the success stays");
    }

    #[test]
    fn no_boot_cures_the_error_of_a_file() {
        let mut book = ReloadBook::new(at(0));
        book.begin();
        book.await_pool(ReloadPool::Workers);
        book.pool_begins(ReloadPool::Workers);
        assert!(!book.pool_ends(ReloadPool::Workers, Some("no boot".to_owned()), at(1)));
        assert!(book.files_read(vec!["no certificate".to_owned()], at(2)));
        assert_eq!(outcome(&book), (1, 1, Some("no certificate; no boot"), false, at(0)));
        assert!(!book.pool_ends(ReloadPool::Workers, None, at(3)));
        assert_eq!(outcome(&book), (1, 1, Some("no certificate"), false, at(0)));
    }

    #[test]
    fn one_that_begins_meanwhile_ends_for_both() {
        let mut book = ReloadBook::new(at(0));
        book.begin();
        book.await_pool(ReloadPool::Workers);
        book.files_read(Vec::new(), at(1));
        book.pool_begins(ReloadPool::Workers);
        book.begin();
        book.await_pool(ReloadPool::Workers);
        assert!(!book.pool_ends(ReloadPool::Workers, Some("of the first".to_owned()), at(2)));
        assert!(!book.files_read(Vec::new(), at(2)));
        book.pool_begins(ReloadPool::Workers);
        assert!(book.pool_ends(ReloadPool::Workers, None, at(3)));
        assert_eq!(outcome(&book), (2, 2, None, true, at(3)));
    }

    #[test]
    fn a_server_that_stops_ends_it() {
        let mut book = ReloadBook::new(at(0));
        assert!(!book.abandon(at(1)));
        assert_eq!(outcome(&book), (0, 0, None, true, at(0)));
        book.begin();
        book.await_pool(ReloadPool::Workers);
        book.files_read(Vec::new(), at(1));
        assert!(book.abandon(at(2)));
        assert_eq!(outcome(&book), (1, 1, Some("the server is stopping"), false, at(0)));
        assert!(!book.pool_ends(ReloadPool::Workers, None, at(3)));
        assert!(!book.abandon(at(4)));
    }
}
