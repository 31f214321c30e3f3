//! A gate in front of the answers of a scripted server: it holds the server's threads until the test lets them go, and
//! counts them, so that a test can tell how many clients wait at once without looking at a clock.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long a test waits for clients to arrive before it fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gate, closed at first.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    books: Mutex<Books>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Books {
    held: usize,
    /// How many of those that are held, or will be, may pass.
    passes: usize,
    is_open: bool,
    has_ended: bool,
}

impl Gate {
    /// Waits until the gate lets this thread pass; returns false if the server has ended.
    pub(crate) fn hold(&self) -> bool {
        self.hold_unless(|| false)
    }

    /// Waits until the gate lets this thread pass; returns false if the server has ended, or `is_over` once somebody has
    /// told the gate to [look again](Self::look_again).
    pub(crate) fn hold_unless(&self, is_over: impl Fn() -> bool) -> bool {
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

    /// Lets those go for whom it is over.
    pub(crate) fn look_again(&self) {
        self.change(|_| {});
    }

    /// Waits for a time, which is what a slow server does; returns false if the server has ended.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let books = self.books();
        let (books, _) = self.changed.wait_timeout_while(books, time, |books| !books.has_ended).unwrap();
        !books.has_ended
    }

    /// Waits until `count` are held at once.
    #[track_caller]
    pub(crate) fn wait_until_held(&self, count: usize) {
        let has_fewer = |books: &mut Books| books.held < count;
        let waited = self.changed.wait_timeout_while(self.books(), PATIENCE, has_fewer);
        let held = waited.unwrap().0.held;
        assert!(held >= count, "only {held} of {count} came to the gate");
    }

    /// How many are held.
    pub(crate) fn held(&self) -> usize {
        self.books().held
    }

    /// Lets `count` pass, those that come later included.
    pub(crate) fn release(&self, count: usize) {
        self.change(|books| books.passes += count);
    }

    /// Lets all pass from now on.
    pub(crate) fn open(&self) {
        self.change(|books| books.is_open = true);
    }

    /// Holds all who come from now on.
    pub(crate) fn close(&self) {
        self.change(|books| books.is_open = false);
    }

    /// Lets all go because the server ends.
    pub(crate) fn end(&self) {
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
