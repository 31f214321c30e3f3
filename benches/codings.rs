//! The cost of each level of each coding for a page, and the resulting size.
//!
//! The page is that of a blog: 50 KiB, text of this project's documents in the markup of a content management system.
//! `docs/performance.md` contains the table that is printed before the measurement.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use svc_core::compress::{Encoder, EncoderPool, Levels, encode_whole};
use svc_core::http::{Coding, choose};

const PAGE_BYTES: usize = 50 * 1024;

const DOCUMENTS: [&str; 7] = [
    include_str!("../docs/php.md"),
    include_str!("../docs/http.md"),
    include_str!("../docs/metrics.md"),
    include_str!("../docs/events.md"),
    include_str!("../docs/conformance.md"),
    include_str!("../docs/settings.md"),
    include_str!("../ARCHITECTURE.md"),
];

/// The compared levels.
const LEVELS: [(Coding, &[u32]); 3] = [
    (Coding::Brotli, &[1, 2, 3, 4, 5, 6, 7, 9, 11]),
    (Coding::Gzip, &[1, 2, 4, 5, 6, 7, 9]),
    (Coding::Zstd, &[1, 2, 3, 4, 5, 6, 9, 12, 15, 19]),
];

fn page() -> Vec<u8> {
    let mut html = String::from(
        "<!DOCTYPE html>\n<html lang=\"en-GB\">\n<head>\n<meta charset=\"UTF-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width, initial-scale=1\">\n<title>Notes &#8211; An example blog</title>\n",
    );
    for (number, name) in
        ["global-styles", "classic-theme-styles", "post-blocks", "navigation"].iter().enumerate()
    {
        html += &format!(
            "<link rel='stylesheet' id='{name}-css' href='https://www.example.com/assets/css/{name}.min.css?ver=6.{number}' media='all' />\n"
        );
    }
    html +=
        "</head>\n<body class=\"home blog wp-embed-responsive\">\n<nav class=\"wp-block-navigation\"><ul>\n";
    for number in 0..40 {
        html += &format!(
            "<li id=\"menu-item-{id}\" class=\"menu-item menu-item-type-post_type menu-item-{id}\"><a \
             href=\"https://www.example.com/2026/{month:02}/note-{number}/\">Note {number}</a></li>\n",
            id = 1040 + number * 7,
            month = number % 12 + 1,
        );
    }
    html += "</ul></nav>\n<main id=\"primary\" class=\"site-main\">\n";
    for (number, document) in DOCUMENTS.iter().enumerate() {
        html += &article(number, document);
    }
    assert!(html.len() >= PAGE_BYTES, "{} bytes of documents are too few", html.len());
    let mut page = html.into_bytes();
    page.truncate(PAGE_BYTES);
    page
}

fn article(number: usize, document: &str) -> String {
    let mut html =
        format!("<article id=\"post-{number}\" class=\"post-{number} post type-post status-publish\">\n<p>");
    for (row, line) in document.lines().enumerate() {
        match line.strip_prefix('#') {
            Some(title) => {
                let title = title.trim_start_matches('#').trim();
                html += &format!(
                    "</p>\n<h2 class=\"wp-block-heading\" id=\"h-{number}-{row}\">{title}</h2>\n<p>"
                );
            }
            None if line.is_empty() => html += "</p>\n<p class=\"wp-block-paragraph\">",
            None => {
                html += &line.replace('&', "&amp;").replace('<', "&lt;").replace('`', "&#8217;");
                html.push('\n');
            }
        }
    }
    html + "</p>\n</article>\n"
}

/// Codes `body` like a worker does.
fn coded(encoder: &mut Encoder, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let done = encoder.write(body, &mut out).and_then(|()| encoder.finish(&mut out));
    assert!(done.is_ok(), "there is memory");
    out
}

fn stock(coding: Coding, level: u32) -> EncoderPool {
    let mut levels = Levels::default();
    match coding {
        Coding::Brotli => levels.brotli = level,
        Coding::Gzip => levels.gzip = level,
        Coding::Zstd => levels.zstd = level,
    }
    EncoderPool::new(levels)
}

fn sizes(page: &[u8]) {
    println!("| coding | level | bytes of {} | per cent |\n|---|---|---|---|", page.len());
    for (coding, levels) in LEVELS {
        for &level in levels {
            if let Ok(mut encoder) = stock(coding, level).take(coding) {
                let bytes = coded(&mut encoder, page).len();
                println!("| {} | {level} | {bytes} | {} |", coding.token(), bytes * 100 / page.len());
            }
        }
    }
}

fn pages(criterion: &mut Criterion, page: &[u8]) {
    for (coding, levels) in LEVELS {
        let mut group = criterion.benchmark_group(format!("codings/{}", coding.token()));
        group.throughput(Throughput::Bytes(page.len() as u64));
        group.sample_size(20);
        for &level in levels {
            let mut stock = stock(coding, level);
            group.bench_function(BenchmarkId::from_parameter(level), |bencher| {
                bencher.iter(|| {
                    let mut encoder = stock.take(coding).ok()?;
                    let out = coded(&mut encoder, black_box(page));
                    stock.put(encoder);
                    Some(out)
                });
            });
        }
        group.finish();
    }
}

/// Measures the benefit of keeping an encoder for small pages.
fn starts(criterion: &mut Criterion, page: &[u8]) {
    let body = &page[..4096];
    for (coding, level) in [(Coding::Brotli, 5), (Coding::Gzip, 6), (Coding::Zstd, 3)] {
        let mut group = criterion.benchmark_group(format!("codings/4 KiB {}", coding.token()));
        group.bench_function("new", |bencher| {
            bencher
                .iter(|| Encoder::new(coding, level).map(|mut encoder| coded(&mut encoder, black_box(body))));
        });
        let mut stock = stock(coding, level);
        group.bench_function("kept", |bencher| {
            bencher.iter(|| {
                let mut encoder = stock.take(coding).ok()?;
                let out = coded(&mut encoder, black_box(body));
                stock.put(encoder);
                Some(out)
            });
        });
        group.finish();
    }
}

fn copies(criterion: &mut Criterion, page: &[u8]) {
    let mut group = criterion.benchmark_group("codings/whole copy");
    group.sample_size(10);
    for coding in Coding::ALL {
        group
            .bench_function(coding.token(), |bencher| bencher.iter(|| encode_whole(coding, black_box(page))));
    }
    group.finish();
}

fn negotiation(criterion: &mut Criterion) {
    let offered = Levels { brotli: 5, gzip: 6, zstd: 3 }.for_pages();
    let accepts: &[u8] = b"gzip, deflate, br, zstd";
    criterion.bench_function("codings/choose", |bencher| {
        bencher.iter(|| choose([black_box(accepts)], &offered));
    });
}

fn main() {
    let page = page();
    let mut criterion = Criterion::default().configure_from_args();
    sizes(&page);
    pages(&mut criterion, &page);
    starts(&mut criterion, &page);
    copies(&mut criterion, &page);
    negotiation(&mut criterion);
    criterion.final_summary();
}
