//! Notifications about detached tasks.

use super::outcome::TaskOutcome;

/// Receives the outcomes of detached tasks.
pub trait TaskEvents: Send + Sync + std::fmt::Debug {
    /// Reports the outcome of a detached task, once the task has an outcome and is detached. Called once for each
    /// task, on any thread; must not block.
    fn detached_settled(&self, task: u64, request_id: &str, outcome: &TaskOutcome);
}
