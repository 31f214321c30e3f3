//! The table of settings.
//!
//! Every setting of the server is a row here, except those of OpenTelemetry, whose rows are in `tracing/keys.rs` and
//! `tracing/telemetry_keys.rs`. The row alone defines its form, default, place in the report and documentation. Rows hold
//! no code.

use std::net::Ipv4Addr;

use super::id::Id;
use super::key::{Exposure, Initial, Json, Key, Section, ValueKind, ValueUnit};
use super::tracing::{LOG_KEYS, LOG_TRANSPORT_KEYS, METRIC_KEYS, METRIC_TRANSPORT_KEYS, TRACING_KEYS};
use crate::limits::{QUEUE_CAPACITY_MAX, RATE_LIMIT_MAX, THREADS_MAX};

/// Every setting, in the order of the sections.
pub static KEYS: [Key; SETTINGS] = {
    let mut keys = [SERVER_KEYS[0]; SETTINGS];
    let (mut row, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut index = 0;
        while index < TABLES[table].len() {
            keys[row] = TABLES[table][index];
            (row, index) = (row + 1, index + 1);
        }
        table += 1;
    }
    assert!(row == SETTINGS, "each setting has a row");
    keys
};

const SETTINGS: usize = Id::LogsInsecure as usize + 1;

const TABLES: [&[Key]; 6] =
    [&SERVER_KEYS, &TRACING_KEYS, &METRIC_KEYS, &METRIC_TRANSPORT_KEYS, &LOG_KEYS, &LOG_TRANSPORT_KEYS];

/// The settings of the server itself.
const SERVER_KEYS: [Key; Id::InternalAllowIps as usize + 1] = [
    Key::new(
        Id::ListenAddr,
        "LISTEN_ADDR",
        ValueKind::Listeners { port_alone: Ipv4Addr::UNSPECIFIED },
        Initial::Is("127.0.0.1:8080"),
    )
    .about(
        Section::Serving,
        "The addresses of the main port. With port 0, the system chooses a free port. `[::]:8080` accepts IPv4 as well, \
         unless the list names an IPv4 address with that port. `unix:PATH` is a Unix socket for proxies on the same \
         machine: it speaks plain HTTP even with `TLS_CERT`, and its peer has the address 127.0.0.1 and no rate limit.",
    ),
    Key::new(Id::ListenUnixMode, "LISTEN_UNIX_MODE", ValueKind::Mode, Initial::Is("0660")).about(
        Section::Serving,
        "The permissions of Unix sockets in `LISTEN_ADDR`. Whoever may write to the socket may connect.",
    ),
    Key::new(Id::RedirectAddr, "REDIRECT_ADDR", address(Ipv4Addr::UNSPECIFIED), Initial::Unset).about(
        Section::Serving,
        "The address of a second port, for plain HTTP: all requests are redirected to HTTPS (308). It requires \
         `TLS_CERT`.",
    ),
    Key::new(Id::DocumentRoot, "DOCUMENT_ROOT", ValueKind::Path, Initial::Computed("`./public` if it exists, else `.`"))
        .about(Section::Serving, "The directory to serve. It must exist."),
    Key::new(Id::LinksOutsideRoot, "LINKS_OUTSIDE_ROOT", ValueKind::Boolean, Initial::Is("true")).about(
        Section::Serving,
        "Whether symbolic links may point outside the document root. With `false`, their targets are answered with \
         403. In either case, links do not give access to dot-files or blocked paths.",
    ),
    Key::new(Id::EntryFile, "ENTRY_FILE", ValueKind::Text, Initial::Unset).about(
        Section::Serving,
        "The file under the document root that handles every path that matches no file: a `.php` file acts as the \
         front controller, any other file is sent as the page of a single-page application. A list \
         assigns entry files to parts of the site: `/api/=api/index.php,/=index.php` ([routing](http.md#routing)). A \
         file below the document root may also be given by its path from the working directory, or by its absolute \
         path. If unset, only files and directory indexes are served.",
    ),
    Key::new(Id::Executor, "EXECUTOR", ValueKind::Choice(&["sapi", "fastcgi", "stub"]), Initial::Is("sapi"))
        .reported_as("executor_type")
        .about(
            Section::Serving,
            "What handles PHP requests: the PHP interpreter in the process of svc (`sapi`), PHP in other processes \
             (`fastcgi`, [fastcgi.md](fastcgi.md)), or a fixed page without PHP and without a queue (`stub`).",
        ),
    Key::new(Id::IoWorkers, "IO_WORKERS", automatic(THREADS_MAX as u64), Initial::Computed("1 per CPU"))
        .about(
            Section::Serving,
            "The number of threads that serve connections. A number that is set is in use from the start; otherwise, one \
             thread is, and others when they are needed ([tuning.md](tuning.md#io-threads)).",
        ),
    Key::new(Id::RunAs, "RUN_AS", ValueKind::Text, Initial::Unset).exposed(Exposure::Local).about(
        Section::Serving,
        "The user that a server started by root becomes, as `user` or `user:group`, by name or number: after its ports are \
         bound and its certificates are read, and before plugins and PHP start. If unset, the user stays the same.",
    ),
    Key::new(Id::PidFile, "PID_FILE", ValueKind::Path, Initial::Unset).exposed(Exposure::Local).about(
        Section::Serving,
        "The file to write the process ID to while the server runs, for `svc reload` and `svc stop`. It is a \
         regular file, and locked, so that two servers cannot share one. The outcome of reloads is written to the same \
         path with `.reload` appended. If unset, neither file is written.",
    ),
    Key::new(Id::PhpWorkers, "PHP_WORKERS", ValueKind::Workers, Initial::Computed("2 per CPU"))
        .about(
            Section::Php,
            "The number of threads that run PHP. With `MIN:MAX`, the pool adapts to the load: it grows as soon as \
             requests wait and no worker is idle.",
        ),
    Key::new(Id::PhpWorkersIdleSeconds, "PHP_WORKERS_IDLE_SECONDS", seconds(1), Initial::Is("30"))
        .about(Section::Php, "How long a worker above the minimum may be idle before it is retired."),
    Key::new(Id::WorkerModeEnabled, "WORKER_MODE_ENABLED", ValueKind::Boolean, Initial::Is("false"))
        .about(
            Section::Php,
            "Enables worker mode: the script in `ENTRY_FILE` stays loaded and handles many requests. Existing files are \
             served as static files, all other requests go to the script, and no other script is executed.",
        ),
    Key::new(Id::WorkerMaxMemoryMib, "WORKER_MAX_MEMORY_MIB", integer(0, 1 << 20, ValueUnit::Mebibytes), Initial::Is("0"))
        .about(
            Section::Php,
            "The PHP heap size above which a persistent worker is restarted, and with `EXECUTOR=fastcgi` the resident memory \
             above which a process is replaced. It is checked after each request. 0 means no limit.",
        ),
    Key::new(Id::WorkerMaxRequests, "WORKER_MAX_REQUESTS", integer(0, 1 << 32, ValueUnit::Count), Initial::Is("0"))
        .about(
            Section::Php,
            "The number of requests after which a persistent worker is restarted or, with `EXECUTOR=fastcgi`, a process is \
             replaced. Each takes a number between 0.75 and 1.25 times this one, so that they do not end together. 0 means \
             no limit.",
        ),
    Key::new(Id::SuperglobalsEnabled, "SUPERGLOBALS_ENABLED", ValueKind::Boolean, Initial::Is("true"))
        .about(
            Section::Php,
            "Whether `$_GET`, `$_POST`, `$_COOKIE`, `$_FILES`, `$_REQUEST` and `$_SERVER` contain the request. \
             `Svc\\Request::current()` provides it in either case.",
        ),
    Key::new(Id::ServerVariables, "SERVER_VARIABLES", ValueKind::Variables, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Php,
            "Variables to set in `$_SERVER` for every request. They override the server's own variables of the same name, \
             like nginx's `fastcgi_param`.",
        ),
    Key::new(Id::FastcgiCommand, "FASTCGI_COMMAND", ValueKind::Text, Initial::Computed("`php-cgi` on `PATH`, else the newest `php-cgiX.Y`"))
        .about(
            Section::Php,
            "With `EXECUTOR=fastcgi`, the program that is started once for each worker, as a path or as a name on `PATH`.",
        ),
    Key::new(Id::FastcgiAddr, "FASTCGI_ADDR", ValueKind::Responders, Initial::Unset).about(
        Section::Php,
        "With `EXECUTOR=fastcgi`, where PHP already listens, for example php-fpm: `unix:/run/php/php8.2-fpm.sock` or \
         `php:9000`. Of several addresses, each request goes to the least busy one that can be reached. If unset, svc starts \
         `FASTCGI_COMMAND`.",
    ),
    Key::new(
        Id::FastcgiKeepConn,
        "FASTCGI_KEEP_CONN",
        ValueKind::Boolean,
        Initial::Computed("`false` with `FASTCGI_ADDR`, else `true`"),
    )
    .about(
        Section::Php,
        "With `EXECUTOR=fastcgi`, whether a connection to PHP carries more than one request. A kept connection occupies a \
         process of php-fpm.",
    ),
    Key::new(Id::FastcgiRoot, "FASTCGI_ROOT", ValueKind::Path, Initial::Unset).about(
        Section::Php,
        "With `EXECUTOR=fastcgi`, the path of `DOCUMENT_ROOT` where PHP runs, if that is another container. If unset, it is the \
         same path.",
    ),
    Key::new(Id::MaxConnections, "MAX_CONNECTIONS", integer(1, 1_000_000, ValueUnit::Count), Initial::Is("10000"))
        .about(
            Section::Admission,
            "The maximum number of open connections on the main port. Further connections wait until one is closed. The default \
             is less if the limit of file descriptors requires it, with a warning in the log; any other number that does not \
             fit stops the start.",
        ),
    Key::new(
        Id::QueueCapacity,
        "QUEUE_CAPACITY",
        automatic(QUEUE_CAPACITY_MAX as u64),
        Initial::Computed("128 per PHP worker; for a range, per `MIN`"),
    )
    .about(
        Section::Admission,
        "The number of requests that the queue for PHP workers holds. When it is full, further requests wait for a \
         slot or are answered with 529.",
    ),
    Key::new(
        Id::QueueMaxWaiting,
        "QUEUE_MAX_WAITING",
        automatic(QUEUE_CAPACITY_MAX as u64),
        Initial::Computed("same as `QUEUE_CAPACITY`, at most half of `MAX_CONNECTIONS`"),
    )
    .about(
        Section::Admission,
        "The maximum number of requests that wait for a queue slot. Further requests are answered with 529.",
    ),
    Key::new(
        Id::QueueMaxWaitingBytes,
        "QUEUE_MAX_WAITING_BYTES",
        ValueKind::IntegerOrAuto { max: 1 << 40, unit: ValueUnit::Bytes },
        Initial::Computed("64 MiB"),
    )
    .about(
        Section::Admission,
        "The maximum total size of the request bodies, spooled bodies included, of requests that wait for a queue \
         slot. A request whose body would exceed it is answered with 529.",
    ),
    Key::new(
        Id::QueueWaitTimeoutMs,
        "QUEUE_WAIT_TIMEOUT_MS",
        integer(0, 600_000, ValueUnit::Milliseconds),
        Initial::Is("1000"),
    )
    .about(
        Section::Admission,
        "The maximum time a request waits for a worker, both for a queue slot and in the queue, before it is answered \
         with 529. The server shortens the wait while clients disconnect before they are served. 0 disables waiting \
         for a queue slot: requests are refused immediately when the queue is full, and queued requests wait without \
         a time limit.",
    ),
    Key::new(
        Id::AbandonedRequests,
        "ABANDONED_REQUESTS",
        ValueKind::Choice(&["run_unsafe", "run", "drop"]),
        Initial::Is("run_unsafe"),
    )
    .about(
        Section::Admission,
        "Which completely received requests still run if the client disconnects while they wait for a worker: those \
         whose method may change something (`run_unsafe`: all methods except GET, HEAD, OPTIONS and QUERY), all of \
         them (`run`), or none (`drop`). The wait timeout applies to them unchanged; when it expires, they do not \
         run.",
    ),
    Key::new(Id::MaxBodyBytes, "MAX_BODY_BYTES", bytes(1), Initial::Is("64M"))
        .about(Section::Bodies, "The maximum size of a request body. Larger bodies are answered with 413."),
    Key::new(Id::MaxQueryBody, "MAX_QUERY_BODY", bytes(1), Initial::Is("512K"))
        .about(
            Section::Bodies,
            "The maximum size of the body of a QUERY request. Larger bodies are answered with 413.",
        ),
    Key::new(Id::SpoolDir, "SPOOL_DIR", ValueKind::Path, Initial::Computed("`$TMPDIR`, else `/tmp`"))
        .about(
            Section::Bodies,
            "The directory for temporary files that hold bodies too large for memory. The files have no name. The \
             directory must exist.",
        ),
    Key::new(Id::SpoolMaxBytes, "SPOOL_MAX_BYTES", bytes(0), Initial::Is("1G"))
        .about(Section::Bodies, "The maximum disk space used by all spooled bodies together."),
    Key::new(Id::HeaderTimeoutSeconds, "HEADER_TIMEOUT_SECONDS", seconds(1), Initial::Is("5"))
        .about(Section::Timeouts, "The timeout for receiving the request header."),
    Key::new(Id::BodyTimeoutSeconds, "BODY_TIMEOUT_SECONDS", seconds(1), Initial::Is("30"))
        .about(Section::Timeouts, "The timeout between two successive reads of the request body."),
    Key::new(Id::KeepaliveTimeoutSeconds, "KEEPALIVE_TIMEOUT_SECONDS", seconds(1), Initial::Is("75"))
        .about(
            Section::Timeouts,
            "How long an idle connection stays open between requests. It should be longer than proxies in front keep idle \
             connections ([tuning.md](tuning.md#connections)), which is often 60 seconds.",
        ),
    Key::new(Id::WriteTimeoutSeconds, "WRITE_TIMEOUT_SECONDS", seconds(1), Initial::Is("60"))
        .about(
            Section::Timeouts,
            "The timeout between two successive writes of the response: a client that receives nothing for this time is \
             disconnected.",
        ),
    Key::new(Id::DrainTimeoutSeconds, "DRAIN_TIMEOUT_SECONDS", seconds(0), Initial::Is("25"))
        .about(
            Section::Timeouts,
            "How long requests in progress may take after a stop signal. Requests that remain are aborted.",
        ),
    Key::new(Id::DrainDelaySeconds, "DRAIN_DELAY_SECONDS", seconds(0), Initial::Is("0")).about(
        Section::Timeouts,
        "How long the server keeps serving as usual after a stop signal, while the readiness probe already answers \
         503.",
    ),
    Key::new(Id::StaticMaxAge, "STATIC_MAX_AGE", integer(0, 365 * 86400, ValueUnit::Seconds), Initial::Is("0"))
        .about(
            Section::Files,
            "The `max-age` in the `Cache-Control` header field of static files. With 0, the field is not sent and caches \
             use heuristics based on `Last-Modified`, as with other web servers.",
        ),
    Key::new(Id::StaticRevalidate, "STATIC_REVALIDATE", ValueKind::Boolean, Initial::Is("true")).about(
        Section::Files,
        "Whether cached static files are checked for changes on disk, so that a change is visible within two seconds. \
         With `false`, they are checked on SIGHUP only.",
    ),
    Key::new(Id::StaticCacheBytes, "STATIC_CACHE_BYTES", bytes(0), Initial::Is("64M")).about(
        Section::Files,
        "The size of the memory cache for static files and their compressed copies. 0 disables the cache and \
         compressed copies.",
    ),
    Key::new(Id::BrotliLevel, "BROTLI_LEVEL", integer(0, 11, ValueUnit::Count), Initial::Is("5"))
        .about(Section::Files, "The Brotli compression level. 0 disables Brotli."),
    Key::new(Id::ZstdLevel, "ZSTD_LEVEL", integer(0, 19, ValueUnit::Count), Initial::Is("3"))
        .about(Section::Files, "The zstd compression level. 0 disables zstd."),
    Key::new(Id::GzipLevel, "GZIP_LEVEL", integer(0, 9, ValueUnit::Count), Initial::Is("6"))
        .about(Section::Files, "The gzip compression level. 0 disables gzip."),
    Key::new(Id::SendfileRoots, "SENDFILE_ROOTS", ValueKind::Paths, Initial::Unset).about(
        Section::Files,
        "The directories from which scripts may have files sent by `X-Accel-Redirect` or `X-Sendfile` \
         ([http.md](http.md#files-sent-by-scripts)). They must exist. If unset, these fields have no effect.",
    ),
    Key::new(Id::ResponseCacheBytes, "RESPONSE_CACHE_BYTES", bytes(0), Initial::Is("0")).about(
        Section::ResponseCache,
        "The memory of the [response cache](cache.md), which stores responses of scripts that permit it: bodies, their \
         compressed copies, fields, keys. 0 disables the cache.",
    ),
    Key::new(Id::ResponseCacheMaxObjectBytes, "RESPONSE_CACHE_MAX_OBJECT_BYTES", bytes(1), Initial::Is("1M")).about(
        Section::ResponseCache,
        "The length of the largest body that is stored. A response never takes more than a quarter of the cache, or of \
         one of its up to 16 parts.",
    ),
    Key::new(
        Id::ResponseCacheDefaultTtlMs,
        "RESPONSE_CACHE_DEFAULT_TTL_MS",
        integer(0, 24 * 3600 * 1000, ValueUnit::Milliseconds),
        Initial::Is("0"),
    )
    .about(
        Section::ResponseCache,
        "How long a response is fresh that may be stored and does not say how long. With 0, only responses that state \
         their freshness are stored.",
    ),
    Key::new(
        Id::ResponseCacheStaleSeconds,
        "RESPONSE_CACHE_STALE_SECONDS",
        integer(0, 365 * 86400, ValueUnit::Seconds),
        Initial::Is("0"),
    )
    .about(
        Section::ResponseCache,
        "How long beyond its freshness a response may answer a request that would be refused for overload, or whose \
         script fails (5xx). Responses with `must-revalidate`, `proxy-revalidate`, `s-maxage` or `no-cache` never do.",
    ),
    Key::new(
        Id::ResponseCacheBypassCookies,
        "RESPONSE_CACHE_BYPASS_COOKIES",
        ValueKind::NamePatterns,
        Initial::Is("*sess*,wordpress_logged_in_*,wp-postpass_*,comment_author_*,woocommerce_*"),
    )
    .about(
        Section::ResponseCache,
        "The cookies of clients that get responses of their own: requests with such a cookie are neither answered from \
         the cache nor stored. Case-insensitive.",
    ),
    Key::new(
        Id::ResponseCacheIgnoreQuery,
        "RESPONSE_CACHE_IGNORE_QUERY",
        ValueKind::NamePatterns,
        Initial::Is("utm_*,gclid,fbclid"),
    )
    .about(
        Section::ResponseCache,
        "The parameters of the query that make no difference: requests that differ in them only get the same response. \
         The script must not show their values ([cache.md](cache.md#poisoning-and-deception)).",
    ),
    Key::new(Id::TlsCert, "TLS_CERT", ValueKind::Paths, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Tls,
            "The PEM files with the certificate chains of the main port, the server certificate first. The certificate is \
             selected by the server name that the client requests; the first one is the default. Reloaded on SIGHUP. If \
             unset, the main port serves plain HTTP.",
        ),
    Key::new(Id::TlsKey, "TLS_KEY", ValueKind::Paths, Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Tls,
            "The PEM files with the unencrypted private keys of the certificates, in the same order.",
        ),
    Key::new(Id::TlsMinVersion, "TLS_MIN_VERSION", ValueKind::Choice(&["1.2", "1.3"]), Initial::Is("1.2"))
        .about(Section::Tls, "The minimum TLS version."),
    Key::new(Id::Hsts, "HSTS", ValueKind::Hsts, Initial::Unset).about(
        Section::Tls,
        "The `Strict-Transport-Security` header field of responses over TLS: a number of seconds, or a whole value such as \
         `max-age=31536000; includeSubDomains`. A script's own field is kept.",
    ),
    Key::new(Id::RateLimit, "RATE_LIMIT", integer(0, RATE_LIMIT_MAX, ValueUnit::Count), Initial::Is("0")).about(
        Section::Clients,
        "The number of requests that one client may make at once, and again in each further window. Requests over the \
         limit are answered with 429. A client is an IPv4 address or the /64 network of an IPv6 address. 0 disables \
         the limit.",
    ),
    Key::new(Id::RateWindowSeconds, "RATE_WINDOW_SECONDS", seconds(1), Initial::Is("60"))
        .about(
            Section::Clients,
            "The time after which a client that has used up `RATE_LIMIT` may make the full number of requests again.",
        ),
    Key::new(Id::TrustedProxies, "TRUSTED_PROXIES", ValueKind::Proxies, Initial::Unset).json(Json::Boolean).lenient().about(
        Section::Clients,
        "The proxies whose `Forwarded` or `X-Forwarded-*` header fields are trusted. `private` stands for loopback, \
         private and link-local addresses. The report shows only whether any are set. Because other \
         programs use this name too, a value that svc does not understand is ignored, with a warning in the log, and no peer is \
         trusted; as `SVC_TRUSTED_PROXIES`, it stops the start.",
    ),
    Key::new(Id::PhpDenyPaths, "PHP_DENY_PATHS", ValueKind::Globs, Initial::Unset).about(
        Section::Clients,
        "Patterns of URL paths at which PHP is not executed (404). `*` matches within a segment, `**` matches across \
         segments; matching is case-insensitive. Other files there are still served.",
    ),
    Key::new(Id::ErrorPagesDir, "ERROR_PAGES_DIR", ValueKind::Path, Initial::Unset).exposed(Exposure::Local).about(
        Section::Clients,
        "The directory with custom pages for errors generated by the server, such as `404.html`, `4xx.html` and \
         `5xx.html`. Read at startup and on SIGHUP.",
    ),
    Key::new(Id::AccessLog, "ACCESS_LOG", ValueKind::Choice(&["off", "error", "all"]), Initial::Is("off"))
        .about(
            Section::Logs,
            "Which requests are logged: none (`off`), those with status 400 or above (`error`), or all (`all`).",
        ),
    Key::new(Id::LogLevel, "LOG_LEVEL", ValueKind::Choice(&["error", "warn", "info", "debug"]), Initial::Is("info"))
        .lenient()
        .about(
            Section::Logs,
            "The minimum level of log records that are written. Because other programs use this name too, a value that svc \
             does not know is ignored, with a warning in the log; as `SVC_LOG_LEVEL`, it stops the start.",
        ),
    Key::new(Id::LogFormat, "LOG_FORMAT", ValueKind::Choice(&["json", "text", "auto"]), Initial::Is("json")).about(
        Section::Logs,
        "The form of log records: a JSON object per line, text for people, or `auto`: text if standard output is a terminal, \
         else JSON.",
    ),
    Key::new(Id::TraceContext, "TRACE_CONTEXT", ValueKind::Boolean, Initial::Is("false")).about(
        Section::Logs,
        "Enables W3C Trace Context: requests join the trace in their `traceparent` header field, or start a new one, \
         and pass it on.",
    ),
    Key::new(Id::AsyncWorkers, "ASYNC_WORKERS", integer(0, THREADS_MAX as u64, ValueUnit::Count), Initial::Is("0"))
        .about(
            Section::Background,
            "The number of threads that run background tasks (`Svc\\async()`). They are in addition to `PHP_WORKERS`. 0 \
             disables tasks, and is the only value accepted with `EXECUTOR=stub`.",
        ),
    Key::new(Id::AsyncMaxFibers, "ASYNC_MAX_FIBERS", integer(1, 65_536, ValueUnit::Count), Initial::Is("256"))
        .about(
            Section::Background,
            "The maximum number of tasks in flight for each thread: at most `ASYNC_MAX_FIBERS` x `ASYNC_WORKERS` tasks are \
             queued or running; further ones are rejected.",
        ),
    Key::new(
        Id::AsyncQueueCapacity,
        "ASYNC_QUEUE_CAPACITY",
        automatic(QUEUE_CAPACITY_MAX as u64),
        Initial::Computed("64 per thread"),
    )
    .about(Section::Background, "The number of tasks that can wait for a thread. When that many wait, further ones are rejected."),
    Key::new(Id::AsyncEntryFile, "ASYNC_ENTRY_FILE", ValueKind::Path, Initial::Unset).about(
        Section::Background,
        "A script that each thread for tasks runs once, for example to load an autoloader; its globals are the baseline \
         of each task. It should be outside of the document root: inside, requests for it are answered with 404.",
    ),
    Key::new(Id::AsyncMaxValueBytes, "ASYNC_MAX_VALUE_BYTES", bytes(1), Initial::Is("64M")).about(
        Section::Background,
        "The maximum size of what one task receives, and of what it returns. A larger transfer is a \
         `Svc\\Async\\TransferException`.",
    ),
    Key::new(Id::RuntimeHooks, "RUNTIME_HOOKS", ValueKind::Hooks, Initial::Is("none")).about(
        Section::Background,
        "The calls of PHP that let other requests of their thread run while they wait; [hooks.md](hooks.md) lists the \
         functions of each word. They have an effect in worker mode and in background tasks.",
    ),
    Key::new(Id::Plugins, "PLUGINS", ValueKind::Plugins, Initial::Unset).json(Json::Object).about(
        Section::Background,
        "The plugins to load, in this order ([plugins.md](plugins.md)). A name stands for `NAME.so` in `../lib/svc/plugins` \
         beside the binary. A plugin's own settings are `PLUGIN_<NAME>_<KEY>`.",
    ),
    Key::new(Id::InternalAddr, "INTERNAL_ADDR", address(Ipv4Addr::LOCALHOST), Initial::Unset)
        .exposed(Exposure::Local)
        .about(
            Section::Operations,
            "The address of the operations port. If unset, there is no operations port.",
        ),
    Key::new(Id::InternalAllowIps, "INTERNAL_ALLOW_IPS", ValueKind::Networks, Initial::Unset).about(
        Section::Operations,
        "The peers that may read `/metrics`, `/config`, `/status`, the page at `/` and those of plugins; all others receive 403. \
         Health probes are always allowed. Loopback is not included implicitly. If unset, all peers are allowed.",
    ),
];

const fn address(port_alone: Ipv4Addr) -> ValueKind {
    ValueKind::Address { port_alone }
}

const fn automatic(max: u64) -> ValueKind {
    ValueKind::IntegerOrAuto { max, unit: ValueUnit::Count }
}

const fn bytes(min: u64) -> ValueKind {
    integer(min, 1 << 40, ValueUnit::Bytes)
}

const fn integer(min: u64, max: u64, unit: ValueUnit) -> ValueKind {
    ValueKind::Integer { min, max, unit }
}

const fn seconds(min: u64) -> ValueKind {
    integer(min, 86_400, ValueUnit::Seconds)
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

    #[test]
    fn every_written_default_is_accepted_by_its_own_kind() {
        for key in &KEYS {
            if let Initial::Is(text) = key.initial {
                assert!(key.kind.parse(OsStr::new(text)).is_ok(), "{}", key.variable);
            }
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
    fn sections_stand_together_in_the_order_of_the_page() {
        let mut seen: Vec<Section> = KEYS.iter().map(|key| key.section).collect();
        seen.dedup();
        assert_eq!(seen, Section::ALL);
    }
}
