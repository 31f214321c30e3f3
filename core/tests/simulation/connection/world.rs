//! A connection, its owner, its transport and its client, on a simulated clock.

mod checks;
mod history;

use std::sync::Arc;
use std::time::Instant;

use svc_core::connection::{Command, Connection, Grant, Incoming, Input, Rejected, Unreadable};
use svc_core::limits::{HTTP2_STREAMS_MAX, LINK_STEPS_MAX, OUTPUT_BYTES_MAX, SEND_FILE_BYTES};
use svc_core::sync::permits::Permits;
use svc_core::time;

use super::model::Model;
use super::owner::{Machine, Owner};
use super::peer_http1::Http1Client;
use super::peer_http2::Http2Client;
use super::plan::{Answerer, Asked, Dice, Given, Plan};
use super::readers::{Http1Reader, Http2Reader};
use super::wire::{Got, Wire};

pub(crate) enum Client {
    Http1(Box<Http1Client>),
    Http2(Box<Http2Client>),
}

/// A reader of the bytes accepted by the socket, without delay.
enum Taken {
    Http1(Http1Reader),
    Http2(Box<Http2Reader>),
}

pub(crate) struct World {
    dice: Dice,
    plan: Plan,
    began: Instant,
    now: Instant,
    is_told: bool,
    machine: Machine,
    model: Model,
    owner: Owner,
    wire: Wire,
    client: Client,
    taken: Taken,
    permits: Arc<Permits>,
    is_closing: bool,
    /// Whether the machine has asked for another turn.
    is_in_line: bool,
    is_closed: bool,
    /// The number of consecutive turns that it asked for and did nothing in.
    idle_yields: u32,
    /// Whether the last turn had an effect.
    has_moved: bool,
    commands: u64,
    /// Whether the last write was incomplete, and when a write last made progress.
    is_blocked: bool,
    progress_at: Instant,
    /// The maximum number of bytes put into an output at once.
    piece_bytes_max: usize,
    /// Whether no peer does more than is due.
    is_at_peace: bool,
}

impl World {
    /// Starts the history of a seed; with `is_told`, prints the machine's commands.
    pub(crate) fn new(seed: u64, is_told: bool) -> Self {
        let mut dice = Dice::new(seed);
        let plan = Plan::draw(&mut dice);
        let (now, is_http2) = (time::now(), plan.is_http2);
        let mut wire = Wire::new(plan.is_tls);
        wire.room = dice.of(&[0, 100, 5000, 100_000]);
        wire.cold = (!plan.is_kind && dice.one_in(4)).then_some(5);
        let mut owner = Owner::new(&plan);
        owner.disk_fails = !plan.is_kind && dice.one_in(4);
        Self {
            machine: Connection::new(Arc::new(plan.terms.clone()), !plan.is_tls, now),
            model: Model::new(&plan.requests),
            owner,
            wire,
            client: if is_http2 {
                Client::Http2(Box::new(Http2Client::new()))
            } else {
                Client::Http1(Box::default())
            },
            taken: if is_http2 { Taken::Http2(Box::default()) } else { Taken::Http1(Http1Reader::default()) },
            permits: Permits::new(plan.permits),
            is_closing: false,
            is_in_line: false,
            is_closed: false,
            idle_yields: 0,
            has_moved: false,
            commands: 0,
            is_blocked: false,
            progress_at: now,
            piece_bytes_max: piece_bytes_max(&plan),
            is_at_peace: false,
            dice,
            plan,
            began: now,
            now,
            is_told,
        }
    }

    pub(crate) fn run(mut self) -> u64 {
        self.turn();
        for _ in 0..self.plan.steps {
            if self.is_closed {
                break;
            }
            self.step();
        }
        self.finish();
        self.commands
    }

    /// Gives the machine a turn, and carries out its commands.
    fn turn(&mut self) {
        if self.is_closed {
            return;
        }
        self.is_in_line = false;
        let is_memory_tight = self.dice.one_in(8);
        self.machine.handle(Input::Turn { is_closing: self.is_closing, is_memory_tight }, self.now);
        let mut commands = 0;
        loop {
            let command = self.machine.poll_command(self.wire.peer(), self.now);
            commands += 1;
            self.commands += 1;
            let most = if self.machine.is_multiplexed() {
                12 * HTTP2_STREAMS_MAX * LINK_STEPS_MAX
            } else {
                2 * LINK_STEPS_MAX + 8
            };
            if self.is_told {
                let text: String = format!("{command:?}").chars().take(150).collect();
                println!("{:?} {text}", self.now - self.began);
            }
            assert!(commands <= most, "a turn has no end: {command:?}");
            match command {
                Command::Wait => break self.check_wait(),
                Command::Yield => {
                    self.is_in_line = true;
                    self.idle_yields = if commands == 1 { self.idle_yields + 1 } else { 0 };
                    assert!(self.idle_yields < 20, "it asks for turns and does nothing in them");
                    break;
                }
                Command::Close { is_whole } => break self.close(is_whole),
                command => self.carry_out(command),
            }
        }
        let seen = std::mem::take(&mut self.wire.taken);
        assert!(seen.is_empty(), "bytes were taken behind a write");
    }

    fn carry_out(&mut self, command: Command) {
        self.has_moved |= !matches!(command, Command::Read { .. } | Command::Transmit);
        let now = self.now;
        match command {
            Command::Ended(ended) => self.end(ended),
            Command::Read { looks_again } => {
                // A request cut off while a piece is being spooled gets its response, and the rest of its body is
                // discarded.
                let is_answered = self.machine.stream(0).is_none_or(|stream| stream.has_response());
                assert!(
                    self.plan.is_http2 || is_answered || self.owner.spooling == 0,
                    "it reads on while a piece of a body is on its way to the disk"
                );
                match self.wire.read(looks_again) {
                    Got::Bytes(bytes) => {
                        self.has_moved = true;
                        self.machine.handle(Input::Bytes(&bytes), now);
                    }
                    Got::End => self.machine.handle(Input::End, now),
                    Got::Nothing => self.machine.handle(Input::WouldBlock, now),
                }
                self.see_taken();
                self.check_input();
            }
            Command::Rejected(rejection) => panic!("{rejection:?} of a head that is short enough"),
            Command::Request(incoming) => self.start(incoming),
            Command::ShutDown { .. } => self.wire.is_shut = true,
            Command::Stream(stream, ask) => {
                self.owner.handle_ask(
                    &mut self.machine,
                    &mut self.model,
                    &self.plan,
                    (stream, ask),
                    &mut self.dice,
                    now,
                );
            }
            Command::Transmit => self.transmit(),
            Command::Unreadable(unreadable) => self.start_unreadable(&unreadable),
            Command::Wait | Command::Yield | Command::Close { .. } => unreachable!("they end the turn"),
        }
    }

    fn transmit(&mut self) {
        let (wire, dice, mut cold, mut last) = (&mut self.wire, &mut self.dice, false, None);
        let bound = OUTPUT_BYTES_MAX + self.piece_bytes_max;
        let result = self.machine.transmit(self.now, |output| {
            assert!(output.len() <= bound, "{} bytes wait in the output", output.len());
            let sent = wire.write(output, dice)?;
            cold = output.take_cold().is_some();
            last = Some(sent);
            Ok::<_, ()>(sent)
        });
        if let (Ok(()), Some(sent)) = (result, last) {
            let was_blocked = std::mem::replace(&mut self.is_blocked, !sent.is_all);
            if sent.bytes > 0 || !was_blocked {
                self.progress_at = self.now;
            }
        }
        if cold {
            self.owner.order_warm();
        }
        self.see_taken();
    }

    /// Reads the bytes accepted by the socket.
    fn see_taken(&mut self) {
        self.has_moved |= !self.wire.taken.is_empty();
        let bytes = std::mem::take(&mut self.wire.taken);
        match (&mut self.taken, &self.client) {
            (Taken::Http1(reader), _) => reader.feed(&bytes, &self.model),
            (Taken::Http2(reader), Client::Http2(client)) => {
                reader.feed(&bytes, &self.model, |stream| client.number_of(stream), |_| {});
            }
            _ => unreachable!("both speak the same"),
        }
    }

    fn start(&mut self, incoming: Incoming) {
        let Incoming { stream, head, needs_permit, .. } = incoming;
        let target = std::str::from_utf8(head.target()).expect("a target is text");
        let number: usize = target[1..].parse().unwrap_or_else(|_| panic!("unexpected request for {target}"));
        if !self.plan.is_http2 {
            assert_eq!(number, self.model.begun(), "requests begin out of order");
        }
        let permit = needs_permit.then(|| self.permits.try_acquire());
        if let Some(None) = permit {
            self.model.records[number].is_refused = true;
            return self.machine.handle(Input::Refuse, self.now);
        }
        self.model.begin(number, stream);
        let asked = &self.plan.requests[number];
        let grant = Grant {
            body_bytes_max: asked.granted,
            outlives_client: asked.outlives,
            permit: permit.flatten(),
        };
        let fits = self.machine.begin(number, grant, self.now);
        self.owner.start(&mut self.machine, &mut self.model, &self.plan, (stream, number), fits, self.now);
    }

    fn start_unreadable(&mut self, unreadable: &Unreadable) {
        let number = self.model.begun();
        let is_late = unreadable.error == Rejected::Late;
        assert!(!self.plan.is_http2 || is_late, "{unreadable:?} of a client that only asks well");
        assert!(
            is_late
                || self.plan.requests[number].malformed.is_some()
                || self.plan.terms.exchange_timeout.is_some(),
            "{unreadable:?} of a good head"
        );
        self.model.begin(number, unreadable.stream);
        self.model.records[number].is_unreadable = true;
        assert!(self.machine.begin(number, Grant::default(), self.now));
        let at = (unreadable.stream, number);
        if self.plan.is_http2 {
            // The preface has not arrived, and this client would not understand the error.
            return self.machine.handle(Input::Abort, self.now);
        }
        self.owner.answer(&mut self.machine, &mut self.model, at, if is_late { 408 } else { 400 }, self.now);
    }
}

/// Returns the maximum number of bytes put into an output at once, including heads and frames.
fn piece_bytes_max(plan: &Plan) -> usize {
    let pieces = plan.requests.iter().flat_map(|asked| {
        let file = if asked.answerer == Answerer::File { asked.supplied().min(SEND_FILE_BYTES) } else { 0 };
        let bytes = if asked.answerer == Answerer::Bytes { asked.supplied() } else { 0 };
        let parts = asked.parts.iter().map(Given::piece_bytes).max().unwrap_or(0);
        // The middle piece of a file is in memory.
        [file, file_memory(asked), bytes, parts, asked.page.unwrap_or(0)]
    });
    2000 + if plan.is_http2 { 40_000 } else { pieces.max().unwrap_or(0) }
}

fn file_memory(asked: &Asked) -> usize {
    if asked.answerer == Answerer::File { asked.supplied() / 3 } else { 0 }
}
