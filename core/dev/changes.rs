//! The revision of the code, and the browsers that wait for another one.

use crate::pool::{Notify, StreamKey};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// The path at which browsers wait for a change. Paths with a dot segment of this form are never public otherwise.
pub const CHANGES_PATH: &[u8] = b"/.svc/changes";

/// The most browsers that wait at the same time. Others are answered at once, and try again.
const WAITS_MAX: usize = 256;

/// The changes of the code, as browsers see them.
#[derive(Debug)]
pub struct Changes {
    instance: u64,
    state: ShortLock<ChangesState>,
}

#[derive(Debug, Default)]
struct ChangesState {
    count: u64,
    is_closed: bool,
    waits: Vec<(StreamKey, Arc<dyn Notify>)>,
}

impl Changes {
    pub(super) fn new(instance: u64) -> Self {
        Self { instance, state: ShortLock::default() }
    }

    /// Returns the name of the present revision. It contains only letters, digits and a hyphen.
    pub fn revision(&self) -> String {
        self.name(self.state.lock().count)
    }

    fn name(&self, count: u64) -> String {
        format!("{:x}-{count}", self.instance)
    }

    /// Notes a change: the revision is another one from now on, and all waits end.
    pub fn note(&self) {
        let waits = {
            let mut state = self.state.lock();
            state.count += 1;
            std::mem::take(&mut state.waits)
        };
        notify(&waits);
    }

    /// Ends all waits, also future ones: the server stops.
    pub fn close(&self) {
        let waits = {
            let mut state = self.state.lock();
            state.is_closed = true;
            std::mem::take(&mut state.waits)
        };
        notify(&waits);
    }

    /// Makes the stream wait while the revision is the one that the browser has seen. Returns false if there is nothing
    /// to wait for.
    pub fn wait(&self, seen: &[u8], stream: StreamKey, notify: Arc<dyn Notify>) -> bool {
        let mut state = self.state.lock();
        if state.is_closed || state.waits.len() >= WAITS_MAX || self.name(state.count).as_bytes() != seen {
            return false;
        }
        state.waits.push((stream, notify));
        true
    }

    /// Ends the wait of a stream, if it still waits.
    pub fn leave(&self, stream: StreamKey) {
        self.state.lock().waits.retain(|(waiting, _)| *waiting != stream);
    }
}

/// Notifies without the lock: an I/O thread may leave meanwhile.
fn notify(waits: &[(StreamKey, Arc<dyn Notify>)]) {
    for (stream, notify) in waits {
        notify.response_ready(*stream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Told(ShortLock<Vec<u32>>);

    impl Notify for Told {
        fn response_ready(&self, key: StreamKey) {
            self.0.lock().push(key.stream);
        }
    }

    fn stream(stream: u32) -> StreamKey {
        StreamKey { connection: 1, stream }
    }

    #[test]
    fn a_change_ends_each_wait_once() {
        let (changes, told) = (Changes::new(0xab), Arc::new(Told::default()));
        let seen = changes.revision();
        assert_eq!(seen, "ab-0");
        for number in [1, 2, 3] {
            assert!(changes.wait(seen.as_bytes(), stream(number), Arc::clone(&told) as Arc<dyn Notify>));
        }
        changes.leave(stream(2));
        changes.note();
        changes.note();
        assert_eq!(*told.0.lock(), [1, 3]);
        assert_eq!(changes.revision(), "ab-2");
    }

    #[test]
    fn a_client_with_another_revision_does_not_wait() {
        let (changes, told) = (Changes::new(1), Arc::new(Told::default()));
        for seen in ["", "1-1", "0-0", "1-0 "] {
            assert!(
                !changes.wait(seen.as_bytes(), stream(1), Arc::clone(&told) as Arc<dyn Notify>),
                "{seen}"
            );
        }
    }

    #[test]
    fn a_stopping_server_ends_waits() {
        let (changes, told) = (Changes::new(1), Arc::new(Told::default()));
        assert!(changes.wait(b"1-0", stream(1), Arc::clone(&told) as Arc<dyn Notify>));
        changes.close();
        assert_eq!(*told.0.lock(), [1]);
        assert!(!changes.wait(b"1-0", stream(2), Arc::clone(&told) as Arc<dyn Notify>));
    }

    #[test]
    fn the_number_of_waits_is_bounded() {
        let (changes, told) = (Changes::new(1), Arc::new(Told::default()));
        let waiting = (0..1000)
            .filter(|number| changes.wait(b"1-0", stream(*number), Arc::clone(&told) as Arc<dyn Notify>));
        assert_eq!(waiting.count(), WAITS_MAX);
    }
}
