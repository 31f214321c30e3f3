//! The Grafana board: a Prometheus server that scrapes svc under traffic has a result for each of its queries.
#![cfg(feature = "php")]

use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

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

/// A colour has a meaning: thresholds are those of an alert, or distinguish two states.
#[test]
fn colours_mean_what_alerts_say() {
    let rules = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yml"))
        .unwrap();
    let board = board();
    let mut coloured = Vec::new();
    for panel in board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
        let (title, defaults) = (panel["title"].as_str().unwrap(), &panel["fieldConfig"]["defaults"]);
        let steps =
            defaults["thresholds"]["steps"].as_array().expect("Grafana's own thresholds mean nothing");
        let description = panel["description"].as_str().unwrap();
        if steps.len() == 1 {
            assert_eq!(steps[0]["color"], "text", "{title}");
            assert!(panel["type"] != "stat" || panel["options"]["colorMode"] == "none", "{title}");
            continue;
        }
        coloured.push(title);
        let says = |color: &str| description.to_lowercase().contains(color);
        let bad = steps.iter().filter(|step| step["color"] != "green");
        bad.for_each(|step| assert!(says(step["color"].as_str().unwrap()), "{title}: {description}"));
        let alerts = description.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("Svc"));
        alerts.for_each(|alert| assert!(rules.contains(&format!("- alert: {alert}\n")), "{title}: {alert}"));
    }
    let expected = [
        "Refused for overload",
        "Failed with 5xx",
        "Code on disk",
        "Last reload",
        "Ini files of PHP",
        "Certificate expires in",
    ];
    assert_eq!(coloured, expected);
}

#[test]
fn each_row_answers_a_question() {
    let board = board();
    let rows = board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] == "row");
    let titles: Vec<_> = rows.map(|row| row["title"].as_str().unwrap().to_owned()).collect();
    assert!(titles.len() > 6 && titles.iter().all(|title| title.ends_with('?')), "{titles:?}");
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
