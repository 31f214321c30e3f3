//! A persistent engine that takes its commands from the path and runs several requests at a time on one thread.

use std::sync::Arc;

use svc_core::pool::{
    Claim, Directive, Engine, Exchange, OpcacheFacts, PersistentWorker, RecycleReason, Started,
    WorkerContext, WorkerExit, WorkerStartError,
};
use svc_core::sync::counter::Flag;
use svc_core::sync::idle_workers::Wake;

use super::engine::{Switchboard, complete};

/// The engine.
#[derive(Debug)]
pub(crate) struct PersistentWorkers(pub(crate) Arc<Switchboard>);

impl Engine<Exchange> for PersistentWorkers {
    fn start(&self, slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        let ring = Arc::new(Ring { rung: Flag::new(), board: Arc::clone(&self.0) });
        Ok(Started::Persistent(Box::new(ScriptedWorker {
            board: Arc::clone(&self.0),
            ring,
            slot,
            uses_cache: false,
            fibers: Vec::new(),
        })))
    }

    fn cache(&self) -> Option<OpcacheFacts> {
        self.0.cache.facts()
    }
}

/// Wakes a worker from its wait.
#[derive(Debug)]
struct Ring {
    rung: Flag,
    board: Arc<Switchboard>,
}

impl Wake for Ring {
    fn wake(&self) {
        self.rung.set();
        self.board.wake();
    }
}

struct ScriptedWorker {
    board: Arc<Switchboard>,
    ring: Arc<Ring>,
    slot: usize,
    uses_cache: bool,
    fibers: Vec<Fiber>,
}

impl Drop for ScriptedWorker {
    fn drop(&mut self) {
        if self.uses_cache {
            self.board.cache.leave();
        }
    }
}

/// A request that continues when its place is open.
struct Fiber {
    claim: Claim<Exchange>,
    place: String,
}

impl PersistentWorker<Exchange> for ScriptedWorker {
    fn waker(&self) -> Arc<dyn Wake> {
        Arc::<Ring>::clone(&self.ring)
    }

    fn run(&mut self, context: &WorkerContext<Exchange>) -> WorkerExit {
        if let Err(why) = self.board.boot() {
            return WorkerExit::NotBooted(why.into());
        }
        if self.board.holds_boots() {
            self.board.wait("boot");
        }
        self.uses_cache = self.board.cache.enter();
        if !self.uses_cache {
            context.run_uncached();
        }
        context.booted();
        let mut leaves_for = None;
        loop {
            self.go_on();
            while let Some(claim) = context.try_take() {
                if let Some(reason) = self.begin(claim, context) {
                    context.close();
                    leaves_for = Some(reason);
                }
            }
            match (context.directive(), leaves_for) {
                (Directive::Stop, _) => return WorkerExit::Stopped,
                (Directive::Drain, None) if self.fibers.is_empty() => return WorkerExit::Stopped,
                (Directive::Drain, Some(reason)) if self.fibers.is_empty() => {
                    return WorkerExit::Recycled(reason);
                }
                _ => {}
            }
            if context.prepare_park() {
                self.board.wait_until(|| self.ring.rung.is_set() || self.has_runnable());
                self.ring.rung.clear();
                context.unpark(self.has_runnable());
            }
        }
    }
}

impl ScriptedWorker {
    fn has_runnable(&self) -> bool {
        self.fibers.iter().any(|fiber| self.board.is_open(&fiber.place))
    }

    /// Runs the fibers that can finish.
    fn go_on(&mut self) {
        let (open, parked) =
            std::mem::take(&mut self.fibers).into_iter().partition(|fiber| self.board.is_open(&fiber.place));
        self.fibers = parked;
        for Fiber { mut claim, place } in open {
            claim.run();
            if claim.job().is_unanswered() {
                complete(claim.job(), 200, place.into_bytes());
            }
            claim.finish();
            claim.park();
        }
    }

    /// Starts a request; returns the reason if the worker wants to be replaced.
    fn begin(
        &mut self,
        mut claim: Claim<Exchange>,
        context: &WorkerContext<Exchange>,
    ) -> Option<RecycleReason> {
        claim.run();
        let path = String::from_utf8(claim.job().request.head.path_and_query().0.to_vec()).unwrap();
        let mut words = path[1..].splitn(2, '/');
        let (act, rest) = (words.next().unwrap(), words.next().unwrap_or_default().to_owned());
        let mut reason = None;
        match act {
            "hello" => complete(claim.job(), 200, b"hello".to_vec()),
            "cache" => {
                let place = if self.uses_cache { "user" } else { "uncached" };
                complete(claim.job(), 200, place.as_bytes().to_vec());
            }
            "slot" => complete(claim.job(), 200, self.slot.to_string().into_bytes()),
            "heap" => {
                complete(claim.job(), 200, b"heap".to_vec());
                context.note_heap(rest.parse().unwrap());
                context.note_soft_reset();
            }
            "recycle" => {
                complete(claim.job(), 200, b"recycled".to_vec());
                reason = RecycleReason::ALL.into_iter().find(|reason| reason.as_str() == rest);
            }
            // The whole worker blocks.
            "block" => {
                self.board.wait(&rest);
                complete(claim.job(), 200, rest.into_bytes());
            }
            "silent" => {}
            "panic" => panic!("on request"),
            // The fiber waits, and responds when its place is open.
            "park" => {
                self.board.enter(&rest);
                claim.park();
                self.fibers.push(Fiber { claim, place: rest });
                return None;
            }
            // The fiber has responded, and continues until its place is open.
            "linger" => {
                complete(claim.job(), 200, b"answered".to_vec());
                claim.park();
                self.fibers.push(Fiber { claim, place: rest });
                return None;
            }
            _ => complete(claim.job(), 404, Vec::new()),
        }
        claim.finish();
        claim.park();
        reason
    }
}
