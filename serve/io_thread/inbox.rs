//! How other threads reach an I/O thread.
//!
//! No message is missed; an I/O thread that is awake is not woken, so a busy server pays for no wake-ups. A sender
//! never blocks.

use std::io;

use mio::{Poll, Token, Waker};

use svc_core::pool::{Notify, StreamKey};
use svc_core::sync::primitive::{Arc, AtomicBool, Ordering, SegQueue, fence};

use super::new_connection::NewConnection;
use crate::disk::file_job::Done;
use crate::disk::threads::JobClient;

/// A message to an I/O thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// A new connection.
    NewConnection(NewConnection),
    /// The drain deadline has passed: cut off all requests.
    CutOff,
    /// The phase of the server has changed.
    PhaseChanged,
    /// A file thread has finished a job for the stream with this key.
    Disk(StreamKey, Done),
    /// Another I/O thread has handed over a connection.
    HandedOver,
    /// No worker thread is left.
    PoolGone,
    /// Parts of a response are ready, for the stream with this key.
    ResponseReady(StreamKey),
    /// The rules were reloaded.
    RulesChanged,
    /// End the thread.
    Stop,
}

/// The inbox of one I/O thread.
///
/// # Ordering
///
/// The reader announces that it is about to sleep and then checks for messages once more; a sender publishes its message
/// and then checks whether the reader sleeps. A `SeqCst` fence between the two steps on each side ensures that at least
/// one of them sees the other.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: SegQueue<Message>,
    asleep: AtomicBool,
    waker: Waker,
}

impl Inbox {
    /// Creates the inbox of the I/O thread that polls `poll`.
    pub(crate) fn new(poll: &Poll, token: Token) -> io::Result<Arc<Self>> {
        let waker = Waker::new(poll.registry(), token)?;
        Ok(Arc::new(Self { messages: SegQueue::new(), asleep: AtomicBool::new(false), waker }))
    }

    /// Sends `message` and wakes the reader if it sleeps.
    pub(crate) fn send(&self, message: Message) {
        self.messages.push(message);
        // SeqCst: pairs with the fence in `prepare_sleep`.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // Fails only when the counter is full, and then the reader is already being woken.
            let _ = self.waker.wake();
        }
    }

    /// Takes the oldest message.
    pub(crate) fn take(&self) -> Option<Message> {
        self.messages.pop()
    }

    /// Announces that the reader is about to sleep; returns whether it may, that is, whether there is no message.
    pub(crate) fn prepare_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        // SeqCst: pairs with the fence in `send`.
        fence(Ordering::SeqCst);
        if self.messages.is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::Relaxed);
        false
    }

    /// Notes that the reader is awake.
    pub(crate) fn awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }
}

impl JobClient for Inbox {
    fn job_done(&self, key: StreamKey, done: Done) {
        self.send(Message::Disk(key, done));
    }
}

impl Notify for Inbox {
    fn response_ready(&self, key: StreamKey) {
        self.send(Message::ResponseReady(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inbox() -> (Poll, Arc<Inbox>) {
        let poll = Poll::new().unwrap();
        let inbox = Inbox::new(&poll, Token(0)).unwrap();
        (poll, inbox)
    }

    #[test]
    fn a_message_forbids_the_sleep() {
        let (_poll, inbox) = inbox();
        assert!(inbox.prepare_sleep());
        inbox.awake();
        inbox.send(Message::PoolGone);
        assert!(!inbox.prepare_sleep());
        assert!(matches!(inbox.take(), Some(Message::PoolGone)));
    }

    #[test]
    fn a_sleeping_reader_is_woken() {
        let (mut poll, inbox) = inbox();
        assert!(inbox.prepare_sleep());
        std::thread::scope(|scope| {
            scope.spawn(|| inbox.send(Message::Stop));
            poll.poll(&mut mio::Events::with_capacity(4), None).unwrap();
        });
        assert!(matches!(inbox.take(), Some(Message::Stop)));
    }
}
