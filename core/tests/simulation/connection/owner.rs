//! The owner of a connection: decides about requests, early or late, and carries out commands, well or badly.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use svc_core::connection::{Ask, Connection, Decision, Input, Response, Source, Stream};
use svc_core::http::BodyError;
use svc_core::limits::{BODY_MEMORY_MAX, READ_BYTES};

use svc_core::pool::{End, Part};
use svc_core::spool::{Share, Spool, SpoolError, SpoolFile};

use super::model::Model;
use super::plan::{Answerer, Dice, Plan, REPLIED, bytes};
use super::supply::{announced, check_body, file_pieces, head, parts, slice};

pub(crate) type Machine = Connection<usize>;

/// Lets `act` handle a request, if it is still served.
pub(crate) fn visit(it: &mut Machine, stream: u32, act: impl FnOnce(&mut Stream<usize>)) {
    if let Some(stream) = it.stream(stream) {
        act(stream);
    }
}

/// Returns the number of a request, if it is still served.
pub(crate) fn number_of(it: &mut Machine, stream: u32) -> Option<usize> {
    it.stream(stream).map(|stream| stream.request)
}

/// A pending job of the owner.
#[derive(Debug)]
enum Job {
    Append(u32, Option<SpoolFile>, Vec<u8>),
    Find(u32, usize),
    Note(u32, usize),
    Retry(u32),
    Slice(u32, usize, Source, u64, usize),
    Warm,
    Work(u32, usize),
}

/// The parts that a worker has handed over, and the remaining ones.
#[derive(Debug, Default)]
struct Worker {
    mailbox: VecDeque<Part>,
    rest: VecDeque<Part>,
    share: Share,
    is_noted: bool,
}

/// The owner.
pub(crate) struct Owner {
    pub(crate) spool: Spool,
    /// The room left for body bytes.
    room: u64,
    jobs: Vec<Job>,
    workers: BTreeMap<usize, Worker>,
    /// When the wait for a worker ends, for requests not taken yet.
    pub(crate) waits: BTreeMap<usize, (u32, Option<Instant>)>,
    /// The number of streams with a body piece that is being spooled.
    pub(crate) spooling: usize,
    /// Whether writes to the disk fail.
    pub(crate) disk_fails: bool,
}

impl Owner {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            spool: Spool::with_memory(std::env::temp_dir(), 1 << 30, plan.memory_bytes),
            room: plan.spool_bytes,
            jobs: Vec::new(),
            workers: BTreeMap::new(),
            waits: BTreeMap::new(),
            spooling: 0,
            disk_fails: false,
        }
    }

    /// Returns whether any work is pending.
    pub(crate) fn is_busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    pub(crate) fn order_warm(&mut self) {
        self.jobs.push(Job::Warm);
    }

    /// Handles the start of a request: decides how to answer it, now or later.
    pub(crate) fn start(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        plan: &Plan,
        at: (u32, usize),
        fits: bool,
        now: Instant,
    ) {
        let (stream, number) = at;
        let asked = &plan.requests[number];
        if !fits {
            return self.refuse(it, model, at, 413, now);
        }
        if asked.is_found_later {
            return self.jobs.push(Job::Find(stream, number));
        }
        self.decide(it, model, plan, at, now);
    }

    fn decide(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        plan: &Plan,
        (stream, number): (u32, usize),
        now: Instant,
    ) {
        let asked = &plan.requests[number];
        let decision = match asked.answerer {
            Answerer::Worker | Answerer::Shed => Decision::ReadBody,
            Answerer::Refusal => return self.refuse(it, model, (stream, number), 400, now),
            Answerer::Bytes => {
                let body = bytes(REPLIED + number as u32, 0, asked.supplied());
                model.records[number].supplied = body.len();
                Decision::Respond(Response::whole(head(number, asked.status, None), body))
            }
            Answerer::File => {
                let len = asked.supplied();
                model.records[number].supplied = len;
                let pieces = file_pieces(number, len);
                Decision::Respond(Response::pieces(
                    head(number, asked.status, Some(len as u64)),
                    pieces,
                    &self.spool,
                ))
            }
        };
        visit(it, stream, |it| it.decide(decision, now));
    }

    /// Responds with an error, and discards the rest of the body.
    pub(crate) fn refuse(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        at: (u32, usize),
        status: u16,
        now: Instant,
    ) {
        let response = self.short(model, at.1, status);
        visit(it, at.0, |it| it.decide(Decision::Refuse(response), now));
    }

    /// Responds with an error.
    pub(crate) fn answer(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        at: (u32, usize),
        status: u16,
        now: Instant,
    ) {
        let response = self.short(model, at.1, status);
        visit(it, at.0, |it| it.decide(Decision::Respond(response), now));
    }

    fn short(&mut self, model: &mut Model, number: usize, status: u16) -> Response {
        (model.records[number].supplied, model.records[number].is_broken) = (50, false);
        self.workers.remove(&number);
        self.waits.remove(&number);
        Response::whole(head(number, status, None), bytes(REPLIED + number as u32, 0, 50))
    }

    /// Handles the needs of a request.
    pub(crate) fn handle_ask(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        plan: &Plan,
        (stream, ask): (u32, Ask),
        dice: &mut Dice,
        now: Instant,
    ) {
        let number =
            number_of(it, stream).unwrap_or_else(|| panic!("{ask:?} for a request that is not there"));
        let (asked, at) = (&plan.requests[number], (stream, number));
        match ask {
            Ask::Announce { head, length, head_only } => {
                let announced = announced(asked, head, length, head_only, number);
                model.announce(number, &announced, head_only);
                visit(it, stream, |it| it.announce(announced));
            }
            Ask::AwaitSpoolRoom => self.jobs.push(Job::Retry(stream)),
            Ask::BodyLate { is_starved } => {
                self.refuse(it, model, at, if is_starved { 503 } else { 408 }, now);
            }
            Ask::BodyRefused(error) => {
                let is_long = error == BodyError::TooLarge;
                let is_right = !is_long || asked.body_bytes as u64 > asked.granted;
                assert!(is_right, "a body was as short as granted");
                assert!(is_long, "a body of {number} was not understood: {error:?}");
                self.refuse(it, model, at, 413, now);
            }
            Ask::Collect => {
                let Some(worker) = self.workers.get_mut(&number) else { return };
                worker.is_noted = false;
                visit(it, stream, |it| {
                    it.collect(|_, parts| {
                        parts.extend(worker.mailbox.drain(..));
                        std::mem::take(&mut worker.share)
                    });
                });
            }
            Ask::Offer { body, client_gone } => {
                check_body(&body, number, asked);
                assert!(!client_gone || asked.outlives, "{number} does not outlive its client");
                if asked.answerer == Answerer::Shed && !client_gone {
                    return self.answer(it, model, at, 503, now);
                }
                let until = asked.wait.map(|wait| now + wait);
                self.workers
                    .insert(number, Worker { rest: parts(&self.spool, number, asked), ..Worker::default() });
                (model.records[number].supplied, model.records[number].is_broken) =
                    (asked.supplied(), asked.is_broken);
                self.waits.insert(number, (stream, until));
                self.jobs.push(Job::Work(stream, number));
                visit(it, stream, |it| it.decide(Decision::Await { until }, now));
            }
            Ask::SendFile(head) => panic!("no response names a file: {head:?}"),
            Ask::Slice(source, offset, len) => {
                assert!(len > 0, "a slice of nothing");
                let is_now = matches!(source, Source::File(_)) && dice.one_in(2);
                if is_now && !self.disk_fails {
                    let bytes = slice(&source, offset, len);
                    return visit(it, stream, |it| it.sliced(bytes));
                }
                self.jobs.push(Job::Slice(stream, number, source, offset, len));
            }
            Ask::Spool(file, bytes) => {
                let kept = bytes.len();
                assert!(kept <= BODY_MEMORY_MAX + READ_BYTES, "{kept} bytes of a body were kept");
                self.spooling += 1;
                self.jobs.push(Job::Append(stream, file, bytes));
            }
            Ask::WaitOver => {
                // A worker may have taken it by now.
                let Some((_, until)) = self.waits.remove(&number) else { return };
                assert!(until.is_some_and(|until| until <= now), "the wait of {number} is over too early");
                if it.stream(stream).is_some_and(|it| it.is_waiting()) && dice.one_in(2) {
                    self.answer(it, model, at, 529, now);
                }
            }
        }
    }

    /// Does one pending job.
    pub(crate) fn work(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        plan: &Plan,
        dice: &mut Dice,
        now: Instant,
    ) -> bool {
        if self.jobs.is_empty() {
            return false;
        }
        match self.jobs.swap_remove(dice.index(self.jobs.len())) {
            Job::Warm => it.handle(Input::Cached, now),
            Job::Retry(stream) => {
                self.room += dice.below(40_000);
                visit(it, stream, Stream::retry_spool);
            }
            Job::Find(stream, number) => {
                if number_of(it, stream) == Some(number)
                    && !it.stream(stream).is_some_and(|it| it.has_response())
                {
                    self.decide(it, model, plan, (stream, number), now);
                }
            }
            Job::Append(stream, file, bytes) => {
                self.spooling -= 1;
                self.append(it, model, (stream, file, bytes), dice, now);
            }
            Job::Slice(stream, number, source, offset, len) => {
                if number_of(it, stream) != Some(number) {
                    return true;
                }
                if self.disk_fails && dice.one_in(4) {
                    model.records[number].is_broken = true;
                    if dice.one_in(2) {
                        visit(it, stream, Stream::fail_response);
                    } else {
                        visit(it, stream, |it| it.sliced(Vec::new()));
                    }
                } else {
                    let len = if dice.one_in(4) { 1 + dice.index(len) } else { len };
                    visit(it, stream, |it| it.sliced(slice(&source, offset, len)));
                }
            }
            Job::Note(stream, number) => {
                if self.workers.contains_key(&number) {
                    visit(it, stream, Stream::note_response);
                }
            }
            Job::Work(stream, number) => self.give(model, stream, number, dice),
        }
        true
    }

    fn append(
        &mut self,
        it: &mut Machine,
        model: &mut Model,
        (stream, file, mut bytes): (u32, Option<SpoolFile>, Vec<u8>),
        dice: &mut Dice,
        now: Instant,
    ) {
        let appended = if self.disk_fails && dice.one_in(4) {
            Err((file, SpoolError::Disk(std::io::ErrorKind::StorageFull.into())))
        } else if self.room < bytes.len() as u64 {
            Err((file, SpoolError::Full))
        } else {
            self.room -= bytes.len() as u64;
            match file.map_or_else(|| self.spool.create(), Ok) {
                Ok(file) => match file.append(&bytes) {
                    Ok(()) => Ok(file),
                    Err(error) => Err((Some(file), error)),
                },
                Err(error) => Err((None, error)),
            }
        };
        match appended {
            Ok(file) => {
                bytes.truncate(dice.index(bytes.len() + 1));
                visit(it, stream, |it| it.spooled(file, bytes, now));
            }
            Err((file, error)) => {
                let number = number_of(it, stream);
                let may_retry = |it: &mut Stream<_>| it.spool_refused(file, bytes, &error);
                if !it.stream(stream).is_none_or(may_retry)
                    && let Some(number) = number
                {
                    self.refuse(it, model, (stream, number), 503, now);
                }
            }
        }
    }

    /// Makes the worker of a request hand over some parts.
    fn give(&mut self, model: &Model, stream: u32, number: usize, dice: &mut Dice) {
        if model.records[number].ended.is_some() {
            self.workers.remove(&number);
            self.waits.remove(&number);
            return;
        }
        let Some(worker) = self.workers.get_mut(&number) else { return };
        self.waits.remove(&number);
        let count = (1 + dice.index(4)).min(worker.rest.len());
        for part in worker.rest.drain(..count) {
            if let Part::Data(bytes) = &part {
                worker.share.take(&self.spool, bytes.len() as u64);
            }
            worker.mailbox.push_back(part);
        }
        if !worker.rest.is_empty() {
            self.jobs.push(Job::Work(stream, number));
        }
        if !std::mem::replace(&mut worker.is_noted, true) || dice.one_in(10) {
            self.jobs.push(Job::Note(stream, number));
        }
    }

    /// Answers all open requests after the drain deadline.
    pub(crate) fn cut_off(&mut self, it: &mut Machine, model: &mut Model, now: Instant) {
        for stream in it.streams() {
            let Some(number) = number_of(it, stream) else { continue };
            if let Some(worker) = self.workers.remove(&number) {
                model.records[number].is_broken |= !worker.rest.is_empty();
                visit(it, stream, |it| {
                    it.collect(|_, parts| {
                        let is_cut = !worker.rest.is_empty();
                        parts.extend(worker.mailbox);
                        if is_cut && !parts.is_empty() {
                            parts.push_back(Part::End(End::Broken));
                        }
                        worker.share
                    });
                });
            }
            self.waits.remove(&number);
            if !it.stream(stream).is_some_and(|it| it.has_response()) {
                self.answer(it, model, (stream, number), 503, now);
            }
        }
    }

    /// Answers the requests that wait for a worker after the last worker was lost.
    pub(crate) fn lose_pool(&mut self, it: &mut Machine, model: &mut Model, now: Instant) {
        for stream in it.streams() {
            let Some(number) = number_of(it, stream) else { continue };
            if it.stream(stream).is_some_and(|it| it.is_waiting()) && self.waits.contains_key(&number) {
                self.answer(it, model, (stream, number), 503, now);
            }
        }
    }
}
