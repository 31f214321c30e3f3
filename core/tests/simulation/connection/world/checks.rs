//! The invariants of a connection at any time, and of each request at its end.

use std::sync::Arc;
use std::time::Duration;

use svc_core::connection::{Command, Connection, Ended, Input};
use svc_core::limits::{HEAD_BYTES_MAX, READ_BYTES};

use super::super::model::Seen;
use super::{Client, Taken, World};

impl World {
    /// Checks that an extra turn has no effect; otherwise a request for a turn was forgotten.
    pub(super) fn check_quiet(&mut self) {
        if self.is_in_line || self.is_closed || self.wire.cold.is_some() || self.plan.is_tls {
            return;
        }
        let room = std::mem::take(&mut self.wire.room);
        self.turn();
        while self.is_in_line {
            self.turn();
        }
        self.has_moved = false;
        let before = self.wire.taken.len();
        self.turn();
        assert!(!self.has_moved && !self.is_in_line, "a turn for nothing has moved something");
        assert_eq!(self.wire.taken.len(), before);
        self.wire.room = room;
        if room > 0 {
            self.turn();
        }
    }

    /// Checks that the data read ahead from a client is bounded.
    pub(super) fn check_input(&self) {
        let Client::Http1(client) = &self.client else { return };
        let begun = self.model.begun();
        let end = if begun == 0 { Some(&0) } else { client.ends.get(begun - 1) };
        if let Some(end) = end.filter(|_| self.model.open().next().is_some() || begun == 0) {
            let ahead = self.wire.fed.saturating_sub(*end);
            let bound = if begun == 0 { HEAD_BYTES_MAX + READ_BYTES } else { READ_BYTES };
            assert!(ahead <= bound, "{ahead} bytes were read ahead");
        }
    }

    /// Checks that the owner is busy or a deadline is set.
    pub(super) fn check_wait(&self) {
        self.owner_is_told();
        self.check_reader();
        let deadline = self.machine.deadline();
        assert!(
            deadline.is_some() || self.owner.is_busy(),
            "it has no waker: {:?}",
            self.model.open().collect::<Vec<_>>()
        );
    }

    /// Checks that a client that reads, however slowly, does not time out.
    pub(super) fn check_reader(&self) {
        let is_served = !self.plan.is_http2
            && self.is_blocked
            && self.model.open().any(|(_, record)| record.told.is_some());
        if is_served && self.plan.terms.exchange_timeout.is_none() {
            let least = self.progress_at + self.plan.terms.write_timeout;
            let deadline = self.machine.deadline();
            assert!(deadline.is_none_or(|deadline| deadline >= least), "a slow reader has too little time");
        }
    }

    /// Checks that the deadline covers the end of each wait for a worker.
    pub(super) fn owner_is_told(&self) {
        for (number, (_, until)) in &self.owner.waits {
            let is_open =
                self.model.records[*number].ended.is_none() && self.model.records[*number].told.is_none();
            if let Some(until) = until.filter(|_| is_open && self.plan.terms.exchange_timeout.is_none()) {
                let deadline = self.machine.deadline();
                assert!(
                    deadline.is_some_and(|deadline| deadline <= until),
                    "the wait of {number} has no end"
                );
            }
        }
    }

    pub(super) fn seen(&self, number: usize) -> Option<&Seen> {
        match &self.taken {
            Taken::Http1(reader) => reader.answers.get(number),
            Taken::Http2(reader) => reader.streams.get(&self.model.records[number].stream),
        }
    }

    pub(super) fn end(&mut self, ended: Ended) {
        let number = *self.machine.ended().expect("it has ended");
        self.model.end(number, ended);
        let seen = self.seen(number).cloned().unwrap_or_default();
        let record = self.model.records[number].clone();
        if ended.is_lost {
            assert!(
                self.model.is_excused || record.is_reset,
                "request {number} is lost without a reason: {record:?}"
            );
        } else {
            assert!(record.told.is_some(), "request {number} ends without an answer");
            let is_out = seen.is_complete || seen.is_reset || seen.is_until_close;
            let is_whole = record.is_whole();
            assert!(is_out || !is_whole, "the response to {number} is not out: {seen:?}, {record:?}");
            assert!(
                !is_whole || seen.body == record.body_bytes(),
                "the response to {number} is cut: {seen:?}"
            );
        }
        let (sent, taken) = (ended.sent_bytes as usize, seen.body);
        if let Taken::Http2(reader) = &self.taken {
            let taken = taken + reader.part_of(record.stream);
            assert_eq!(
                sent, taken,
                "request {number} counts other bytes than the socket has taken: {record:?}"
            );
            return;
        }
        if !ended.is_lost {
            assert_eq!(
                sent, taken,
                "request {number} counts other bytes than the socket has taken: {record:?}"
            );
            return;
        }
        // Data not sent yet counts in full, including its framing.
        let wire = &mut self.wire;
        let lost = self
            .machine
            .transmit(self.now, |output| Err::<(), _>(wire.lost(output)).map(|()| unreachable!()));
        let lost = lost.expect_err("it was only looked at").len();
        assert!(sent <= taken && taken <= sent + lost, "{number}: {sent} of {taken} bytes, {lost} are lost");
        let Taken::Http1(reader) = &self.taken else { return };
        let is_chunked = record.told.is_some_and(|told| told.length.is_none());
        assert!(
            is_chunked || sent == taken || reader.unfinished().is_none(),
            "{number}: {sent} of {taken} bytes"
        );
    }

    pub(super) fn close(&mut self, is_whole: bool) {
        self.is_closed = true;
        self.model.close();
        // The state stays the same whatever is called now.
        for _ in 0..5 {
            self.call_stale();
        }
        self.machine.handle(Input::Timeout, self.now + Duration::from_secs(1000));
        let (is_closing, is_memory_tight) = (self.dice.one_in(2), self.dice.one_in(2));
        self.machine.handle(Input::Turn { is_closing, is_memory_tight }, self.now);
        assert!(
            matches!(self.machine.poll_command(self.wire.peer(), self.now), Command::Close { .. }),
            "it does more after its end"
        );
        if is_whole && let Taken::Http1(reader) = &self.taken {
            let is_cut = reader.unfinished().is_some_and(|seen| !seen.is_until_close);
            assert!(!is_cut, "a truncated response looks complete to the peer");
        }
    }

    pub(super) fn check_permits(&mut self) {
        let terms = Arc::new(self.plan.terms.clone());
        self.machine = Connection::new(terms, false, self.now);
        assert_eq!(self.permits.free(), self.plan.permits, "a permit is lost");
    }

    /// Checks that each valid request got its response.
    pub(super) fn check_peace(&self) {
        assert!(!self.model.is_excused);
        for (number, record) in self.model.records.iter().enumerate().filter(|(_, record)| record.is_begun) {
            let (_, is_lost) =
                record.ended.unwrap_or_else(|| panic!("request {number} has no answer: {record:?}"));
            assert!(!is_lost);
        }
        match &self.client {
            Client::Http1(client) => {
                let keeps = client.reader.answers.iter().all(|seen| seen.keeps);
                assert!(
                    client.is_done(&self.plan) || !keeps || self.is_closing,
                    "the client has more to send"
                );
                let last = client.reader.unfinished().filter(|seen| !seen.is_until_close);
                assert!(last.is_none(), "the last response is cut");
                if keeps && !self.is_closing {
                    assert_eq!(self.model.begun(), client.writing, "a request got no answer");
                }
            }
            Client::Http2(client) => {
                assert!(client.is_done(&self.plan), "the client has more to send");
                if !client.is_over {
                    assert_eq!(self.model.begun(), client.asked(), "a request got no answer");
                }
            }
        }
    }
}
