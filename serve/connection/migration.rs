//! The transfer of connections from one I/O thread to another.
//!
//! Only connections at rest are handed over, so that no other component holds the key of one; it gets a new key on its
//! new thread. A connection is on one thread at a time, and one in transfer arrives if its new thread runs. The choice
//! is made elsewhere; [`Handover`] follows orders.

use super::client_connection::ClientConnection;
use crate::io_thread::inbox::{Inbox, Message};
use svc_core::sync::load_sharing::HandoverOrder;
use svc_core::sync::primitive::{Arc, SegQueue};

/// The connections in transfer, by destination thread.
#[derive(Debug)]
pub(crate) struct Migration {
    queues: Box<[SegQueue<ClientConnection>]>,
    inboxes: Box<[Arc<Inbox>]>,
}

impl Migration {
    /// Connects the threads that read `inboxes`.
    pub(crate) fn new(inboxes: &[Arc<Inbox>]) -> Arc<Self> {
        let queues = inboxes.iter().map(|_| SegQueue::new()).collect();
        Arc::new(Self { queues, inboxes: inboxes.into() })
    }

    /// Sends a connection, which must not be registered with a poller, to thread `to`.
    pub(crate) fn send(&self, connection: ClientConnection, to: usize) {
        self.queues[to].push(connection);
        self.inboxes[to].send(Message::HandedOver);
    }

    /// Takes a connection that was sent to `thread`; each [`Message::HandedOver`] announces one.
    pub(crate) fn take(&self, thread: usize) -> Option<ClientConnection> {
        self.queues[thread].pop()
    }
}

/// The progress of a thread's handover order.
#[derive(Debug, Default)]
pub(super) struct Handover {
    order: HandoverOrder,
    /// The accumulated share; a whole one moves a connection.
    credit: u16,
}

impl Handover {
    /// Adopts the order in effect.
    pub(super) fn follow(&mut self, order: HandoverOrder) {
        if order != self.order {
            *self = Self { order, credit: 0 };
        }
    }

    /// Returns whether the order requires handovers.
    pub(super) fn is_pending(&self) -> bool {
        self.order.share > 0
    }

    /// Considers a connection at rest. Returns the thread that takes it over, if it moves; `seen` is the last round that
    /// considered it.
    pub(super) fn goes(&mut self, seen: &mut u32) -> Option<usize> {
        if std::mem::replace(seen, self.order.round) == self.order.round {
            return None;
        }
        self.credit += self.order.share;
        let goes = self.credit >= HandoverOrder::WHOLE;
        if goes {
            self.credit -= HandoverOrder::WHOLE;
        }
        goes.then_some(usize::from(self.order.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(round: u32, share: u16) -> HandoverOrder {
        HandoverOrder { round, to: 3, share }
    }

    /// Returns how many connections move.
    fn gone(handover: &mut Handover, seen: &mut [u32]) -> usize {
        seen.iter_mut().filter_map(|seen| handover.goes(seen)).inspect(|to| assert_eq!(*to, 3)).count()
    }

    #[test]
    fn the_share_of_those_that_come_to_rest_goes() {
        for (share, expected) in [(0, 0), (256, 25), (512, 50), (HandoverOrder::WHOLE, 100)] {
            let (mut handover, mut seen) = (Handover::default(), [0; 100]);
            handover.follow(order(1, share));
            assert_eq!(handover.is_pending(), share > 0);
            assert_eq!(gone(&mut handover, &mut seen), expected);
        }
    }

    #[test]
    fn a_connection_is_asked_once_an_order() {
        let (mut handover, mut seen) = (Handover::default(), [0; 100]);
        handover.follow(order(1, 512));
        assert_eq!(gone(&mut handover, &mut seen), 50);
        handover.follow(order(1, 512));
        assert_eq!(gone(&mut handover, &mut seen), 0);
        handover.follow(order(2, 512));
        assert_eq!(gone(&mut handover, &mut seen), 50);
    }
}
