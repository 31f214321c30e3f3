//! Buffers that a connection needs only while bytes are in flight, reused by the connections of a thread.
//!
//! An idle connection holds none. The number kept by a thread is bounded, and returned buffers are empty. Threads share
//! nothing.

use std::cell::RefCell;

/// The number of spares of a kind that a thread keeps. Few connections of a thread have bytes in flight at the same
/// time; the others use the allocator.
const COUNT_MAX: usize = 16;

/// The maximum capacity of a buffer that is kept, in bytes.
const BUFFER_BYTES_MAX: usize = 16 * 1024;

/// The spares of one kind.
#[derive(Debug)]
pub(super) struct Spares<T>(RefCell<Vec<T>>);

impl<T: Default> Spares<T> {
    /// Creates an empty store.
    pub(super) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// Takes a spare, or creates one without memory.
    pub(super) fn take(&self) -> T {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns an empty spare to the store.
    pub(super) fn give(&self, spare: T) {
        let mut spares = self.0.borrow_mut();
        if spares.len() < COUNT_MAX {
            spares.push(spare);
        }
    }
}

thread_local! {
    static BUFFERS: Spares<Vec<u8>> = const { Spares::new() };
}

/// Returns an empty buffer.
pub(super) fn take_buffer() -> Vec<u8> {
    BUFFERS.with(Spares::take)
}

/// Returns a buffer to the store, or frees it if it is too large.
pub(super) fn give_buffer(mut buffer: Vec<u8>) {
    if (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
        buffer.clear();
        BUFFERS.with(|spares| spares.give(buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_buffer_is_empty_and_their_memory_is_bounded() {
        give_buffer(b"secret".to_vec());
        let again = take_buffer();
        assert!(again.is_empty() && again.capacity() >= 6);
        assert_eq!(take_buffer().capacity(), 0, "there was one");
        give_buffer(Vec::with_capacity(BUFFER_BYTES_MAX + 1));
        assert_eq!(take_buffer().capacity(), 0, "it was too large");
        (0..2 * COUNT_MAX).for_each(|_| give_buffer(vec![1]));
        assert_eq!(BUFFERS.with(|spares| spares.0.borrow().len()), COUNT_MAX);
    }
}
