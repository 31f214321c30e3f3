//! The families of the exposition: one row per metric, with everything about it.
//!
//! A row contains: its constant, its kind, its name, the section of the reference page, the condition of its source;
//! the help of the exposition; the text of the reference page. Then `cell` is the cell that code counts in, a field
//! of [`Metrics`], and `source` writes the series. Without a `source`, the cell writes them.
//!
//! Names never change; only the names of counters end in `_total`; a new metric needs one row and nothing else. No
//! label value comes from a client. The file is long because the table is.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use svc_types::{HookObstacle, RuntimeHook};

use crate::admission::ShedReason;
use crate::cache::{CacheOutcome, EvictionReason, StaleReason};
use crate::config::ExportSignal;
use crate::http::MethodKind;
use crate::limits::REPLIES_MEMORY_MAX;
use crate::plugins::{PluginHealth, PluginReading};
use crate::pool::{RecycleReason, SlotPhase, SlotReading, StuckKind};
use crate::sync::counter::{Counter, Flag, UpDown};
use crate::sync::histogram::Histogram;
use crate::time::as_micros;

use super::cell::{AbandonedWork, CellValues, CountersBy, CountersByTwo, MetricCell, RareCountersBy};
use super::exporter::{Number, Series};
use super::facts::ScrapeFacts;
use super::family::{Condition, Family, MetricKind, MetricSection};
use super::label::{CancelReason, StatusClass, TlsHandshake};
use super::php_errors::PhpErrorLevel;

/// Writes the series of a family.
pub(super) type FamilySource = fn(&ScrapeFacts<'_>, &Counted, &mut Series<'_>);

macro_rules! families {
    ($($constant:ident: $kind:ident $name:literal in $section:ident $(if $condition:ident)?,
        $help:literal,
        $meaning:literal
        $(, cell $cell:ident: $type:ty $(= $initial:expr)?)?
        $(, source $source:expr)?;)*) => {
        $(#[doc = concat!("`", $name, "`: ", $help)]
        pub(super) const $constant: Family = Family {
            name: $name,
            kind: MetricKind::$kind,
            help: $help,
            section: MetricSection::$section,
            condition: or!([$(Condition::$condition)?] Condition::Always),
            meaning: $meaning,
        };)*

        /// All families, in the order of the exposition.
        pub(super) const ALL: &[Family] = &[$($constant),*];

        /// The source of each family of [`ALL`].
        pub(super) const SOURCES: &[FamilySource] =
            &[$(or!([$($source)?] $(|_, counted, series| counted.$cell.write(series))?)),*];

        /// All counts of the server: typed cells, without registry and lock.
        #[derive(Debug)]
        pub struct Metrics {
            $($(#[doc = $help] pub $cell: $type,)?)*
        }

        /// The values that a scrape has read from [`Metrics`], so that families of the same cell agree.
        pub(super) struct Counted {
            $($($cell: <$type as MetricCell>::Values,)?)*
        }

        impl Metrics {
            /// Starts with everything at 0.
            pub fn new() -> Self {
                Self { $($($cell: or!([$($initial)?] Default::default()),)?)* }
            }

            /// Reads the cells of the families that are shown; the others read as empty, and cost nothing.
            pub(super) fn read(&self, is_shown: impl Fn(Condition) -> bool) -> Counted {
                Counted {
                    $($($cell: if is_shown($constant.condition) {
                        self.$cell.read()
                    } else {
                        Default::default()
                    },)?)*
                }
            }
        }
    };
}

/// Evaluates to the first value, or to the second if there is no first.
macro_rules! or {
    ([] $default:expr) => {
        $default
    };
    ([$given:expr] $($default:expr)?) => {
        $given
    };
}

families! {
    UPTIME_SECONDS: Gauge "svc_uptime_seconds" in Requests,
        "Seconds since the process started.",
        "Seconds since the process started.",
        source |facts, _, series| series.one(facts.uptime);
    BUILD_INFO: Info "svc_build_info" in Requests,
        "Versions of the server and of PHP, as labels.",
        "Labels: `version` and, once PHP has started, `php_version`.",
        source |facts, _, series| versions(series, facts);
    LAST_RELOAD_SUCCESSFUL: Gauge "svc_config_last_reload_successful" in Requests,
        "Whether the last reload succeeded (1) or failed (0); 1 before the first reload.",
        "1 if the last reload (SIGHUP) succeeded, or if there was none. Whatever could not be reloaded keeps its previous state. If only workers failed to boot, it becomes 1 once a later attempt has replaced them all.",
        source |facts, _, series| series.one(facts.reload.is_successful);
    LAST_RELOAD_SUCCESS_TIME: Gauge "svc_config_last_reload_success_timestamp_seconds" in Requests,
        "Unix time of the last successful reload, or of the start, in seconds.",
        "Unix time of the last successful reload, or of the start of the server. A reload whose workers boot at a later attempt has succeeded then.",
        source |facts, _, series| series.one(unix_time(facts.reload.succeeded_at));
    RESTART_REQUIRED: Gauge "svc_config_restart_required" in Requests,
        "1 if the last reload found that an ini file of PHP has changed since the start, which requires a restart.",
        "1 if the last reload (SIGHUP) found that php.ini or a file in `conf.d` has been changed, added or removed since the start: PHP reads them only at the start, so a restart is required.",
        cell restart_required: Flag;
    REQUESTS: Counter "svc_requests_total" in Requests,
        "Number of HTTP requests received on the main port.",
        "Requests received on the main port. A request is counted when its header has been parsed, or when a request whose header cannot be parsed is answered. This is the sum over all methods.",
        source |_, counted, series| series.one(counted.requests_by_method.total());
    REQUESTS_BY_METHOD: Counter "svc_requests_by_method_total" in Requests,
        "Number of HTTP requests received on the main port, by method.",
        "Label `method`: GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS, CONNECT, QUERY, OTHER. Requests whose header cannot be parsed count as OTHER.",
        cell requests_by_method: CountersBy<MethodKind, { MethodKind::ALL.len() }>;
    RESPONSES_BY_STATUS: Counter "svc_responses_by_status_total" in Requests,
        "Number of finished requests, by status class.",
        "Label `status`: 1xx to 5xx. Each request ends in exactly one class, and is at most one of refused, cancelled and dropped. Requests whose client disconnected (499) count as 4xx although nothing was sent. Interim responses (100, 103) are not counted.",
        cell responses: CountersBy<StatusClass, { StatusClass::ALL.len() }>;
    REQUEST_BYTES: Counter "svc_request_bytes_total" in Requests,
        "Number of request body bytes received.",
        "Request body bytes received. This includes bodies of refused requests and unneeded bodies, as far as they were read.",
        cell request_bytes: Counter;
    RESPONSE_BYTES: Counter "svc_response_bytes_total" in Requests,
        "Number of response body bytes sent.",
        "Response body bytes sent, that is, accepted by the kernel, over HTTP/1 and HTTP/2.",
        cell response_bytes: Counter;
    REQUEST_CANCELLED: Counter "svc_request_cancelled_total" in Requests,
        "Number of requests that were cancelled before their response began, by reason.",
        "Label `reason`. `client_abort`: the client disconnected before the response began, while it sent the body, while the request was queued, or while the script ran. `timeout`: the script reached its time limit before anything was sent, whether or not it has ended since. `shutdown`: the drain deadline aborted the request before its response began; requests still waiting for admission are counted as refused instead. Once a response has begun, the request counts as answered, even if the response is aborted later.",
        cell cancelled: CountersBy<CancelReason, { CancelReason::ALL.len() }>;
    REQUEST_DURATION: Histogram "svc_request_duration_us" in Requests,
        "Duration of requests, from the first byte received to the last byte written, in microseconds.",
        "Duration of all requests, from the first byte of the header to the last write, including refused requests.",
        cell request_duration: Histogram = Histogram::new(&[100, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000]);
    SERVED_DURATION: Histogram "svc_served_duration_us" in Requests,
        "Duration of the requests that were answered, without those refused or abandoned by their client, in microseconds.",
        "The same for the requests that were answered: by a script, from a file, with a redirect, 304, 404, 500 or 504. Refusals (529, and 503 at a shutdown), 429 and 499 are not included: they take microseconds, and would make overload look like the fastest minute of the day.",
        cell served_duration: Histogram = Histogram::new(&[100, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000]);
    ACTIVE_CONNECTIONS: Gauge "svc_active_connections" in Admission,
        "Number of open connections on the main port.",
        "Open connections on the main port. Connections that wait for a permit are not included.",
        cell connections: UpDown;
    ACCEPT_STALLED: Gauge "svc_accept_stalled" in Admission,
        "Whether the accept loop is waiting for a free connection permit (1) or not (0).",
        "1 while the accept loop is paused because `MAX_CONNECTIONS` connections are open. Alert on 1.",
        cell accept_stalled: Flag;
    ACCEPT_STALLS: Counter "svc_accept_stalls_total" in Admission,
        "Number of connections that had to wait for a permit after they were accepted.",
        "Connections that had to wait for a permit after they were accepted.",
        cell accept_stalls: Counter;
    STREAMS_REFUSED: Counter "svc_streams_refused_total" in Admission,
        "Number of HTTP/2 streams refused because of the limits on open streams and memory across all connections.",
        "HTTP/2 streams refused (`REFUSED_STREAM`) because the limit on open streams across all connections was reached, or because their headers were longer than 4 KiB while `svc_reply_memory_limit_bytes` was reached ([http.md](http.md#http2)). They do not count as requests. Streams beyond the per-connection limit announced to the client are not counted. If it increases, raise `MAX_CONNECTIONS` or find the clients that hold many streams.",
        cell streams_refused: Counter;
    IO_WORKERS_IN_USE: Gauge "svc_io_workers_in_use" in Admission,
        "Number of I/O threads that connections are given to.",
        "I/O threads that connections are given to, at most `IO_WORKERS`. All of them if that number was set; otherwise one, and more while those in use are busy and processors are idle ([tuning.md](tuning.md#io-threads)).",
        source |facts, _, series| series.one(facts.io_workers_in_use);
    IO_HANDOVERS: Counter "svc_io_handovers_total" in Admission,
        "Number of connections handed over from one I/O thread to another.",
        "Connections that went from one I/O thread to another, between two requests, because one was busier or is no longer used.",
        cell io_handovers: Counter;
    TLS_HANDSHAKES: Counter "svc_tls_handshakes_total" in Admission if Tls,
        "Number of finished TLS handshakes, by result.",
        "Label `result`: `full`, `resumed`, `failed` (the client sent data, but the connection ended before the handshake was complete), `plain_http` (the client sent plain HTTP and received an error response). All four series exist from the start.",
        cell tls_handshakes: CountersBy<TlsHandshake, { TlsHandshake::ALL.len() }>;
    TLS_CERTIFICATE_EXPIRY: Gauge "svc_tls_certificate_expiry_timestamp_seconds" in Admission if Tls,
        "Unix time of the earliest certificate expiry, in seconds.",
        "Unix time of the earliest expiry of all certificates.",
        source |facts, _, series| series.maybe(facts.certificates.and_then(|known| known.first_expiry).map(unix_time));
    PENDING_REQUESTS: Gauge "svc_pending_requests" in Admission,
        "Number of PHP requests that are accepted but not yet answered.",
        "PHP requests that are accepted and not yet answered: waiting for a queue slot, queued, or running.",
        cell pending_requests: UpDown;
    DROPPED_REQUESTS: Counter "svc_dropped_requests_total" in Admission,
        "Number of requests whose PHP worker failed after it had accepted them.",
        "Requests whose worker failed after it had accepted them and before their response began; they are answered with 500. In worker mode, this includes fatal errors, because they cause the worker to be replaced, but not uncaught exceptions.",
        cell dropped: Counter;
    ADMISSION_REFUSED: Counter "svc_admission_refused_total" in Admission,
        "Number of requests refused before they reached a worker, by reason.",
        "Label `reason`: `wait_timeout`, `waiting_full`, `waiting_bytes`, `queue_full`, `shutting_down`, `pool_unavailable`. All six series exist from the start. See below.",
        cell refused: CountersBy<ShedReason, { ShedReason::ALL.len() }>;
    ADMISSION_WAIT_WASTED: Counter "svc_admission_wait_wasted_total" in Admission,
        "Number of requests that used up the whole wait budget while the pool started no request.",
        "The subset of `wait_timeout` refusals that used up the whole wait budget while the pool started no request at all. Counted only while the budget is at its ceiling. If it keeps increasing, waiting has no benefit: lower `QUEUE_WAIT_TIMEOUT_MS`.",
        cell wait_wasted: Counter;
    QUEUE_DEPTH: Gauge "svc_queue_depth" in Admission if Php,
        "Number of requests in the worker queue that no worker has taken yet.",
        "Entries in the worker queue. A request that was already answered, on its deadline (529) or because its client disconnected (499), counts until a worker takes it off the queue.",
        source |facts, _, series| series.maybe(facts.gate.map(|gate| gate.depth));
    QUEUE_CAPACITY: Gauge "svc_queue_capacity" in Admission,
        "Maximum number of requests in the worker queue.",
        "`QUEUE_CAPACITY`.",
        source |facts, _, series| series.one(facts.queue_capacity);
    ADMISSION_SLOTS_AVAILABLE: Gauge "svc_admission_slots_available" in Admission,
        "Number of free admission permits.",
        "Free queue slots. A request takes a slot before it enters the queue and releases it when a worker takes it off. During graceful shutdown, no requests are admitted regardless of this value. Without PHP, all slots are free.",
        source |facts, _, series| series.one(facts.gate.map_or(facts.queue_capacity, |gate| gate.slots_available));
    ADMISSION_WAIT_BUDGET: Gauge "svc_admission_wait_budget_us" in Admission if Php,
        "Maximum wait for a worker that applies to new requests, in microseconds.",
        "How long a request that arrives now may wait for a worker. 0 in fail-fast mode (`QUEUE_WAIT_TIMEOUT_MS=0`).",
        source |facts, _, series| series.maybe(facts.gate.map(|gate| as_micros(gate.wait_budget)));
    ADMISSION_WAIT_BUDGET_CEILING: Gauge "svc_admission_wait_budget_ceiling_us" in Admission if Php,
        "Configured upper limit of the wait budget, in microseconds.",
        "`QUEUE_WAIT_TIMEOUT_MS` in microseconds, the upper limit of the wait budget.",
        source |facts, _, series| series.maybe(facts.gate.map(|gate| as_micros(gate.wait_budget_ceiling)));
    ABANDONED_WORK: Counter "svc_abandoned_work_total" in Admission,
        "Number of requests that a worker took off the queue after their client had disconnected.",
        "Requests that a worker took off the queue whose client disconnected before the response began. Refused requests are not included because they never ran, nor are requests whose response was complete before the script ended.",
        cell abandoned: AbandonedWork;
    POOL_STALLED: Gauge "svc_pool_stalled" in Admission if WorkerMode,
        "Whether the pool takes no work although workers are idle (1) or not (0).",
        "1 while the pool is wedged: requests wait, workers are idle, and nothing has been finished for a minute. Readiness and `/health` return 503 meanwhile. Alert on 1.",
        cell pool_stalled: Flag;
    WORKERS_CURRENT: Gauge "svc_workers_current" in Workers,
        "Number of PHP worker threads.",
        "PHP threads, including lingering ones. This metric and the following six are 0 without PHP.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().current);
    WORKERS_MIN: Gauge "svc_workers_min" in Workers,
        "Minimum number of PHP worker threads.",
        "The initial and minimum size of the pool; equal to the maximum in a pool of fixed size.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().min);
    WORKERS_MAX: Gauge "svc_workers_max" in Workers,
        "Maximum number of PHP worker threads.",
        "The maximum size of the pool. Lingering workers are in addition to it.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().max);
    WORKERS_IDLE: Gauge "svc_workers_idle" in Workers,
        "Number of PHP worker threads without a request.",
        "Threads without a request: current minus busy.",
        source |facts, _, series| series.one(facts.pool.map_or(0, |pool| pool.current.saturating_sub(pool.busy)));
    BUSY_WORKERS: Gauge "svc_busy_workers" in Workers,
        "Number of PHP worker threads that are running at least one request.",
        "Threads that run a request; never more than current.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().busy);
    WORKERS_SPAWNED: Counter "svc_workers_spawned_total" in Workers,
        "Number of PHP worker threads started since the server started.",
        "Threads started since the server started: the initial ones, those added when the pool grows, and all replacements.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().spawned);
    WORKERS_RETIRED: Counter "svc_workers_retired_total" in Workers,
        "Number of PHP worker threads retired because they were idle.",
        "Threads retired because they were idle for `PHP_WORKERS_IDLE_SECONDS`. Always 0 in a pool of fixed size.",
        cell workers_retired: Counter;
    WORKER_REQUEST_AGE: Gauge "svc_worker_request_age_seconds" in StuckWorkers if Php,
        "Age of the oldest request on the worker, in seconds; 0 if there is none.",
        "Age of the oldest request that occupies the worker, that is, one that is unanswered or whose script is still running. 0 if there is none.",
        source |facts, _, series| by_slot(series, "worker_id", &facts.slots, |slot| slot.oldest.map_or(Duration::ZERO, |oldest| oldest.age));
    WORKER_LONG_RUNNING: Counter "svc_worker_long_running_total" in StuckWorkers if Php,
        "Number of scans that found a request older than a minute on the worker.",
        "Scans, one per second, that found a request older than 60 seconds.",
        source |facts, _, series| by_slot(series, "worker_id", &facts.slots, |slot| slot.long_running);
    WORKER_STUCK: Counter "svc_worker_stuck_total" in StuckWorkers if Php,
        "Number of requests that occupied the worker for more than a minute, by kind of activity.",
        "Requests older than 60 seconds, each counted once per worker, by `kind`: `io` waits in a system call or in a suspended fiber, `cpu` executes PHP code, `c_call` is in an internal function that does not return. svc takes no action: alert on this metric.",
        source |facts, _, series| stuck(series, &facts.slots);
    WORKER_MODE_ENABLED: Gauge "svc_worker_mode_enabled" in WorkerMode if WorkerMode,
        "Whether worker mode is enabled; always 1.",
        "Always 1.",
        source |_, _, series| series.one(true);
    WORKERS_LINGERING: Gauge "svc_workers_lingering" in WorkerMode if WorkerMode,
        "Number of persistent workers that were replaced and are finishing their remaining requests.",
        "Workers that take no more requests, have already been replaced, and end when their remaining requests are finished: recycled workers, or workers replaced after SIGHUP. At most `svc_workers_max`, or 4 in smaller pools.",
        source |facts, _, series| series.one(facts.pool.unwrap_or_default().lingering);
    WORKER_REQUESTS_HANDLED: Counter "svc_worker_requests_handled_total" in WorkerMode if WorkerMode,
        "Number of requests handled by persistent workers.",
        "Requests handled by persistent workers, counted when the handler ends, even if it responded earlier.",
        source |_, counted, series| series.one(counted.worker_request_duration.count());
    WORKER_RECYCLES: Counter "svc_worker_recycles_total" in WorkerMode if WorkerMode,
        "Number of persistent workers that ended in order to be replaced.",
        "Workers that ended in order to be replaced. Workers retired because they were idle are not included.",
        source |_, counted, series| series.one(counted.workers_recycled.total());
    WORKER_RECYCLES_BY_REASON: Counter "svc_worker_recycles_by_reason_total" in WorkerMode if WorkerMode,
        "Number of persistent workers that ended in order to be replaced, by reason.",
        "The same by `reason`: `scheduled` (requested by the application, or SIGHUP), `max_memory` (`WORKER_MAX_MEMORY_MIB`), `error`.",
        cell workers_recycled: CountersBy<RecycleReason, { RecycleReason::ALL.len() }>;
    WORKER_BOOT_FAILING: Gauge "svc_worker_boot_failing" in WorkerMode if WorkerMode,
        "1 if a persistent worker has failed to boot since the last one booted.",
        "1 if a persistent worker has failed to boot since the last one booted; after a reload, only workers started since count as booted. After a deployment whose code does not boot, the old workers keep serving: `boot_failure` in `/status` contains the message, the file and the line.",
        cell worker_boot_failing: Flag;
    WORKER_BOOT_FAILURES: Counter "svc_worker_boot_failures_total" in WorkerMode if WorkerMode,
        "Number of persistent workers that failed to boot.",
        "Workers that failed to boot: at the start, in a rolling restart, or as the replacement of a recycled one.",
        cell worker_boot_failures: Counter;
    WORKER_SOFT_RESETS: Counter "svc_worker_soft_resets_total" in WorkerMode if WorkerMode,
        "Number of requests after which a persistent worker was reset and kept running.",
        "Requests after which the application's environment was reset and its worker kept running. `svc_worker_requests_handled_total` minus this value is the number of requests after which a worker was restarted, or was about to be.",
        cell soft_resets: Counter;
    WORKER_MEMORY: Gauge "svc_worker_memory_bytes" in WorkerMode if WorkerMode,
        "PHP heap of the worker at the end of its last request, in bytes.",
        "PHP heap at the end of the worker's last request, shortly before it is compared with `WORKER_MAX_MEMORY_MIB`. 0 for a worker that has not handled a request; the replacement of a recycled worker shows the old value until then.",
        source |facts, _, series| by_worker(series, &facts.slots, |slot| slot.heap_bytes);
    WORKER_UPTIME: Gauge "svc_worker_uptime_seconds" in WorkerMode if WorkerMode,
        "Seconds since the worker was started.",
        "Seconds since the worker was started.",
        source |facts, _, series| by_worker(series, &facts.slots, |slot| slot.uptime);
    WORKER_REQUESTS: Gauge "svc_worker_requests_count" in WorkerMode if WorkerMode,
        "Number of requests handled by the current instance of the worker.",
        "Requests handled by the current worker in the slot.",
        source |facts, _, series| by_worker(series, &facts.slots, |slot| slot.handled);
    WORKER_REQUEST_FIBERS: Gauge "svc_worker_request_fibers_active" in WorkerMode if WorkerMode,
        "Number of request fibers on the worker.",
        "Requests on the worker whose destructors have not yet run: 0 if idle, more than 1 if requests wait. At 256, the worker takes no further work. 256 on a worker that is not busy means that fibers kept running after their response and never ended.",
        source |facts, _, series| by_worker(series, &facts.slots, |slot| slot.fibers);
    WORKER_REQUEST_DURATION: Histogram "svc_worker_request_duration_us" in WorkerMode if WorkerMode,
        "Duration of requests in persistent workers without queue wait, in microseconds.",
        "Time the application needed for a request, without queue wait, until its handler and its shutdown functions ended, even if it responded earlier.",
        cell worker_request_duration: Histogram = Histogram::new(&[100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000]);
    TASKS_DISPATCHED: Counter "svc_async_tasks_dispatched_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks dispatched.",
        "Tasks that were queued. At rest, this is the sum of completed, failed and cancelled tasks; at any time, tasks in flight make the difference.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.dispatched));
    TASKS_COMPLETED: Counter "svc_async_tasks_completed_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks that returned a result.",
        "Tasks that returned a result. Like the two following counters, it counts a task once none of its code is left to run, which may be after its result has arrived.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.completed));
    TASKS_FAILED: Counter "svc_async_tasks_failed_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks that failed.",
        "Tasks that threw an exception, exited, exceeded a limit, or lost their thread.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.failed));
    TASKS_CANCELLED: Counter "svc_async_tasks_cancelled_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks that were cancelled.",
        "Tasks that were cancelled by `cancel()`, by a timeout, by the end of their request, or by a shutdown. A task that continued to run after it was cancelled counts here, however it ended.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.cancelled));
    TASKS_REJECTED: Counter "svc_async_tasks_rejected_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks rejected because the queue was full or too many were in flight.",
        "Tasks rejected because `ASYNC_QUEUE_CAPACITY` tasks waited, or because `svc_async_tasks_in_flight_limit` tasks were in flight. Tasks rejected for another reason are not counted.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.rejected));
    TASKS_STRANDED: Counter "svc_async_tasks_stranded_total" in BackgroundTasks if TaskDispatched,
        "Number of background tasks that were running when the await_any or await_race for them timed out.",
        "Tasks that were running when the `await_any()` or `await_race()` that waited for them timed out. They are cancelled; if one does not react, the end of its request is delayed by up to 5 seconds, for all of them together.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.stranded));
    TASKS_IN_FLIGHT: Gauge "svc_async_tasks_in_flight" in BackgroundTasks if TaskThreads,
        "Number of background tasks that are queued or running.",
        "Tasks that are queued or running. A cancelled task counts until it has ended.",
        source |facts, _, series| series.maybe(facts.tasks.and_then(|tasks| tasks.in_flight));
    TASKS_IN_FLIGHT_LIMIT: Gauge "svc_async_tasks_in_flight_limit" in BackgroundTasks if TaskThreads,
        "Maximum number of background tasks in flight.",
        "`ASYNC_MAX_FIBERS` x `ASYNC_WORKERS`.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.in_flight_limit));
    TASK_OUTPUT_DISCARDED: Counter "svc_async_output_discarded_bytes_total" in BackgroundTasks if TaskOutput,
        "Number of bytes that background tasks printed, which were discarded.",
        "Bytes of output of tasks, which is discarded: return a value, or write to a log.",
        source |facts, _, series| series.maybe(facts.tasks.map(|tasks| tasks.output_discarded_bytes));
    HOOK_BLOCKED: Counter "svc_hook_blocked_total" in Workers if RuntimeHooks,
        "Number of calls with a runtime hook that blocked their thread nevertheless, by hook and reason.",
        "Labels `hook`, a word of `RUNTIME_HOOKS`, and `reason`. `switch`: PHP does not allow a switch of fibers, for example in a destructor that an ended fiber runs. `loading`: code was being loaded, or a constant evaluated. `gc`: the cycle collector ran. `output_handler`: an output handler ran. `marks`: a function that marks values against recursion ran, or a fiber of a script is suspended in one ([where](hooks.md#where-a-call-blocks)). `memory`: the system refused memory or a descriptor. `helpers`: all helper threads were busy. Calls that did not have to wait are not counted.",
        cell hook_blocked: CountersByTwo<RuntimeHook, HookObstacle, { RuntimeHook::ALL.len() }, { HookObstacle::ALL.len() }>;
    CONNECTION_WAIT: Histogram "svc_connection_wait_us" in Workers if RuntimeHooks,
        "Time requests and tasks waited for a connection that another one of their thread owned, in microseconds.",
        "Time that requests and tasks waited, parked, for a database connection, a key-value store or a curl handle that another request of their thread was using ([owners](hooks.md#owners-of-connections)). One observation for each wait, whether it ended by the turn of the request or by its time limit; who did not have to wait is not counted.",
        cell connection_wait: Histogram = Histogram::new(&[100, 250, 500, 1000, 2500, 5000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000]);
    QUEUE_WAIT: Histogram "svc_queue_wait_us" in Admission,
        "Time requests waited for a worker, in microseconds.",
        "Time that requests waited for a queue slot and in the queue until a worker took them. Refused requests, and requests whose client disconnected before that, are not included.",
        cell queue_wait: Histogram = Histogram::new(&[50, 100, 250, 500, 1000, 2500, 5000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000]);
    PHP_REQUEST_DURATION: Histogram "svc_php_request_duration_seconds" in Workers if Php,
        "Time PHP ran for a request, in seconds.",
        "How long PHP ran for a request. Queue wait is excluded; work after an early response is included.",
        cell php_duration: Histogram = Histogram::new(&[100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000]);
    PHP_ERRORS: Counter "svc_php_errors_total" in Workers if Interpreter,
        "Number of errors that PHP raised, by level.",
        "Label `level`: PHP's name of the error without `E_` (`error`, `warning`, `parse`, `notice`, `core_error`, `core_warning`, `compile_error`, `compile_warning`, `user_error`, `user_warning`, `user_notice`, `recoverable_error`, `deprecated`, `user_deprecated`), and `uncaught` for exceptions that ended a script. Errors are counted whether or not they are displayed, logged, within `error_reporting`, or left to an error handler of the application; only those that `@` silences are not, nor those of calls that svc itself makes (to reset a connection, to compile a file again for a task). Exceptions that the application or its framework catches are not errors of PHP. `php_errors` in `/status` lists the last distinct ones with file and line.",
        cell php_errors: CountersBy<PhpErrorLevel, { PhpErrorLevel::ALL.len() }>;
    OPCACHE_RESTARTS: Counter "svc_opcache_restarts_total" in Workers if Interpreter,
        "Number of OPcache restarts, because it was full or a script reset it.",
        "OPcache restarts, because it was full or a script called `opcache_reset()`. If it increases steadily, raise `opcache.memory_consumption` or `opcache.max_accelerated_files`.",
        cell opcache_restarts: Counter;
    OPCACHE_RESTART_DELAYED: Gauge "svc_opcache_restart_delayed" in Workers if Interpreter,
        "Whether OPcache is disabled while its restart waits for long-running scripts (1) or not (0).",
        "1 while scripts run without OPcache because other scripts run too long for it to restart, or because old workers of worker mode or old threads for tasks have not ended.",
        cell opcache_restart_delayed: Flag;
    OPCACHE_MEMORY: Gauge "svc_opcache_memory_bytes" in Workers if Interpreter,
        "Memory of OPcache, in bytes, by state.",
        "Label `state`: `used`, `free`, and `wasted` by scripts that have been replaced, which is free again after a restart. Read once a second. Absent while OPcache is off. If little is free, raise `opcache.memory_consumption`.",
        source |facts, _, series| opcache_memory(series, facts);
    OPCACHE_FULL: Gauge "svc_opcache_full" in Workers if Interpreter,
        "Whether OPcache takes no further scripts until it restarts (1) or not (0).",
        "1 while scripts that OPcache does not hold are compiled on every request, because they do not fit into its memory, or all of `opcache.max_accelerated_files` are in use. A reload empties the cache. Absent while OPcache is off.",
        source |facts, _, series| series.maybe(facts.opcache.map(|opcache| u64::from(opcache.is_full)));
    OPCACHE_SCRIPTS: Gauge "svc_opcache_scripts" in Workers if Interpreter,
        "Number of scripts that OPcache holds.",
        "Scripts in OPcache. Absent while it is off.",
        source |facts, _, series| series.maybe(facts.opcache.map(|opcache| opcache.scripts));
    OPCACHE_HITS: Counter "svc_opcache_hits_total" in Workers if Interpreter,
        "Number of scripts that were loaded from OPcache.",
        "Scripts that were loaded from OPcache. Absent while it is off.",
        source |facts, _, series| series.maybe(facts.opcache.map(|opcache| opcache.hits));
    OPCACHE_MISSES: Counter "svc_opcache_misses_total" in Workers if Interpreter,
        "Number of scripts that had to be compiled because OPcache did not have them.",
        "Scripts that OPcache did not have and that were compiled. Absent while it is off.",
        source |facts, _, series| series.maybe(facts.opcache.map(|opcache| opcache.misses));
    OTEL_EXPORT_FAILURES: Counter "svc_otel_export_failures_total" in Tracing if Tracing,
        "Number of span exports that failed, after the retry where one was made.",
        "Exports (batches of spans) that failed, after the retry where one was made. Their spans are not sent again. An export that is counted here may still have reached the collector.",
        cell otel_export_failures: Counter;
    OTEL_EXPORT_FAILED_SPANS: Counter "svc_otel_export_failed_spans_total" in Tracing if Tracing,
        "Number of spans in exports that failed.",
        "Spans carried by those failed exports.",
        cell otel_export_failed_spans: Counter;
    OTEL_EXPORT_RETRIES: Counter "svc_otel_export_retries_total" in Tracing if Tracing,
        "Number of span exports that were retried because the first attempt failed fast without an answer.",
        "Exports that were retried once because the first attempt failed fast without an answer from the collector ([tracing.md](tracing.md#retries)). A retry that delivers the batch counts only here.",
        cell otel_export_retries: Counter;
    OTEL_DROPPED_SPANS: Counter "svc_otel_dropped_spans_total" in Tracing if Tracing,
        "Number of spans dropped because the queue of the exporter was full.",
        "Spans for which the queue (`OTEL_BSP_MAX_QUEUE_SIZE`) had no room. They are in no export, and not in the metrics above.",
        source |facts, _, series| series.maybe(facts.tracing.map(|tracing| tracing.dropped));
    OTEL_EXPORTED_ITEMS: Counter "svc_otel_exported_items_total" in Tracing if Tracing,
        "Number of spans, data points of metrics and log records that the collector has accepted, by signal.",
        "Label `signal`: `traces` (spans), `metrics` (data points), `logs` (log records). Items that the collector has accepted. All three series exist from the start ([telemetry.md](telemetry.md)).",
        cell otel_exported_items: RareCountersBy<ExportSignal, { ExportSignal::ALL.len() }>;
    OTEL_DROPPED_ITEMS: Counter "svc_otel_dropped_items_total" in Tracing if Tracing,
        "Number of spans, data points of metrics and log records that were lost on their way to the collector, by signal.",
        "Label `signal`. Items that were lost: their queue had no room, their export failed, or the collector rejected them and accepted others of the same batch. A failed export of metrics loses nothing: the next one contains its changes, so that only rejected data points are counted.",
        cell otel_lost_items: RareCountersBy<ExportSignal, { ExportSignal::ALL.len() }>,
        source |facts, counted, series| dropped_items(series, facts, counted);
    OTEL_FAILED_EXPORTS: Counter "svc_otel_failed_exports_total" in Tracing if Tracing,
        "Number of exports that failed, after their retries, by signal.",
        "Label `signal`. Exports that failed, after their retries. For `traces`, this is `svc_otel_export_failures_total`.",
        cell otel_failed_exports: RareCountersBy<ExportSignal, { ExportSignal::ALL.len() }>;
    PLUGINS_HEALTH: Gauge "svc_plugins_health" in Plugins if Plugins,
        "Health of the plugin: 1 for its present status, 0 for the others.",
        "Labels: `plugin` and `status` (`ok`, `degraded`, `failed`). 1 for the present status, 0 for the others. Plugins without a health check are absent. Alert on `failed`: readiness and `/health` return 503 meanwhile.",
        source |facts, _, series| plugin_health(series, &facts.plugins);
    PLUGINS_CALLBACK_ERRORS: Counter "svc_plugins_callback_errors_total" in Plugins if Plugins,
        "Number of callbacks of the plugin that failed or returned something invalid.",
        "Label: `plugin`. Callbacks that returned an error, or an answer that is not valid; the log says which.",
        source |facts, _, series| by_plugin(series, &facts.plugins, |plugin| Some(plugin.errors));
    PLUGINS_REQUESTS_LOST: Counter "svc_plugins_requests_lost_total" in Plugins if Plugins,
        "Number of ended requests that the plugin was not told of because it was too slow.",
        "Label: `plugin`. Ended requests that the plugin was not told of because 4096 others were waiting for it. Plugins that do not look at requests are absent.",
        source |facts, _, series| by_plugin(series, &facts.plugins, |plugin| plugin.facts_lost);
    RATE_LIMITED: Counter "svc_rate_limited_total" in Responses,
        "Number of requests rejected by the rate limiter.",
        "Requests rejected by the rate limiter (429).",
        cell rate_limited: Counter;
    PHP_DENY: Counter "svc_php_deny_total" in Responses,
        "Number of requests blocked because PHP may not run at their path.",
        "Requests blocked by `PHP_DENY_PATHS`: PHP is not executed at their path.",
        cell php_denied: Counter;
    PATH_DENY: Counter "svc_path_deny_total" in Responses,
        "Number of requests blocked by a deny rule of the document root.",
        "Requests blocked by a rule in `.svcdeny`. A request that `PHP_DENY_PATHS` blocks too counts here only.",
        cell path_denied: Counter;
    BUILTIN_DENY: Counter "svc_builtin_deny_total" in Responses,
        "Number of requests blocked because their file is never meant to be public.",
        "Requests blocked because their file is [never meant to be public](clients.md#blocked-paths), and neither `.svcdeny` nor `PHP_DENY_PATHS` blocked it, or for dot-files. Either someone is probing for secrets, or the document root contains files that it should not.",
        cell builtin_denied: Counter;
    STATIC_CACHE_HITS: Counter "svc_static_cache_hits_total" in Responses,
        "Number of static file requests served from memory.",
        "Static file requests answered from memory, including 304 and `HEAD` responses.",
        cell static_hits: Counter;
    STATIC_CACHE_MISSES: Counter "svc_static_cache_misses_total" in Responses,
        "Number of static file requests that required a disk read.",
        "Static file requests that needed the disk: the first request for a file, the first one after it changed, and each request for a file too large for the memory cache.",
        cell static_misses: Counter;
    STATIC_CACHE_BYTES: Gauge "svc_static_cache_bytes" in Responses,
        "Memory that the cache of static files accounts for, in bytes.",
        "Bytes of the static files in memory, with what was compressed of them and what is known about them. Read once a second.",
        source |facts, _, series| series.one(facts.static_cache.bytes);
    STATIC_CACHE_LIMIT_BYTES: Gauge "svc_static_cache_limit_bytes" in Responses,
        "Maximum memory of the cache of static files, in bytes.",
        "`STATIC_CACHE_BYTES`; 0 if the cache is off.",
        source |facts, _, series| series.one(facts.static_cache.bytes_max);
    RESPONSE_CACHE_REQUESTS: Counter "svc_response_cache_requests_total" in Responses if ResponseCache,
        "Number of requests for scripts by what the response cache did.",
        "Requests for scripts by `result`: `hit` (a fresh response answered), `miss` (the script ran), `stale` (a stale response answered), `revalidated` (the script confirmed a stale response, which answered), `bypass` (the cache was [not asked](cache.md#what-is-never-cached)), `collapsed` (the response to another request that was under way answered).",
        cell cache_requests: CountersBy<CacheOutcome, { CacheOutcome::ALL.len() }>;
    RESPONSE_CACHE_ENTRIES: Gauge "svc_response_cache_entries" in Responses if ResponseCache,
        "Number of responses in the response cache.",
        "Stored responses, each variant counted. Read once a second.",
        source |facts, _, series| series.maybe(facts.response_cache.map(|cache| cache.entries));
    RESPONSE_CACHE_BYTES: Gauge "svc_response_cache_bytes" in Responses if ResponseCache,
        "Memory that the response cache accounts for, in bytes.",
        "Bytes of the stored responses, with room for their compressed copies, and of what is known about them. Read once a second.",
        source |facts, _, series| series.maybe(facts.response_cache.map(|cache| cache.bytes));
    RESPONSE_CACHE_LIMIT_BYTES: Gauge "svc_response_cache_limit_bytes" in Responses if ResponseCache,
        "Maximum memory of the response cache, in bytes.",
        "`RESPONSE_CACHE_BYTES`.",
        source |facts, _, series| series.maybe(facts.response_cache.map(|cache| cache.bytes_max));
    RESPONSE_CACHE_EVICTIONS: Counter "svc_response_cache_evictions_total" in Responses if ResponseCache,
        "Number of responses removed from the response cache by reason.",
        "Responses that were removed although no purge named them, by `reason`: `memory` (others needed their memory) or `variants` (more than 64 to one URL).",
        source |facts, _, series| {
            for reason in EvictionReason::ALL {
                let count = facts.response_cache.map_or(0, |cache| cache.evictions[reason as usize]);
                series.labelled(&[("reason", reason.as_str())], count);
            }
        };
    RESPONSE_CACHE_PURGED: Counter "svc_response_cache_purged_total" in Responses if ResponseCache,
        "Number of responses removed from the response cache by purges.",
        "Responses that were removed by the functions of `Svc\\Cache`, by requests with unsafe methods, by reloads, and because a newer response may not be stored.",
        source |facts, _, series| series.maybe(facts.response_cache.map(|cache| cache.purged));
    RESPONSE_CACHE_STALE: Counter "svc_response_cache_stale_total" in Responses if ResponseCache,
        "Number of requests answered with a stale response by reason.",
        "Requests answered with a stale response, by `reason`: `overload` (they would have been refused), `error` (the script failed), `revalidate` (`stale-while-revalidate`).",
        cell cache_stale: CountersBy<StaleReason, { StaleReason::ALL.len() }>;
    RESPONSE_CACHE_REFRESHES: Counter "svc_response_cache_refreshes_total" in Responses if ResponseCache,
        "Number of refreshes started by the response cache.",
        "Requests without a client that received a new response while the stale one was in use (`stale-while-revalidate`). They are not in `svc_requests_total`.",
        source |facts, _, series| series.maybe(facts.response_cache.map(|cache| cache.refreshes));
    COMPRESSED_RESPONSES: Counter "svc_compressed_responses_total" in Responses,
        "Number of responses that the server sent compressed.",
        "Responses that the server compressed with Brotli, zstd or gzip. Responses compressed by the application are not included, nor are responses to `HEAD`, which have no body.",
        cell responses_coded: Counter;
    COMPRESSION_BYTES_SAVED: Counter "svc_compression_bytes_saved_total" in Responses,
        "Number of bytes saved by compression: original size minus compressed size.",
        "Uncompressed size minus compressed size, summed over these responses. Streamed responses are counted when they end. A response that became larger (a stream flushed byte by byte, for example) counts as 0. `svc_response_bytes_total` contains the compressed sizes.",
        cell coding_saved_bytes: Counter;
    REPLY_MEMORY_BYTES: Gauge "svc_reply_memory_bytes" in Process,
        "Size of responses and requests buffered in memory for clients, in bytes.",
        "Bytes held in memory for clients: output of scripts, parts of files, and copies of both in HTTP/2 and TLS; also request headers, and bodies that were received over HTTP/2 but not consumed yet. Approximate: a few KiB of each are not counted.",
        source |facts, _, series| series.one(facts.reply_memory_bytes);
    REPLY_MEMORY_LIMIT_BYTES: Gauge "svc_reply_memory_limit_bytes" in Process,
        "Memory limit for buffered responses; beyond it, they are buffered in temporary files.",
        "128 MiB. When this limit is reached, further output of scripts is buffered in temporary files, files are read in parts of 4 KiB, and HTTP/2 streams with headers above 4 KiB are refused.",
        source |_, _, series| series.one(REPLIES_MEMORY_MAX);
    SPOOL_BYTES: Gauge "svc_spool_bytes" in Process,
        "Size of the bodies in temporary files, in bytes.",
        "Bytes of bodies in temporary files.",
        source |facts, _, series| series.one(facts.spool_bytes);
    SPOOL_LIMIT_BYTES: Gauge "svc_spool_limit_bytes" in Process,
        "Maximum size of the bodies in temporary files, in bytes.",
        "`SPOOL_MAX_BYTES`.",
        source |facts, _, series| series.one(facts.spool_bytes_max);
    LOG_RECORDS_DROPPED: Counter "svc_log_records_dropped_total" in Process,
        "Number of log records dropped because the log could not take them.",
        "Log records that did not fit into the queue or could not be written.",
        source |facts, _, series| series.one(facts.log_dropped);
    PROCESS_CPU: Counter "process_cpu_seconds_total" in Process,
        "Total user and system CPU time spent in seconds.",
        "CPU time of all threads, user and system.",
        source |facts, _, series| series.one(facts.process.cpu);
    PROCESS_RESIDENT_MEMORY: Gauge "process_resident_memory_bytes" in Process,
        "Resident memory size in bytes.",
        "Resident memory.",
        source |facts, _, series| series.maybe(facts.process.resident_bytes);
    PROCESS_OPEN_FDS: Gauge "process_open_fds" in Process,
        "Number of open file descriptors.",
        "Open file descriptors.",
        source |facts, _, series| series.maybe(facts.process.open_fds);
    PROCESS_MAX_FDS: Gauge "process_max_fds" in Process,
        "Maximum number of open file descriptors (soft limit).",
        "Soft limit of open file descriptors; absent if there is no limit.",
        source |facts, _, series| series.maybe(facts.process.max_fds);
    PROCESS_THREADS: Gauge "process_threads" in Process,
        "Number of threads in the process.",
        "Threads of the process.",
        source |facts, _, series| series.maybe(facts.process.threads);
    PROCESS_START_TIME: Gauge "process_start_time_seconds" in Process,
        "Start time of the process since the Unix epoch in seconds.",
        "Start time of the process as Unix time.",
        source |facts, _, series| series.one(unix_time(facts.started_at));
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

fn versions(series: &mut Series<'_>, facts: &ScrapeFacts<'_>) {
    let server = ("version", facts.version);
    match facts.php_version {
        Some(php) => series.labelled(&[server, ("php_version", php)], true),
        None => series.labelled(&[server], true),
    }
}

/// Includes slots that a worker has left: counters must not vanish.
fn by_slot<N: Into<Number>>(
    series: &mut Series<'_>,
    label: &str,
    slots: &[SlotReading],
    value: impl Fn(&SlotReading) -> N,
) {
    for slot in slots {
        series.labelled(&[(label, itoa::Buffer::new().format(slot.slot))], value(slot));
    }
}

/// Includes only slots that have a worker.
fn by_worker<N: Into<Number>>(
    series: &mut Series<'_>,
    slots: &[SlotReading],
    value: impl Fn(&SlotReading) -> N,
) {
    for slot in slots.iter().filter(|slot| slot.phase != SlotPhase::Vacant) {
        series.labelled(&[("worker", itoa::Buffer::new().format(slot.slot))], value(slot));
    }
}

fn stuck(series: &mut Series<'_>, slots: &[SlotReading]) {
    for slot in slots {
        let mut digits = itoa::Buffer::new();
        let number = digits.format(slot.slot);
        for kind in StuckKind::ALL {
            let labels = [("worker_id", number), ("kind", kind.as_str())];
            series.labelled(&labels, slot.stuck[kind as usize]);
        }
    }
}

fn opcache_memory(series: &mut Series<'_>, facts: &ScrapeFacts<'_>) {
    let Some(opcache) = facts.opcache else { return };
    let states =
        [("used", opcache.used_bytes), ("free", opcache.free_bytes), ("wasted", opcache.wasted_bytes)];
    for (state, bytes) in states {
        series.labelled(&[("state", state)], bytes);
    }
}

/// Writes the series of the plugins that have a value.
fn by_plugin(
    series: &mut Series<'_>,
    plugins: &[PluginReading],
    value: impl Fn(&PluginReading) -> Option<u64>,
) {
    for plugin in plugins {
        if let Some(value) = value(plugin) {
            series.labelled(&[("plugin", &plugin.name)], value);
        }
    }
}
/// Writes the items that were lost in a queue or after it.
fn dropped_items(series: &mut Series<'_>, facts: &ScrapeFacts<'_>, counted: &Counted) {
    let Some(tracing) = facts.tracing else { return };
    for signal in ExportSignal::ALL {
        let refused = match signal {
            ExportSignal::Traces => tracing.dropped,
            ExportSignal::Metrics => 0,
            ExportSignal::Logs => tracing.records_dropped,
        };
        series.labelled(&[("signal", signal.as_str())], refused + counted.otel_lost_items.of(signal));
    }
}

fn plugin_health(series: &mut Series<'_>, plugins: &[PluginReading]) {
    for plugin in plugins {
        let Some(health) = plugin.health else { continue };
        for status in PluginHealth::ALL {
            let labels = [("plugin", plugin.name.as_str()), ("status", status.as_str())];
            series.labelled(&labels, status == health);
        }
    }
}

/// Returns the time since the Unix epoch.
fn unix_time(at: SystemTime) -> Duration {
    at.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
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
            assert_eq!(
                family.name.ends_with("_total"),
                family.kind == MetricKind::Counter,
                "{}",
                family.name
            );
            assert_eq!(family.name.ends_with("_info"), family.kind == MetricKind::Info, "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains(['\n', '\\']), "{}", family.name);
            assert!(
                family.meaning.ends_with('.') && !family.meaning.contains(['\n', '|']),
                "{}",
                family.name
            );
        }
    }
}
