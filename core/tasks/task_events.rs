//! What becomes of tasks that nobody waits for.

use super::outcome::TaskOutcome;

/// Is told about detached tasks.
pub trait TaskEvents: Send + Sync + std::fmt::Debug {
    /// A detached task has its outcome, or one that has its outcome was detached. Called once for a task, on any
    /// thread; must not block.
    fn detached_settled(&self, task: u64, request_id: &str, outcome: &TaskOutcome);
}
