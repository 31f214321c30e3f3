//! The tools that operators use: `promtool` and a Prometheus server, if they are installed.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

use crate::client::Client;

/// The result of `promtool check metrics` for a page.
#[derive(Debug)]
pub struct Lint(Output);

/// Established names that stay although their unit is not a base unit.
const GIVEN_NAMES: [&str; 5] = [
    "svc_admission_wait_budget_ceiling_us",
    "svc_admission_wait_budget_us",
    "svc_queue_wait_us",
    "svc_request_duration_us",
    "svc_served_duration_us",
];

impl Lint {
    /// Checks `page` with `promtool`; `None` if it is not installed.
    pub fn of(page: &[u8]) -> Option<Self> {
        let mut child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(page).ok()?;
        Some(Self(child.wait_with_output().ok()?))
    }

    /// Returns the complaints except those about established names, or the reason why the check failed.
    pub fn unexpected(&self) -> Vec<String> {
        // 0: no problems; 3: lint warnings.
        if ![Some(0), Some(3)].contains(&self.0.status.code()) {
            return vec![format!("{:?}", self.0)];
        }
        let text = [self.0.stdout.as_slice(), self.0.stderr.as_slice()].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let is_given = |line: &str| {
            let complaint = line.strip_suffix(" metric names should not contain abbreviated units");
            complaint.is_some_and(|name| GIVEN_NAMES.contains(&name))
        };
        text.lines().filter(|line| !line.trim().is_empty() && !is_given(line)).map(str::to_owned).collect()
    }
}

/// A Prometheus server that scrapes one target; it is stopped at the end of the test.
#[derive(Debug)]
pub struct Collector {
    child: Child,
    addr: SocketAddr,
    _data: TempDir,
}

impl Collector {
    /// Starts a server that scrapes `target`; `None` if Prometheus is not installed.
    pub fn start(target: SocketAddr) -> Option<Self> {
        Self::watch(&[target], "groups: []")
    }

    /// Starts a server that scrapes these targets and evaluates these rules every second.
    pub fn watch(targets: &[SocketAddr], rules: &str) -> Option<Self> {
        let data = tempfile::tempdir().ok()?;
        let config = data.path().join("prometheus.yml");
        let targets: Vec<_> = targets.iter().map(|target| format!("'{target}'")).collect();
        let targets = targets.join(", ");
        let settings = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [rules.yml]\n\
             scrape_configs:\n- job_name: svc\n  static_configs:\n  - targets: [{targets}]\n"
        );
        std::fs::write(&config, settings).ok()?;
        std::fs::write(data.path().join("rules.yml"), rules).ok()?;
        // The port is free now. If another process takes it before Prometheus does, the test fails.
        let addr = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?;
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", data.path().join("data").display()))
            .arg(format!("--web.listen-address={addr}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { child, addr, _data: data })
    }

    /// Returns the value of an instant query with one result.
    pub fn query(&self, query: &str) -> Option<f64> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let response = self.get(&format!("/api/v1/query?query={query}"))?;
        response["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    }

    /// Returns whether an instant query is valid and has a numeric result.
    pub fn finds(&self, query: &str) -> bool {
        let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let Some(response) = self.get(&format!("/api/v1/query?query={query}")) else { return false };
        assert_eq!(response["status"], "success", "{response}");
        let mut results = response["data"]["result"].as_array().into_iter().flatten();
        results.any(|one| one["value"][1].as_str().is_some_and(|value| value != "NaN"))
    }

    /// Returns the names of the firing alerts, each with its instance.
    pub fn firing(&self) -> std::collections::BTreeSet<(String, String)> {
        let response = self.get("/api/v1/alerts").unwrap_or_default();
        let alerts = response["data"]["alerts"].as_array().into_iter().flatten();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        let label =
            |alert: &serde_json::Value, name: &str| alert["labels"][name].as_str().unwrap_or("").to_owned();
        firing.map(|alert| (label(alert, "alertname"), label(alert, "instance"))).collect()
    }

    /// Returns the server's report about its targets.
    pub fn targets(&self) -> serde_json::Value {
        self.get("/api/v1/targets").unwrap_or_default()
    }

    fn get(&self, path: &str) -> Option<serde_json::Value> {
        std::net::TcpStream::connect(self.addr).ok()?;
        serde_json::from_slice(&Client::connect(self.addr).get(path).body).ok()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // The process may have exited by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
