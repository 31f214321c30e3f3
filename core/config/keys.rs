//! The one table of settings.
//!
//! Promises: every setting the server knows is a row here, and nothing about a setting's form, default, place in the
//! report or documentation is said anywhere else. Refuses: rows hold no code.

use std::net::Ipv4Addr;

use super::id::Id;
use super::key::{Chapter, Exposure, Initial, Json, Key, Kind, Unit};
use crate::limits::{QUEUE_CAPACITY_MAX, RATE_LIMIT_MAX, THREADS_MAX};

/// Every setting, chapter by chapter.
pub static KEYS: [Key; Id::InternalAllowIps as usize + 1] = [
    Key::new(Id::ListenAddr, "LISTEN_ADDR", address(Ipv4Addr::UNSPECIFIED), Initial::Is("127.0.0.1:8080"))
        .about(Chapter::Serving, "The address of the main port; port 0 lets the system choose."),
    Key::new(Id::DocumentRoot, "DOCUMENT_ROOT", Kind::Path, Initial::Computed("`./public` if it is there, else `.`"))
        .about(Chapter::Serving, "The directory that is served; it must exist."),
    Key::new(Id::LinksOutsideRoot, "LINKS_OUTSIDE_ROOT", Kind::Boolean, Initial::Is("true")).about(
        Chapter::Serving,
        "Whether symbolic links in the document root may lead out of it; with `false` what they lead to gets 403. No link \
         leads to dot-files or past rules either way.",
    ),
    Key::new(Id::EntryFile, "ENTRY_FILE", Kind::Text, Initial::Unset).about(
        Chapter::Serving,
        "The file under the document root that answers every path no file answers: a `.php` file is a front controller, \
         another one the page of a single-page application. Unset: files and directory indexes only.",
    ),
    Key::new(Id::Executor, "EXECUTOR", Kind::Choice(&["sapi", "stub"]), Initial::Is("sapi"))
        .reported_as("executor_type")
        .about(Chapter::Serving, "What runs PHP requests: the interpreter, or a fixed page without PHP or queue."),
    Key::new(Id::IoWorkers, "IO_WORKERS", automatic(THREADS_MAX as u64), Initial::Computed("half the CPUs, at least 1"))
        .about(Chapter::Serving, "Threads that serve connections."),
    Key::new(Id::PhpWorkers, "PHP_WORKERS", Kind::Workers, Initial::Computed("2 for each CPU"))
        .about(
            Chapter::Php,
            "Threads that run PHP. `MIN:MAX`: as many as the work needs, at once when it waits and nobody is idle.",
        ),
    Key::new(Id::PhpWorkersIdleSeconds, "PHP_WORKERS_IDLE_SECONDS", seconds(1), Initial::Is("30"))
        .about(Chapter::Php, "How long a thread beyond the least number stays without work."),
    Key::new(Id::WorkerModeEnabled, "WORKER_MODE_ENABLED", Kind::Boolean, Initial::Is("false"))
        .about(
            Chapter::Php,
            "Whether the script that `ENTRY_FILE` names stays loaded and handles many requests. Files that are there are \
             sent, everything else is the script's; no other script runs.",
        ),
    Key::new(Id::WorkerMaxMemoryMib, "WORKER_MAX_MEMORY_MIB", integer(0, 1 << 20, Unit::Mebibytes), Initial::Is("0"))
        .about(
            Chapter::Php,
            "PHP heap above which a persistent worker starts anew, looked at after each request; 0 sets no bound.",
        ),
    Key::new(Id::SuperglobalsEnabled, "SUPERGLOBALS_ENABLED", Kind::Boolean, Initial::Is("true"))
        .about(
            Chapter::Php,
            "Whether scripts find the request in `$_GET`, `$_POST`, `$_COOKIE`, `$_FILES`, `$_REQUEST` and `$_SERVER`; \
             `Svc\\Request::current()` has it either way.",
        ),
    Key::new(Id::ServerVariables, "SERVER_VARIABLES", Kind::Variables, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Chapter::Php,
            "Variables that scripts find in `$_SERVER` with each request, in the place of the server's own of the same \
             name, as with nginx's `fastcgi_param`.",
        ),
    Key::new(Id::MaxConnections, "MAX_CONNECTIONS", integer(1, 1_000_000, Unit::Count), Initial::Is("10000"))
        .about(Chapter::Admission, "Connections open at once on the main port; further ones wait to be accepted."),
    Key::new(
        Id::QueueCapacity,
        "QUEUE_CAPACITY",
        automatic(QUEUE_CAPACITY_MAX as u64),
        Initial::Computed("128 for each PHP worker"),
    )
    .about(Chapter::Admission, "Places in the queue before the PHP workers; a request that finds none waits in front of it, or gets 529."),
    Key::new(
        Id::QueueMaxWaiting,
        "QUEUE_MAX_WAITING",
        automatic(QUEUE_CAPACITY_MAX as u64),
        Initial::Computed("as `QUEUE_CAPACITY`, at most half of `MAX_CONNECTIONS`"),
    )
    .about(Chapter::Admission, "Requests that may wait for a place in the queue; a further one gets 529."),
    Key::new(
        Id::QueueMaxWaitingBytes,
        "QUEUE_MAX_WAITING_BYTES",
        Kind::IntegerOrAuto { max: 1 << 40, unit: Unit::Bytes },
        Initial::Computed("64 MiB"),
    )
    .about(
        Chapter::Admission,
        "Bytes of request bodies, spooled ones included, that may wait for a place in the queue; a request whose body \
         would exceed them gets 529.",
    ),
    Key::new(
        Id::QueueWaitTimeoutMs,
        "QUEUE_WAIT_TIMEOUT_MS",
        integer(0, 600_000, Unit::Milliseconds),
        Initial::Is("1000"),
    )
    .about(
        Chapter::Admission,
        "How long a request may wait for a worker, in front of the queue and in it, before it gets 529; the server \
         shortens the wait while clients leave before they are served. 0 refuses at once when the queue is full, and \
         then a queued request waits as long as it takes.",
    ),
    Key::new(
        Id::AbandonedRequests,
        "ABANDONED_REQUESTS",
        Kind::Choice(&["run_unsafe", "run", "drop"]),
        Initial::Is("run_unsafe"),
    )
    .about(
        Chapter::Admission,
        "Whether requests that have come whole still run if their clients leave while they wait for a worker: those whose \
         method may change something (all but GET, HEAD, OPTIONS and QUERY), all, or none. They run within the same wait \
         as before, or not at all.",
    ),
    Key::new(Id::MaxBodyBytes, "MAX_BODY_BYTES", bytes(1), Initial::Is("64M"))
        .about(Chapter::Bodies, "The longest request body; a longer one gets 413."),
    Key::new(Id::MaxQueryBody, "MAX_QUERY_BODY", bytes(1), Initial::Is("512K"))
        .about(Chapter::Bodies, "The longest body of a request with the method QUERY; a longer one gets 413."),
    Key::new(Id::SpoolDir, "SPOOL_DIR", Kind::Path, Initial::Computed("`$TMPDIR`, else `/tmp`"))
        .about(Chapter::Bodies, "Where bodies too long for memory wait, in files without a name; it must exist."),
    Key::new(Id::SpoolMaxBytes, "SPOOL_MAX_BYTES", bytes(0), Initial::Is("1G"))
        .about(Chapter::Bodies, "What all spooled bodies together may take on the disk."),
    Key::new(Id::HeaderTimeoutSeconds, "HEADER_TIMEOUT_SECONDS", seconds(1), Initial::Is("5"))
        .about(Chapter::Timeouts, "How long the head of a request may take."),
    Key::new(Id::BodyTimeoutSeconds, "BODY_TIMEOUT_SECONDS", seconds(1), Initial::Is("30"))
        .about(Chapter::Timeouts, "How long the body of a request may pause."),
    Key::new(Id::KeepaliveTimeoutSeconds, "KEEPALIVE_TIMEOUT_SECONDS", seconds(1), Initial::Is("60"))
        .about(Chapter::Timeouts, "How long a connection may stay open between requests."),
    Key::new(Id::WriteTimeoutSeconds, "WRITE_TIMEOUT_SECONDS", seconds(1), Initial::Is("60"))
        .about(Chapter::Timeouts, "How long a client may read nothing of its reply."),
    Key::new(Id::DrainTimeoutSeconds, "DRAIN_TIMEOUT_SECONDS", seconds(0), Initial::Is("25"))
        .about(Chapter::Timeouts, "How long requests may go on after a signal to stop; then they are cut off."),
    Key::new(Id::DrainDelaySeconds, "DRAIN_DELAY_SECONDS", seconds(0), Initial::Is("0")).about(
        Chapter::Timeouts,
        "How long service goes on as usual after a signal to stop, while readiness already answers 503.",
    ),
    Key::new(Id::StaticMaxAge, "STATIC_MAX_AGE", integer(0, 365 * 86400, Unit::Seconds), Initial::Is("0"))
        .about(
            Chapter::Files,
            "The `max-age` in the `Cache-Control` of static files; with 0 they have no such field, and caches decide by \
             `Last-Modified`, as with other web servers.",
        ),
    Key::new(Id::StaticRevalidate, "STATIC_REVALIDATE", Kind::Boolean, Initial::Is("true")).about(
        Chapter::Files,
        "Whether the disk is looked at again for static files that are kept in memory, so that a change is seen within \
         two seconds; otherwise on SIGHUP.",
    ),
    Key::new(Id::StaticCacheBytes, "STATIC_CACHE_BYTES", bytes(0), Initial::Is("64M")).about(
        Chapter::Files,
        "The memory for static files and their coded copies; 0 keeps none, and makes no copies.",
    ),
    Key::new(Id::BrotliLevel, "BROTLI_LEVEL", integer(0, 11, Unit::Count), Initial::Is("5"))
        .about(Chapter::Files, "The level of the Brotli coding of replies; 0 withdraws it."),
    Key::new(Id::ZstdLevel, "ZSTD_LEVEL", integer(0, 19, Unit::Count), Initial::Is("3"))
        .about(Chapter::Files, "The level of the zstd coding of replies; 0 withdraws it."),
    Key::new(Id::GzipLevel, "GZIP_LEVEL", integer(0, 9, Unit::Count), Initial::Is("6"))
        .about(Chapter::Files, "The level of the gzip coding of replies; 0 withdraws it."),
    Key::new(Id::TlsCert, "TLS_CERT", Kind::Paths, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Chapter::Tls,
            "The files with the certificate chains of the main port, in PEM, each certificate before those that vouch \
             for it. A client is shown the certificate for the name it asks for; the first one is for everybody else. \
             Read again on SIGHUP. Unset: the port speaks plain HTTP.",
        ),
    Key::new(Id::TlsKey, "TLS_KEY", Kind::Paths, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Chapter::Tls,
            "The files with the private keys of the certificates, in the same order; unencrypted, in PEM.",
        ),
    Key::new(Id::TlsMinVersion, "TLS_MIN_VERSION", Kind::Choice(&["1.2", "1.3"]), Initial::Is("1.2"))
        .about(Chapter::Tls, "The lowest version of TLS that is spoken."),
    Key::new(Id::RateLimit, "RATE_LIMIT", integer(0, RATE_LIMIT_MAX, Unit::Count), Initial::Is("0")).about(
        Chapter::Policy,
        "Requests that one client may make at once, and again in each further window; more get 429. A client is an IPv4 \
         address or the /64 of an IPv6 address. 0 is off.",
    ),
    Key::new(Id::RateWindowSeconds, "RATE_WINDOW_SECONDS", seconds(1), Initial::Is("60"))
        .about(Chapter::Policy, "How long it takes until a client that has used all of `RATE_LIMIT` has it again."),
    Key::new(Id::TrustedProxies, "TRUSTED_PROXIES", Kind::Proxies, Initial::Unset).json(Json::Boolean).about(
        Chapter::Policy,
        "Proxies whose word on clients is believed, in `Forwarded` or `X-Forwarded-*`; `private` means loopback, private \
         and link-local addresses. The report says whether there are any.",
    ),
    Key::new(Id::PhpDenyPaths, "PHP_DENY_PATHS", Kind::Globs, Initial::Unset).about(
        Chapter::Policy,
        "Patterns of URL paths at which no PHP runs (404): `*` stays within a segment, `**` crosses them, letter case \
         does not matter. Other files there are served.",
    ),
    Key::new(Id::ErrorPagesDir, "ERROR_PAGES_DIR", Kind::Path, Initial::Unset).exposed(Exposure::Local).about(
        Chapter::Policy,
        "A directory with pages for errors of the server's own, such as `404.html`, `4xx.html` and `5xx.html`; they are \
         read when the server starts, and again on SIGHUP.",
    ),
    Key::new(Id::AccessLog, "ACCESS_LOG", Kind::Choice(&["off", "error", "all"]), Initial::Is("off"))
        .about(Chapter::Logs, "Which requests are logged: none, those with a status of 400 or more, or all."),
    Key::new(Id::LogLevel, "LOG_LEVEL", Kind::Choice(&["error", "warn", "info", "debug"]), Initial::Is("info"))
        .about(Chapter::Logs, "The least important level that is logged."),
    Key::new(Id::TraceContext, "TRACE_CONTEXT", Kind::Boolean, Initial::Is("false")).about(
        Chapter::Logs,
        "Whether requests join the trace that their `traceparent` names, or begin one, and pass it on.",
    ),
    Key::new(Id::OtelEnabled, "OTEL_ENABLED", Kind::Boolean, Initial::Is("false"))
        .reserved("false")
        .about(Chapter::Logs, "Whether spans are exported."),
    Key::new(Id::AsyncWorkers, "ASYNC_WORKERS", integer(0, THREADS_MAX as u64, Unit::Count), Initial::Is("0"))
        .reserved("0")
        .about(Chapter::Extras, "Threads for background tasks; 0 is off."),
    Key::new(Id::AsyncMaxFibers, "ASYNC_MAX_FIBERS", integer(1, 65_536, Unit::Count), Initial::Is("256"))
        .reserved("256")
        .about(Chapter::Extras, "Tasks that one such thread carries at once."),
    Key::new(Id::AsyncQueueCapacity, "ASYNC_QUEUE_CAPACITY", automatic(QUEUE_CAPACITY_MAX as u64), Initial::Is("0"))
        .reserved("0")
        .about(Chapter::Extras, "Tasks that wait for such a thread."),
    Key::new(Id::RuntimeHooks, "RUNTIME_HOOKS", Kind::List, Initial::Unset)
        .reserved("")
        .about(Chapter::Extras, "Blocking calls that give way to other requests."),
    Key::new(Id::Plugins, "PLUGINS", Kind::List, Initial::Unset)
        .reserved("")
        .json(Json::Object)
        .about(Chapter::Extras, "Plugins that are loaded."),
    Key::new(Id::InternalAddr, "INTERNAL_ADDR", address(Ipv4Addr::LOCALHOST), Initial::Unset)
        .exposed(Exposure::Local)
        .about(Chapter::Operations, "The address of the operations port. Unset: there is none."),
    Key::new(Id::InternalAllowIps, "INTERNAL_ALLOW_IPS", Kind::Networks, Initial::Unset).about(
        Chapter::Operations,
        "Who may read `/metrics` and `/config`; others get 403. Health is for everybody, and loopback is not implied. \
         Unset: everybody.",
    ),
];

const fn address(port_alone: Ipv4Addr) -> Kind {
    Kind::Address { port_alone }
}

const fn automatic(max: u64) -> Kind {
    Kind::IntegerOrAuto { max, unit: Unit::Count }
}

const fn bytes(min: u64) -> Kind {
    integer(min, 1 << 40, Unit::Bytes)
}

const fn integer(min: u64, max: u64, unit: Unit) -> Kind {
    Kind::Integer { min, max, unit }
}

const fn seconds(min: u64) -> Kind {
    integer(min, 86_400, Unit::Seconds)
}

const _: () = {
    let mut row = 0;
    while row < KEYS.len() {
        assert!(KEYS[row].id as usize == row, "the table's rows are in the order of their names");
        row += 1;
    }
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsStr;

    use super::*;
    use crate::config::key::Availability;

    #[test]
    fn every_written_default_is_accepted_by_its_own_kind() {
        for key in &KEYS {
            if let Initial::Is(text) = key.initial {
                assert!(key.kind.parse(OsStr::new(text)).is_ok(), "{}", key.variable);
            }
        }
    }

    #[test]
    fn what_is_reserved_starts_inactive() {
        for key in &KEYS {
            let Availability::Reserved(inactive) = key.availability else { continue };
            let initial = match key.initial {
                Initial::Is(text) => text,
                Initial::Unset => "",
                Initial::Computed(_) => panic!("{} is reserved and computed", key.variable),
            };
            assert_eq!(initial, inactive, "{}", key.variable);
        }
    }

    #[test]
    fn variables_and_report_fields_are_unique_and_documented() {
        let variables: BTreeSet<_> = KEYS.iter().map(|key| key.variable).collect();
        let fields: Vec<_> = KEYS.iter().filter_map(Key::report_field).collect();
        let names: BTreeSet<_> = fields.iter().map(|(name, _)| name).collect();
        assert_eq!(variables.len(), KEYS.len());
        assert_eq!(names.len(), fields.len());
        assert!(KEYS.iter().all(|key| key.summary.ends_with('.')));
    }

    #[test]
    fn chapters_stand_together_in_the_order_of_the_page() {
        let mut seen: Vec<Chapter> = KEYS.iter().map(|key| key.chapter).collect();
        seen.dedup();
        assert_eq!(seen, Chapter::ALL);
    }
}
