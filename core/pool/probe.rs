//! How other threads inspect the thread of a worker.

/// Tells whether a worker's thread executes instructions of the script, and enforces its time limit. Instructions of a
/// script answer a question immediately; a system call or an internal function does not answer it. The methods are
/// called by other threads and must not block.
pub trait ThreadProbe: Send + Sync + std::fmt::Debug {
    /// Asks the thread.
    fn ask(&self);

    /// Returns whether the last question was answered.
    fn is_answered(&self) -> bool;

    /// Returns whether the worker's code sleeps in a system call, if the code runs in another process than the thread.
    fn sleeps(&self) -> Option<bool> {
        None
    }

    /// Called once a second while the worker lives, to enforce its time limit. Returns the serial number of a job that
    /// the thread has not ended although the job's time limit has expired.
    fn tick(&self) -> Option<u64> {
        None
    }
}
