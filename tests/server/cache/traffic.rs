//! Random traffic against a model of freshness: pages that vary, expire, are validated, purged, or belong to one
//! user. Each response contains its page, its user and the time at which it was made; none may be of another page,
//! variant or user, older than it may be, or from before a purge. `CACHE_SECONDS` sets the duration.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::dice::Dice;
use svc_testing::http2::Http2Client;

/// A page whose number decides how it may be cached. Its first line describes it; the rest has a length that depends on
/// its version, and a checksum.
const PAGE: (&str, &str) = (
    "page.php",
    r"<?php
    $made = microtime(true);
    [$page, $user] = [(int) $_GET['page'], $_COOKIE['session'] ?? ''];
    $version = (int) file_get_contents(__DIR__ . '/version' . $page);
    header('Content-Type: image/png');
    $color = '';
    switch ($page % 6) {
        case 0: header('Cache-Control: max-age=1'); break;
        case 1: header('Cache-Control: max-age=1, stale-while-revalidate=2'); break;
        case 2:
            header('Cache-Control: max-age=0');
            header('ETag: \'' . $version . '\'');
            if (($_SERVER['HTTP_IF_NONE_MATCH'] ?? '') === '\'' . $version . '\'') { http_response_code(304); return; }
            break;
        case 3: header('Cache-Control: private, max-age=60'); break;
        case 4: header('Cache-Control: max-age=1'); header('Vary: X-Color'); $color = $_SERVER['HTTP_X_COLOR'] ?? ''; break;
        case 5: header('Cache-Control: max-age=60'); header('Cache-Tag: page-' . $page . ', all'); break;
    }
    $rest = str_repeat(chr(97 + $version % 26), 100 + ($page * 7919 + $version * 104729) % 60000);
    printf('%d,%s,%s,%d,%.6F,%s' . PHP_EOL . '%s', $page, $color, $user, $version, $made, md5($rest), $rest);",
);

const PURGE: (&str, &str) = ("purge.php", "<?php echo Svc\\Cache\\purge_tags('page-' . $_GET['page']);");

const APP: (&str, &str) = (
    "app.php",
    r"<?php Svc\Worker::serve(static function () {
        require __DIR__ . (str_starts_with($_SERVER['REQUEST_URI'], '/purge') ? '/purge.php' : '/page.php');
    });",
);

const PAGES: u64 = 300;
const CACHE_MIB: u64 = 4;

/// The state of the pages.
struct Model {
    /// The versions that are written.
    written: Vec<AtomicU64>,
    /// The versions that are written, and whose older responses are purged.
    purged: Vec<AtomicU64>,
    requests: AtomicU64,
    hits: AtomicU64,
    is_over: AtomicBool,
}

/// One request of the traffic.
struct Asked {
    page: u64,
    color: u64,
    /// The user, if the request has a session.
    user: Option<u64>,
    at: f64,
    written: u64,
    purged: u64,
}

enum Connection {
    Http1(Client),
    Http2(Box<Http2Client>),
}

impl Connection {
    fn request(&mut self, asked: &Asked) -> Response {
        let (path, color) = (format!("/page.php?page={}", asked.page), asked.color.to_string());
        let cookie = asked.user.map(|user| format!("session={user}"));
        match self {
            Self::Http1(client) => {
                let cookie = cookie.map(|cookie| format!("\r\nCookie: {cookie}")).unwrap_or_default();
                client.request(&format!("GET {path} HTTP/1.1\r\nHost: test\r\nX-Color: {color}{cookie}"))
            }
            Self::Http2(client) => {
                let mut fields = svc_testing::http2::head("GET", &path);
                fields.push(("x-color", &color));
                fields.extend(cookie.as_deref().map(|cookie| ("cookie", cookie)));
                let stream = client.open(&fields, true);
                client.response(stream)
            }
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

impl Model {
    fn new(svc: &Svc) -> Self {
        let versions = || (0..PAGES).map(|_| AtomicU64::new(0)).collect();
        for page in 0..PAGES {
            std::fs::write(svc.root().join(format!("version{page}")), "0").unwrap();
        }
        Self {
            written: versions(),
            purged: versions(),
            requests: AtomicU64::default(),
            hits: AtomicU64::default(),
            is_over: AtomicBool::default(),
        }
    }

    /// Sends requests until the time is over, and checks each response.
    fn visit(&self, svc: &Svc, number: u64) {
        let mut dice = Dice::new(number);
        let mut connection = if number.is_multiple_of(2) {
            Connection::Http1(svc.client())
        } else {
            Connection::Http2(Box::new(Http2Client::connect(svc.main())))
        };
        while !self.is_over.load(Ordering::Relaxed) {
            // Few pages get half of the requests.
            let pages = if dice.one_in(2) { 12 } else { PAGES };
            let page = dice.below(pages);
            let asked = Asked {
                page,
                color: dice.below(3),
                user: dice.one_in(10).then(|| dice.below(100)),
                at: now(),
                written: self.written[page as usize].load(Ordering::SeqCst),
                purged: self.purged[page as usize].load(Ordering::SeqCst),
            };
            let response = connection.request(&asked);
            self.check(&asked, &response);
        }
    }

    fn check(&self, asked: &Asked, response: &Response) {
        let status = response.field("cache-status").unwrap_or("none");
        let text = response.text();
        let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let told = format!("page {} at {}: {} {status}: {head}", asked.page, asked.at, response.status);
        assert!(response.status == 200 && response.is_whole, "{told}");
        let words: Vec<&str> = head.split(',').collect();
        let [page, color, user, version, made, sum] = words[..] else { panic!("{told}") };
        assert_eq!(page, asked.page.to_string(), "{told}");
        assert_eq!(user, asked.user.map(|user| user.to_string()).unwrap_or_default(), "{told}");
        let version: u64 = version.parse().unwrap();
        let length = 100 + (asked.page * 7919 + version * 104_729) % 60000;
        assert!(rest.len() as u64 == length && sum.len() == 32, "{told}: {}", rest.len());
        assert!(rest.bytes().all(|byte| u64::from(byte) == 97 + version % 26), "{told}");
        // For how long it may be used from when it was made.
        let seconds = match asked.page % 6 {
            0 => 1.0,
            1 => 3.0,
            2 => {
                assert!(version >= asked.written, "{told}: it was not validated");
                f64::MAX
            }
            3 => 0.0,
            4 => {
                assert_eq!(color, asked.color.to_string(), "{told}");
                1.0
            }
            _ => 60.0,
        };
        assert!(version >= asked.purged, "{told}: it was purged");
        assert!(made.parse::<f64>().unwrap() + seconds >= asked.at, "{told}: it is too old");
        assert!(asked.user.is_none() || status == "svc; fwd=bypass", "{told}");
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.hits.fetch_add(u64::from(status.starts_with("svc; hit")), Ordering::Relaxed);
    }

    /// Changes pages until the time is over, and purges those that stay fresh for long.
    fn edit(&self, svc: &Svc) {
        let (mut dice, mut client) = (Dice::new(77), svc.client());
        while !self.is_over.load(Ordering::Relaxed) {
            let pages = if dice.one_in(2) { 12 } else { PAGES };
            let page = dice.below(pages);
            let version = self.written[page as usize].load(Ordering::SeqCst) + 1;
            let path = svc.root().join(format!("version{page}"));
            std::fs::write(path.with_extension("new"), version.to_string()).unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
            self.written[page as usize].store(version, Ordering::SeqCst);
            if page % 6 == 5 {
                let response = client.request(&format!("GET /purge.php?page={page} HTTP/1.1\r\nHost: test"));
                assert_eq!(response.status, 200);
                self.purged[page as usize].store(version, Ordering::SeqCst);
            }
        }
    }
}

/// Returns the resident memory of the server in KiB.
fn resident_kib(svc: &Svc) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", svc.pid().as_raw_nonzero())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn no_response_is_wrong() {
    let seconds = std::env::var("CACHE_SECONDS").map_or(3, |seconds| seconds.parse().unwrap());
    const WORKER_MODE: &[(&str, &str)] = &[("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php")];
    let modes: &[&[_]] = if cfg!(feature = "worker") { &[&[], WORKER_MODE] } else { &[&[]] };
    for &mode in modes {
        let capacity = format!("{CACHE_MIB}M");
        let own = [("RESPONSE_CACHE_BYTES", capacity.as_str()), ("PHP_WORKERS", "4"), ("EXECUTOR", "sapi")];
        let svc = Svc::start(&[PAGE, PURGE, APP], &[&own, mode].concat());
        let model = Model::new(&svc);
        let mut client = svc.client();
        // The memory of the scripts themselves: these responses are not stored.
        for page in 0..PAGES {
            client.request(&format!("GET /page.php?page={page} HTTP/1.1\r\nHost: x\r\nCookie: session=1"));
        }
        let before = resident_kib(&svc);
        let begin = Instant::now();
        std::thread::scope(|scope| {
            let (model, svc) = (&model, &svc);
            scope.spawn(move || model.edit(svc));
            (0..6).for_each(|number| drop(scope.spawn(move || model.visit(svc, number))));
            while begin.elapsed() < Duration::from_secs(seconds) {
                std::thread::park_timeout(Duration::from_millis(50));
            }
            model.is_over.store(true, Ordering::Relaxed);
        });
        let grown = resident_kib(&svc).saturating_sub(before);
        let (requests, hits) = (model.requests.load(Ordering::Relaxed), model.hits.load(Ordering::Relaxed));
        assert!(hits > requests / 10, "{hits} hits of {requests} requests");
        assert!(svc.metric("svc_response_cache_bytes") <= (CACHE_MIB << 20) as f64);
        assert!(grown <= (CACHE_MIB + 12) << 10, "{grown} KiB");
        println!("{requests} requests, {hits} hits, {grown} KiB more");
    }
}

#[test]
fn responses_of_any_length_take_no_more_memory_than_they_may() {
    const MIB: u64 = 32;
    const THREADS: usize = 4;
    let script = r"<?php
        header('Cache-Control: max-age=600');
        header('Cache-Tag: all, ' . $_GET['n']);
        header('Content-Type: image/png');
        mt_srand(crc32($_GET['n']));
        echo str_repeat('x', mt_rand((int) $_GET['from'], (int) $_GET['to']));";
    let capacity = format!("{MIB}M");
    for (from, to, count) in [(0, 10, 5000), (300_000, 600_000, 100)] {
        let own = [("RESPONSE_CACHE_BYTES", capacity.as_str()), ("PHP_WORKERS", "4"), ("ACCESS_LOG", "off")];
        let svc = Svc::start(&[("page.php", script)], &own);
        let flood = |fields: &str| {
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let svc = &svc;
                    scope.spawn(move || {
                        let mut client = svc.client();
                        for n in 0..count {
                            let path = format!("/page.php?n={n}-{thread}&from={from}&to={to}");
                            client.request(&format!("GET {path} HTTP/1.1\r\nHost: test{fields}"));
                        }
                    });
                }
            });
        };
        // The memory that the workers need without storing.
        flood("\r\nCookie: session=1");
        let before = resident_kib(&svc);
        flood("");
        let grown = resident_kib(&svc).saturating_sub(before);
        eventually("responses were evicted", || {
            svc.metric("svc_response_cache_evictions_total{reason=\"memory\"}") > 0.0
        });
        // A response that is being received may take as much as one that is stored, twice while its buffer grows.
        assert!(grown <= (MIB + 2 * THREADS as u64) << 10, "{from} to {to} bytes: {grown} KiB");
    }
}
