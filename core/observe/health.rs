//! Probes and the health report.
//!
//! Each verdict is computed from facts at the time of the request. Load is not a fault: a full queue, an exhausted
//! connection budget and refusals change nothing here. A probe does no work and waits for no other thread.

use std::time::Duration;

use crate::plugins::PluginHealth;

/// The three probes of an orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthProbe {
    /// The process can answer. A failure would cause a restart, so it never fails.
    Liveness,
    /// New requests are welcome.
    Readiness,
    /// There are threads to run requests.
    Startup,
}

impl HealthProbe {
    /// Returns the probe's name, which is also the body of its answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Liveness => "liveness",
            Self::Readiness => "readiness",
            Self::Startup => "startup",
        }
    }
}

/// The threads that could run a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerHealth {
    /// The executor has no threads and can always answer.
    NotNeeded,
    /// The pool has not been created yet.
    NotStarted,
    /// This many threads of the pool are running.
    Running(usize),
}

impl WorkerHealth {
    /// Returns whether a request would find a thread that runs it.
    pub fn can_serve(self) -> bool {
        match self {
            Self::NotNeeded => true,
            Self::NotStarted | Self::Running(0) => false,
            Self::Running(_) => true,
        }
    }
}

/// The facts behind the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeFacts {
    /// Whether the main port accepts connections and no drain has begun.
    pub serving: bool,
    /// The threads that could run a request.
    pub workers: WorkerHealth,
    /// Whether the pool is stalled; detected in worker mode only.
    pub pool_stalled: bool,
    /// Whether a plugin has failed.
    pub plugin_failed: bool,
}

impl ProbeFacts {
    /// Returns whether `probe` succeeds.
    pub fn passes(self, probe: HealthProbe) -> bool {
        match probe {
            HealthProbe::Liveness => true,
            HealthProbe::Readiness => {
                self.serving && self.workers.can_serve() && !self.pool_stalled && !self.plugin_failed
            }
            HealthProbe::Startup => self.workers.can_serve(),
        }
    }
}

/// The health report, for dashboards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The time since the server started.
    pub uptime: Duration,
    /// Requests received on the main port.
    pub total_requests: u64,
    /// Open connections on the main port.
    pub active_connections: u64,
    /// The threads that could run a request.
    pub workers: WorkerHealth,
    /// Whether the pool is stalled; detected in worker mode only.
    pub pool_stalled: bool,
    /// The health of the plugins that report it.
    pub plugins: Vec<(String, PluginHealth)>,
}

impl Health {
    /// Returns whether every subsystem is healthy.
    pub fn is_ok(&self) -> bool {
        let has_failed = |(_, health): &(_, PluginHealth)| *health == PluginHealth::Failed;
        self.workers.can_serve() && !self.pool_stalled && !self.plugins.iter().any(has_failed)
    }

    /// Writes the report as JSON.
    pub fn to_json(&self) -> String {
        let plugins = self.plugins.iter().map(|(name, health)| (name.clone(), health.as_str().into()));
        let plugins: serde_json::Map<String, serde_json::Value> = plugins.collect();
        let report = serde_json::json!({
            "status": if self.is_ok() { "ok" } else { "degraded" },
            "uptime_secs": self.uptime.as_secs(),
            "total_requests": self.total_requests,
            "active_connections": self.active_connections,
            "executor_healthy": self.workers.can_serve(),
            "pool_stalled": self.pool_stalled,
            "plugins": plugins,
        });
        format!("{report}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBES: [HealthProbe; 3] = [HealthProbe::Liveness, HealthProbe::Readiness, HealthProbe::Startup];

    fn verdicts(serving: bool, workers: WorkerHealth) -> [bool; 3] {
        PROBES.map(|probe| {
            ProbeFacts { serving, workers, pool_stalled: false, plugin_failed: false }.passes(probe)
        })
    }

    #[test]
    fn booting_is_alive_and_neither_ready_nor_started() {
        assert_eq!(verdicts(false, WorkerHealth::NotStarted), [true, false, false]);
        assert_eq!(verdicts(false, WorkerHealth::Running(2)), [true, false, true]);
    }

    #[test]
    fn serving_is_ready() {
        assert_eq!(verdicts(true, WorkerHealth::Running(1)), [true, true, true]);
        assert_eq!(verdicts(true, WorkerHealth::NotNeeded), [true, true, true]);
    }

    #[test]
    fn a_pool_without_threads_is_alive_only() {
        assert_eq!(verdicts(true, WorkerHealth::Running(0)), [true, false, false]);
    }

    #[test]
    fn a_stalled_pool_is_alive_and_started_but_not_ready() {
        let facts = ProbeFacts {
            serving: true,
            workers: WorkerHealth::Running(1),
            pool_stalled: true,
            plugin_failed: false,
        };
        assert_eq!(PROBES.map(|probe| facts.passes(probe)), [true, false, true]);
    }

    #[test]
    fn the_report_degrades_with_a_stalled_pool() {
        let health = Health {
            uptime: Duration::ZERO,
            total_requests: 0,
            active_connections: 0,
            workers: WorkerHealth::Running(1),
            pool_stalled: true,
            plugins: Vec::new(),
        };
        let report: serde_json::Value = serde_json::from_str(&health.to_json()).unwrap();
        assert!(!health.is_ok());
        assert_eq!((&report["status"], &report["pool_stalled"]), (&"degraded".into(), &true.into()));
        assert_eq!(report["executor_healthy"], true);
    }

    #[test]
    fn draining_is_not_ready() {
        assert_eq!(verdicts(false, WorkerHealth::Running(1)), [true, false, true]);
    }

    #[test]
    fn the_report_degrades_with_the_last_thread() {
        let mut health = Health {
            uptime: Duration::from_millis(61_900),
            total_requests: 5,
            active_connections: 2,
            workers: WorkerHealth::Running(1),
            pool_stalled: false,
            plugins: Vec::new(),
        };
        let report: serde_json::Value = serde_json::from_str(&health.to_json()).unwrap();
        assert_eq!(
            report,
            serde_json::json!({
                "status": "ok", "uptime_secs": 61, "total_requests": 5, "active_connections": 2,
                "executor_healthy": true, "pool_stalled": false, "plugins": {},
            })
        );
        health.workers = WorkerHealth::Running(0);
        assert!(!health.is_ok());
        let report: serde_json::Value = serde_json::from_str(&health.to_json()).unwrap();
        assert_eq!((&report["status"], &report["executor_healthy"]), (&"degraded".into(), &false.into()));
    }

    #[test]
    fn a_plugin_that_fails_is_not_ready_and_one_that_is_degraded_is() {
        let facts = |plugin_failed| ProbeFacts {
            serving: true,
            workers: WorkerHealth::Running(1),
            pool_stalled: false,
            plugin_failed,
        };
        assert_eq!(PROBES.map(|probe| facts(true).passes(probe)), [true, false, true]);
        for (health, status) in
            [(PluginHealth::Ok, "ok"), (PluginHealth::Degraded, "ok"), (PluginHealth::Failed, "degraded")]
        {
            let report = Health {
                uptime: Duration::ZERO,
                total_requests: 0,
                active_connections: 0,
                workers: WorkerHealth::Running(1),
                pool_stalled: false,
                plugins: vec![("disk".to_owned(), health)],
            };
            let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
            assert_eq!(json["status"], status);
            assert_eq!(json["plugins"], serde_json::json!({ "disk": health.as_str() }));
            assert_eq!(report.is_ok(), status == "ok");
        }
    }
}
