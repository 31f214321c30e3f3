//! Plugins that hang, fail or give no answer, in each of their callbacks: the server keeps serving, reports it, and exits
//! in time.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use svc::boot;
use svc::commands::Exit;
use svc_core::config::{AccessLog, Config, Level, RawConfig};
use svc_core::observe::Log;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::plugins::Plugins;

const SERVING: [&str; 6] = ["start", "health", "metrics", "config", "serve", "request_ended"];

/// A clock that a test moves.
mod clock {
    use super::{AtomicU64, Duration, Instant, LazyLock, Ordering};

    static START: LazyLock<Instant> = LazyLock::new(svc_core::time::now);
    static AHEAD: AtomicU64 = AtomicU64::new(0);

    pub(super) fn now() -> Instant {
        *START + START.elapsed() + Duration::from_secs(AHEAD.load(Ordering::SeqCst))
    }

    pub(super) fn advance(seconds: u64) {
        AHEAD.fetch_add(seconds, Ordering::SeqCst);
    }
}

/// Sends a request for a page without waiting for the response.
fn ask_ahead(svc: &Svc) -> Client {
    let mut client = Client::connect(svc.ops());
    client.send("GET /plugins/hostile/ HTTP/1.1\r\nHost: x\r\n\r\n");
    client
}

fn hangs_in(plugins: &Plugins, callback: &str) {
    eventually(callback, || plugins.trace().iter().any(|call| call == callback));
}

#[test]
fn whichever_callback_hangs_the_server_serves_and_ends() {
    for callback in SERVING {
        let plugins = Plugins::hostile(&[("HANG", callback)]).with("well", &[], &[]);
        let mut svc = plugins.start(&[("a.txt", "a")], &[("DRAIN_TIMEOUT_SECONDS", "0")]);
        let _asked = ask_ahead(&svc);
        assert_eq!(svc.get("/a.txt").status, 200);
        hangs_in(&plugins, callback);
        for path in ["/healthz", "/startupz", "/readyz", "/health", "/metrics", "/config"] {
            assert_eq!(svc.ask(path).status, 200, "{path} while {callback} hangs");
        }
        assert_eq!(svc.get("/a.txt").status, 200);
        eventually("the other one answers", || svc.ask("/plugins/well/").status == 200);
        // Its thread is abandoned, and the shutdown takes no longer than the grace period.
        let whole = svc.whole_log();
        let left = whole.find("plugin did not stop in time").unwrap();
        assert_eq!(left["fields"]["plugin"], "hostile");
        assert_eq!(plugins.trace().iter().filter(|call| *call == "stop").count(), 1, "of the other one");
    }
}

#[test]
fn a_page_that_does_not_come_is_answered_with_503() {
    let plugins = Plugins::hostile(&[("HANG", "serve")]);
    let svc = plugins.start(&[], &[]);
    let mut first = ask_ahead(&svc);
    hangs_in(&plugins, "serve");
    let mut second = ask_ahead(&svc);
    assert_eq!((first.response().status, second.response().status), (503, 503));
    eventually("it is degraded", || {
        let health: Value = serde_json::from_slice(&svc.ask("/health").body).unwrap();
        health["plugins"]["hostile"] == "degraded"
    });
    assert_eq!((svc.ask("/health").status, svc.ask("/readyz").status), (200, 200));
    assert_eq!(svc.ask("/plugins/hostile/").status, 503);
    assert!(!svc.ask("/metrics").text().contains("svc_plugin_hostile_"), "what is old is not shown");
    let text = svc.log().expect("plugin is degraded")["fields"]["text"].clone();
    assert_eq!(text, "serve has not returned for more than 5 s");
    plugins.release();
    eventually("it answers again", || svc.ask("/plugins/hostile/").status == 200);
    svc.log().expect("plugin has recovered");
}

#[test]
fn a_plugin_that_hangs_for_a_minute_has_failed_until_it_returns() {
    let plugins = Plugins::hostile(&[("HANG", "health")]);
    let settings = plugins.settings(&[
        ("DOCUMENT_ROOT", "/"),
        ("LISTEN_ADDR", "127.0.0.1:0"),
        ("INTERNAL_ADDR", "127.0.0.1:0"),
        ("MAX_CONNECTIONS", "10"),
    ]);
    let config = std::sync::Arc::new(Config::resolve(&RawConfig::new(settings)).unwrap());
    let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
    let exit = boot::run(&config, &log, clock::now, |server| {
        let ask = |path: &str| Client::connect(server.ops_addr().unwrap()).get(path);
        let health = || -> Value { serde_json::from_slice(&ask("/health").body).unwrap() };
        hangs_in(&plugins, "health");
        assert_eq!((ask("/readyz").status, health()["plugins"]["hostile"].as_str()), (200, Some("degraded")));
        clock::advance(59);
        assert_eq!((ask("/readyz").status, ask("/health").status), (200, 200));
        assert_eq!(ask("/plugins/hostile/").status, 503);
        clock::advance(2);
        assert_eq!((ask("/readyz").status, ask("/health").status, ask("/healthz").status), (503, 503, 200));
        assert_eq!(health()["plugins"]["hostile"], "failed");
        plugins.release();
        eventually("it is well", || health()["plugins"]["hostile"] == "ok");
        assert_eq!(ask("/readyz").status, 200);
    });
    assert_eq!(exit, Exit::Well);
    assert_eq!(plugins.trace().last().unwrap(), "stop");
}

#[test]
fn errors_and_silence_are_counted_and_harmless() {
    for setting in ["FAIL", "SILENT"] {
        for callback in ["health", "metrics", "config", "serve", "request_ended"] {
            // A callback without an answer may return silently.
            let is_fine = setting == "SILENT" && matches!(callback, "metrics" | "request_ended");
            let plugins = Plugins::hostile(&[(setting, callback)]);
            let svc = plugins.start(&[("a.txt", "a")], &[]);
            assert_eq!(svc.get("/a.txt").status, 200);
            let page = svc.ask("/plugins/hostile/").status;
            assert!(callback != "serve" || matches!(page, 500 | 503), "{page}");
            hangs_in(&plugins, callback);
            let health = || -> Value { serde_json::from_slice(&svc.ask("/health").body).unwrap() };
            let expected = if callback == "health" { "failed" } else { "ok" };
            eventually(expected, || health()["plugins"]["hostile"] == expected);
            if !is_fine {
                if callback == "serve" {
                    eventually("a page fails", || svc.ask("/plugins/hostile/").status == 500);
                }
                let error =
                    if setting == "FAIL" { "as it was told" } else { "it returned without an answer" };
                eventually("it is logged", || {
                    svc.log().of("svc").iter().any(|record| {
                        let fields = &record["fields"];
                        fields["callback"] == callback && fields["error"] == error
                    })
                });
                assert!(svc.metric(r#"svc_plugins_callback_errors_total{plugin="hostile"}"#) >= 1.0);
            }
            assert_eq!(svc.get("/a.txt").status, 200);
        }
    }
}

#[test]
fn requests_that_a_slow_plugin_does_not_see_are_counted() {
    let plugins = Plugins::hostile(&[("HANG", "request_ended")]);
    let svc = plugins.start(&[("a.txt", "a")], &[]);
    let lost = r#"svc_plugins_requests_lost_total{plugin="hostile"}"#;
    assert_eq!(svc.metric(lost), 0.0);
    let mut client = svc.client();
    // One is in the callback, and the queue is full.
    assert_eq!(client.get("/a.txt").status, 200);
    hangs_in(&plugins, "request_ended");
    for _ in 0..4096 + 3 {
        assert_eq!(client.get("/a.txt").status, 200);
    }
    eventually("the rest is lost", || svc.metric(lost) == 3.0);
    plugins.release();
    let seen = || svc.ask("/metrics").text().contains("svc_plugin_hostile_requests_total 4097\n");
    eventually("the others are not", seen);
}

#[test]
fn stop_has_the_time_of_the_drain() {
    let plugins = Plugins::hostile(&[("HANG", "stop")]);
    let mut svc = plugins.start(&[], &[("DRAIN_TIMEOUT_SECONDS", "600")]);
    svc.signal(rustix::process::Signal::TERM);
    hangs_in(&plugins, "stop");
    assert_eq!(svc.ask("/healthz").status, 200, "the operations port closes last");
    plugins.release();
    assert_eq!(svc.wait(), Some(0));
    assert!(svc.log().find("plugin did not stop in time").is_none());
}

#[test]
fn work_in_flight_ends_before_stop() {
    let plugins = Plugins::hostile(&[("HANG", "serve")]);
    let mut svc = plugins.start(&[], &[("DRAIN_TIMEOUT_SECONDS", "600")]);
    let mut asked = ask_ahead(&svc);
    hangs_in(&plugins, "serve");
    svc.signal(rustix::process::Signal::TERM);
    eventually("it drains", || svc.log().find("svc is draining").is_some());
    plugins.release();
    assert_eq!(asked.response().status, 200);
    assert_eq!(svc.wait(), Some(0));
    let trace = plugins.trace();
    assert_eq!(trace.last().unwrap(), "stop");
}

#[test]
fn a_page_of_a_plugin_that_stops_or_has_stopped_is_unavailable() {
    let plugins = Plugins::none().with("a", &[], &[]).with("b", &[], &[("HANG", "stop")]);
    let mut svc = plugins.start(&[], &[("DRAIN_TIMEOUT_SECONDS", "600")]);
    svc.signal(rustix::process::Signal::TERM);
    eventually("both stop", || plugins.trace().iter().filter(|call| *call == "stop").count() == 2);
    let asked_at = Instant::now();
    for plugin in ["a", "b"] {
        assert_eq!(svc.ask(&format!("/plugins/{plugin}/")).status, 503, "{plugin}");
    }
    assert!(asked_at.elapsed() < Duration::from_secs(20), "no client has waited until the page was late");
    plugins.release();
    assert_eq!(svc.wait(), Some(0));
    assert!(!plugins.trace().contains(&"serve".to_owned()));
}
