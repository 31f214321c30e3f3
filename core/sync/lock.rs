//! A lock for critical sections of a few instructions.
//!
//! A panic in a section does not poison the data, because each section leaves it consistent. A thread that holds the
//! lock makes no system call, runs no callback and takes no second lock.

use super::primitive::{RawGuard, RawLock};

/// Guards `T` in critical sections of a few instructions.
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
