//! Each setting has an effect that a client or an operator can see: a value goes in, a behaviour comes out.
//!
//! The list below is compared with the table of settings, so a setting without an effect cannot be added. The details of
//! each feature are in its own tests.

use std::process::Stdio;

use rustix::process::Signal;
#[cfg(feature = "trace")]
use svc_core::config::keys::KEYS;

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};
use svc_testing::tls::Certificates;

mod observed;

use observed::{log_of_a_life, occupy, open_files, speaks_tls12, threads, withdraws};

/// Declares one test for each setting, and the list of the settings that have one. A test may have attributes.
macro_rules! effects {
    ($($(#[$attribute:meta])* $test:ident: $variable:literal $body:block)*) => {
        $($(#[$attribute])* #[test] fn $test() $body)*

        #[cfg(feature = "trace")]
        pub(super) const WITH_EFFECT: &[&str] = &[$($variable),*];
    };
}

mod telemetry;
#[cfg(feature = "trace")]
mod tracing;

/// Makes a test's folder readable for every user.
fn open_to_all(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

const HELLO: (&str, &str) = ("index.php", "<?php echo 'hello';");
const SLEEP: (&str, &str) = ("sleep.php", "<?php usleep((int) ($_GET['ms'] ?? 0) * 1000); echo 'slept';");
const SHOW: (&str, &str) = ("show.php", "<?php echo $_SERVER[$_GET['name']] ?? '-';");
/// Says something else each time.
const ONCE: (&str, &str) = (
    "once.php",
    "<?php
    if (isset($_GET['fresh'])) header('Cache-Control: max-age=600');
    if (isset($_GET['stale'])) header('Cache-Control: max-age=0, public');
    if (isset($_GET['stale'])) header('ETag: \"1\"');
    if (file_exists(__DIR__ . '/fail')) http_response_code(503);
    echo uniqid('', true), str_repeat('.', (int) ($_GET['bytes'] ?? 0));",
);
const LENGTH: (&str, &str) = ("length.php", "<?php echo strlen(file_get_contents('php://input'));");

/// Occupies the only async thread, and counts how many more tasks can wait for it.
#[cfg(feature = "async")]
const FILL: (&str, &str) = (
    "fill.php",
    "<?php
    $hold = static function (string $dir) {
        touch(\"$dir/began\");
        for (; !file_exists(\"$dir/go\"); clearstatcache()) usleep(1000);
    };
    Svc\\async($hold, __DIR__);
    for (; !file_exists(__DIR__ . '/began'); clearstatcache()) usleep(1000);
    $count = 0;
    try { for (; $count < 50; $count++) Svc\\async(static fn () => 1); }
    catch (Svc\\Async\\RejectedException) {}
    touch(__DIR__ . '/go');
    echo $count;",
);

/// Counts while it stays loaded, and keeps memory on demand.
#[cfg(feature = "worker")]
const COUNTER: (&str, &str) = (
    "app.php",
    "<?php
    $count = 0;
    $held = [];
    $serve = function () use (&$count, &$held) {
        if ($_GET['mib'] ?? 0) $held[] = str_repeat('x', (int) $_GET['mib'] << 20);
        echo ++$count;
    };
    try { Svc\\Worker::serve($serve); } catch (Error) { $serve(); }",
);

#[cfg(feature = "trace")]
#[test]
fn every_setting_has_an_effect() {
    let all = [WITH_EFFECT, tracing::WITH_EFFECT, telemetry::WITH_EFFECT];
    for key in &KEYS {
        let has_effect = all.iter().any(|list| list.contains(&key.variable));
        assert!(has_effect, "{}", key.variable);
    }
    assert_eq!(all.iter().map(|list| list.len()).sum::<usize>(), KEYS.len());
}

effects! {
    listen_addr: "LISTEN_ADDR" {
        let svc = Svc::start(&[], &[("LISTEN_ADDR", "127.0.0.9:0")]);
        assert_eq!(svc.main().ip().to_string(), "127.0.0.9");
        assert_eq!(svc.get("/").status, 404);
    }

    listen_unix_mode: "LISTEN_UNIX_MODE" {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.sock");
        let places = format!("127.0.0.1:0,unix:{}", path.display());
        let _svc = Svc::start(&[], &[("LISTEN_ADDR", &places), ("LISTEN_UNIX_MODE", "600")]);
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }

    redirect_addr: "REDIRECT_ADDR" {
        let certificates = Certificates::new(&[&["a.test"]]);
        let (cert, key) = (certificates.cert(0), certificates.key(0));
        let tls = [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", key.to_str().unwrap())];
        let svc = Svc::start(&[], &[tls[0], tls[1], ("REDIRECT_ADDR", "127.0.0.1:0")]);
        let addr = svc.log().expect("redirect port is listening")["fields"]["addr"].as_str().unwrap().parse().unwrap();
        assert_eq!(Client::connect(addr).get("/").status, 308);
    }

    document_root: "DOCUMENT_ROOT" {
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("here.txt"), "other").unwrap();
        let svc = Svc::start(&[("here.txt", "usual")], &[("DOCUMENT_ROOT", other.path().to_str().unwrap())]);
        assert_eq!(svc.get("/here.txt").text(), "other");
    }

    links_outside_root: "LINKS_OUTSIDE_ROOT" {
        let shared = tempfile::Builder::new().prefix("shared").tempdir().unwrap();
        std::fs::write(shared.path().join("a.txt"), "shared").unwrap();
        for (setting, status) in [("true", 200), ("false", 403)] {
            let svc = Svc::start(&[], &[("LINKS_OUTSIDE_ROOT", setting)]);
            std::os::unix::fs::symlink(shared.path(), svc.root().join("storage")).unwrap();
            assert_eq!(svc.get("/storage/a.txt").status, status, "{setting}");
        }
    }

    entry_file: "ENTRY_FILE" {
        let files = [("app.php", "<?php echo 'app';")];
        assert_eq!(Svc::start(&files, &[]).get("/any/path").status, 404);
        assert_eq!(Svc::start(&files, &[("ENTRY_FILE", "app.php")]).get("/any/path").text(), "app");
    }

    executor: "EXECUTOR" {
        let svc = Svc::start(&[HELLO], &[("EXECUTOR", "stub")]);
        assert!(svc.get("/index.php").text().contains("without PHP"));
    }

    run_as: "RUN_AS" {
        let root = svc_testing::written(&[("index.php", "<?php echo file_get_contents('/proc/thread-self/status');")]);
        open_to_all(root.path());
        if !rustix::process::geteuid().is_root() {
            return svc_testing::skip::skipped("only root can become another user");
        }
        let svc = Svc::start_in(root, &[("RUN_AS", "4123456:4123457")]);
        let status = svc.get("/").text();
        for line in ["Uid:\t4123456\t4123456\t4123456\t4123456", "Gid:\t4123457\t4123457\t4123457\t4123457"] {
            assert!(status.contains(line), "{status}");
        }
    }

    io_workers: "IO_WORKERS" {
        let svc = Svc::start(&[], &[("IO_WORKERS", "3")]);
        eventually("they have their names", || threads(&svc, "svc-io-") == 3);
    }

    php_workers: "PHP_WORKERS" {
        let svc = Svc::start(&[], &[("PHP_WORKERS", "3")]);
        eventually("they have their names", || threads(&svc, "svc-php-") == 3);
        svc.assert_metric("svc_workers_current", 3.0);
    }

    php_workers_idle_seconds: "PHP_WORKERS_IDLE_SECONDS" {
        let svc = Svc::start(&[SLEEP], &[("PHP_WORKERS", "1:3"), ("PHP_WORKERS_IDLE_SECONDS", "1")]);
        let mut clients: Vec<Client> = (0..3).map(|_| svc.client()).collect();
        for client in &mut clients {
            client.send("GET /sleep.php?ms=500 HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        eventually("the pool grows", || svc.metric("svc_workers_spawned_total") > 1.0);
        eventually("idle workers go", || svc.metric("svc_workers_current") == 1.0);
        assert!(svc.metric("svc_workers_retired_total") >= 1.0);
        assert!(clients.iter_mut().all(|client| client.response().status == 200));
    }

    #[cfg(feature = "worker")]
    worker_mode_enabled: "WORKER_MODE_ENABLED" {
        for (value, count) in [("false", "1"), ("true", "3")] {
            let settings = [("WORKER_MODE_ENABLED", value), ("ENTRY_FILE", "app.php"), ("PHP_WORKERS", "1")];
            let svc = Svc::start(&[COUNTER], &settings);
            let counts: Vec<String> = (0..3).map(|_| svc.get("/").text()).collect();
            assert_eq!(counts[2], count, "{value}");
        }
    }

    #[cfg(feature = "worker")]
    worker_max_memory_mib: "WORKER_MAX_MEMORY_MIB" {
        let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php"), ("PHP_WORKERS", "1")];
        let svc = Svc::start(&[COUNTER], &[&settings[..], &[("WORKER_MAX_MEMORY_MIB", "16")]].concat());
        assert_eq!((svc.get("/?mib=0").text().as_str(), svc.get("/?mib=0").text().as_str()), ("1", "2"));
        assert_eq!(svc.get("/?mib=32").text(), "3");
        let recycled = r#"svc_worker_recycles_by_reason_total{reason="max_memory"}"#;
        eventually("the worker starts anew", || svc.metric(recycled) == 1.0);
        eventually("it counts anew", || svc.get("/?mib=0").text() == "1");
    }

    #[cfg(feature = "worker")]
    worker_max_requests: "WORKER_MAX_REQUESTS" {
        let pid = ("pid.php", "<?php echo getmypid();");
        let settings = [("EXECUTOR", "fastcgi"), ("PHP_WORKERS", "1"), ("WORKER_MAX_REQUESTS", "1")];
        let svc = Svc::start(&[pid], &settings);
        assert_ne!(svc.get("/pid.php").text(), svc.get("/pid.php").text());
        let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php"), ("PHP_WORKERS", "1")];
        let svc = Svc::start(&[COUNTER], &[&settings[..], &[("WORKER_MAX_REQUESTS", "3")]].concat());
        let counts: Vec<String> = (0..9).map(|_| svc.get("/").text()).collect();
        assert_eq!(counts.concat(), "123123123");
        let recycled = r#"svc_worker_recycles_by_reason_total{reason="scheduled"}"#;
        eventually("three workers have ended", || svc.metric(recycled) == 3.0);
    }

    superglobals_enabled: "SUPERGLOBALS_ENABLED" {
        let files = [("get.php", "<?php echo count($_GET), Svc\\Request::current()->query['a'] ?? '-';")];
        for (value, expected) in [("true", "1b"), ("false", "0b")] {
            let svc = Svc::start(&files, &[("SUPERGLOBALS_ENABLED", value)]);
            assert_eq!(svc.get("/get.php?a=b").text(), expected);
        }
    }

    server_variables: "SERVER_VARIABLES" {
        let svc = Svc::start(&[SHOW], &[("SERVER_VARIABLES", "SERVER_SOFTWARE=nginx, APP_ENV=a=b")]);
        for (name, value) in [("SERVER_SOFTWARE", "nginx"), ("APP_ENV", "a=b"), ("HTTP_HOST", "x")] {
            let response = svc.client().request(&format!("GET /show.php?name={name} HTTP/1.1\r\nHost: x"));
            assert_eq!(response.text(), value);
        }
    }

    fastcgi_command: "FASTCGI_COMMAND" {
        let output = svc_testing::command(std::path::Path::new("/"), &[("EXECUTOR", "fastcgi"), ("FASTCGI_COMMAND", "/none/php-cgi")]).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stderr).contains("FASTCGI_COMMAND"));
    }

    fastcgi_addr: "FASTCGI_ADDR" {
        let svc = Svc::start(&[], &[("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", "unix:/none.sock")]);
        assert_eq!(svc.log().expect("FastCGI address cannot be reached")["fields"]["addr"], "unix:/none.sock");
    }

    fastcgi_keep_conn: "FASTCGI_KEEP_CONN" {
        let settings = [("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", "unix:/none.sock"), ("FASTCGI_KEEP_CONN", "true")];
        let report = Svc::start(&[], &settings).ask("/config").text();
        assert!(report.contains("\"fastcgi_keep_conn\":true"), "{report}");
    }

    fastcgi_root: "FASTCGI_ROOT" {
        let settings = [("EXECUTOR", "fastcgi"), ("FASTCGI_ROOT", "/none")];
        assert_eq!(Svc::start(&[("index.php", "")], &settings).get("/").status, 404, "PHP finds no script there");
    }

    max_connections: "MAX_CONNECTIONS" {
        let svc = Svc::start(&[HELLO], &[("MAX_CONNECTIONS", "1")]);
        let mut first = svc.client();
        assert_eq!(first.get("/").status, 200);
        let mut second = svc.client();
        second.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        eventually("the second waits for a permit", || svc.metric("svc_accept_stalled") == 1.0);
        drop(first);
        assert_eq!(second.response().status, 200);
    }

    queue_capacity: "QUEUE_CAPACITY" {
        let settings = [("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
        for (capacity, fits) in [("1", 1), ("3", 3)] {
            let svc = Svc::start(&[SLEEP], &[&settings[..], &[("QUEUE_CAPACITY", capacity)]].concat());
            let _held = occupy(&svc, fits);
            assert_eq!(svc.get("/sleep.php").status, 529);
            svc.assert_metric(r#"svc_admission_refused_total{reason="queue_full"}"#, 1.0);
        }
    }

    queue_max_waiting: "QUEUE_MAX_WAITING" {
        let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_MAX_WAITING", "1")];
        let svc = Svc::start(&[SLEEP], &settings);
        let _held = occupy(&svc, 2);
        assert_eq!(svc.get("/sleep.php").status, 529);
        svc.assert_metric(r#"svc_admission_refused_total{reason="waiting_full"}"#, 1.0);
    }

    queue_max_waiting_bytes: "QUEUE_MAX_WAITING_BYTES" {
        let settings = [("PHP_WORKERS", "1"), ("QUEUE_CAPACITY", "1"), ("QUEUE_MAX_WAITING_BYTES", "10")];
        let svc = Svc::start(&[SLEEP], &settings);
        let _held = occupy(&svc, 1);
        assert_eq!(svc.client().post("/sleep.php", &[b'x'; 11]).status, 529);
        svc.assert_metric(r#"svc_admission_refused_total{reason="waiting_bytes"}"#, 1.0);
    }

    queue_wait_timeout_ms: "QUEUE_WAIT_TIMEOUT_MS" {
        let svc = Svc::start(&[SLEEP], &[("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "2000")]);
        let _held = occupy(&svc, 0);
        assert_eq!(svc.get("/sleep.php").status, 529);
        svc.assert_metric(r#"svc_admission_refused_total{reason="wait_timeout"}"#, 1.0);
    }

    abandoned_requests: "ABANDONED_REQUESTS" {
        const NOTE: (&str, &str) = ("note.php", "<?php touch(__DIR__ . '/ran');");
        const HOLD: (&str, &str) = ("hold.php", "<?php while (!file_exists(__DIR__ . '/go')) { usleep(1000); clearstatcache(); }");
        for (policy, method, runs) in [("run_unsafe", "POST", true), ("run", "GET", true), ("drop", "POST", false)] {
            let settings = [("ABANDONED_REQUESTS", policy), ("PHP_WORKERS", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "60000")];
            let svc = Svc::start(&[NOTE, HOLD, HELLO], &settings);
            let mut holder = svc.client();
            holder.send("GET /hold.php HTTP/1.1\r\nHost: x\r\n\r\n");
            eventually("the worker is held", || svc.metric("svc_busy_workers") == 1.0);
            svc.client().send(format!("{method} /note.php HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
            let aborted = "svc_request_cancelled_total{reason=\"client_abort\"}";
            eventually("the client has left", || svc.metric(aborted) == 1.0);
            std::fs::write(svc.root().join("go"), "").unwrap();
            assert_eq!(holder.response().status, 200);
            // The only worker has taken all earlier requests.
            assert_eq!(svc.get("/index.php").text(), "hello");
            assert_eq!(svc.root().join("ran").exists(), runs, "{policy} {method}");
        }
    }

    max_body_bytes: "MAX_BODY_BYTES" {
        let svc = Svc::start(&[LENGTH], &[("MAX_BODY_BYTES", "10")]);
        assert_eq!(svc.client().post("/length.php", &[b'x'; 10]).text(), "10");
        assert_eq!(svc.client().post("/length.php", &[b'x'; 11]).status, 413);
    }

    max_query_body: "MAX_QUERY_BODY" {
        let svc = Svc::start(&[LENGTH], &[("MAX_QUERY_BODY", "10")]);
        let ask = |method: &str| {
            let mut client = svc.client();
            client.send(format!("{method} /length.php HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890"));
            client.response().status
        };
        assert_eq!((ask("QUERY"), ask("POST")), (413, 200));
    }

    spool_dir: "SPOOL_DIR" {
        let dir = tempfile::tempdir().unwrap();
        let svc = Svc::start(&[LENGTH], &[("SPOOL_DIR", dir.path().to_str().unwrap())]);
        let mut client = svc.client();
        client.send("POST /length.php HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n");
        client.send([b'x'; 1_000_000]);
        eventually("the body is in the folder", || open_files(&svc, dir.path().to_str().unwrap()) > 0);
        client.send("x");
        assert_eq!(client.response().text(), "1000001");
    }

    spool_max_bytes: "SPOOL_MAX_BYTES" {
        let svc = Svc::start(&[LENGTH], &[("SPOOL_MAX_BYTES", "64K"), ("BODY_TIMEOUT_SECONDS", "1")]);
        let mut client = svc.client();
        client.send("POST /length.php HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        client.try_send([b'x'; 1_000_000]);
        assert_eq!(client.response().status, 503);
    }

    header_timeout_seconds: "HEADER_TIMEOUT_SECONDS" {
        let svc = Svc::start(&[], &[("HEADER_TIMEOUT_SECONDS", "1")]);
        let mut client = svc.client();
        client.send("GET / HTTP/1.1\r\n");
        assert_eq!(client.response().status, 408);
    }

    body_timeout_seconds: "BODY_TIMEOUT_SECONDS" {
        let svc = Svc::start(&[LENGTH], &[("BODY_TIMEOUT_SECONDS", "1")]);
        let mut client = svc.client();
        client.send("POST /length.php HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nx");
        assert_eq!(client.response().status, 408);
    }

    keepalive_timeout_seconds: "KEEPALIVE_TIMEOUT_SECONDS" {
        let svc = Svc::start(&[HELLO], &[("KEEPALIVE_TIMEOUT_SECONDS", "1"), ("HEADER_TIMEOUT_SECONDS", "600")]);
        let mut client = svc.client();
        assert_eq!(client.get("/").status, 200);
        client.expect_end();
    }

    write_timeout_seconds: "WRITE_TIMEOUT_SECONDS" {
        let files = [("flood.php", "<?php for ($i = 0; $i < 64; $i++) echo str_repeat('x', 1 << 20);")];
        let svc = Svc::start(&files, &[("WRITE_TIMEOUT_SECONDS", "1")]);
        let mut client = svc.client();
        client.send("GET /flood.php HTTP/1.1\r\nHost: x\r\n\r\n");
        eventually("it has arrived", || svc.metric("svc_requests_total") == 1.0);
        eventually("who does not read is closed", || svc.metric("svc_active_connections") == 0.0);
    }

    drain_timeout_seconds: "DRAIN_TIMEOUT_SECONDS" {
        let mut svc = Svc::start(&[SLEEP], &[("DRAIN_TIMEOUT_SECONDS", "1")]);
        let mut client = svc.client();
        client.send("GET /sleep.php?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n");
        eventually("it runs", || svc.metric("svc_busy_workers") == 1.0);
        svc.stop();
        assert_eq!(client.response().status, 503);
    }

    drain_delay_seconds: "DRAIN_DELAY_SECONDS" {
        let svc = Svc::start(&[HELLO], &[("DRAIN_DELAY_SECONDS", "600")]);
        svc.signal(Signal::TERM);
        eventually("readiness says no", || svc.ask("/readyz").status == 503);
        assert_eq!(svc.get("/").text(), "hello");
        // A second signal ends the delay and the process.
        svc.signal(Signal::TERM);
    }

    static_max_age: "STATIC_MAX_AGE" {
        let svc = Svc::start(&[("a.txt", "a")], &[("STATIC_MAX_AGE", "7")]);
        assert_eq!(svc.get("/a.txt").field("cache-control"), Some("max-age=7"));
    }

    static_revalidate: "STATIC_REVALIDATE" {
        for (value, sees) in [("true", true), ("false", false)] {
            let svc = Svc::start(&[("a.txt", "old"), ("b.txt", "old")], &[("STATIC_REVALIDATE", value)]);
            let hits = |svc: &Svc| svc.metric("svc_static_cache_hits_total");
            eventually("the file is in memory", || svc.get("/a.txt").text() == "old" && hits(&svc) > 0.0);
            std::fs::write(svc.root().join("a.txt"), "new!").unwrap();
            if sees {
                eventually("the change is seen", || svc.get("/a.txt").text() == "new!");
            } else {
                // With the setting, the server would check a file of this age again.
                let asked = std::time::Instant::now();
                eventually("some time has passed", || asked.elapsed().as_secs() >= 3);
                assert_eq!(svc.get("/a.txt").text(), "old");
                svc.signal(Signal::HUP);
                eventually("a hang-up makes the server look", || svc.get("/a.txt").text() == "new!");
            }
        }
    }

    static_cache_bytes: "STATIC_CACHE_BYTES" {
        for (bytes, keeps) in [("1M", true), ("0", false)] {
            let svc = Svc::start(&[("a.txt", "a")], &[("STATIC_CACHE_BYTES", bytes)]);
            for _ in 0..3 {
                assert_eq!(svc.get("/a.txt").text(), "a");
            }
            assert_eq!(svc.metric("svc_static_cache_hits_total") > 0.0, keeps, "{bytes}");
        }
    }

    brotli_level: "BROTLI_LEVEL" {
        withdraws("BROTLI_LEVEL", "br");
    }

    zstd_level: "ZSTD_LEVEL" {
        withdraws("ZSTD_LEVEL", "zstd");
    }

    gzip_level: "GZIP_LEVEL" {
        withdraws("GZIP_LEVEL", "gzip");
    }

    sendfile_roots: "SENDFILE_ROOTS" {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "the file").unwrap();
        let files = [("send.php", "<?php header('X-Accel-Redirect: /a.txt'); echo 'own';")];
        assert_eq!(Svc::start(&files, &[]).get("/send.php").text(), "own");
        let svc = Svc::start(&files, &[("SENDFILE_ROOTS", folder.path().to_str().unwrap())]);
        assert_eq!(svc.get("/send.php").text(), "the file");
    }

    response_cache_bytes: "RESPONSE_CACHE_BYTES" {
        for (bytes, is_stored) in [("0", false), ("1M", true)] {
            let svc = Svc::start(&[ONCE], &[("RESPONSE_CACHE_BYTES", bytes)]);
            assert_eq!(svc.get("/once.php?fresh").text() == svc.get("/once.php?fresh").text(), is_stored, "{bytes}");
        }
    }

    response_cache_max_object_bytes: "RESPONSE_CACHE_MAX_OBJECT_BYTES" {
        let svc = Svc::start(&[ONCE], &[("RESPONSE_CACHE_BYTES", "16M"), ("RESPONSE_CACHE_MAX_OBJECT_BYTES", "1000")]);
        for (page, is_stored) in [("/once.php?fresh", true), ("/once.php?fresh&bytes=2000", false)] {
            assert_eq!(svc.get(page).text() == svc.get(page).text(), is_stored, "{page}");
        }
    }

    response_cache_default_ttl_ms: "RESPONSE_CACHE_DEFAULT_TTL_MS" {
        for (ttl, is_stored) in [("0", false), ("600000", true)] {
            let settings = [("RESPONSE_CACHE_BYTES", "16M"), ("RESPONSE_CACHE_DEFAULT_TTL_MS", ttl)];
            let svc = Svc::start(&[ONCE], &settings);
            assert_eq!(svc.get("/once.php").text() == svc.get("/once.php").text(), is_stored, "{ttl}");
        }
    }

    response_cache_stale_seconds: "RESPONSE_CACHE_STALE_SECONDS" {
        for (seconds, status) in [("0", 503), ("600", 200)] {
            let settings = [("RESPONSE_CACHE_BYTES", "16M"), ("RESPONSE_CACHE_STALE_SECONDS", seconds)];
            let svc = Svc::start(&[ONCE], &settings);
            assert_eq!(svc.get("/once.php?stale").status, 200);
            std::fs::write(svc.root().join("fail"), "").unwrap();
            assert_eq!(svc.get("/once.php?stale").status, status, "{seconds}");
        }
    }

    response_cache_bypass_cookies: "RESPONSE_CACHE_BYPASS_COOKIES" {
        for (names, is_stored) in [("none", true), ("cart*", true), ("*sess*", false)] {
            let settings = [("RESPONSE_CACHE_BYTES", "16M"), ("RESPONSE_CACHE_BYPASS_COOKIES", names)];
            let svc = Svc::start(&[ONCE], &settings);
            let ask = || svc.client().request("GET /once.php?fresh HTTP/1.1\r\nHost: x\r\nCookie: PHPSESSID=1").text();
            assert_eq!(ask() == ask(), is_stored, "{names}");
        }
    }

    response_cache_ignore_query: "RESPONSE_CACHE_IGNORE_QUERY" {
        for (names, is_same) in [("none", false), ("utm_*", true)] {
            let settings = [("RESPONSE_CACHE_BYTES", "16M"), ("RESPONSE_CACHE_IGNORE_QUERY", names)];
            let svc = Svc::start(&[ONCE], &settings);
            let (one, other) = (svc.get("/once.php?fresh&utm_a=1").text(), svc.get("/once.php?fresh&utm_a=2").text());
            assert_eq!(one == other, is_same, "{names}");
        }
    }

    tls_cert: "TLS_CERT" {
        let certificates = Certificates::new(&[&["a.test"], &["b.test"]]);
        for (index, name) in [(0, "a.test"), (1, "b.test")] {
            let (cert, key) = (certificates.cert(index), certificates.key(index));
            let settings = [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", key.to_str().unwrap())];
            let svc = Svc::start(&[HELLO], &settings);
            assert_eq!(certificates.client(svc.main(), name).get("/").text(), "hello");
        }
    }

    tls_key: "TLS_KEY" {
        let certificates = Certificates::new(&[&["a.test"], &["b.test"]]);
        let (cert, wrong) = (certificates.cert(0), certificates.key(1));
        let root = tempfile::tempdir().unwrap();
        let settings = [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", wrong.to_str().unwrap())];
        let mut command = svc_testing::command(root.path(), &settings);
        let refused = command.arg("check").stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("TLS_KEY"));
    }

    tls_min_version: "TLS_MIN_VERSION" {
        let certificates = Certificates::new(&[&["a.test"]]);
        let (cert, key) = (certificates.cert(0), certificates.key(0));
        for (least, speaks) in [("1.2", true), ("1.3", false)] {
            let settings = [
                ("TLS_CERT", cert.to_str().unwrap()),
                ("TLS_KEY", key.to_str().unwrap()),
                ("TLS_MIN_VERSION", least),
            ];
            let svc = Svc::start(&[HELLO], &settings);
            assert_eq!(speaks_tls12(&certificates, svc.main()), speaks, "with {least}");
        }
    }

    hsts: "HSTS" {
        let certificates = Certificates::new(&[&["a.test"]]);
        let (cert, key) = (certificates.cert(0), certificates.key(0));
        let tls = [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", key.to_str().unwrap())];
        let svc = Svc::start(&[], &[tls[0], tls[1], ("HSTS", "300")]);
        let response = certificates.client(svc.main(), "a.test").get("/");
        assert_eq!(response.field("strict-transport-security"), Some("max-age=300"));
    }

    rate_limit: "RATE_LIMIT" {
        let svc = Svc::start(&[HELLO], &[("RATE_LIMIT", "2"), ("RATE_WINDOW_SECONDS", "3600")]);
        let mut client = svc.client();
        let statuses: Vec<u16> = (0..3).map(|_| client.get("/").status).collect();
        assert_eq!(statuses, [200, 200, 429]);
        svc.assert_metric("svc_rate_limited_total", 1.0);
    }

    rate_window_seconds: "RATE_WINDOW_SECONDS" {
        let svc = Svc::start(&[HELLO], &[("RATE_LIMIT", "1"), ("RATE_WINDOW_SECONDS", "1")]);
        let mut client = svc.client();
        assert_eq!(client.get("/").status, 200);
        eventually("the window is over", || client.get("/").status == 200);
        let slow = Svc::start(&[HELLO], &[("RATE_LIMIT", "1"), ("RATE_WINDOW_SECONDS", "3600")]);
        assert_eq!(slow.get("/").status, 200);
        let refused = slow.get("/");
        let pause: u64 = refused.field("retry-after").unwrap().parse().unwrap();
        assert!(pause > 3000, "{pause}");
    }

    trusted_proxies: "TRUSTED_PROXIES" {
        for (trusted, expected) in [("", "127.0.0.1"), ("127.0.0.0/8", "203.0.113.9")] {
            let svc = Svc::start(&[SHOW], &[("TRUSTED_PROXIES", trusted)]);
            let head = "GET /show.php?name=REMOTE_ADDR HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9";
            assert_eq!(svc.client().request(head).text(), expected);
        }
    }

    php_deny_paths: "PHP_DENY_PATHS" {
        let files = [("uploads/evil.php", "<?php echo 'ran';"), HELLO];
        let svc = Svc::start(&files, &[("PHP_DENY_PATHS", "/uploads/**")]);
        assert_eq!((svc.get("/uploads/evil.php").status, svc.get("/").status), (404, 200));
        svc.assert_metric("svc_php_deny_total", 1.0);
    }

    error_pages_dir: "ERROR_PAGES_DIR" {
        let pages = tempfile::tempdir().unwrap();
        std::fs::write(pages.path().join("404.html"), "<p>lost").unwrap();
        let svc = Svc::start(&[], &[("ERROR_PAGES_DIR", pages.path().to_str().unwrap())]);
        let response = svc.get("/nowhere");
        assert_eq!((response.status, response.text().as_str()), (404, "<p>lost"));
    }

    access_log: "ACCESS_LOG" {
        for (value, records) in [("off", 0), ("error", 1), ("all", 2)] {
            let svc = Svc::start(&[HELLO], &[("ACCESS_LOG", value)]);
            assert_eq!((svc.get("/").status, svc.get("/nowhere").status), (200, 404));
            eventually("they are written", || svc.log().of("access").len() == records);
        }
    }

    log_level: "LOG_LEVEL" {
        for (level, is_quiet) in [("info", false), ("error", true)] {
            let written = log_of_a_life(&[("LOG_LEVEL", level)]);
            assert_eq!(written.is_empty(), is_quiet, "{level}: {written}");
        }
    }

    log_format: "LOG_FORMAT" {
        for (format, is_json) in [("json", true), ("text", false)] {
            let written = log_of_a_life(&[("LOG_FORMAT", format)]);
            let first = written.lines().next().unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(first).is_ok(), is_json, "{first}");
            assert!(first.contains("svc is starting"), "{first}");
        }
    }

    pid_file: "PID_FILE" {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.pid");
        let mut svc = Svc::start(&[], &[("PID_FILE", path.to_str().unwrap())]);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", svc.pid().as_raw_pid()));
        svc.stop();
        assert!(!path.exists());
    }

    trace_context: "TRACE_CONTEXT" {
        for (value, has_trace) in [("false", false), ("true", true)] {
            let svc = Svc::start(&[SHOW], &[("TRACE_CONTEXT", value)]);
            let response = svc.get("/show.php?name=HTTP_TRACEPARENT");
            assert_eq!(response.field("traceparent").is_some(), has_trace);
            assert_eq!(response.text() != "-", has_trace);
        }
    }

    #[cfg(feature = "async")]
    async_workers: "ASYNC_WORKERS" {
        for (setting, count) in [("0", 0), ("1", 1), ("3", 3)] {
            let svc = Svc::start(&[HELLO], &[("ASYNC_WORKERS", setting)]);
            assert_eq!(svc.get("/").text(), "hello");
            eventually("its threads run", || threads(&svc, "svc-async") == count);
        }
    }

    #[cfg(feature = "async")]
    async_max_fibers: "ASYNC_MAX_FIBERS" {
        let svc = Svc::start(&[], &[("ASYNC_WORKERS", "2"), ("ASYNC_MAX_FIBERS", "7")]);
        assert_eq!(svc.metric("svc_async_tasks_in_flight_limit"), 14.0);
    }

    #[cfg(feature = "async")]
    async_queue_capacity: "ASYNC_QUEUE_CAPACITY" {
        let svc = Svc::start(&[FILL], &[("ASYNC_WORKERS", "1"), ("ASYNC_QUEUE_CAPACITY", "3")]);
        assert_eq!(svc.get("/fill.php").text(), "3");
    }

    #[cfg(feature = "async")]
    async_entry_file: "ASYNC_ENTRY_FILE" {
        let elsewhere = tempfile::tempdir().unwrap();
        let entry = elsewhere.path().join("tasks.php");
        std::fs::write(&entry, "<?php function from_entry() { return 'entry'; }").unwrap();
        let files = [("task.php", "<?php echo Svc\\async(static fn () => from_entry())->await();")];
        let settings = [("ASYNC_WORKERS", "1"), ("ASYNC_ENTRY_FILE", entry.to_str().unwrap())];
        assert_eq!(Svc::start(&files, &settings).get("/task.php").text(), "entry");
    }

    #[cfg(feature = "worker")]
    runtime_hooks: "RUNTIME_HOOKS" {
        // Whether another request of the only thread runs while one sleeps.
        let code = "<?php Svc\\Worker::serve(function () {
            $met = fn () => file_exists(__DIR__ . '/met');
            if (isset($_GET['meet'])) { touch(__DIR__ . '/met'); return; }
            touch(__DIR__ . '/runs');
            while (!file_exists(__DIR__ . '/sent')) { usleep(1000); clearstatcache(); }
            for ($i = 0; $i < (int) $_GET['times'] && !$met(); $i++, clearstatcache()) usleep(1000);
            echo $met() ? 'met' : 'alone';
        });";
        for (setting, times, answer) in [("none", 100, "alone"), ("sleep", 1_000_000, "met")] {
            let mode = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php"), ("PHP_WORKERS", "1")];
            let settings = [&mode[..], &[("RUNTIME_HOOKS", setting)]].concat();
            let svc = Svc::start(&[("app.php", code)], &settings);
            let (mut sleeper, mut other) = (svc.client(), svc.client());
            sleeper.send(format!("GET /?times={times} HTTP/1.1\r\nHost: x\r\n\r\n"));
            eventually("it runs", || svc.root().join("runs").exists());
            other.send("GET /?meet HTTP/1.1\r\nHost: x\r\n\r\n");
            eventually("the other one has arrived", || svc.metric("svc_requests_total") == 2.0);
            std::fs::write(svc.root().join("sent"), "").unwrap();
            assert_eq!(sleeper.response().text(), answer, "{setting}");
            assert_eq!(other.response().status, 200);
        }
    }

    #[cfg(feature = "async")]
    async_max_value_bytes: "ASYNC_MAX_VALUE_BYTES" {
        let files = [("task.php", "<?php
            try { echo Svc\\async(static fn (string $text) => strlen($text), str_repeat('x', 5000))->await(); }
            catch (Svc\\Async\\TransferException) { echo 'too large'; }")];
        for (setting, text) in [("8K", "5000"), ("4K", "too large")] {
            let svc = Svc::start(&files, &[("ASYNC_WORKERS", "1"), ("ASYNC_MAX_VALUE_BYTES", setting)]);
            assert_eq!(svc.get("/task.php").text(), text, "{setting}");
        }
    }

    plugins: "PLUGINS" {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hostile.so");
        svc_testing::c::plugin(include_str!("../../plugins/hostile.c"), &path, &[]);
        let svc = Svc::start(&[], &[("PLUGINS", path.to_str().unwrap())]);
        eventually("it is well", || svc.ask("/health").text().contains(r#""hostile":"ok""#));
    }

    internal_addr: "INTERNAL_ADDR" {
        let svc = Svc::start(&[], &[("INTERNAL_ADDR", "127.0.0.7:0")]);
        assert_eq!(svc.ops().ip().to_string(), "127.0.0.7");
        assert_eq!(svc.ask("/healthz").status, 200);
        assert!(!log_of_a_life(&[("INTERNAL_ADDR", "")]).contains("operations port is listening"));
    }

    internal_allow_ips: "INTERNAL_ALLOW_IPS" {
        let svc = Svc::start(&[], &[("INTERNAL_ALLOW_IPS", "10.0.0.0/8")]);
        assert_eq!((svc.ask("/metrics").status, svc.ask("/readyz").status), (403, 200));
    }
}
