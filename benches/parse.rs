//! The cost of parsing a request and writing a response head.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use svc_core::http::encode::{Framing, Persistence, ResponseHead, encode_head};
use svc_core::http::{BodyDecoder, BodyFraming, Fields, HeadLimits, HeadReader, Parsed, Version, parse, uri};

const SHORT: &[u8] = b"GET /hello.php HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const BROWSER: &[u8] = b"GET /blog/2026/11/a-post?page=2&utm_source=feed HTTP/1.1\r\n\
Host: www.example.com\r\n\
Connection: keep-alive\r\n\
Cache-Control: max-age=0\r\n\
Upgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: same-origin\r\n\
Sec-Fetch-RoutingMode: navigate\r\n\
Referer: https://www.example.com/blog/\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n\r\n";

fn heads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse/head");
    for (name, bytes) in [("short", SHORT), ("browser", BROWSER)] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_with_input(BenchmarkId::from_parameter(name), bytes, |bencher, bytes| {
            bencher.iter(|| parse(black_box(bytes), HeadLimits::main_port()));
        });
    }
    group.bench_function("browser, byte by byte", |bencher| {
        bencher.iter(|| {
            let mut reader = HeadReader::new(HeadLimits::main_port());
            (1..=BROWSER.len())
                .map(|end| reader.read(black_box(&BROWSER[..end])))
                .find(|read| !matches!(read, Ok(Parsed::Partial)))
        });
    });
    group.finish();
}

fn bodies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse/chunked");
    for size in [16_usize, 4096] {
        let mut coded = Vec::new();
        while coded.len() < 64 * 1024 {
            svc_core::http::encode::chunk(&mut coded, &vec![b'x'; size]);
        }
        coded.extend_from_slice(svc_core::http::encode::LAST_CHUNK);
        group.throughput(Throughput::Bytes(coded.len() as u64));
        group.bench_with_input(BenchmarkId::new("chunk bytes", size), &coded, |bencher, coded| {
            let mut body = Vec::with_capacity(coded.len());
            bencher.iter(|| {
                body.clear();
                BodyDecoder::new(BodyFraming::Chunked, u64::MAX)
                    .and_then(|mut decoder| decoder.decode(black_box(coded), &mut body))
            });
        });
    }
    group.finish();
}

fn paths(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse/path");
    for path in ["/blog/2026/11/a-post", "/a%20b/../c//d%2e.css"] {
        group.bench_with_input(BenchmarkId::from_parameter(path), path, |bencher, path| {
            bencher.iter(|| uri::normalise(black_box(path.as_bytes())));
        });
    }
    group.finish();
}

fn responses(criterion: &mut Criterion) {
    let mut fields = Fields::new();
    for (name, value) in [("X-Powered-By", "PHP/8.4.24"), ("Content-Type", "text/html; charset=UTF-8")] {
        if fields.push(name.as_bytes(), value.as_bytes()).is_err() {
            return;
        }
    }
    criterion.bench_function("encode/head", |bencher| {
        let mut out = Vec::with_capacity(512);
        bencher.iter(|| {
            out.clear();
            let head = ResponseHead { status: 200, reason: None, fields: black_box(&fields) };
            let date = b"Sun, 06 Nov 1994 08:49:37 GMT";
            encode_head(&mut out, &head, Framing::Length(13), Persistence::Keep, Version::Http11, date);
            out.len()
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    heads(&mut criterion);
    bodies(&mut criterion);
    paths(&mut criterion);
    responses(&mut criterion);
    criterion.final_summary();
}
