//! A lock for sections of a few instructions.
//!
//! Promises: a panic in a section does not poison the data (each section leaves it consistent). Refuses: it is not for
//! waiting; a thread that holds it makes no system call, runs no callback and takes no second lock.

use super::primitive::{RawGuard, RawLock};

/// Guards `T` for sections of a few instructions.
#[derive(Debug, Default)]
pub struct ShortLock<T>(RawLock<T>);

impl<T> ShortLock<T> {
    /// Wraps `value`.
    pub fn new(value: T) -> Self {
        Self(RawLock::new(value))
    }

    /// Enters the section; it ends when the guard is dropped.
    pub fn lock(&self) -> RawGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
