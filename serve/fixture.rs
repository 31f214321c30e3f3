//! Test fixtures of this folder: a minimal request, and observers that ignore all events.

use std::time::{Duration, Instant};

use svc_core::http::{HeadLimits, Parsed, parse};
use svc_core::pool::{Body, CompleteRequest, Exchange, Notify, PoolEvents, RecycleReason, Script, StreamKey};
use svc_core::spool::Spool;
use svc_core::sync::primitive::Arc;
use svc_core::time;

/// Receives all events and ignores them.
#[derive(Debug)]
pub(super) struct Nobody;

impl Notify for Nobody {
    fn response_ready(&self, _key: StreamKey) {}
}

impl PoolEvents<Exchange> for Nobody {
    fn claimed(&self, _exchange: &Exchange, _now: Instant) {}
    fn skipped(&self, _exchange: &Exchange) {}
    fn served(&self, _exchange: &Exchange, _ran: Duration) {}
    fn worker_failed(&self) {}
    fn recycled(&self, _slot: usize, _reason: RecycleReason) {}
    fn retired(&self, _slot: usize) {}
    fn soft_reset(&self, _slot: usize) {}
}

/// Makes the exchange of a client without a wait limit, which arrived at `now`.
pub(super) fn exchange(now: Instant, spool: Spool) -> Arc<Exchange> {
    let parsed = parse(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", HeadLimits::main_port());
    let Ok(Parsed::Complete { head, .. }) = parsed else { panic!("not a head") };
    let nobody = "127.0.0.1:1".parse().unwrap();
    let request = CompleteRequest {
        head: head.into(),
        body: Body::Empty,
        script: Arc::new(Script::default()),
        client: nobody,
        local: nobody,
        https: false,
        tls: None,
        asked: (None, None),
        trace: None,
        span: None,
        request_id: "a-name".into(),
        received_at: time::wall(),
        recorder: None,
    };
    let key = StreamKey { connection: 0, stream: 0 };
    Arc::new(Exchange::new(request, now, None, spool, Arc::new(Nobody), key))
}
