//! The jobs of the control thread, in the order in which they run.
//!
//! The supervisor sees the results of the scan, and the drain sees the results of both. The jobs decide nothing;
//! their state machines do.

use std::time::Instant;

use svc_core::limits::{CONTROL_TICK, STATIC_SWEEP_PAUSE};
use svc_core::observe::process::ProcessFacts;
use svc_core::observe::{Sample, Usage};
use svc_core::sync::primitive::Arc;

use super::drain::Drain;
use super::io_scaling_job::IoScalingJob;
use super::memory_peak::{MemoryPeak, MemoryReading};
use super::scan::Scan;
use super::schedule::PeriodicJob;
use super::service_manager_job::ServiceManagerJob;
use super::supervisor::{Supervision, TaskSupervision};
use super::thread_handles::ThreadHandles;
use crate::disk::file_job::BackgroundJob;
use crate::lifecycle::Phase;
use crate::shared::Shared;

/// Creates the jobs of a server that starts at `now`.
pub(crate) fn jobs(handles: &Arc<ThreadHandles>, now: Instant) -> Vec<Box<dyn PeriodicJob>> {
    let shared = &handles.shared;
    let drain = Drain::new(shared.config.timeouts.drain_delay, shared.config.timeouts.drain);
    vec![
        Box::new(ScanJob { scan: Scan::new(&shared.config), shared: Arc::clone(shared), due: None }),
        Box::new(IoScalingJob::new(shared, now)),
        Box::new(SweepJob { handles: Arc::clone(handles), due: now }),
        Box::new(MemoryJob { handles: Arc::clone(handles), peak: MemoryPeak::default(), due: now }),
        Box::new(SupervisorJob {
            supervisor: Supervision::new(&shared.config.php),
            shared: Arc::clone(shared),
            due: None,
        }),
        Box::new(TaskSupervisorJob {
            supervisor: shared.tasks.as_ref().map(|tasks| TaskSupervision::new(tasks.size())),
            shared: Arc::clone(shared),
            due: None,
        }),
        Box::new(PluginJob { shared: Arc::clone(shared), due: now }),
        Box::new(SampleJob { handles: Arc::clone(handles), due: now }),
        Box::new(DrainJob { drain, handles: Arc::clone(handles), due: None }),
        Box::new(ServiceManagerJob::new(Arc::clone(handles), now)),
    ]
}

/// Scans admission and the pool once a second.
struct ScanJob {
    shared: Arc<Shared>,
    scan: Scan,
    due: Option<Instant>,
}

impl PeriodicJob for ScanJob {
    fn run(&mut self, now: Instant) {
        self.due = Some(self.scan.scan(&self.shared, now));
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

/// Orders a sweep of the static cache every few seconds, once the file threads run.
struct SweepJob {
    handles: Arc<ThreadHandles>,
    due: Instant,
}

impl PeriodicJob for SweepJob {
    fn run(&mut self, now: Instant) {
        let ThreadHandles { shared, disk, site, .. } = &*self.handles;
        if now >= self.due && shared.lifecycle.phase() != Phase::Starting {
            self.due = now + STATIC_SWEEP_PAUSE;
            disk.order_background(BackgroundJob::Sweep(Arc::clone(site)));
        }
    }

    /// None: a sweep can wait for the next second.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Returns free memory to the system after a peak, on a file thread because that is slow.
struct MemoryJob {
    handles: Arc<ThreadHandles>,
    peak: MemoryPeak,
    due: Instant,
}

impl PeriodicJob for MemoryJob {
    fn run(&mut self, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + CONTROL_TICK;
        let ThreadHandles { shared, disk, .. } = &*self.handles;
        let held = shared.spool.memory_bytes()
            + shared.metrics.connections.value() * CONNECTION_BYTES
            + shared.streams_beside() * STREAM_BYTES;
        if let Some(free_unused) = shared.free_unused()
            && let Some(resident) = ProcessFacts::read_resident()
            && self.peak.tick(MemoryReading { resident, held })
        {
            disk.order_background(BackgroundJob::FreeUnused(free_unused));
        }
    }

    /// None: the next tick is soon enough.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// The approximate size of a connection apart from counted buffers, in bytes: a TLS session, or the state of HTTP/2.
const CONNECTION_BYTES: u64 = 16 * 1024;

/// The approximate size of each further HTTP/2 stream of a connection, in bytes.
const STREAM_BYTES: u64 = 4 * 1024;

/// Supervises the pool.
struct SupervisorJob {
    shared: Arc<Shared>,
    supervisor: Supervision,
    due: Option<Instant>,
}

impl PeriodicJob for SupervisorJob {
    fn run(&mut self, now: Instant) {
        self.due = self.supervisor.tend(&self.shared, now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

/// Supervises the threads of background tasks, if there are any.
struct TaskSupervisorJob {
    shared: Arc<Shared>,
    supervisor: Option<TaskSupervision>,
    due: Option<Instant>,
}

impl PeriodicJob for TaskSupervisorJob {
    fn run(&mut self, now: Instant) {
        self.due = self.supervisor.as_mut().and_then(|supervisor| supervisor.tend(&self.shared, now));
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

/// Queries the plugins once a second.
struct PluginJob {
    shared: Arc<Shared>,
    due: Instant,
}

impl PeriodicJob for PluginJob {
    fn run(&mut self, now: Instant) {
        if now >= self.due {
            self.due = now + CONTROL_TICK;
            self.shared.plugins.tick(now);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        (!self.shared.plugins.is_empty()).then_some(self.due)
    }
}

/// Takes a sample of the metrics and of the cache of static files once a second, if there is an operations port to
/// read it.
struct SampleJob {
    handles: Arc<ThreadHandles>,
    due: Instant,
}

impl PeriodicJob for SampleJob {
    fn run(&mut self, now: Instant) {
        let ThreadHandles { shared, site, .. } = &*self.handles;
        if now >= self.due && shared.config.operations.addr.is_some() {
            self.due = now + CONTROL_TICK;
            let sample = Sample::read(&shared.metrics, ProcessFacts::read_cpu(), now);
            let gate = shared.gate_facts();
            let usage = Usage {
                busy: shared.pool_facts().busy as u64,
                waiting: gate.map_or(0, |gate| (gate.depth + gate.waiting) as u64),
                connections: shared.metrics.connections.value(),
            };
            shared.history.lock().note(sample, usage);
            let files = site.cache_reading();
            *shared.static_cache.lock() = files;
            if let Some(cache) = &shared.cache {
                let reading = cache.reading();
                *shared.cache_reading.lock() = reading;
            }
        }
    }

    /// None: a sample can wait for the next second.
    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Takes the steps of the drain.
struct DrainJob {
    handles: Arc<ThreadHandles>,
    drain: Drain,
    due: Option<Instant>,
}

impl PeriodicJob for DrainJob {
    fn run(&mut self, now: Instant) {
        self.due = self.handles.drive(&mut self.drain, now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use mio::Poll;

    use super::*;
    use crate::control::schedule::Schedule;
    use crate::control::service_manager::ServiceManager;
    use crate::control::thread_handles::DrainEnd;
    use crate::disk::site::Site;
    use crate::net::accept::Acceptor;
    use svc_core::config::{AccessLog, Config, Level, RawConfig};
    use svc_core::observe::Log;
    use svc_core::policy::Policy;
    use svc_core::time;

    fn handles() -> Arc<ThreadHandles> {
        let settings =
            [("EXECUTOR", "stub"), ("DOCUMENT_ROOT", "/"), ("DRAIN_DELAY_SECONDS", "3"), ("IO_WORKERS", "1")];
        let config = Config::resolve(&RawConfig::new(settings)).unwrap();
        let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
        let shared = Shared::new(Arc::new(config), Policy::default(), None, log, None);
        let site = Arc::new(Site::new(&shared.config, &shared.policy));
        let acceptor = Acceptor::new(&Poll::new().unwrap(), false).unwrap();
        let (inboxes, disk, ended) = (Vec::new(), Arc::default(), DrainEnd::default());
        let service_manager = ServiceManager::default();
        Arc::new(ThreadHandles { shared, inboxes, acceptor, disk, site, ended, service_manager })
    }

    #[test]
    fn the_cache_is_swept_at_the_pace_of_the_clock_and_not_before_the_start_is_over() {
        let handles = handles();
        let start = time::now();
        let mut job = SweepJob { handles: Arc::clone(&handles), due: start };
        job.run(start);
        assert_eq!(handles.disk.waiting(), 0, "there are no file threads yet");
        handles.shared.lifecycle.enter(Phase::Running);
        let swept_at = |job: &mut SweepJob, millis: u64| {
            job.run(start + Duration::from_millis(millis));
            handles.disk.waiting()
        };
        let swept = [1, 1000, 4999, 5000, 5001, 5002, 9999].map(|millis| swept_at(&mut job, millis));
        assert_eq!(swept, [1, 1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn the_way_down_is_taken_at_its_deadlines_and_not_at_the_next_second() {
        let handles = handles();
        handles.shared.lifecycle.enter(Phase::Running);
        let start = time::now();
        let mut schedule = Schedule::new(jobs(&handles, start), start);
        schedule.run(start);
        assert_eq!(
            schedule.deadline(),
            start + Duration::from_secs(1),
            "nothing but the scan asks for a time"
        );
        handles.shared.lifecycle.enter(Phase::Draining);
        let signalled_at = start + Duration::from_millis(300);
        schedule.run(signalled_at);
        assert_eq!(schedule.deadline(), start + Duration::from_secs(1));
        while handles.shared.lifecycle.phase() == Phase::Draining {
            schedule.run(schedule.deadline());
        }
        let delay_over = signalled_at + Duration::from_secs(3);
        // A server that never served has nothing left to wait for, so the remaining steps follow immediately.
        assert_eq!(schedule.deadline(), delay_over + Duration::from_millis(700));
        assert!(handles.ended.wait());
    }
}
