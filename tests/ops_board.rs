//! The Grafana board: a Prometheus server that scrapes svc under traffic has a result for each of its queries.
#![cfg(feature = "php")]

use serde_json::Value;

use crate::scraper::Collector;
use crate::support::Svc;
use crate::support::client::eventually;
use crate::support::skip::skipped;
use crate::support::tls::Certificates;

fn board() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana/svc.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Returns each expression with the title of its panel.
fn expressions(board: &Value) -> Vec<(String, String)> {
    let panels = board["panels"].as_array().unwrap().iter();
    let of = |panel: &Value| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets
            .into_iter()
            .map(move |target| (title.clone(), target["expr"].as_str().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    panels.flat_map(of).collect()
}

#[test]
fn panels_are_told_apart_and_none_lies_on_another() {
    let board = board();
    let panels = board["panels"].as_array().unwrap();
    let mut cells = std::collections::BTreeSet::new();
    for (index, panel) in panels.iter().enumerate() {
        assert!(panels[..index].iter().all(|other| other["id"] != panel["id"]), "{}", panel["id"]);
        let number = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(x < 24 && cells.insert((x, y)), "{}", panel["title"]);
            }
        }
        let targets = panel["targets"].as_array().into_iter().flatten();
        assert!(targets.clone().all(|one| one["datasource"]["uid"] == "${datasource}"), "{}", panel["title"]);
    }
}

const WORKER: &str = r"<?php
Svc\Worker::serve(function () {
    echo Svc\async(fn () => 7)->await();
});
";

#[test]
fn each_expression_has_an_answer_in_a_real_prometheus() {
    let certificates = Certificates::new(&[&["localhost"]]);
    let [(cert, cert_file), (key, key_file)] = certificates.settings(1);
    let secure = Svc::start(&[("index.php", "<?php echo 1;")], &[(cert, &cert_file), (key, &key_file)]);
    let svc = Svc::start(
        &[("worker.php", WORKER), ("file.txt", "a file")],
        &[
            ("ASYNC_WORKERS", "1"),
            ("ENTRY_FILE", "worker.php"),
            ("OTEL_ENABLED", "true"),
            ("RESPONSE_CACHE_BYTES", "16M"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("WORKER_MODE_ENABLED", "true"),
        ],
    );
    let Some(collector) = Collector::watch(&[svc.ops(), secure.ops()], "groups: []") else {
        return skipped("prometheus is not installed");
    };
    let mut open: Vec<_> = expressions(&board());
    assert!(open.len() > 50, "{}", open.len());
    let concrete = |expression: &str| {
        expression.replace("$__rate_interval", "1m").replace("$job", "svc").replace("$instance", ".*")
    };
    assert!(open.iter().all(|(_, expression)| !concrete(expression).contains('$')));
    let is_answered = crate::support::client::becomes(|| {
        assert_eq!((svc.get("/").text().as_str(), svc.get("/file.txt").text().as_str()), ("7", "a file"));
        open.retain(|(_, expression)| !collector.finds(&concrete(expression)));
        open.is_empty()
    });
    assert!(is_answered, "no answer: {open:#?}");
    eventually("an instance can be chosen", || {
        let all = format!("svc_uptime_seconds{{job=\"svc\",instance=\"{}\"}}", svc.ops());
        collector.finds(&all)
    });
}
