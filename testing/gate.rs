//! A gate in front of a scripted server's answers: it holds and counts the server's threads until the test releases them,
//! so that a test can tell how many clients wait at once without a clock.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a test waits for clients to arrive before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gate, closed at first.
#[derive(Debug, Default)]
pub struct Gate {
    books: Mutex<Books>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Books {
    held: usize,
    /// How many held or arriving threads may still pass.
    passes: usize,
    is_open: bool,
    has_ended: bool,
}

impl Gate {
    /// Waits until the gate lets this thread pass; returns false if the server has ended.
    pub fn hold(&self) -> bool {
        self.hold_unless(|| false)
    }

    /// Waits until the gate lets this thread pass; returns false if the server has ended, or if `is_over` holds. It is
    /// checked again at each call of [`look_again`](Self::look_again).
    pub fn hold_unless(&self, is_over: impl Fn() -> bool) -> bool {
        let mut books = self.books();
        books.held += 1;
        self.changed.notify_all();
        let must_wait =
            |books: &mut Books| !books.is_open && books.passes == 0 && !books.has_ended && !is_over();
        let mut books = self.changed.wait_while(books, must_wait).unwrap();
        books.held -= 1;
        if books.has_ended || is_over() {
            return false;
        }
        if !books.is_open {
            books.passes -= 1;
        }
        true
    }

    /// Has held threads check their `is_over` again.
    pub fn look_again(&self) {
        self.change(|_| {});
    }

    /// Waits for a time, as a slow server does; returns false if the server has ended.
    pub fn pause(&self, time: Duration) -> bool {
        let books = self.books();
        let (books, _) = self.changed.wait_timeout_while(books, time, |books| !books.has_ended).unwrap();
        !books.has_ended
    }

    /// Waits until `count` threads are held at once.
    #[track_caller]
    pub fn wait_until_held(&self, count: usize) {
        let has_fewer = |books: &mut Books| books.held < count;
        let waited = self.changed.wait_timeout_while(self.books(), PATIENCE, has_fewer);
        let held = waited.unwrap().0.held;
        assert!(held >= count, "only {held} of {count} came to the gate");
    }

    /// Returns how many threads are held.
    pub fn held(&self) -> usize {
        self.books().held
    }

    /// Lets `count` threads pass, including threads that arrive later.
    pub fn release(&self, count: usize) {
        self.change(|books| books.passes += count);
    }

    /// Lets all threads pass from now on.
    pub fn open(&self) {
        self.change(|books| books.is_open = true);
    }

    /// Holds all threads that arrive from now on.
    pub fn close(&self) {
        self.change(|books| books.is_open = false);
    }

    /// Releases all threads because the server ends.
    pub fn end(&self) {
        self.change(|books| books.has_ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut Books)) {
        change(&mut self.books());
        self.changed.notify_all();
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }
}
