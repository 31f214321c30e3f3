//! Plugins on the operations port: health, readiness, configuration, metrics, pages, and access to them.

use serde_json::{Value, json};

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::exposition::{self, Dialect};
use svc_testing::plugins::Plugins;

fn json(svc: &Svc, path: &str) -> Value {
    serde_json::from_slice(&svc.ask(path).body).unwrap()
}

/// Waits until a plugin has reported this health.
fn becomes(svc: &Svc, plugin: &str, health: &str) {
    eventually(health, || json(svc, "/health")["plugins"][plugin] == health);
}

#[test]
fn health_includes_that_of_plugins_and_a_failure_is_not_ready() {
    for (status, word, code) in [("0", "ok", 200), ("1", "degraded", 200), ("2", "failed", 503)] {
        let plugins = Plugins::hostile(&[("HEALTH", status)]);
        let svc = plugins.start(&[], &[]);
        becomes(&svc, "hostile", word);
        eventually("it stays so", || svc.ask("/health").status == code && svc.ask("/readyz").status == code);
        assert_eq!(json(&svc, "/health")["status"], if code == 200 { "ok" } else { "degraded" });
        assert_eq!((svc.ask("/healthz").status, svc.ask("/startupz").status), (200, 200));
        svc.assert_metric(&format!(r#"svc_plugins_health{{plugin="hostile",status="{word}"}}"#), 1.0);
        if status != "0" {
            let message = if status == "1" { "plugin is degraded" } else { "plugin has failed" };
            assert_eq!(svc.log().expect(message)["fields"]["text"], "so it is");
        }
    }
}

#[test]
fn a_plugin_without_a_health_check_is_absent() {
    let plugins = Plugins::none().with("quiet", &["-DWITHOUT_HEALTH"], &[]).with("loud", &[], &[]);
    let svc = plugins.start(&[], &[]);
    becomes(&svc, "loud", "ok");
    assert_eq!(json(&svc, "/health")["plugins"], json!({ "loud": "ok" }));
    assert!(!svc.ask("/metrics").text().contains(r#"svc_plugins_health{plugin="quiet""#));
}

#[test]
fn a_start_that_fails_is_a_failure_even_without_a_health_check() {
    let plugins = Plugins::none().with("a", &["-DWITHOUT_HEALTH"], &[("FAIL", "start")]);
    let mut svc = plugins.start(&[], &[]);
    becomes(&svc, "a", "failed");
    eventually("it is logged", || svc.log().find("plugin has failed").is_some());
    assert_eq!(svc.ask("/readyz").status, 503);
    assert_eq!(svc.ask("/plugins/a/").status, 503);
    svc.stop();
    assert_eq!(plugins.trace(), ["init", "start", "stop"]);
}

#[test]
fn the_configuration_report_has_each_plugin_with_its_own_part() {
    let plugins = Plugins::none()
        .with("a", &[], &[("CONFIG", r#"{"limit": [1, {"b": null}], "version": "forged"}"#)])
        .with("b", &[], &[("CONFIG", "[1]")])
        .with("c", &[], &[("CONFIG", "long")])
        .with("d", &[], &[("CONFIG", r#"{"unfinished""#)]);
    let svc = plugins.start(&[], &[]);
    eventually("it has answered", || json(&svc, "/config")["plugins"]["a"]["limit"].is_array());
    let plain = |name: &str| json!({ "version": "0.9-hostile", "path": plugins.path(name) });
    let mut a = plain("a.so");
    a["limit"] = json!([1, { "b": null }]);
    for (name, part) in [("a", a), ("b", plain("b.so")), ("c", plain("c.so")), ("d", plain("d.so"))] {
        assert_eq!(json(&svc, "/config")["plugins"][name], part);
    }
    eventually("three are counted", || {
        let errors = |name| svc.metric(&format!(r#"svc_plugins_callback_errors_total{{plugin="{name}"}}"#));
        errors("b") >= 1.0 && errors("c") >= 1.0 && errors("d") >= 1.0
    });
}

#[test]
fn metrics_are_on_a_valid_page_and_invalid_ones_are_refused() {
    let plugins = Plugins::hostile(&[]).with("a", &[], &[]);
    let svc = plugins.start(&[("a.txt", "a")], &[]);
    let series = r#"svc_plugin_hostile_codes{kind="a \"quoted\\ one"}"#;
    eventually("they exist", || svc.ask("/metrics").text().contains(series));
    for (dialect, accept) in
        [(Dialect::Text, "text/plain"), (Dialect::OpenMetrics, "application/openmetrics-text;version=1.0.0")]
    {
        let response =
            Client::connect(svc.ops()).request(&format!("GET /metrics HTTP/1.1\r\nAccept: {accept}"));
        let page = exposition::read(&response.body, dialect).unwrap_or_else(|fault| panic!("{fault}"));
        let label = [("kind", "a \"quoted\\ one")];
        assert_eq!(page.value("svc_plugin_hostile_codes", &label), Some(0.5));
        assert_eq!(page.value("svc_plugin_hostile_requests_total", &[]), Some(0.0));
        let text = response.text();
        // The codes of the plugin's calls: no family, a bad name, a bad type, fine, fine, twice, a bad label, NULL.
        assert!(text.contains("# HELP svc_plugin_hostile_codes 5 2 2 0 0 4 2 2\n"), "{text}");
        assert!(!text.contains("bad name"));
    }
    let refused = svc.log().expect("plugin callback failed");
    assert_eq!(refused["fields"]["callback"], "metrics");
    assert!(svc.metric(r#"svc_plugins_callback_errors_total{plugin="hostile"}"#) >= 1.0);
}

#[test]
fn pages_come_from_plugins_and_invalid_answers_are_refused() {
    let plugins = Plugins::hostile(&[]);
    let svc = plugins.start(&[], &[]);
    eventually("it has started", || svc.ask("/plugins/hostile/").status == 200);
    let get = |path: &str| svc.ask(&format!("/plugins/hostile/{path}"));
    assert_eq!(get("a/b%20c?d=e&f").text(), "[a/b%20c] [d=e&f]");
    assert_eq!(get("").text(), "[] []");
    let tea = get("teapot");
    assert_eq!((tea.status, tea.field("content-type")), (418, Some("text/html; charset=utf-8")));
    let big = get("big");
    assert_eq!((big.status, big.body.len()), (200, 8 << 20));
    for (path, code) in [("over", "code 3"), ("null", "code 2"), ("huge", "code 3"), ("nowhere", "code 5")] {
        assert_eq!(get(path).text(), code, "{path}");
    }
    for path in ["status", "type"] {
        let response = get(path);
        assert_eq!((response.status, response.field("x-evil")), (500, None), "{path}");
    }
    let head = Client::connect(svc.ops()).request("HEAD /plugins/hostile/teapot HTTP/1.1\r\nHost: x");
    assert_eq!((head.status, head.body.len(), head.field("content-length")), (418, 0, Some("6")));
    let post = Client::connect(svc.ops()).request("POST /plugins/hostile/ HTTP/1.1\r\nHost: x");
    assert_eq!((post.status, post.field("allow")), (405, Some("GET, HEAD")));
    for path in ["/plugins/other/", "/plugins/hostile", "/plugins/", "/plugins"] {
        assert_eq!(svc.ask(path).status, 404, "{path}");
    }
    // The main port does not serve them; without PHP, it has one page for everything.
    assert!(!svc.get("/plugins/hostile/teapot").text().contains("tea"));
}

#[test]
fn pages_are_for_peers_on_the_list_only() {
    let plugins = Plugins::hostile(&[]);
    let svc = plugins.start(&[], &[("INTERNAL_ALLOW_IPS", "10.0.0.0/8")]);
    for path in ["/plugins/hostile/", "/plugins/other/", "/plugins/"] {
        assert_eq!(svc.ask(path).status, 403, "{path}");
    }
    assert_eq!(svc.ask("/plugins").status, 404);
    becomes(&svc, "hostile", "ok");
    assert!(!plugins.trace().contains(&"serve".to_owned()));
}
