//! The events of a history, and its end.

use std::time::Duration;

use svc_core::connection::{Input, Stream};

use super::super::owner::{number_of, visit};
use super::super::plan::Ending;
use super::{Client, World};

impl World {
    pub(super) fn step(&mut self) {
        match self.dice.below(24) {
            0..4 => self.client_writes(),
            4..8 => {
                let max = 1 + self.dice.index(self.plan.packet_bytes);
                if self.wire.arrive(max) {
                    self.turn();
                }
            }
            8..12 => self.client_reads(),
            12..16 => {
                if self.owner_works() {
                    self.turn();
                }
            }
            16..18 => self.advance_clock(),
            18 => self.check_quiet(),
            19 | 20 if self.is_in_line => self.turn(),
            19 => self.call_stale(),
            20 if self.dice.one_in(10) => {
                self.is_closing = true;
                self.turn();
            }
            _ if self.plan.is_calm => self.client_reads(),
            _ => self.fail(),
        }
    }

    /// Injects a failure.
    pub(super) fn fail(&mut self) {
        match self.dice.below(60) {
            0 => {
                self.model.is_excused = true;
                self.wire.is_ending = true;
            }
            1 => {
                self.model.is_excused = true;
                self.wire.is_broken = true;
                self.turn();
            }
            2 => {
                self.model.is_excused = true;
                self.machine.handle(Input::Abort, self.now);
                self.turn();
            }
            3 => {
                self.model.is_excused = true;
                self.is_closing = true;
                self.owner.cut_off(&mut self.machine, &mut self.model, self.now);
                self.turn();
                self.machine.handle(Input::Abort, self.now);
                self.turn();
            }
            4 => {
                self.owner.lose_pool(&mut self.machine, &mut self.model, self.now);
                self.turn();
            }
            5..9 => {
                if let Client::Http2(client) = &mut self.client {
                    self.model.is_excused = true;
                    if let Some(number) = client.misbehave(&mut self.dice) {
                        self.model.records[number].is_reset = true;
                    }
                }
            }
            9..12 => {
                if let Client::Http2(client) = &mut self.client {
                    client.is_stalled = self.dice.one_in(2);
                }
            }
            _ => self.client_reads(),
        }
    }

    pub(super) fn client_writes(&mut self) {
        let max = 1 + self.dice.size(70_000);
        self.client_writes_up_to(max);
    }

    pub(super) fn client_writes_up_to(&mut self, max: usize) -> bool {
        if self.wire.is_ending {
            return false;
        }
        let bytes = match &mut self.client {
            Client::Http1(client) => client.write(&self.plan, max, &mut self.dice),
            Client::Http2(client) => {
                if self.dice.one_in(4) && !self.is_at_peace {
                    client.widen(&mut self.dice);
                }
                client.write(&self.plan, max, &mut self.dice)
            }
        };
        let moved = !bytes.is_empty();
        self.wire.on_the_way.extend(bytes);
        moved
    }

    /// Lets the client read some of the socket's data, and the socket accept more.
    pub(super) fn client_reads(&mut self) {
        let max = 1 + self.dice.size(100_000);
        let room = self.dice.index(self.plan.socket_bytes + 1);
        self.client_reads_up_to(max, room);
    }

    pub(super) fn client_reads_up_to(&mut self, max: usize, room: usize) -> bool {
        let count = max.min(self.wire.outbox.len());
        let bytes: Vec<u8> = self.wire.outbox.drain(..count).collect();
        match &mut self.client {
            Client::Http1(client) => {
                client.reader.feed(&bytes, &self.model);
                client.check(&self.model);
            }
            Client::Http2(client) => client.read(&bytes, &self.model),
        }
        if room > 0 && !self.is_closed {
            self.wire.room += room;
            self.turn();
        }
        count > 0
    }

    pub(super) fn owner_works(&mut self) -> bool {
        self.owner.work(&mut self.machine, &mut self.model, &self.plan, &mut self.dice, self.now)
    }

    /// Advances the clock: a little, or to just before, at or after the deadline.
    pub(super) fn advance_clock(&mut self) {
        let ms = Duration::from_millis;
        let deadline = self.machine.deadline();
        let next = match (self.dice.below(8), deadline) {
            (0, Some(deadline)) if !self.plan.is_calm => deadline.checked_sub(ms(1)).unwrap_or(deadline),
            (1, Some(deadline)) if !self.plan.is_calm => deadline,
            (2, Some(deadline)) if !self.plan.is_calm => deadline + ms(self.dice.below(3000)),
            _ if self.plan.is_calm => self.now,
            _ => self.now + ms(self.dice.below(200)),
        };
        self.now = self.now.max(next);
        if let Some(deadline) = deadline.filter(|deadline| *deadline <= self.now) {
            self.model.is_excused = true;
            assert!(deadline <= self.now);
        }
        if self.dice.one_in(2) || deadline.is_some_and(|deadline| deadline <= self.now) {
            self.machine.handle(Input::Timeout, self.now);
            self.turn();
        }
    }

    /// Makes calls that are late, duplicate, or for a request that never existed.
    pub(super) fn call_stale(&mut self) {
        let stream = match self.dice.below(4) {
            0 => 0,
            1 => u32::MAX,
            _ => 2 * self.dice.below(14) as u32 + 1,
        };
        let number = number_of(&mut self.machine, stream);
        if number.is_some() && self.plan.is_http2 {
            // The stream exists, so the call would not be stale.
            return;
        }
        match self.dice.below(8) {
            0 => visit(&mut self.machine, stream, Stream::note_response),
            1 => visit(&mut self.machine, stream, Stream::retry_spool),
            2 => self.machine.handle(Input::Cached, self.now),
            3 => self.machine.handle(Input::Timeout, self.now - Duration::from_millis(1)),
            4 => visit(&mut self.machine, stream, |stream| {
                let _ = (stream.has_response(), stream.is_waiting());
            }),
            _ => {
                let _ = self.machine.deadline();
            }
        }
        if self.dice.one_in(2) {
            self.turn();
        }
    }

    /// Ends the history.
    pub(super) fn finish(&mut self) {
        match self.plan.ending {
            Ending::Peace => self.make_peace(),
            Ending::Silence => {}
            Ending::Abort => self.machine.handle(Input::Abort, self.now),
            Ending::Loss => self.wire.is_broken = true,
        }
        self.model.is_excused = true;
        self.turn();
        for _ in 0..2000 {
            while !self.is_closed && (self.is_in_line || self.owner_works()) {
                self.turn();
            }
            if self.is_closed {
                self.check_permits();
                return;
            }
            let Some(deadline) = self.machine.deadline() else { panic!("nothing ends it: {:?}", self.model) };
            self.now = self.now.max(deadline);
            self.machine.handle(Input::Timeout, self.now);
            self.turn();
        }
        panic!("no deadline ends it: {:?}", self.machine);
    }

    /// Completes all outstanding work; then the client leaves.
    pub(super) fn make_peace(&mut self) {
        self.wire.cold = None;
        self.owner.disk_fails = false;
        if let Client::Http2(client) = &mut self.client {
            client.is_stalled = false;
        }
        self.is_at_peace = true;
        let mut quiet = 0;
        for _ in 0..if self.plan.is_calm { 100_000 } else { 300 } {
            let mut moved = self.client_writes_up_to(1 << 20);
            if self.wire.arrive(1 << 20) {
                (moved, _) = (true, self.turn());
            }
            for _ in 0..1000 {
                if !self.is_closed && (self.owner_works() || self.is_in_line) {
                    (moved, _) = (true, self.turn());
                }
            }
            moved |= self.client_reads_up_to(usize::MAX, 1 << 20);
            if let Client::Http2(client) = &mut self.client
                && (!moved || self.dice.one_in(8))
            {
                client.widen(&mut self.dice);
            }
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet > 40 {
                break;
            }
        }
        if self.plan.is_calm {
            assert!(quiet > 40, "it never comes to rest");
        }
        if self.plan.is_kind {
            self.check_peace();
        }
        self.wire.is_ending = true;
        self.wire.arrive(0);
    }
}
