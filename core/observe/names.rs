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
    BUILD_INFO: Info "svc_build_info" "Versions of the server and of PHP.";
    LAST_RELOAD_SUCCESSFUL: Gauge "svc_config_last_reload_successful" "1 if the last reload succeeded, or none was asked for.";
    LAST_RELOAD_SUCCESS_TIME: Gauge "svc_config_last_reload_success_timestamp_seconds" "When what is reloaded was last loaded, as Unix time in seconds.";
    REQUESTS: Counter "svc_requests_total" "HTTP requests received on the main port.";
    REQUESTS_BY_METHOD: Counter "svc_requests_by_method_total" "HTTP requests received, by method.";
    RESPONSES_BY_STATUS: Counter "svc_responses_by_status_total" "Requests that ended, by status class.";
    REQUEST_BYTES: Counter "svc_request_bytes_total" "Request body bytes received.";
    RESPONSE_BYTES: Counter "svc_response_bytes_total" "Response body bytes sent.";
    REQUEST_CANCELLED: Counter "svc_request_cancelled_total" "Requests that ended without their result, by reason.";
    REQUEST_DURATION: Histogram "svc_request_duration_us" "Duration of requests from the first byte of the head to the last write, in microseconds.";
    ACTIVE_CONNECTIONS: Gauge "svc_active_connections" "Open connections on the main port.";
    ACCEPT_STALLED: Gauge "svc_accept_stalled" "1 while the accept loop waits for a free connection permit.";
    ACCEPT_STALLS: Counter "svc_accept_stalls_total" "Connections that had to wait for a permit after being accepted.";
    STREAMS_REFUSED: Counter "svc_streams_refused_total" "Streams of HTTP/2 that were refused because all connections carried too many.";
    TLS_HANDSHAKES: Counter "svc_tls_handshakes_total" "TLS handshakes that ended, by result.";
    TLS_CERTIFICATE_EXPIRY: Gauge "svc_tls_certificate_expiry_timestamp_seconds" "When the first of the certificates expires, as Unix time in seconds.";
    PENDING_REQUESTS: Gauge "svc_pending_requests" "PHP requests accepted but not yet answered.";
    DROPPED_REQUESTS: Counter "svc_dropped_requests_total" "Requests whose PHP worker failed after accepting them.";
    ADMISSION_REFUSED: Counter "svc_admission_refused_total" "Requests answered without reaching a worker, by reason.";
    ADMISSION_WAIT_WASTED: Counter "svc_admission_wait_wasted_total" "Requests that waited out the whole wait budget while the pool started nothing.";
    QUEUE_DEPTH: Gauge "svc_queue_depth" "Requests in the worker queue, not yet picked up.";
    QUEUE_CAPACITY: Gauge "svc_queue_capacity" "Places in the worker queue.";
    ADMISSION_SLOTS_AVAILABLE: Gauge "svc_admission_slots_available" "Admission permits that nobody holds.";
    ADMISSION_WAIT_BUDGET: Gauge "svc_admission_wait_budget_us" "How long a request arriving now may wait for a worker, in microseconds.";
    ADMISSION_WAIT_BUDGET_CEILING: Gauge "svc_admission_wait_budget_ceiling_us" "The configured ceiling of the wait budget, in microseconds.";
    ABANDONED_WORK: Counter "svc_abandoned_work_total" "Requests a worker took up whose client had already gone.";
    POOL_STALLED: Gauge "svc_pool_stalled" "1 while the pool takes no work although workers are idle.";
    WORKERS_CURRENT: Gauge "svc_workers_current" "PHP worker threads.";
    WORKERS_MIN: Gauge "svc_workers_min" "The least number of PHP worker threads.";
    WORKERS_MAX: Gauge "svc_workers_max" "The greatest number of PHP worker threads.";
    WORKERS_IDLE: Gauge "svc_workers_idle" "PHP worker threads without a request.";
    BUSY_WORKERS: Gauge "svc_busy_workers" "PHP worker threads that execute at least one request.";
    WORKERS_SPAWNED: Counter "svc_workers_spawned_total" "PHP worker threads started since the server started.";
    WORKERS_RETIRED: Counter "svc_workers_retired_total" "PHP worker threads retired because they were idle.";
    WORKER_REQUEST_AGE: Gauge "svc_worker_request_age_seconds" "For how long the oldest request that keeps the worker busy has been with it; 0 without one.";
    WORKER_LONG_RUNNING: Counter "svc_worker_long_running_total" "Looks at the worker that found a request older than a minute.";
    WORKER_STUCK: Counter "svc_worker_stuck_total" "Requests that held the worker up for more than a minute, by what they did.";
    WORKER_MODE_ENABLED: Gauge "svc_worker_mode_enabled" "1 in worker mode.";
    WORKERS_LINGERING: Gauge "svc_workers_lingering" "Persistent workers that end with what they carry while others have taken their places.";
    WORKER_REQUESTS_HANDLED: Counter "svc_worker_requests_handled_total" "Requests that persistent workers have handled.";
    WORKER_RECYCLES: Counter "svc_worker_recycles_total" "Persistent workers that have ended to be replaced.";
    WORKER_RECYCLES_BY_REASON: Counter "svc_worker_recycles_by_reason_total" "Persistent workers that have ended to be replaced, by reason.";
    WORKER_SOFT_RESETS: Counter "svc_worker_soft_resets_total" "Requests after which a persistent worker was reset and went on.";
    WORKER_MEMORY: Gauge "svc_worker_memory_bytes" "PHP heap of the worker at the end of its last request.";
    WORKER_UPTIME: Gauge "svc_worker_uptime_seconds" "Seconds since the worker was started.";
    WORKER_REQUESTS: Gauge "svc_worker_requests_count" "Requests that the present worker has handled.";
    WORKER_REQUEST_FIBERS: Gauge "svc_worker_request_fibers_active" "Request fibers that the worker carries.";
    WORKER_REQUEST_DURATION: Histogram "svc_worker_request_duration_us" "How long persistent workers took for a request, queue wait excluded, in microseconds.";
    QUEUE_WAIT: Histogram "svc_queue_wait_us" "How long requests waited until a worker took them, in microseconds.";
    PHP_REQUEST_DURATION: Histogram "svc_php_request_duration_seconds" "How long PHP ran for a request, in seconds.";
    OPCACHE_RESTARTS: Counter "svc_opcache_restarts_total" "Restarts of OPcache because it was full or a script reset it.";
    OPCACHE_RESTART_DELAYED: Gauge "svc_opcache_restart_delayed" "1 while OPcache is off because scripts run too long for it to restart.";
    RATE_LIMITED: Counter "svc_rate_limited_total" "Requests rejected by the rate limiter.";
    PHP_DENY: Counter "svc_php_deny_total" "Requests blocked where no PHP may run.";
    PATH_DENY: Counter "svc_path_deny_total" "Requests denied by a rule of the document root.";
    BUILTIN_DENY: Counter "svc_builtin_deny_total" "Requests for files that are never meant to be public.";
    STATIC_CACHE_HITS: Counter "svc_static_cache_hits_total" "Static files served from memory.";
    STATIC_CACHE_MISSES: Counter "svc_static_cache_misses_total" "Static files that needed a disk read.";
    COMPRESSED_RESPONSES: Counter "svc_compressed_responses_total" "Responses sent under a content coding.";
    COMPRESSION_BYTES_SAVED: Counter "svc_compression_bytes_saved_total" "Bytes that content codings saved: size before less size after.";
    REPLY_MEMORY_BYTES: Gauge "svc_reply_memory_bytes" "Bytes of replies that wait in memory for their readers.";
    REPLY_MEMORY_LIMIT_BYTES: Gauge "svc_reply_memory_limit_bytes" "The bytes of replies in memory from which on others wait in temporary files.";
    SPOOL_BYTES: Gauge "svc_spool_bytes" "Bytes of bodies that wait in temporary files.";
    SPOOL_LIMIT_BYTES: Gauge "svc_spool_limit_bytes" "The most bytes that temporary files may hold.";
    LOG_RECORDS_DROPPED: Counter "svc_log_records_dropped_total" "Log records that did not fit into the queue.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" "User and system processor time in seconds.";
    PROCESS_RESIDENT_MEMORY: Gauge "process_resident_memory_bytes" "Resident memory in bytes.";
    PROCESS_OPEN_FDS: Gauge "process_open_fds" "Open file descriptors.";
    PROCESS_MAX_FDS: Gauge "process_max_fds" "The soft limit of open file descriptors.";
    PROCESS_THREADS: Gauge "process_threads" "Threads of the process.";
    PROCESS_START_TIME: Gauge "process_start_time_seconds" "Start of the process as Unix time in seconds.";
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
