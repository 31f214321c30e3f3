//! What plugins answer at the wrong time or against the rules: they get the code of the header, and nothing is done.
#![cfg(feature = "php")]

use serde_json::{Value, json};

use crate::plugins::Plugins;
use crate::support::Svc;
use crate::support::c;
use crate::support::client::eventually;

/// A server with the plugin `answers`.
fn start() -> (Plugins, Svc) {
    let plugins = Plugins::none();
    let path = plugins.path("answers.so");
    c::plugin(include_str!("plugins/answers.c"), &path, &["-pthread"]);
    let plugins = plugins.add(&path, &[]);
    let svc = plugins.start(&[], &[]);
    eventually("it has started", || svc.ask("/plugins/answers/").status == 200);
    (plugins, svc)
}

fn json(svc: &Svc, path: &str) -> Value {
    serde_json::from_slice(&svc.ask(path).body).unwrap()
}

#[test]
fn a_handle_is_good_for_one_callback_on_its_thread() {
    let (_plugins, svc) = start();
    let get = |path: &str| svc.ask(&format!("/plugins/answers/{path}")).text();
    assert_eq!(get("thread"), "own");
    eventually("handles were kept and misused", || get("tally") == "many, 2 threads, 0 taken");
    // None of that was heard.
    assert_eq!(get("a"), "a");
    assert_eq!(json(&svc, "/health")["plugins"], json!({ "answers": "ok" }));
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["own"], true);
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["misused"], Value::Null);
    let metrics = svc.ask("/metrics").text();
    assert!(metrics.contains("svc_plugin_answers_own 1\n") && !metrics.contains("misused"), "{metrics}");
    svc.assert_metric(r#"svc_plugins_callback_errors_total{plugin="answers"}"#, 0.0);
}
