//! The seam behind which PHP stands.
//!
//! Promises to an engine: `start` and every call of the worker it returned happen on one thread, and the worker is
//! dropped on that thread. Asks of an engine: a worker finishes each exchange it serves; one that does not is
//! answered 500 in its place.

use crate::sync::primitive::Arc;

use super::exchange::Exchange;

/// Makes workers, one a thread.
pub trait Engine: Send + Sync + 'static {
    /// Prepares the calling thread to run requests; `slot` is its place in the pool.
    ///
    /// # Errors
    ///
    /// [`StartError`] when the thread cannot run requests; the slot stays empty.
    fn start(&self, slot: usize) -> Result<Box<dyn Worker>, StartError>;
}

/// Runs one exchange after another on its own thread.
pub trait Worker {
    /// Runs a claimed exchange to its end.
    fn serve(&mut self, exchange: &Arc<Exchange>);
}

/// Why a thread cannot run requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub String);

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
