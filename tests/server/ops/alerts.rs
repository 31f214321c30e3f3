//! The alert rules of deploy/prometheus: promtool checks them, and servers in the corresponding states raise them.
//!
//! The states are in `alerts_servers`, `alerts_cache`, `alerts_clients` and `alerts_php`; `worker::wedge` has those of a
//! stalled pool.
#![cfg(feature = "php")]

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::process::Command;

use svc_testing::client::becomes;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus");

fn rules() -> String {
    std::fs::read_to_string(format!("{FOLDER}/alerts.yml")).unwrap()
}

/// Returns the rules without the times for which an expression must hold or a queue must be empty: a test cannot wait
/// minutes.
pub(crate) fn impatient_rules() -> String {
    let rules = rules().replace("max_over_time(svc_queue_depth[5m])", "svc_queue_depth");
    rules.lines().filter(|line| !line.trim_start().starts_with("for: ")).collect::<Vec<_>>().join("\n")
}

/// Returns the names of the alerts. Those of two severities follow each other.
fn names(text: &str) -> Vec<&str> {
    let mut names: Vec<_> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("- alert: ")).collect();
    names.dedup();
    names
}

/// An alert without `for` would fire on a single scrape, and the name of the job is the operator's choice.
#[test]
fn each_alert_waits_and_none_depends_on_the_name_of_a_job() {
    let rules = rules();
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 40);
    for alert in alerts {
        assert!(alert.lines().any(|line| line.starts_with("        for: ")), "{alert}");
        assert!(!alert.contains("job="), "{alert}");
    }
}

#[test]
fn promtool_finds_no_fault_and_each_alert_has_its_test() {
    let tests = std::fs::read_to_string(format!("{FOLDER}/alerts_test.yml")).unwrap();
    for name in names(&rules()) {
        assert!(tests.contains(&format!("\n  - name: {name}\n")), "{name} is not tested");
    }
    for (command, file) in [("check", "alerts.yml"), ("test", "alerts_test.yml")] {
        let run = Command::new("promtool").args([command, "rules", file]).current_dir(FOLDER).output();
        let Ok(output) = run else { return skipped("promtool is not installed") };
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn each_alert_says_what_to_do() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/operations.md")).unwrap();
    let (rules, headings) = (rules(), page.lines().filter_map(|line| line.strip_prefix("### ")));
    let described: Vec<_> = headings.filter(|heading| heading.starts_with("Svc")).collect();
    assert_eq!(described, names(&rules), "docs/operations.md describes the alerts in their order");
    for name in names(&rules) {
        let link = "runbook_url: '{{ with $externalLabels.svc_docs }}{{ . }}/{{ end }}docs/operations.md#";
        assert!(rules.contains(&format!("{link}{}'\n", name.to_lowercase())), "{name}");
    }
}

/// Alerts that no test raises on a server: it would take a lost slot, or requests that are a minute old. promtool tests
/// their expressions.
const NOT_RAISED: [&str; 2] = ["SvcRequestsStuck", "SvcSlotsLost"];

#[test]
fn all_alerts_but_two_are_raised_by_a_real_server() {
    let tests = [
        include_str!("alerts_cache.rs"),
        include_str!("alerts_clients.rs"),
        include_str!("alerts_php.rs"),
        include_str!("alerts_servers.rs"),
        include_str!("../worker/wedge.rs"),
    ];
    for name in names(&rules()) {
        let is_named = tests.iter().any(|test| test.contains(&format!("\"{name}\"")));
        assert!(is_named || NOT_RAISED.contains(&name), "{name}");
    }
}

/// Waits until all servers, named by their operations ports, have raised these alerts at the same time, and calls
/// `meanwhile` repeatedly; returns all firing alerts, each with the port.
#[track_caller]
pub(crate) fn all_raised(
    collector: &Collector,
    expected: &[(SocketAddr, &[&str])],
    mut meanwhile: impl FnMut(),
) -> BTreeSet<(String, String)> {
    let of = |(ops, names): &(SocketAddr, &[&str])| {
        names.iter().map(|name| ((*name).to_owned(), ops.to_string())).collect::<Vec<_>>()
    };
    let expected: BTreeSet<_> = expected.iter().flat_map(of).collect();
    let mut firing = BTreeSet::new();
    let all_fire = becomes(|| {
        meanwhile();
        firing = collector.firing();
        expected.is_subset(&firing)
    });
    assert!(all_fire, "missing: {:?}", expected.difference(&firing).collect::<Vec<_>>());
    firing
}

/// Waits until the server with that operations port has raised an alert.
#[cfg(feature = "worker")]
#[track_caller]
pub(crate) fn raises(collector: &Collector, ops: SocketAddr, name: &str) {
    svc_testing::client::eventually(name, || {
        collector.firing().contains(&(name.to_owned(), ops.to_string()))
    });
}
