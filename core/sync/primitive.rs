//! The only module that names `std::sync::atomic`, crossbeam or the futex; under `--cfg loom` it uses loom.
//!
//! Both builds have the same names with the same meaning, so that loom explores the code that the server runs,
//! including the threads of its pool.

#[cfg(not(loom))]
mod real {
    pub use std::sync::Arc;
    pub use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
    pub use std::thread::{Builder as ThreadBuilder, JoinHandle};

    pub use atomic_wait::{wait, wake_all, wake_one};
    pub use crossbeam_queue::{ArrayQueue, SegQueue};
    pub use crossbeam_utils::CachePadded;

    #[expect(clippy::disallowed_types, reason = "only `sync::lock` uses it, and wraps it")]
    pub(crate) type RawLock<T> = std::sync::Mutex<T>;
    pub(crate) type RawGuard<'a, T> = std::sync::MutexGuard<'a, T>;
}

#[cfg(loom)]
#[expect(missing_docs, reason = "each means what its namesake in the other build means")]
mod real {
    use std::collections::VecDeque;
    // The standard one: loom's cannot hold a trait object, and no decision here depends on the reference count.
    pub use std::sync::Arc;

    pub use crossbeam_utils::CachePadded;
    pub use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

    pub(crate) type RawLock<T> = loom::sync::Mutex<T>;
    pub(crate) type RawGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    /// Starts threads of the model; loom sets their stack size.
    #[derive(Debug)]
    pub struct ThreadBuilder(loom::thread::Builder);

    impl ThreadBuilder {
        #[expect(clippy::new_without_default, reason = "its namesake has no default")]
        pub fn new() -> Self {
            Self(loom::thread::Builder::new())
        }

        #[must_use]
        pub fn name(self, name: String) -> Self {
            Self(self.0.name(name))
        }

        #[must_use]
        pub fn stack_size(self, _bytes: usize) -> Self {
            self
        }

        pub fn spawn<T: Send + 'static>(
            self,
            act: impl FnOnce() -> T + Send + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            self.0.spawn(act).map(JoinHandle)
        }
    }

    #[derive(Debug)]
    pub struct JoinHandle<T>(loom::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        pub fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        /// Models join their threads; loom does not report whether one has finished.
        pub fn is_finished(&self) -> bool {
            false
        }
    }

    loom::lazy_static! {
        static ref SLEEPERS: (loom::sync::Mutex<()>, loom::sync::Condvar) =
            (loom::sync::Mutex::new(()), loom::sync::Condvar::new());
    }

    /// Compares and sleeps in one step, like the kernel's futex does under its bucket lock.
    pub fn wait(word: &AtomicU32, expected: u32) {
        let guard = SLEEPERS.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(SLEEPERS.1.wait(guard).unwrap());
        }
    }

    /// Wakes every sleeper; the ones whose word did not change see a spurious wake-up.
    pub fn wake_all(_word: *const AtomicU32) {
        let _guard = SLEEPERS.0.lock().unwrap();
        SLEEPERS.1.notify_all();
    }

    /// Wakes every sleeper, because there is one list for all words; the intended one is among them.
    pub fn wake_one(word: *const AtomicU32) {
        wake_all(word);
    }

    /// A bounded queue as a list under a lock; linearizable, like that of crossbeam.
    #[derive(Debug)]
    pub struct ArrayQueue<T> {
        items: loom::sync::Mutex<VecDeque<T>>,
        capacity: usize,
    }

    impl<T> ArrayQueue<T> {
        pub fn new(capacity: usize) -> Self {
            Self { items: loom::sync::Mutex::new(VecDeque::new()), capacity }
        }

        pub fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().unwrap();
            if items.len() == self.capacity {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub fn pop(&self) -> Option<T> {
            self.items.lock().unwrap().pop_front()
        }

        pub fn len(&self) -> usize {
            self.items.lock().unwrap().len()
        }

        pub fn is_empty(&self) -> bool {
            self.len() == 0
        }

        pub fn is_full(&self) -> bool {
            self.len() == self.capacity
        }

        pub fn capacity(&self) -> usize {
            self.capacity
        }
    }

    /// An unbounded queue as a list under a lock.
    #[derive(Debug)]
    pub struct SegQueue<T>(loom::sync::Mutex<VecDeque<T>>);

    impl<T> Default for SegQueue<T> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl<T> SegQueue<T> {
        pub fn new() -> Self {
            Self(loom::sync::Mutex::new(VecDeque::new()))
        }

        pub fn push(&self, item: T) {
            self.0.lock().unwrap().push_back(item);
        }

        pub fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }

        pub fn is_empty(&self) -> bool {
            self.0.lock().unwrap().is_empty()
        }
    }
}

pub use real::*;
