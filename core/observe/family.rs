//! The description of a family of series, independent of its values.
//!
//! Plain constants. No value is stored here, and nothing depends on a format.

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name in the text format.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// One sentence for readers of a dashboard.
    pub help: &'static str,
    /// The section of the reference page that describes it.
    pub section: MetricSection,
    /// When it has a source.
    pub condition: Condition,
    /// The text of the reference page about it, in Markdown.
    pub meaning: &'static str,
}

/// The lines about a family that a page contains before its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyHead<'a> {
    /// Its name in the text format.
    pub name: &'a str,
    /// Its kind.
    pub kind: MetricKind,
    /// One line about it, without quotes and backslashes.
    pub help: &'a str,
}

/// The kind of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only increase.
    Counter,
    /// They increase and decrease.
    Gauge,
    /// They are distributions.
    Histogram,
    /// Always 1; the labels carry the information.
    Info,
}

/// The unit of a family's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
}

/// A section of the reference page, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSection {
    /// The server and its requests.
    Requests,
    /// From a connection to the queue.
    Admission,
    /// The pool, and what PHP does.
    Workers,
    /// Requests that hold up a worker.
    StuckWorkers,
    /// Persistent workers.
    WorkerMode,
    /// Background tasks.
    BackgroundTasks,
    /// Spans and their export.
    Tracing,
    /// Plugins.
    Plugins,
    /// Responses that need no worker, and their size.
    Responses,
    /// The process, its memory and its files.
    Process,
}

/// When a family has a source; a family without a source is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In every server.
    Always,
    /// If PHP runs the requests.
    Php,
    /// If PHP runs them in the process of svc.
    Interpreter,
    /// If the main port speaks TLS.
    Tls,
    /// If workers are persistent.
    WorkerMode,
    /// Once a background task was dispatched or rejected.
    TaskDispatched,
    /// Once the threads of background tasks have started.
    TaskThreads,
    /// Once output of a background task was discarded.
    TaskOutput,
    /// If a runtime hook is in effect.
    RuntimeHooks,
    /// If tracing is enabled.
    Tracing,
    /// If there is a plugin.
    Plugins,
}

impl Family {
    /// Returns the head of the family for a page.
    pub fn head(&self) -> FamilyHead<'static> {
        FamilyHead { name: self.name, kind: self.kind, help: self.help }
    }

    /// Returns the unit, which is part of the name of every quantity.
    pub fn unit(&self) -> Option<MetricUnit> {
        self.head().unit()
    }
}

impl FamilyHead<'_> {
    /// Returns the unit, which is part of the name of every quantity.
    pub fn unit(&self) -> Option<MetricUnit> {
        self.name.split('_').find_map(|word| match word {
            "bytes" => Some(MetricUnit::Bytes),
            "seconds" => Some(MetricUnit::Seconds),
            "us" => Some(MetricUnit::Microseconds),
            _ => None,
        })
    }
}

impl MetricSection {
    /// All sections, in the order of the page.
    pub const ALL: [Self; 10] = [
        Self::Requests,
        Self::Admission,
        Self::Workers,
        Self::StuckWorkers,
        Self::WorkerMode,
        Self::BackgroundTasks,
        Self::Tracing,
        Self::Plugins,
        Self::Responses,
        Self::Process,
    ];

    /// Returns its heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Requests => "Requests",
            Self::Admission => "Connections and admission",
            Self::Workers => "Workers and PHP",
            Self::StuckWorkers => "Stuck workers",
            Self::WorkerMode => "Worker mode",
            Self::BackgroundTasks => "Background tasks",
            Self::Tracing => "Tracing",
            Self::Plugins => "Plugins",
            Self::Responses => "Blocked requests, static files and compression",
            Self::Process => "Process",
        }
    }
}

impl Condition {
    /// Returns the settings behind the condition, in Markdown; `None` if it always holds.
    pub fn settings(self) -> Option<&'static str> {
        match self {
            Self::Always => None,
            Self::Php => Some("`EXECUTOR=sapi` or `EXECUTOR=fastcgi`"),
            Self::Interpreter => Some("`EXECUTOR=sapi`"),
            Self::Tls => Some("`TLS_CERT`"),
            Self::WorkerMode => Some("`WORKER_MODE_ENABLED=true` and `EXECUTOR=sapi`"),
            Self::TaskDispatched => Some("`ASYNC_WORKERS`, and a task that was dispatched or rejected"),
            Self::TaskThreads => Some("`ASYNC_WORKERS`"),
            Self::TaskOutput => Some("`ASYNC_WORKERS`, and a task that printed something"),
            Self::Tracing => Some("`OTEL_ENABLED=true`"),
            Self::Plugins => Some("`PLUGINS`"),
            Self::RuntimeHooks => Some("`RUNTIME_HOOKS`, with worker mode or `ASYNC_WORKERS`"),
        }
    }
}
