//! How other threads find out what the thread of a worker is doing.

/// Tells whether a worker's thread executes the script's own instructions, and keeps its time limit. Instructions of a
/// script answer a question immediately; a system call or a function of the interpreter does not. The methods are
/// called by other threads and must not block.
pub trait ThreadProbe: Send + Sync + std::fmt::Debug {
    /// Asks the thread.
    fn ask(&self);

    /// Returns whether the last question was answered.
    fn is_answered(&self) -> bool;

    /// Called once a second while the worker lives; keeps time for it. Returns the serial number of the job whose time
    /// limit has expired while the thread has not come to ending it.
    fn tick(&self) -> Option<u64> {
        None
    }
}
