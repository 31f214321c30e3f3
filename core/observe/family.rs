//! What describes a family of series, whatever its values.
//!
//! Promises: plain constants. Refuses: no value lives here, and nothing depends on a format.

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, as the text format has it.
    pub name: &'static str,
    /// What its numbers do.
    pub kind: MetricKind,
    /// One sentence for whoever reads a dashboard.
    pub help: &'static str,
    /// Where the reference page describes it.
    pub chapter: MetricChapter,
    /// When it has a source.
    pub condition: Condition,
    /// What the reference page says about it, in Markdown.
    pub meaning: &'static str,
}

/// What a page says of a family before its series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyHead<'a> {
    /// Its name, as the text format has it.
    pub name: &'a str,
    /// What its numbers do.
    pub kind: MetricKind,
    /// One line about it, without quotes and backslashes.
    pub help: &'a str,
}

/// What a family's numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// They count values by size.
    Histogram,
    /// Always 1; the labels carry the information.
    Info,
}

/// What a family's numbers measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// Bytes.
    Bytes,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
}

/// A chapter of the reference page, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricChapter {
    /// The server and its requests.
    Requests,
    /// From a connection to the queue.
    Admission,
    /// The pool, and what PHP does.
    Workers,
    /// Requests that hold a worker up.
    StuckWorkers,
    /// Persistent workers.
    WorkerMode,
    /// Tasks in the background.
    BackgroundTasks,
    /// Spans, and their way to the collector.
    Tracing,
    /// Plugins.
    Plugins,
    /// Responses that need no worker, and their size.
    Responses,
    /// The process, its memory and its files.
    Process,
}

/// When a family has a source; without one it is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// In every server.
    Always,
    /// If PHP runs the requests.
    Php,
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
    /// What a page says of it.
    pub fn head(&self) -> FamilyHead<'static> {
        FamilyHead { name: self.name, kind: self.kind, help: self.help }
    }

    /// The unit, which every name of a quantity contains.
    pub fn unit(&self) -> Option<MetricUnit> {
        self.head().unit()
    }
}

impl FamilyHead<'_> {
    /// The unit, which every name of a quantity contains.
    pub fn unit(&self) -> Option<MetricUnit> {
        self.name.split('_').find_map(|word| match word {
            "bytes" => Some(MetricUnit::Bytes),
            "seconds" => Some(MetricUnit::Seconds),
            "us" => Some(MetricUnit::Microseconds),
            _ => None,
        })
    }
}

impl MetricChapter {
    /// Every chapter, in the order of the page.
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

    /// Its heading.
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
    /// The settings that it means, in Markdown; `None` if it always holds.
    pub fn settings(self) -> Option<&'static str> {
        match self {
            Self::Always => None,
            Self::Php => Some("`EXECUTOR=sapi`"),
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
