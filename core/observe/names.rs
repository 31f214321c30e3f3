//! The families of the exposition: name, type and help, each written once.
//!
//! Promises: names never change; a counter's name ends in `_total` and nothing else does. Refuses: no value lives
//! here, and no label value comes from a client.

/// What a family's numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They grow only.
    Counter,
    /// They go up and down.
    Gauge,
    /// They count values by size.
    Histogram,
    /// Always 1; the labels tell.
    Info,
}

/// A family of series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name, as the text format has it.
    pub name: &'static str,
    /// What its numbers do.
    pub kind: Kind,
    /// One sentence for whoever reads a dashboard.
    pub help: &'static str,
}

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal $help:literal;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $help)]
        pub const $constant: Family = Family { name: $name, kind: Kind::$kind, help: $help };)*

        /// Every family, in the order of the exposition.
        pub const ALL: &[Family] = &[$($constant),*];
    };
}

families! {
    UPTIME_SECONDS: Gauge "svc_uptime_seconds" "Seconds since the process started.";
    BUILD_INFO: Info "svc_build_info" "Versions of the server and of PHP, as labels.";
    LAST_RELOAD_SUCCESSFUL: Gauge "svc_config_last_reload_successful" "Whether the last reload succeeded (1) or failed (0); 1 before the first reload.";
    LAST_RELOAD_SUCCESS_TIME: Gauge "svc_config_last_reload_success_timestamp_seconds" "Unix time of the last successful reload, or of the start, in seconds.";
    REQUESTS: Counter "svc_requests_total" "Number of HTTP requests received on the main port.";
    REQUESTS_BY_METHOD: Counter "svc_requests_by_method_total" "Number of HTTP requests received on the main port, by method.";
    RESPONSES_BY_STATUS: Counter "svc_responses_by_status_total" "Number of finished requests, by status class.";
    REQUEST_BYTES: Counter "svc_request_bytes_total" "Number of request body bytes received.";
    RESPONSE_BYTES: Counter "svc_response_bytes_total" "Number of response body bytes sent.";
    REQUEST_CANCELLED: Counter "svc_request_cancelled_total" "Number of requests that were cancelled before their response began, by reason.";
    REQUEST_DURATION: Histogram "svc_request_duration_us" "Duration of requests, from the first byte received to the last byte written, in microseconds.";
    ACTIVE_CONNECTIONS: Gauge "svc_active_connections" "Number of open connections on the main port.";
    ACCEPT_STALLED: Gauge "svc_accept_stalled" "Whether the accept loop is waiting for a free connection permit (1) or not (0).";
    ACCEPT_STALLS: Counter "svc_accept_stalls_total" "Number of connections that had to wait for a permit after they were accepted.";
    STREAMS_REFUSED: Counter "svc_streams_refused_total" "Number of HTTP/2 streams refused because of the limit on open streams across all connections.";
    TLS_HANDSHAKES: Counter "svc_tls_handshakes_total" "Number of finished TLS handshakes, by result.";
    TLS_CERTIFICATE_EXPIRY: Gauge "svc_tls_certificate_expiry_timestamp_seconds" "Unix time of the earliest certificate expiry, in seconds.";
    PENDING_REQUESTS: Gauge "svc_pending_requests" "Number of PHP requests that are accepted but not yet answered.";
    DROPPED_REQUESTS: Counter "svc_dropped_requests_total" "Number of requests whose PHP worker failed after it had accepted them.";
    ADMISSION_REFUSED: Counter "svc_admission_refused_total" "Number of requests refused before they reached a worker, by reason.";
    ADMISSION_WAIT_WASTED: Counter "svc_admission_wait_wasted_total" "Number of requests that used up the whole wait budget while the pool started no request.";
    QUEUE_DEPTH: Gauge "svc_queue_depth" "Number of requests in the worker queue that no worker has taken yet.";
    QUEUE_CAPACITY: Gauge "svc_queue_capacity" "Maximum number of requests in the worker queue.";
    ADMISSION_SLOTS_AVAILABLE: Gauge "svc_admission_slots_available" "Number of free admission permits.";
    ADMISSION_WAIT_BUDGET: Gauge "svc_admission_wait_budget_us" "Maximum wait for a worker that applies to new requests, in microseconds.";
    ADMISSION_WAIT_BUDGET_CEILING: Gauge "svc_admission_wait_budget_ceiling_us" "Configured upper limit of the wait budget, in microseconds.";
    ABANDONED_WORK: Counter "svc_abandoned_work_total" "Number of requests that a worker took off the queue after their client had disconnected.";
    POOL_STALLED: Gauge "svc_pool_stalled" "Whether the pool takes no work although workers are idle (1) or not (0).";
    WORKERS_CURRENT: Gauge "svc_workers_current" "Number of PHP worker threads.";
    WORKERS_MIN: Gauge "svc_workers_min" "Minimum number of PHP worker threads.";
    WORKERS_MAX: Gauge "svc_workers_max" "Maximum number of PHP worker threads.";
    WORKERS_IDLE: Gauge "svc_workers_idle" "Number of PHP worker threads without a request.";
    BUSY_WORKERS: Gauge "svc_busy_workers" "Number of PHP worker threads that are running at least one request.";
    WORKERS_SPAWNED: Counter "svc_workers_spawned_total" "Number of PHP worker threads started since the server started.";
    WORKERS_RETIRED: Counter "svc_workers_retired_total" "Number of PHP worker threads retired because they were idle.";
    WORKER_REQUEST_AGE: Gauge "svc_worker_request_age_seconds" "Age of the oldest request on the worker, in seconds; 0 if there is none.";
    WORKER_LONG_RUNNING: Counter "svc_worker_long_running_total" "Number of scans that found a request older than a minute on the worker.";
    WORKER_STUCK: Counter "svc_worker_stuck_total" "Number of requests that occupied the worker for more than a minute, by kind of activity.";
    WORKER_MODE_ENABLED: Gauge "svc_worker_mode_enabled" "Whether worker mode is enabled; always 1.";
    WORKERS_LINGERING: Gauge "svc_workers_lingering" "Number of persistent workers that were replaced and are finishing their remaining requests.";
    WORKER_REQUESTS_HANDLED: Counter "svc_worker_requests_handled_total" "Number of requests handled by persistent workers.";
    WORKER_RECYCLES: Counter "svc_worker_recycles_total" "Number of persistent workers that ended in order to be replaced.";
    WORKER_RECYCLES_BY_REASON: Counter "svc_worker_recycles_by_reason_total" "Number of persistent workers that ended in order to be replaced, by reason.";
    WORKER_SOFT_RESETS: Counter "svc_worker_soft_resets_total" "Number of requests after which a persistent worker was reset and kept running.";
    WORKER_MEMORY: Gauge "svc_worker_memory_bytes" "PHP heap of the worker at the end of its last request, in bytes.";
    WORKER_UPTIME: Gauge "svc_worker_uptime_seconds" "Seconds since the worker was started.";
    WORKER_REQUESTS: Gauge "svc_worker_requests_count" "Number of requests handled by the current instance of the worker.";
    WORKER_REQUEST_FIBERS: Gauge "svc_worker_request_fibers_active" "Number of request fibers on the worker.";
    WORKER_REQUEST_DURATION: Histogram "svc_worker_request_duration_us" "Duration of requests in persistent workers without queue wait, in microseconds.";
    QUEUE_WAIT: Histogram "svc_queue_wait_us" "Time requests waited for a worker, in microseconds.";
    PHP_REQUEST_DURATION: Histogram "svc_php_request_duration_seconds" "Time PHP ran for a request, in seconds.";
    OPCACHE_RESTARTS: Counter "svc_opcache_restarts_total" "Number of OPcache restarts, because it was full or a script reset it.";
    OPCACHE_RESTART_DELAYED: Gauge "svc_opcache_restart_delayed" "Whether OPcache is disabled while its restart waits for long-running scripts (1) or not (0).";
    RATE_LIMITED: Counter "svc_rate_limited_total" "Number of requests rejected by the rate limiter.";
    PHP_DENY: Counter "svc_php_deny_total" "Number of requests blocked because PHP may not run at their path.";
    PATH_DENY: Counter "svc_path_deny_total" "Number of requests blocked by a deny rule of the document root.";
    BUILTIN_DENY: Counter "svc_builtin_deny_total" "Number of requests blocked because their file is never meant to be public.";
    STATIC_CACHE_HITS: Counter "svc_static_cache_hits_total" "Number of static file requests served from memory.";
    STATIC_CACHE_MISSES: Counter "svc_static_cache_misses_total" "Number of static file requests that required a disk read.";
    COMPRESSED_RESPONSES: Counter "svc_compressed_responses_total" "Number of responses that the server sent compressed.";
    COMPRESSION_BYTES_SAVED: Counter "svc_compression_bytes_saved_total" "Number of bytes saved by compression: original size minus compressed size.";
    REPLY_MEMORY_BYTES: Gauge "svc_reply_memory_bytes" "Size of responses buffered in memory for slow clients, in bytes.";
    REPLY_MEMORY_LIMIT_BYTES: Gauge "svc_reply_memory_limit_bytes" "Memory limit for buffered responses; beyond it, they are buffered in temporary files.";
    SPOOL_BYTES: Gauge "svc_spool_bytes" "Size of the bodies in temporary files, in bytes.";
    SPOOL_LIMIT_BYTES: Gauge "svc_spool_limit_bytes" "Maximum size of the bodies in temporary files, in bytes.";
    LOG_RECORDS_DROPPED: Counter "svc_log_records_dropped_total" "Number of log records dropped because the log could not take them.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" "Total user and system CPU time spent in seconds.";
    PROCESS_RESIDENT_MEMORY: Gauge "process_resident_memory_bytes" "Resident memory size in bytes.";
    PROCESS_OPEN_FDS: Gauge "process_open_fds" "Number of open file descriptors.";
    PROCESS_MAX_FDS: Gauge "process_max_fds" "Maximum number of open file descriptors (soft limit).";
    PROCESS_THREADS: Gauge "process_threads" "Number of threads in the process.";
    PROCESS_START_TIME: Gauge "process_start_time_seconds" "Start time of the process since the Unix epoch in seconds.";
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_formed_by_the_rules() {
        for (index, family) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != family.name), "{} twice", family.name);
            assert!(
                family.name.starts_with("svc_") || family.name.starts_with("process_"),
                "{}",
                family.name
            );
            assert!(family.name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", family.name);
            assert_eq!(family.name.ends_with("_total"), family.kind == Kind::Counter, "{}", family.name);
            assert_eq!(family.name.ends_with("_info"), family.kind == Kind::Info, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\']), "{}", family.name);
        }
    }

    #[test]
    fn the_page_of_the_metrics_has_each_family_with_its_type() {
        let page = include_str!("../../docs/metrics.md");
        let documented: Vec<_> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).collect();
        for family in ALL {
            let kind = match family.kind {
                Kind::Counter => "counter |",
                Kind::Gauge => "gauge |",
                Kind::Histogram => "histogram |",
                Kind::Info => "gauge, 1 |",
            };
            let rest = documented.iter().find(|(name, _)| *name == family.name).map(|(_, rest)| rest);
            assert!(
                rest.is_some_and(|rest| rest.starts_with(kind)),
                "{} is not there as {kind}",
                family.name
            );
        }
        assert_eq!(documented.len(), ALL.len(), "the page has families that do not exist");
    }
}
