use std::time::Duration;

use super::*;
use crate::config::key::ValueKind;
use crate::config::{AccessLog, CertificateFiles, Executor, Level, TlsVersion};

const MACHINE: Machine = Machine { cpus: 4, descriptors_max: None };

fn resolve(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let defaults = [("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp")];
    Config::resolve_on(&RawConfig::new(defaults.iter().chain(variables).copied()), &MACHINE)
}

fn config(variables: &[(&str, &str)]) -> Config {
    resolve(variables).unwrap_or_else(|error| panic!("{error}"))
}

fn lines(variables: &[(&str, &str)]) -> Vec<String> {
    let error = resolve(variables).expect_err("these settings are wrong");
    error.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn defaults_are_those_of_the_table() {
    let config = config(&[]);
    assert_eq!(config.serving.listen_addr[0].to_string(), "127.0.0.1:8080");
    assert_eq!(config.php.workers, WorkerRange { min: 8, max: 8 });
    assert_eq!(config.serving.io_workers, 4);
    assert_eq!(config.admission.queue_capacity, 8 * 128);
    assert_eq!(
        (config.admission.queue_max_waiting, config.admission.queue_max_waiting_bytes),
        (8 * 128, 64 << 20)
    );
    assert_eq!(config.admission.queue_wait_timeout, Duration::from_secs(1));
    assert_eq!(config.admission.max_connections, 10_000);
    assert_eq!(config.bodies.max_body_bytes, 64 << 20);
    assert_eq!(config.bodies.max_query_body, 512 << 10);
    assert_eq!(config.bodies.spool_max_bytes, 1 << 30);
    assert_eq!(config.timeouts.header, Duration::from_secs(5));
    assert_eq!(config.timeouts.drain, Duration::from_secs(25));
    assert_eq!((config.files.max_age, config.files.cache_bytes), (Duration::ZERO, 64 << 20));
    assert_eq!((config.files.brotli_level, config.files.zstd_level, config.files.gzip_level), (5, 3, 6));
    assert_eq!((config.logs.access, config.logs.level), (AccessLog::Off, Level::Info));
    assert_eq!((config.operations.addr, config.operations.allow_ips), (None, None));
    assert!(config.php.superglobals_enabled && config.files.revalidate);
    assert_eq!((config.tls.certificates, config.serving.entry_files), (Vec::new(), Vec::new()));
}

#[test]
fn every_live_setting_takes_a_value() {
    let config = config(&[
        ("LISTEN_ADDR", ":0"),
        ("EXECUTOR", "stub"),
        ("PHP_WORKERS", "3:5"),
        ("PHP_WORKERS_IDLE_SECONDS", "24"),
        ("WORKER_MAX_MEMORY_MIB", "25"),
        ("IO_WORKERS", "7"),
        ("MAX_CONNECTIONS", "12"),
        ("QUEUE_CAPACITY", "13"),
        ("QUEUE_MAX_WAITING", "21"),
        ("QUEUE_MAX_WAITING_BYTES", "22K"),
        ("QUEUE_WAIT_TIMEOUT_MS", "23"),
        ("MAX_BODY_BYTES", "14"),
        ("MAX_QUERY_BODY", "15"),
        ("SPOOL_MAX_BYTES", "0"),
        ("HEADER_TIMEOUT_SECONDS", "16"),
        ("BODY_TIMEOUT_SECONDS", "17"),
        ("KEEPALIVE_TIMEOUT_SECONDS", "18"),
        ("WRITE_TIMEOUT_SECONDS", "19"),
        ("DRAIN_TIMEOUT_SECONDS", "0"),
        ("DRAIN_DELAY_SECONDS", "20"),
        ("STATIC_MAX_AGE", "26"),
        ("STATIC_REVALIDATE", "off"),
        ("STATIC_CACHE_BYTES", "25"),
        ("BROTLI_LEVEL", "11"),
        ("ZSTD_LEVEL", "19"),
        ("GZIP_LEVEL", "0"),
        ("RATE_LIMIT", "25"),
        ("RATE_WINDOW_SECONDS", "26"),
        ("TRUSTED_PROXIES", "10.0.0.1,private"),
        ("PHP_DENY_PATHS", "/uploads/**,*.{a,b}"),
        ("ERROR_PAGES_DIR", "/srv/pages"),
        ("TRACE_CONTEXT", "yes"),
        ("ACCESS_LOG", "error"),
        ("LOG_LEVEL", "WARN"),
        ("INTERNAL_ADDR", ":9090"),
        ("INTERNAL_ALLOW_IPS", "10.0.0.0/8,127.0.0.1"),
    ]);
    assert_eq!(config.serving.listen_addr[0].to_string(), "0.0.0.0:0");
    assert_eq!(config.serving.executor, Executor::Stub);
    assert_eq!(config.php.workers, WorkerRange { min: 3, max: 5 });
    assert_eq!((config.php.workers_idle, config.php.worker_max_memory_mib), (Duration::from_secs(24), 25));
    assert_eq!(
        (config.serving.io_workers, config.admission.max_connections, config.admission.queue_capacity),
        (7, 12, 13)
    );
    assert_eq!(
        (config.admission.queue_max_waiting, config.admission.queue_max_waiting_bytes),
        (21, 22 << 10)
    );
    assert_eq!(config.admission.queue_wait_timeout, Duration::from_millis(23));
    assert_eq!(
        (config.bodies.max_body_bytes, config.bodies.max_query_body, config.bodies.spool_max_bytes),
        (14, 15, 0)
    );
    assert_eq!(config.timeouts.header, Duration::from_secs(16));
    assert_eq!(config.timeouts.body, Duration::from_secs(17));
    assert_eq!(config.timeouts.keepalive, Duration::from_secs(18));
    assert_eq!(config.timeouts.write, Duration::from_secs(19));
    assert_eq!(
        (config.timeouts.drain, config.timeouts.drain_delay),
        (Duration::ZERO, Duration::from_secs(20))
    );
    assert_eq!(config.files.max_age, Duration::from_secs(26));
    assert_eq!((config.files.revalidate, config.files.cache_bytes), (false, 25));
    assert_eq!((config.files.brotli_level, config.files.zstd_level, config.files.gzip_level), (11, 19, 0));
    assert_eq!((config.clients.rate_limit, config.clients.rate_window), (25, Duration::from_secs(26)));
    assert_eq!((config.clients.trusted_proxies.len(), config.logs.trace_context), (9, true));
    assert_eq!(config.clients.php_deny_paths, ["/uploads/**", "*.{a,b}"]);
    assert_eq!(config.clients.error_pages_dir, Some("/srv/pages".into()));
    assert_eq!((config.logs.access, config.logs.level), (AccessLog::Error, Level::Warn));
    assert_eq!(config.operations.addr.unwrap().to_string(), "127.0.0.1:9090");
    assert_eq!(config.operations.allow_ips.unwrap().len(), 2);
}

#[test]
fn zero_is_not_taken_for_automatic() {
    let automatic: Vec<_> = KEYS
        .iter()
        .filter(|key| matches!(key.kind, ValueKind::IntegerOrAuto { .. } | ValueKind::Workers))
        .map(|key| key.variable)
        .collect();
    for name in
        ["IO_WORKERS", "PHP_WORKERS", "QUEUE_CAPACITY", "QUEUE_MAX_WAITING", "QUEUE_MAX_WAITING_BYTES"]
    {
        assert!(automatic.contains(&name), "{name}: {automatic:?}");
    }
    for name in automatic {
        for zero in ["0", "00", "-0"] {
            let found = lines(&[(name, zero)]);
            assert_eq!(found.len(), 1, "{name}={zero}");
            assert!(found[0].contains(" is too small; accepted: auto, "), "{found:?}");
        }
        for accepted in ["auto", "AUTO", "1"] {
            assert!(resolve(&[(name, accepted)]).is_ok(), "{name}={accepted}");
        }
    }
}

#[test]
fn all_problems_come_in_one_go_in_the_order_of_the_table() {
    let found = lines(&[("ACCESS_LOG", "loud"), ("PHP_WORKERS", "many"), ("HEADER_TIMEOUT_SECONDS", "0")]);
    assert_eq!(
        found,
        [
            r#"PHP_WORKERS: "many" is not an integer; accepted: auto, an integer from 1 to 1024, or a range such as 2:8"#,
            r#"HEADER_TIMEOUT_SECONDS: "0" is too small; accepted: a number of seconds from 1 to 86400"#,
            r#"ACCESS_LOG: "loud" is not a valid value; accepted: off, error, all"#,
        ]
    );
}

#[test]
fn names_of_plugins_are_words_or_absolute_paths() {
    config(&[("PLUGINS", ""), ("PLUGINS", "a,/b.so")]);
    assert_eq!(
        lines(&[("PLUGINS", "a,./b.so"), ("ASYNC_MAX_FIBERS", "x")]),
        [
            r#"ASYNC_MAX_FIBERS: "x" is not an integer; accepted: an integer from 1 to 65536"#,
            r#"PLUGINS: "a,./b.so" contains "./b.so", which is neither a name of lower-case letters, digits and underscores nor an absolute path; accepted: comma-separated names and absolute paths"#,
        ]
    );
}

#[test]
fn the_waiting_limit_follows_the_queue_and_the_connections() {
    let waiting = |capacity, connections| {
        config(&[
            ("QUEUE_CAPACITY", capacity),
            ("MAX_CONNECTIONS", connections),
            ("QUEUE_MAX_WAITING", "auto"),
        ])
        .admission
        .queue_max_waiting
    };
    assert_eq!(waiting("100", "1000"), 100);
    assert_eq!(waiting("100", "150"), 75);
    assert_eq!(waiting("100", "1"), 1);
    let explicit = config(&[("MAX_CONNECTIONS", "10"), ("QUEUE_MAX_WAITING", "9")]);
    assert_eq!(explicit.admission.queue_max_waiting, 9);
    assert_eq!(config(&[("QUEUE_MAX_WAITING_BYTES", "auto")]).admission.queue_max_waiting_bytes, 64 << 20);
}

#[test]
fn a_wait_of_zero_is_fail_fast_mode() {
    assert_eq!(config(&[("QUEUE_WAIT_TIMEOUT_MS", "0")]).admission.queue_wait_timeout, Duration::ZERO);
    assert_eq!(
        lines(&[("QUEUE_WAIT_TIMEOUT_MS", "600001")]),
        [
            r#"QUEUE_WAIT_TIMEOUT_MS: "600001" is too large; accepted: a number of milliseconds from 0 to 600000"#
        ]
    );
}

#[test]
fn a_pool_of_changing_size_has_a_queue_for_its_first_workers() {
    let config = config(&[("PHP_WORKERS", "2:8")]);
    assert_eq!((config.php.workers, config.admission.queue_capacity), (WorkerRange { min: 2, max: 8 }, 256));
    assert_eq!(
        lines(&[("PHP_WORKERS", "8:2")]),
        [
            r#"PHP_WORKERS: "8:2" has a minimum greater than its maximum; accepted: auto, an integer from 1 to 1024, or a range such as 2:8"#
        ]
    );
}

#[test]
fn worker_mode_needs_a_script_to_keep_loaded() {
    let root = tempfile::tempdir().unwrap();
    for name in ["index.php", "app.html"] {
        std::fs::write(root.path().join(name), "").unwrap();
    }
    let root = ("DOCUMENT_ROOT", root.path().to_str().unwrap());
    let mode = ("WORKER_MODE_ENABLED", "true");
    assert!(config(&[root, mode, ("ENTRY_FILE", "index.php")]).php.worker_mode_enabled);
    let refusal = r#"WORKER_MODE_ENABLED: "true" requires ENTRY_FILE to name one script, which handles all paths; accepted: true with one .php file in ENTRY_FILE, without a list of prefixes, or false"#;
    assert_eq!(lines(&[root, mode]), [refusal]);
    assert_eq!(lines(&[root, mode, ("ENTRY_FILE", "app.html")]), [refusal]);
}

#[test]
fn half_a_pair_names_the_missing_half() {
    assert_eq!(
        lines(&[("TLS_CERT", "/tmp/cert.pem")]),
        ["TLS_KEY: is not set, but TLS_CERT is; accepted: both or neither"]
    );
    assert_eq!(
        lines(&[("TLS_KEY", "/tmp/key.pem")]),
        ["TLS_CERT: is not set, but TLS_KEY is; accepted: both or neither"]
    );
}

#[test]
fn each_certificate_has_its_key_at_the_same_place() {
    let found =
        config(&[("TLS_CERT", "/a.pem, /b.pem"), ("TLS_KEY", "/a.key,/b.key"), ("TLS_MIN_VERSION", "1.3")]);
    let pair = |name: &str| CertificateFiles {
        cert: format!("/{name}.pem").into(),
        key: format!("/{name}.key").into(),
    };
    assert_eq!(
        (found.tls.certificates, found.tls.min_version),
        (vec![pair("a"), pair("b")], TlsVersion::Tls13)
    );
    assert_eq!(
        lines(&[("TLS_CERT", "/a.pem,/b.pem"), ("TLS_KEY", "/a.key")]),
        [
            r#"TLS_KEY: "/a.key" has 1 entry, but TLS_CERT has 2; accepted: a key for each certificate, in the same order"#
        ]
    );
    assert!(config(&[("TLS_CERT", "a.pem"), ("TLS_KEY", "a.key")]).tls.certificates[0].cert.is_absolute());
}

#[test]
fn directories_must_be_there() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    let found = lines(&[("DOCUMENT_ROOT", "/nowhere/at/all"), ("SPOOL_DIR", file)]);
    assert!(found[0].starts_with(r#"DOCUMENT_ROOT: "/nowhere/at/all" is not a usable directory (No such"#));
    assert!(found[1].starts_with("SPOOL_DIR: "), "{found:?}");
    assert!(found[1].ends_with("(not a directory); accepted: an existing directory"), "{found:?}");
}

#[test]
fn the_root_is_absolute_and_its_links_are_left() {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("release-1")).unwrap();
    let link = home.path().join("current");
    std::os::unix::fs::symlink("release-1", &link).unwrap();
    let raw = RawConfig::new([("SPOOL_DIR", "/tmp")]).with_document_root(link.join("").into());
    assert_eq!(Config::resolve(&raw).unwrap().serving.document_root, link);
}

#[test]
fn without_a_root_public_is_served_if_it_is_there() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(default_root(home.path()), home.path());
    std::fs::create_dir(home.path().join("public")).unwrap();
    assert_eq!(default_root(home.path()), home.path().join("public"));
}

#[test]
fn the_entry_file_is_a_file_below_the_root() {
    let root = tempfile::tempdir().unwrap();
    for name in ["index.php", ".svcdeny"] {
        std::fs::write(root.path().join(name), "").unwrap();
    }
    let with =
        |entry: &str| resolve(&[("DOCUMENT_ROOT", root.path().to_str().unwrap()), ("ENTRY_FILE", entry)]);
    let entry =
        |prefix: &str| EntryFile { prefix: prefix.into(), file: "index.php".into(), gets_rest: false };
    assert_eq!(with("/index.php").unwrap().serving.entry_files, [entry("")]);
    assert_eq!(with("/a/=index.php,/=/index.php").unwrap().serving.entry_files, [entry("/a"), entry("")]);
    for wrong in [
        "../index.php",
        "/",
        "a/../index.php",
        "missing.php",
        "./",
        ".svcdeny",
        "/a/=missing.php,/=index.php",
        "/a/=../index.php,/=index.php",
        "/a/=",
        "/a//b=index.php",
        "index.php,index.php",
        "/etc/passwd",
        ",",
    ] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
    for (wrong, part) in [
        ("./index.php", "such as index.php, without . and .. in it"),
        ("api=index.php", "the prefix \"api\", which is not a percent-encoded path that begins with a slash"),
        ("a/=index.php,/=index.php", "the prefix \"a/\", which is not a percent-encoded path that begins"),
        ("missing.php", "accepted: the path of an existing file in the document root"),
    ] {
        let Err(problems) = with(wrong) else { panic!("{wrong} is accepted") };
        let text = problems.to_string();
        assert!(text.contains(part), "{wrong}: {text}");
    }
    std::fs::write(root.path().join("a=b.php"), "").unwrap();
    assert_eq!(with("a=b.php").unwrap().serving.entry_files[0].file, "a=b.php");
    // By its path in the file system, also through links: links above the root are resolved, those below it keep their
    // names.
    std::fs::create_dir_all(root.path().join("releases/1")).unwrap();
    std::fs::write(root.path().join("releases/1/app.php"), "").unwrap();
    let links = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(root.path(), links.path().join("site")).unwrap();
    std::os::unix::fs::symlink("releases/1", root.path().join("app")).unwrap();
    let linked = links.path().join("site");
    for (document_root, above) in
        [(root.path(), root.path()), (root.path(), &linked), (&linked, root.path()), (&linked, &linked)]
    {
        let document_root = ("DOCUMENT_ROOT", document_root.to_str().unwrap());
        let with =
            |entry: &str| resolve(&[document_root, ("ENTRY_FILE", above.join(entry).to_str().unwrap())]);
        for name in ["index.php", "app/app.php", "releases/1/app.php"] {
            assert_eq!(with(name).unwrap().serving.entry_files[0].file, name);
        }
        for wrong in ["missing.php", ".svcdeny", "app/../index.php", "", "app"] {
            assert!(with(wrong).is_err(), "{above:?} {wrong}");
        }
    }
}

#[test]
fn two_listeners_need_two_addresses() {
    assert_eq!(
        lines(&[("LISTEN_ADDR", ":8080"), ("INTERNAL_ADDR", ":8080")]),
        [
            r#"INTERNAL_ADDR: "127.0.0.1:8080" conflicts with LISTEN_ADDR; accepted: an address that does not overlap with it"#
        ]
    );
    config(&[("LISTEN_ADDR", ":0"), ("INTERNAL_ADDR", ":0")]);
    config(&[("LISTEN_ADDR", "127.0.0.1:80"), ("INTERNAL_ADDR", "127.0.0.2:80")]);
}

#[test]
fn directives_are_pairs() {
    let raw = RawConfig::new([("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp")]);
    let good = raw.clone().with_directive("memory_limit=1G".into()).with_directive("display_errors".into());
    let pairs = Config::resolve(&good).unwrap().php.ini;
    assert_eq!(
        pairs,
        [("memory_limit", "1G"), ("display_errors", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    let wrong = raw.with_directive("=5".into()).with_directive("a=1\nextension=evil".into());
    let error = Config::resolve(&wrong).expect_err("neither is a directive").to_string();
    assert_eq!(
        error.lines().collect::<Vec<_>>(),
        [
            r#"-d: "=5" is not a valid directive; accepted: key=value"#,
            r#"-d: "a=1\nextension=evil" is not a valid directive; accepted: key=value"#,
        ]
    );
}

#[test]
fn sources_are_remembered() {
    let raw =
        RawConfig::new([("LOG_LEVEL", "debug"), ("SPOOL_DIR", "/tmp")]).with_document_root("/tmp".into());
    let config = Config::resolve(&raw).unwrap();
    let source = |name: &str| {
        config.settings().iter().find(|setting| setting.key.variable == name).unwrap().source.clone()
    };
    assert_eq!(source("LOG_LEVEL"), ValueSource::Environment { is_prefixed: false });
    assert_eq!(source("DOCUMENT_ROOT"), ValueSource::CommandLine(None));
    assert_eq!(source("ACCESS_LOG"), ValueSource::Default);
}

#[test]
fn tasks_are_off_by_default_and_their_queue_follows_their_threads() {
    let off = config(&[]).background;
    assert_eq!((off.async_workers, off.async_queue_capacity, off.async_in_flight_cap()), (0, 0, 0));
    assert_eq!((off.async_max_fibers, off.async_max_value_bytes), (256, 64 << 20));
    assert_eq!(off.async_entry_file, None);
    let on = config(&[("ASYNC_WORKERS", "3"), ("ASYNC_MAX_FIBERS", "10")]).background;
    assert_eq!((on.async_queue_capacity, on.async_in_flight_cap()), (3 * 64, 30));
    let own =
        config(&[("ASYNC_WORKERS", "3"), ("ASYNC_QUEUE_CAPACITY", "7"), ("ASYNC_MAX_VALUE_BYTES", "2M")]);
    assert_eq!((own.background.async_queue_capacity, own.background.async_max_value_bytes), (7, 2 << 20));
    let unused = config(&[("ASYNC_MAX_FIBERS", "9"), ("ASYNC_QUEUE_CAPACITY", "9")]).background;
    assert_eq!((unused.async_max_fibers, unused.async_queue_capacity), (9, 9), "they are not looked at");
}

#[test]
fn tasks_need_php() {
    config(&[("EXECUTOR", "stub"), ("ASYNC_WORKERS", "0"), ("ASYNC_MAX_FIBERS", "9")]);
    assert_eq!(
        lines(&[("EXECUTOR", "stub"), ("ASYNC_WORKERS", "2")]),
        [r#"ASYNC_WORKERS: "2" requires EXECUTOR=sapi; accepted: 0 with EXECUTOR=stub"#]
    );
}

#[test]
fn the_entry_file_of_tasks_is_a_readable_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tasks.php");
    std::fs::write(&file, "").unwrap();
    let found = config(&[("ASYNC_ENTRY_FILE", file.to_str().unwrap())]).background.async_entry_file;
    assert_eq!(found.as_deref(), Some(&*file));
    assert_eq!(
        lines(&[("ASYNC_ENTRY_FILE", "/tmp")]),
        [
            r#"ASYNC_ENTRY_FILE: "/tmp" is not a readable file (not a regular file); accepted: the path of a readable file"#
        ]
    );
    let missing = lines(&[("ASYNC_ENTRY_FILE", "/nowhere/tasks.php")]);
    assert!(
        missing[0]
            .starts_with("ASYNC_ENTRY_FILE: \"/nowhere/tasks.php\" is not a readable file (No such file")
    );
    let relative = config(&[("ASYNC_ENTRY_FILE", "Cargo.toml")]).background.async_entry_file;
    assert_eq!(relative, Some(std::env::current_dir().unwrap().join("Cargo.toml")));
}

#[test]
fn invalid_values_of_two_shared_variables_are_warnings_without_the_prefix() {
    let config = config(&[("LOG_LEVEL", "notice"), ("TRUSTED_PROXIES", "10.0.0.1,REMOTE_ADDR")]);
    assert_eq!((config.logs.level, config.clients.trusted_proxies.len()), (Level::Info, 0));
    let warnings: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "TRUSTED_PROXIES: \"10.0.0.1,REMOTE_ADDR\" contains \"REMOTE_ADDR\", which is not a network or an address; \
             accepted: comma-separated networks, addresses and the word private; the default is used",
            "LOG_LEVEL: \"notice\" is not a valid value; accepted: error, warn, info, debug; the default is used",
        ]
    );
    assert_eq!(
        lines(&[("SVC_LOG_LEVEL", "notice"), ("LOG_LEVEL", "warn")]),
        ["SVC_LOG_LEVEL: \"notice\" is not a valid value; accepted: error, warn, info, debug"]
    );
}

#[test]
fn variables_of_tracing_with_the_prefix_are_for_svc_alone() {
    let tracing = |name: &str, value: &str| resolve(&[("OTEL_ENABLED", "true"), (name, value)]);
    assert_eq!(tracing("OTEL_BSP_MAX_QUEUE_SIZE", "many").unwrap().tracing.unwrap().ignored.len(), 1);
    for (name, value) in [("SVC_OTEL_BSP_MAX_QUEUE_SIZE", "many"), ("SVC_OTEL_PROPAGATORS", "b3")] {
        let error = tracing(name, value).expect_err(name).to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
}

#[test]
fn misspelt_variables_are_warned_about() {
    let warnings = |variables: &[(&str, &str)]| -> Vec<String> {
        config(variables).warnings.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        warnings(&[("MAX_CONECTIONS", "5"), ("SVC_LOG_LEVLE", "warn"), ("SVC_POEM", "x")]),
        [
            "MAX_CONECTIONS: unknown setting; did you mean MAX_CONNECTIONS?",
            "SVC_LOG_LEVLE: unknown setting; did you mean SVC_LOG_LEVEL?",
            "SVC_POEM: unknown setting",
        ]
    );
    assert_eq!(warnings(&[("OTEL_PROPAGATOR", "b3")]), Vec::<String>::new(), "none is looked at");
    assert_eq!(warnings(&[("OTEL_PROPAGATOR", "b3"), ("OTEL_ENABLED", "true")]).len(), 1);
}

#[test]
fn the_default_number_of_connections_fits_the_limit_of_descriptors() {
    let limited = |variables: &[(&str, &str)], descriptors_max| {
        let defaults = [("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp")];
        let raw = RawConfig::new(defaults.iter().chain(variables).copied());
        Config::resolve_on(&raw, &Machine { descriptors_max: Some(descriptors_max), ..MACHINE })
    };
    let fixed = crate::limits::descriptors_needed(0);
    for descriptors in [fixed + 100, crate::limits::descriptors_needed(1000)] {
        let room = descriptors - fixed;
        let room = if room > 1000 { 1000 } else { room };
        let few = limited(&[], descriptors).unwrap();
        let waiting = usize::try_from(room / 2).unwrap();
        assert_eq!((few.admission.max_connections as u64, few.admission.queue_max_waiting), (room, waiting));
        let warning = few.warnings[0].to_string();
        assert!(
            warning.starts_with(&format!("MAX_CONNECTIONS: reduced from 10000 to {room}, because")),
            "{warning}"
        );
        let more = (room + 1).to_string();
        let error = limited(&[("SVC_MAX_CONNECTIONS", &more)], descriptors).unwrap_err().to_string();
        assert!(error.starts_with(&format!("SVC_MAX_CONNECTIONS: {more} requires ")), "{error}");
        assert!(error.contains(&format!("accepted: up to {room}, or a limit of at least ")), "{error}");
    }
    let enough = crate::limits::descriptors_needed(10_000);
    assert_eq!(limited(&[], enough).unwrap().warnings, []);
    assert!(limited(&[], fixed).is_err(), "nothing fits");
}

#[test]
fn a_higher_limit_of_descriptors_never_leaves_less_room() {
    use crate::limits::{connections_within, descriptors_needed};
    let mut before = 0;
    for descriptors in 0..5000 {
        let room = connections_within(descriptors);
        assert!(room >= before, "{descriptors}: {room}, after {before}");
        assert!(room == 0 || descriptors_needed(room) <= descriptors, "{descriptors}: {room}");
        assert!(descriptors_needed(room + 1) > descriptors, "{descriptors}: one more than {room} fits");
        before = room;
    }
}
