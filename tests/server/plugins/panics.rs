//! A Rust plugin that panics in each of its callbacks.

use serde_json::Value;

use svc_testing::client::eventually;
use svc_testing::plugins::{Plugins, built};

fn panicking(callback: &str) -> Plugins {
    Plugins::none().add(&built("svc-plugin-panics", "panics"), &[("PLUGIN_PANICS_IN", callback)])
}

#[test]
fn a_panic_is_an_error_of_its_callback() {
    for callback in ["start", "health", "metrics", "config", "serve", "request_ended", "stop"] {
        let plugins = panicking(callback);
        let mut svc = plugins.start(&[("a.txt", "a")], &[]);
        assert_eq!(svc.get("/a.txt").status, 200);
        if callback == "serve" {
            eventually("its page fails", || svc.ask("/plugins/panics/").status == 500);
        }
        let report = |path: &str| -> Value { serde_json::from_slice(&svc.ask(path).body).unwrap() };
        let expected = if matches!(callback, "start" | "health") { "failed" } else { "ok" };
        eventually(expected, || report("/health")["plugins"]["panics"] == expected);
        if !matches!(callback, "stop") {
            let told = |record: &Value| {
                let fields = &record["fields"];
                fields["callback"] == callback
                    && fields["error"].as_str().is_some_and(|error| error.starts_with("it panicked: "))
            };
            eventually("it is logged", || svc.log().of("svc").iter().any(told));
        }
        let metric = || svc.ask("/metrics").text().contains("svc_plugin_panics_answer 42\n");
        match callback {
            "start" => assert_eq!(svc.ask("/plugins/panics/").status, 503),
            "metrics" => assert!(!metric(), "what was added before it is dropped"),
            _ => eventually("the rest of it works", metric),
        }
        assert_eq!(svc.get("/a.txt").status, 200);
        svc.stop();
    }
}

#[test]
fn a_panic_in_init_stops_the_start() {
    let (code, errors) = panicking("init").refused(None, &[]);
    assert!(code == 1 && errors.contains("plugin panics: init failed: it panicked: "), "{errors}");
}

#[test]
fn the_wrapper_logs_the_refusals_of_svc() {
    let svc = panicking("nowhere").start(&[], &[]);
    eventually("it has started", || svc.ask("/plugins/panics/a").text() == "a");
    assert_eq!(svc.ask("/plugins/panics/over").status, 500);
    let record = svc.log().expect("plugin callback failed");
    assert_eq!(record["fields"]["error"], "the page is too large");
}
