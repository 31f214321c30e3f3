//! The Grafana board: a Prometheus server that scrapes svc under traffic has a result for each of its queries.
#![cfg(all(feature = "async", feature = "trace"))]

use serde_json::Value;

use super::board::board;
use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

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

const WORKER: &str = r"<?php
Svc\Worker::serve(function () {
    trigger_error('an error', E_USER_WARNING);
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
    let is_answered = svc_testing::client::becomes(|| {
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
