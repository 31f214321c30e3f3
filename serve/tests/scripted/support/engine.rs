//! An engine that takes its commands from the path.

use std::collections::HashSet;
use std::sync::Arc;

use svc_core::http::Fields;
use svc_core::pool::{
    End, Engine, Exchange, Origin, RecordedResponse, Recording, ResponseHead, Started, ThreadProbe, Worker,
    WorkerStartError,
};
use svc_core::sync::event_count::EventCount;
use svc_core::sync::lock::ShortLock;

use super::cache::Cache;

/// Lets a test hold workers at named places.
#[derive(Debug, Default)]
pub(crate) struct Switchboard {
    state: ShortLock<SwitchboardState>,
    event_count: EventCount,
    /// The cache that persistent workers share.
    pub(crate) cache: Cache,
}

#[derive(Debug, Default)]
struct SwitchboardState {
    open: HashSet<String>,
    inside: HashSet<String>,
    all_open: bool,
    gone: HashSet<String>,
    written: u64,
    refuses_boots: bool,
    holds_boots: bool,
    boots: u64,
    /// The number of the exchange whose time limit has expired.
    overdue: Option<u64>,
}

impl Switchboard {
    /// Releases workers that wait at `name`, now and later.
    pub(crate) fn open(&self, name: &str) {
        self.state.lock().open.insert(name.to_owned());
        self.event_count.notify_all();
    }

    /// Sets whether workers fail to boot.
    pub(crate) fn refuse_boots(&self, refuses: bool) {
        self.state.lock().refuses_boots = refuses;
    }

    /// Makes workers wait at `boot` before they have booted.
    pub(crate) fn hold_boots(&self) {
        self.state.lock().holds_boots = true;
    }

    /// Returns whether workers wait at `boot`.
    pub(crate) fn holds_boots(&self) -> bool {
        self.state.lock().holds_boots
    }

    /// Returns the number of attempts to boot.
    pub(crate) fn boots(&self) -> u64 {
        self.state.lock().boots
    }

    /// Attempts to boot a worker.
    pub(crate) fn boot(&self) -> Result<(), String> {
        let mut state = self.state.lock();
        state.boots += 1;
        if state.refuses_boots { Err("no boot allowed".to_owned()) } else { Ok(()) }
    }

    /// Releases all workers.
    pub(crate) fn open_all(&self) {
        self.state.lock().all_open = true;
        self.event_count.notify_all();
    }

    /// Returns whether a worker waits at `name`, or has waited there.
    pub(crate) fn is_inside(&self, name: &str) -> bool {
        self.state.lock().inside.contains(name)
    }

    /// Returns whether a worker at `name` learned that its client is gone.
    pub(crate) fn saw_gone(&self, name: &str) -> bool {
        self.state.lock().gone.contains(name)
    }

    /// Returns the number of bytes that floods have handed over.
    pub(crate) fn flooded(&self) -> u64 {
        self.state.lock().written
    }

    /// Waits at `name` until it is open.
    pub(crate) fn wait(&self, name: &str) {
        self.enter(name);
        self.wait_until(|| self.is_open(name));
    }

    /// Records a worker at `name`.
    pub(crate) fn enter(&self, name: &str) {
        self.state.lock().inside.insert(name.to_owned());
    }

    /// Returns whether workers at `name` may continue.
    pub(crate) fn is_open(&self, name: &str) -> bool {
        let state = self.state.lock();
        state.all_open || state.open.contains(name)
    }

    /// Waits until `condition` holds; checks it whenever a place opens or a worker is woken.
    pub(crate) fn wait_until(&self, condition: impl Fn() -> bool) {
        loop {
            let ticket = self.event_count.prepare_wait();
            if condition() {
                return self.event_count.cancel_wait(ticket);
            }
            self.event_count.wait(&ticket);
        }
    }

    /// Makes waiting workers check their conditions.
    pub(crate) fn wake(&self) {
        self.event_count.notify_all();
    }
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Scripted(pub(crate) Arc<Switchboard>);

impl Engine<Exchange> for Scripted {
    fn start(&self, _slot: usize) -> Result<Started<Exchange>, WorkerStartError> {
        self.0.boot().map_err(WorkerStartError)?;
        Ok(Started::Classic(Box::new(Actor(Arc::clone(&self.0)))))
    }
}

struct Actor(Arc<Switchboard>);

impl Worker<Exchange> for Actor {
    fn serve(&mut self, exchange: &Arc<Exchange>) {
        let path = String::from_utf8(exchange.request.head.path_and_query().0.to_vec()).unwrap();
        let mut words = path[1..].splitn(2, '/');
        let (act, rest) = (words.next().unwrap(), words.next().unwrap_or_default());
        match act {
            "hello" => complete(exchange, 200, b"hello".to_vec()),
            "wait" => {
                self.0.wait(rest);
                if exchange.is_gone() {
                    self.0.state.lock().gone.insert(rest.to_owned());
                }
                complete(exchange, 200, rest.into());
            }
            "overdue" => {
                self.0.state.lock().overdue = Some(exchange.serial());
                self.0.wait(rest);
                complete(exchange, 200, b"late".to_vec());
            }
            "overdue-stream" => {
                let _ = exchange.head(head(200, None), b"first".to_vec());
                self.0.state.lock().overdue = Some(exchange.serial());
                self.0.wait(rest);
                let _ = exchange.data(b"second".to_vec());
                exchange.end(End::Complete);
            }
            "cached" => self.cached(exchange, rest),
            "status" => complete(exchange, rest.parse().unwrap(), Vec::new()),
            "content" => complete(exchange, rest.parse().unwrap(), b"content".to_vec()),
            "echo" => self.echo(exchange),
            "stream" => self.stream(exchange, rest),
            "flood" => self.flood(exchange, rest.parse().unwrap()),
            "bulk" => {
                let _ = exchange.head(head(200, None), vec![b'x'; rest.parse().unwrap()]);
                exchange.end(End::Complete);
            }
            "announce" => self.announce(exchange, rest.parse().unwrap()),
            "broken" => {
                let _ = exchange.head(head(200, None), b"part".to_vec());
                exchange.end(End::Broken);
            }
            "early" => {
                let mut links = Fields::new();
                links.push(b"Link", b"</style.css>; rel=preload").unwrap();
                let _ = exchange.interim(103, links);
                complete(exchange, 200, b"late".to_vec());
            }
            "timeout" => made(exchange, 504, Origin::TimeLimit),
            "fatal" => made(exchange, 500, Origin::Fatal),
            "silent" => {}
            "half" => drop(exchange.head(head(200, None), b"half".to_vec())),
            "panic" => panic!("on request"),
            "after" => {
                complete(exchange, 200, b"answered".to_vec());
                self.0.wait(rest);
            }
            _ => complete(exchange, 404, Vec::new()),
        }
    }

    fn probe(&self) -> Option<Arc<dyn ThreadProbe>> {
        Some(Arc::<Switchboard>::clone(&self.0))
    }
}

impl ThreadProbe for Switchboard {
    fn ask(&self) {}

    fn is_answered(&self) -> bool {
        false
    }

    fn tick(&self) -> Option<u64> {
        self.state.lock().overdue
    }
}

impl Actor {
    /// Responds with the body's length and the sum of its bytes.
    fn echo(&self, exchange: &Exchange) {
        let body = &exchange.request.body;
        let (mut sum, mut at, mut buf) = (0u64, 0u64, [0; 8192]);
        while let Ok(count @ 1..) = body.read_at(&mut buf, at) {
            sum += buf[..count].iter().map(|byte| u64::from(*byte)).sum::<u64>();
            at += count as u64;
        }
        complete(exchange, 200, format!("{at} {sum}").into_bytes());
    }

    /// Responds for the response cache. Once `failing` is open, it waits at `held` and ends like `end`.
    fn cached(&self, exchange: &Exchange, end: &str) {
        if self.0.is_open("failing") {
            self.0.wait("held");
            assert_ne!(end, "panic", "on request");
            self.0.state.lock().overdue = Some(exchange.serial());
            return self.0.wait("never");
        }
        let mut head = head(200, None);
        let refreshes = if end == "refresh" { "600" } else { "0" };
        let lifetime = format!("max-age=0, stale-while-revalidate={refreshes}");
        head.fields.push(b"Cache-Control", lifetime.as_bytes()).unwrap();
        head.fields.push(b"ETag", b"\"stored\"").unwrap();
        if let Some(recorder) = &exchange.request.recorder {
            recorder.start();
            assert!(matches!(recorder.begin(&head), Recording::UpTo(_)));
            let (status, fields) = (head.status, head.fields.clone());
            let response = RecordedResponse { status, reason: None, fields, body: b"stored".to_vec() };
            recorder.complete(&exchange.request.head, response);
        }
        let _ = exchange.complete(head, b"stored".to_vec());
    }

    /// Sends a first piece, waits at `name`, then sends a second one.
    fn stream(&self, exchange: &Exchange, name: &str) {
        let _ = exchange.head(head(200, None), b"first".to_vec());
        self.0.wait(name);
        if exchange.data(b"second".to_vec()).is_err() {
            self.0.state.lock().gone.insert(name.to_owned());
        }
        exchange.end(End::Complete);
    }

    /// Hands over `bytes` bytes, each the low byte of its position.
    fn flood(&self, exchange: &Exchange, bytes: u64) {
        if exchange.head(head(200, None), Vec::new()).is_err() {
            return;
        }
        let mut at = 0;
        while at < bytes {
            let piece: Vec<u8> = (at..bytes.min(at + 50_000)).map(|place| place.to_le_bytes()[0]).collect();
            at += piece.len() as u64;
            if exchange.data(piece).is_err() {
                return;
            }
            self.0.state.lock().written = at;
        }
        exchange.end(End::Complete);
    }

    /// Announces `bytes` bytes and sends six.
    fn announce(&self, exchange: &Exchange, bytes: u64) {
        let _ = exchange.head(head(200, Some(bytes)), b"six".to_vec());
        let _ = exchange.data(b"six".to_vec());
        exchange.end(End::Complete);
    }
}

pub(crate) fn head(status: u16, content_length: Option<u64>) -> ResponseHead {
    let mut fields = Fields::new();
    fields.push(b"Content-Type", b"text/plain").unwrap();
    ResponseHead { status, fields, content_length, ..ResponseHead::bare(Origin::Script) }
}

pub(crate) fn complete(exchange: &Exchange, status: u16, body: Vec<u8>) {
    // A client that has left needs no response.
    let _ = exchange.complete(head(status, None), body);
}

fn made(exchange: &Exchange, status: u16, origin: Origin) {
    let _ =
        exchange.complete(ResponseHead { origin, fields: Fields::new(), ..head(status, None) }, Vec::new());
}
