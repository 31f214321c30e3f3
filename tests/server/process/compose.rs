//! Compares the files for `docker compose` with the settings, the board and the rules that they name.
#![cfg(feature = "php")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use svc_core::config::keys::KEYS;
use svc_core::config::{Config, RawConfig};
use svc_core::limits::THREAD_EXIT_GRACE;

use svc_testing::skip::skipped;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/compose");

/// Returns the contents of a file in the folder.
fn file(name: &str) -> Value {
    super::kubernetes::objects_in_files(&format!("{FOLDER}/{name}"))[0].clone()
}

fn service(name: &str) -> Value {
    file("compose.yaml")["services"][name].clone()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the files of the host that a service has, by their places in the container.
fn mounts(service: &Value) -> BTreeMap<String, String> {
    let mount = |text: &str| {
        let [host, place, "ro"] = text.split(':').collect::<Vec<_>>()[..] else { panic!("{text}") };
        (place.to_owned(), format!("{FOLDER}/{host}"))
    };
    texts(&service["volumes"]).into_iter().map(mount).collect()
}

#[test]
fn mounted_files_exist_at_their_paths() {
    for name in ["prometheus", "grafana"] {
        for host in mounts(&service(name)).values() {
            assert!(Path::new(host).exists(), "{host}");
        }
    }
    let grafana = service("grafana");
    let board = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].as_str().unwrap();
    assert!(mounts(&grafana)[board].ends_with("/grafana/svc.json"));
    let provider = file("grafana/dashboards/svc.yaml")["providers"][0].clone();
    assert_eq!(Path::new(board).parent(), provider["options"]["path"].as_str().map(Path::new));
    let source = file("grafana/datasources/prometheus.yaml")["datasources"][0].clone();
    assert_eq!((&source["url"], &source["isDefault"]), (&"http://prometheus:9090".into(), &true.into()));
}

#[test]
fn the_settings_exist_and_the_collector_may_connect() {
    let svc = service("svc");
    let settings: Vec<(String, String)> = svc["environment"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
        .collect();
    for (name, _) in &settings {
        assert!(KEYS.iter().any(|key| key.variable == name), "{name}");
    }
    let root = [("DOCUMENT_ROOT".to_owned(), "/".to_owned())];
    let config = Config::resolve(&RawConfig::new(settings.into_iter().chain(root))).unwrap();
    let target = file("prometheus.yml")["scrape_configs"][0]["static_configs"][0]["targets"][0].clone();
    assert_eq!(target, format!("svc:{}", config.operations.addr.unwrap().port()));
    let grace = svc["stop_grace_period"].as_str().unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let drain = config.timeouts.drain_delay + config.timeouts.drain;
    assert!(Duration::from_secs(grace) >= drain + 5 * THREAD_EXIT_GRACE);
}

/// Only the application is published to other hosts.
#[test]
fn each_address_that_the_file_names_is_published() {
    let text = std::fs::read_to_string(format!("{FOLDER}/compose.yaml")).unwrap();
    let named: BTreeSet<&str> = text
        .split("http://localhost:")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap())
        .collect();
    let services = ["svc", "prometheus", "grafana"].map(service);
    let ports: Vec<&str> = services.iter().flat_map(|service| texts(&service["ports"])).collect();
    let published: BTreeSet<&str> = ports.iter().map(|port| port.rsplit(':').nth(1).unwrap()).collect();
    assert_eq!(named, published);
    assert!(ports.iter().all(|port| *port == "8080:8080" || port.starts_with("127.0.0.1:")), "{ports:?}");
    assert!(ports.contains(&"127.0.0.1:9090:9090"), "the operations page: {ports:?}");
}

#[test]
fn prometheus_accepts_its_settings_with_the_rules_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    for (place, host) in mounts(&service("prometheus")) {
        std::fs::copy(host, dir.path().join(Path::new(&place).file_name().unwrap())).unwrap();
    }
    let run =
        Command::new("promtool").args(["check", "config", "prometheus.yml"]).current_dir(dir.path()).output();
    let Ok(output) = run else { return skipped("promtool is not installed") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("rules found"), "{output:?}");
}
