//! The cost of tracing for the thread of a request: reading the text of a query, and queueing a span.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use svc_core::config::{ExportProtocol, SpanLimits};
use svc_core::otlp::span_format;
use svc_core::trace::{
    EncodedSpan, Span, SpanContext, SpanId, SpanKind, SqlDialect, Statement, TraceId, UnixNanos,
};

const JOIN: &[u8] =
    b"SELECT o.id, o.total, c.name FROM orders o INNER JOIN customers c ON c.id = o.customer_id \
WHERE o.state = 'open' AND o.total > 100 LIMIT 20";

fn statements(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("tracing/statement");
    for (name, sql) in [("short", &b"select 1"[..]), ("join", JOIN)] {
        group.bench_with_input(BenchmarkId::from_parameter(name), sql, |bencher, sql| {
            bencher.iter(|| Statement::of(black_box(sql), SqlDialect::MySql, false));
        });
    }
    group.finish();
}

/// Returns the span of a typical request.
fn request() -> Option<Span> {
    let limits = SpanLimits::default();
    let context = SpanContext::new(TraceId::new(1)?, SpanId::new(2)?, SpanContext::SAMPLED);
    let mut span = Span::new(context, "GET", SpanKind::Server, UnixNanos::default());
    let texts = [
        ("http.request.method", "GET"),
        ("url.path", "/blog/2026/11/a-post"),
        ("url.scheme", "https"),
        ("server.address", "www.example.com"),
        ("client.address", "192.0.2.7"),
        ("network.peer.address", "192.0.2.7"),
        ("network.protocol.version", "2"),
        ("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"),
        ("svc.request_id", "0123456789abcdef0123456789abcdef"),
    ];
    texts.into_iter().for_each(|(key, text)| span.set(key, text, &limits));
    let numbers = ["server.port", "network.peer.port", "svc.queue_wait_us", "http.response.status_code"];
    numbers.into_iter().for_each(|key| span.set(key, 443_u16, &limits));
    Some(span)
}

fn spans(criterion: &mut Criterion) {
    let Some(span) = request() else { return };
    let mut group = criterion.benchmark_group("tracing/span");
    for protocol in [ExportProtocol::HttpProtobuf, ExportProtocol::HttpJson] {
        group.bench_with_input(
            BenchmarkId::from_parameter(format!("{protocol:?}")),
            &span,
            |bencher, span| {
                bencher.iter(|| EncodedSpan::of(black_box(span), span_format(protocol)));
            },
        );
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    statements(&mut criterion);
    spans(&mut criterion);
    criterion.final_summary();
}
