//! Answers of plugins at the wrong time or in the wrong form: the plugin gets the header's error code, and the answer has
//! no effect.

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::plugins::Plugins;

const ERRORS: &str = r#"svc_plugins_callback_errors_total{plugin="answers"}"#;

/// Starts a server with the plugin `answers`.
fn start() -> (Plugins, Svc) {
    let plugins = Plugins::none();
    let path = plugins.path("answers.so");
    c::plugin(include_str!("../../plugins/answers.c"), &path, &["-pthread"]);
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
    // None of these answers had an effect.
    assert_eq!(get("a"), "a");
    assert_eq!(json(&svc, "/health")["plugins"], json!({ "answers": "ok" }));
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["own"], true);
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["misused"], Value::Null);
    let metrics = svc.ask("/metrics").text();
    assert!(metrics.contains("svc_plugin_answers_own 1\n") && !metrics.contains("misused"), "{metrics}");
    svc.assert_metric(ERRORS, 0.0);
}

#[test]
fn malformed_calls_are_refused_at_once_and_change_nothing() {
    let (_plugins, svc) = start();
    let get = |path: &str| svc.ask(&format!("/plugins/answers/{path}"));
    assert_eq!(get("codes").text(), "2 2 2, 2 2 2 2 3; 2 2 2 2; 2 2");
    let kept = get("kept");
    assert_eq!((kept.status, kept.text().as_str()), (200, "kept"));
    assert_eq!((kept.field("content-type"), kept.field("x-evil")), (Some("text/plain"), None));
    assert_eq!(json(&svc, "/health")["plugins"], json!({ "answers": "ok" }));
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["own"], true);
    assert_eq!(svc.metric(ERRORS), 0.0);
    // A refused answer does not count as an answer.
    assert_eq!(get("none").status, 500);
    let why = svc.log().expect("plugin callback failed")["fields"]["error"].clone();
    assert_eq!(why, "it returned without an answer: the content type is not valid");
    svc.assert_metric(ERRORS, 1.0);
}

#[test]
fn a_configuration_is_shown_until_there_is_another_one() {
    let (_plugins, svc) = start();
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["own"], true);
    assert_eq!(svc.ask("/plugins/answers/worse").status, 200);
    let why = svc.log().expect("plugin callback failed")["fields"]["error"].clone();
    assert!(
        why.as_str().unwrap().starts_with("it returned without an answer: the configuration is not"),
        "{why}"
    );
    assert_eq!(json(&svc, "/config")["plugins"]["answers"]["own"], true);
}

#[test]
fn a_long_text_about_its_health_is_cut() {
    let (_plugins, svc) = start();
    assert_eq!(svc.ask("/plugins/answers/long").status, 200);
    assert_eq!(svc.log().expect("plugin is degraded")["fields"]["text"], "x".repeat(1024));
    assert_eq!(svc.metric(ERRORS), 0.0);
}

#[test]
fn a_page_that_may_have_no_content_has_none() {
    let (_plugins, svc) = start();
    let get = |status: &str| svc.ask(&format!("/plugins/answers/{status}"));
    for (status, code, body) in [("200", 200, "200"), ("205", 205, ""), ("599", 599, "599")] {
        let page = get(status);
        assert_eq!((page.status, page.text().as_str()), (code, body));
        assert_eq!(page.field("content-length"), Some(body.len().to_string().as_str()), "{status}");
    }
    let page = get("204");
    assert_eq!((page.status, page.text().as_str(), page.field("content-length")), (204, "", None));
}
