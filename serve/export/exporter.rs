//! An exporter: a thread that sends one signal to the collector, and its end.
//!
//! No thread that serves requests waits for it. At the end, it exports what is left until the deadline.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use mio::Poll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;

use svc_core::config::{ExportConfig, Problem};
use svc_core::otlp::{Resource, RetryRules};
use svc_core::sync::primitive::Arc;
use svc_core::time;
use svc_core::tls::client_config;

use super::otlp_client::OtlpClient;

/// The means of an exporter to reach its collector, before its thread starts.
#[derive(Debug)]
pub(crate) struct CollectorLink {
    poll: Poll,
    tls: Option<Arc<ClientConfig>>,
}

/// Why an exporter cannot be prepared.
#[derive(Debug)]
pub(crate) enum ExporterError {
    /// A file that a setting names cannot be used.
    Setting(Problem),
    /// The system cannot create a descriptor.
    System(io::Error),
}

/// A running exporter.
pub(crate) struct RunningExporter {
    /// Makes the thread export what is left, and end.
    close: Box<dyn Fn() + Send + Sync>,
    deadline: Deadline,
    /// Becomes readable when the thread, which holds the other end, has ended.
    ended: PipeReader,
}

/// The latest time until which an exporter may run; unset until its end begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadline(Arc<OnceLock<Instant>>);

impl CollectorLink {
    /// Makes the poller of the thread, and reads the certificates of the settings.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor, or a file is invalid.
    pub(crate) fn new(export: &ExportConfig) -> Result<Self, ExporterError> {
        let tls = client_config(export).map_err(ExporterError::Setting)?;
        Ok(Self { poll: Poll::new().map_err(ExporterError::System)?, tls })
    }

    /// Returns a function that wakes the thread.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor.
    pub(crate) fn ring(&self) -> Result<impl Fn() + Send + Sync + 'static, ExporterError> {
        let waker = OtlpClient::waker(&self.poll).map_err(ExporterError::System)?;
        Ok(move || {
            // If the wake-up fails, the thread continues after its delay.
            let _ = waker.wake();
        })
    }

    /// Makes the client of the thread.
    pub(crate) fn client(
        self,
        export: &ExportConfig,
        timeout_and_rules: (Option<Duration>, RetryRules),
        resource: Resource,
    ) -> OtlpClient {
        OtlpClient::new(export, timeout_and_rules, self.tls, self.poll, resource, time::now)
    }
}

impl Deadline {
    /// Returns the deadline, once the end has begun.
    pub(crate) fn get(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

impl RunningExporter {
    /// Starts the thread, which runs `work`. `close` makes it end.
    ///
    /// # Errors
    ///
    /// If the system cannot create a descriptor or a thread.
    pub(crate) fn start(
        name: &str,
        close: impl Fn() + Send + Sync + 'static,
        work: impl FnOnce(Deadline) + Send + 'static,
    ) -> io::Result<Self> {
        let (ended, ending) = io::pipe()?;
        let deadline = Deadline::default();
        let own = deadline.clone();
        let run = move |_ending: PipeWriter| work(own);
        thread::Builder::new().name(name.to_owned()).spawn(move || run(ending))?;
        Ok(Self { close: Box::new(close), deadline, ended })
    }

    /// Makes the thread export what is left until the deadline, and end.
    pub(crate) fn close(&self, deadline: Instant) {
        // Set before the queue is closed, so that a thread that sees the closed queue sees the deadline.
        let _ = self.deadline.0.set(deadline);
        (self.close)();
    }

    /// Waits until the thread has ended, or until shortly after the deadline.
    pub(crate) fn wait(&self, deadline: Instant) {
        let left = deadline.saturating_duration_since(time::now()) + END_GRACE;
        let mut waits = [PollFd::new(&self.ended, PollFlags::IN)];
        // The pipe carries no data; it becomes readable when its other end is closed. A thread that is resolving a name
        // is not waited for.
        let _ = poll(&mut waits, Timespec::try_from(left).ok().as_ref());
    }
}

impl fmt::Debug for RunningExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningExporter").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// How long to wait for the thread beyond its deadline, so that its last records reach the log.
const END_GRACE: Duration = Duration::from_millis(100);
