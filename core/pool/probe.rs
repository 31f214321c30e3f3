//! How other threads ask the thread of a worker what it does.

/// Finds out whether a thread executes the script's own instructions: asked, they answer at once, while a system call
/// or a function of the interpreter does not; and whether it is beyond a time limit. Called by other threads; must not
/// block.
pub trait Probe: Send + Sync + std::fmt::Debug {
    /// Asks.
    fn ask(&self);

    /// Whether the last question was answered.
    fn is_answered(&self) -> bool;

    /// Called once a second while the worker lives; keeps time for it. Returns the serial number of the job whose time
    /// limit has expired while the thread has not come to ending it.
    fn look(&self) -> Option<u64> {
        None
    }
}
