//! The plugin apm: calls of databases, stores and HTTP servers become spans and behave as before.

use serde_json::{Value, json};

use svc_testing::IS_WORKER;
use svc_testing::backend::Backend;
use svc_testing::command;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::pair::{Calls, Pair, constants_of, says};
use svc_testing::plugins::Plugins;
use svc_testing::spans::Spans;

/// Every case of these tests.
const PROGRAM: &str = include_str!("../../php/apm_calls.php");

fn queries_are_spans(constants: &Value, system: &str, missing: &Value) {
    for is_worker in IS_WORKER {
        let pair = Pair::start(PROGRAM, constants, &[], is_worker);
        let calls = pair.same("pdo");
        calls.keeps("secret");
        calls.keeps(PASSWORD);
        let select = calls
            .calls
            .iter()
            .find(|span| span.says("db.query.text") == "select * from apm_users where id = ?")
            .unwrap();
        assert_eq!((select.name(), select.parent()), ("SELECT apm_users", calls.request.id()));
        let mut expected = json!({
            "db.system.name": system, "db.query.summary": "SELECT apm_users", "db.collection.name": "apm_users",
            "db.operation.name": "SELECT", "db.query.text": "select * from apm_users where id = ?",
        });
        if system == "sqlite" {
            expected["db.namespace"] = json!(":memory:");
        } else {
            expected["db.namespace"] = constants["NAME"].clone();
            expected["server.address"] = json!("127.0.0.1");
            expected["server.port"] = constants["PORT"].clone();
        }
        if system != "sqlite" {
            says(select, &expected);
        }
        let failed = calls.named("SELECT nowhere");
        assert!(failed.is_error());
        assert_eq!(&failed.says("db.response.status_code"), missing);
        assert_eq!(&failed.says("error.type"), missing);
        let failures =
            calls.calls.iter().filter(|span| span.name() == "SELECT nowhere" && span.is_error()).count();
        assert_eq!(failures, 2, "by exception, and silently");
        let prepared = "select name from apm_users where id = ? and name <> 'as is'";
        let executed = calls.calls.iter().filter(|span| span.says("db.query.text") == prepared);
        let operations: Vec<_> = executed.map(|span| span.says("db.operation.name")).collect();
        assert_eq!(operations, ["PREPARE", "SELECT", "SELECT", "SELECT"]);
        for operation in ["BEGIN", "COMMIT", "ROLLBACK", "CONNECT"] {
            let count = calls.calls.iter().filter(|span| span.says("db.operation.name") == operation).count();
            assert!(count >= 1, "{operation}");
        }
        let sevens =
            calls.calls.iter().filter(|span| span.says("db.query.text") == "select ? as seven").count();
        assert_eq!(sevens, 1, "a method of a subclass and its parent's are one call");
    }
}

#[test]
fn queries_of_sqlite_are_spans() {
    let file = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", file.path().join("a.db").display());
    queries_are_spans(&json!({"DSN": dsn, "USER": null, "PASSWORD": null}), "sqlite", &json!("1"));
}

#[test]
fn queries_of_pdo_mysql_are_spans() {
    let Some(database) = databases::mariadb() else { return };
    queries_are_spans(&constants_of(&database), "mysql", &json!("1146"));
}

#[test]
fn queries_of_pdo_pgsql_are_spans() {
    let Some(database) = databases::postgres() else { return };
    queries_are_spans(&constants_of(&database), "postgresql", &json!("42P01"));
}

#[test]
fn callbacks_jumps_and_bounds_leave_nothing_behind() {
    for is_worker in IS_WORKER {
        // One request has more spans than the default queue holds.
        let pair = Pair::start(PROGRAM, &json!({}), &[("OTEL_BSP_MAX_QUEUE_SIZE", "65536")], is_worker);
        let calls = pair.same("sqlite-callback");
        assert_eq!(calls.named("SELECT").parent(), calls.request.id());
        assert_eq!(calls.calls.iter().filter(|span| span.says("error.type") == "DomainException").count(), 1);
        pair.same("sqlite-exit");
        let fatal = pair.same("sqlite-fatal");
        let cut =
            fatal.calls.iter().find(|span| span.says("svc.unfinished") == true).expect("it did not end");
        assert_eq!(cut.says("db.operation.name"), "SELECT");
        let generated = pair.same("generator");
        let outer = pair.spans.beside(&generated.request, "outer");
        assert!(generated.calls.iter().any(|span| span.parent() == outer.id()));
        let many = pair.same("many");
        let run = pair.spans.beside(&many.request, "PHP run");
        assert_eq!(run.says("svc.spans_dropped"), 2001);
    }
}

#[test]
fn queries_of_mysqli_are_spans() {
    let Some(database) = databases::mariadb() else { return };
    for is_worker in IS_WORKER {
        let constants = constants_of(&database);
        let pair = Pair::start(PROGRAM, &constants, &[("PLUGIN_APM_SLOW_QUERY_MS", "0")], is_worker);
        let calls = pair.same("mysqli");
        calls.keeps("secret");
        says(
            calls.named("INSERT apm_animals"),
            &json!({
                "db.system.name": "mysql", "db.query.summary": "INSERT apm_animals", "db.collection.name": "apm_animals",
                "db.operation.name": "INSERT", "db.query.text": "insert into apm_animals values (?, ?)",
                "db.namespace": database.name(), "server.address": "127.0.0.1",
                "server.port": database.address().port(), "svc.slow_query": true,
            }),
        );
        assert_eq!(calls.named("SELECT nowhere").says("db.response.status_code"), "1146");
        let executed = calls
            .calls
            .iter()
            .filter(|span| span.says("db.query.text") == "select name from apm_animals where id = ?");
        assert_eq!(executed.count(), 3);
        for (text, spans) in [
            ("select name from apm_animals where id in (?, 2)", 2),
            ("select name from apm_animals where id in (?, 3)", 2),
            ("select 13 as a", 2),
            ("select missing from somewhere", 1),
        ] {
            let count = calls.calls.iter().filter(|span| span.says("db.query.text") == text).count();
            assert_eq!(count, spans, "preparing and executing of {text}");
        }
        assert_eq!(calls.named("SELECT somewhere").says("error.type"), "1146");
        let nonsense = calls.calls.iter().filter(|span| span.says("error.type") == "1064").count();
        assert_eq!(nonsense, 2);
        let twelve = calls.calls.iter().filter(|span| span.says("db.query.text") == "select ?");
        assert!(twelve.count() >= 2);
    }
}

/// The end of an SQL string depends on how the server reads a backslash.
fn backslashes_are_read(constants: &Value, cases: &[&str]) {
    for is_worker in IS_WORKER {
        let pair = Pair::start(PROGRAM, constants, &[], is_worker);
        for case in cases {
            let calls = pair.same(case);
            calls.keeps("secret");
            let texts: Vec<_> = calls.calls.iter().map(|span| span.says("db.query.text")).collect();
            let count = texts.iter().filter(|text| **text == "select ? as a, ? as b").count();
            assert_eq!(count, 2, "{case}: {} {texts:?}", calls.answer);
        }
    }
}

#[test]
fn the_meaning_of_a_backslash_comes_from_mysql() {
    let Some(database) = databases::mariadb() else { return };
    backslashes_are_read(&constants_of(&database), &["pdo-backslash", "mysqli-backslash"]);
}

#[test]
fn the_meaning_of_a_backslash_comes_from_postgres() {
    let Some(database) = databases::postgres() else { return };
    let (name, port) = (database.name(), database.address().port());
    let mut constants = constants_of(&database);
    constants["LINK"] =
        json!(format!("host=127.0.0.1 port={port} dbname={name} user={USER} password={PASSWORD}"));
    backslashes_are_read(&constants, &["pdo-backslash", "pgsql-backslash"]);
}

#[test]
fn queries_of_pgsql_are_spans() {
    let Some(database) = databases::postgres() else { return };
    let port = database.address().port();
    let name = database.name();
    let dsn = format!("host=127.0.0.1 port={port} dbname={name} user={USER} password={PASSWORD}");
    for is_worker in IS_WORKER {
        let pair = Pair::start(PROGRAM, &json!({ "DSN": dsn }), &[], is_worker);
        let calls = pair.same("pgsql");
        calls.keeps(PASSWORD);
        let first = calls.calls.iter().find(|span| span.says("db.query.text") == "select ? as a").unwrap();
        says(
            first,
            &json!({
                "db.system.name": "postgresql", "db.query.summary": "SELECT", "db.operation.name": "SELECT",
                "db.query.text": "select ? as a", "db.namespace": name, "server.address": "127.0.0.1", "server.port": port,
            }),
        );
        assert_eq!(calls.named(&format!("CONNECT {name}")).says("server.port"), port);
        let states = |name: &str| -> Vec<_> {
            let spans = calls.calls.iter().filter(|span| span.name() == name && span.is_error());
            spans.map(|span| (span.says("db.response.status_code"), span.says("error.type"))).collect()
        };
        let all = |state: &str, count: usize| vec![(json!(state), json!(state)); count];
        // Also for functions without a connection argument, and after an error handler that failed itself.
        assert_eq!(states("SELECT nowhere"), all("42P01", 4));
        assert_eq!(states("SELECT"), all("22012", 2));
        assert_eq!(states(&format!("EXECUTE {name}")), all("22P02", 1));
        assert_eq!(states(&format!("PREPARE {name}")).len(), 0);
        assert_eq!(calls.count(&format!("EXECUTE {name}")), 2);
        // Errors that do not come from the server have no code.
        let unsaid = calls.calls.iter().filter(|span| span.says("error.type") == "TypeError");
        assert!(
            unsaid.clone().count() == 1
                && unsaid.clone().all(|span| span.says("db.response.status_code").is_null())
        );
    }
}

#[test]
fn commands_of_redis_are_spans() {
    let Some((store, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    let port = store.address().port();
    let ini = format!("extension={extensions}/redis.so");
    for is_worker in IS_WORKER {
        let pair = Pair::start_with(PROGRAM, &json!({ "PORT": port }), &[], is_worker, &[&ini]);
        let calls = pair.same("redis");
        calls.keeps("secret");
        says(
            calls.named("GET 2"),
            &json!({
                "db.system.name": "redis", "db.operation.name": "GET", "db.namespace": "2",
                "server.address": "127.0.0.1", "server.port": port,
            }),
        );
        assert_eq!(calls.count("INCR 2"), 0, "what is queued is no call");
        assert_eq!(calls.count("EXEC 2"), 2);
        assert_eq!(calls.count("LINDEX 2"), 1, "an object that was in the store");
        assert!(calls.calls.iter().any(|span| span.says("error.type") == "RedisException"));
    }
}

#[test]
fn commands_of_memcached_are_spans() {
    let Some((store, extensions)) = databases::memcached().zip(fetched("php-extensions")) else { return };
    let port = store.address().port();
    let ini = format!("extension={extensions}/memcached.so");
    for is_worker in IS_WORKER {
        let pair = Pair::start_with(PROGRAM, &json!({ "PORT": port }), &[], is_worker, &[&ini]);
        let calls = pair.same("memcached");
        assert_eq!(calls.count(&format!("getByKey 127.0.0.1:{port}")), 1, "an object that was in the store");
        calls.keeps("secret");
        says(
            calls.named(&format!("set 127.0.0.1:{port}")),
            &json!({
                "db.system.name": "memcached", "db.operation.name": "set", "server.address": "127.0.0.1",
                "server.port": port,
            }),
        );
        assert!(
            calls.calls.iter().filter(|span| !span.name().starts_with("get")).all(|span| !span.is_error())
        );
    }
}

/// Answers every request, with 404 where the path asks for it; the body lists which header fields of the script arrived.
fn server() -> Backend {
    Backend::tcp(|visit| {
        loop {
            let request = visit.request()?;
            let own = request.lines().filter(|line| line.starts_with("X-")).collect::<Vec<_>>().join(",");
            let line = request.lines().next().unwrap_or_default();
            let status = if line.contains("missing") { "404 Not Found" } else { "200 OK" };
            let body = format!("{line} {own}");
            visit.send(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))?;
            if request.contains("Connection: close") {
                return Ok(());
            }
        }
    })
}

#[test]
fn a_handle_begins_again_where_it_was_redirected_from() {
    for is_worker in IS_WORKER {
        let backend = Backend::tcp(|visit| {
            let request = visit.request()?;
            let to = if request.contains("/old") { "Location: /new\r\n" } else { "" };
            let status = if to.is_empty() { "200 OK" } else { "302 Found" };
            visit.send(format!("HTTP/1.1 {status}\r\n{to}Content-Length: 0\r\nConnection: close\r\n\r\n"))
        });
        let url = format!("http://{}", backend.address());
        let calls = Pair::start(PROGRAM, &json!({ "URL": url }), &[], is_worker).same("curl-redirected");
        let urls: Vec<_> = calls.calls.iter().map(|span| span.says("url.full")).collect();
        let expected =
            ["/old", "/old", "/old", "/old", "/new", "/new", "/old"].map(|path| format!("{url}{path}"));
        assert_eq!(urls, expected);
    }
}

/// Returns the `traceparent` fields of the requests with this path that belong to one server's traces.
fn parents(backend: &Backend, path: &str) -> Vec<Vec<String>> {
    fields(backend, path, "traceparent")
}

/// Returns the fields with this name of the requests with this path.
fn fields(backend: &Backend, path: &str, field: &str) -> Vec<Vec<String>> {
    let requests =
        backend.requests().into_iter().filter(|request| request.lines().next().unwrap().contains(path));
    let fields = |request: String| -> Vec<String> {
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(name, _)| name.eq_ignore_ascii_case(field))
            .map(|(_, value)| value.to_owned())
            .collect()
    };
    requests.map(fields).collect()
}

#[track_caller]
fn is_passed_on(backend: &Backend, calls: &Calls, path: &str) {
    let span =
        calls.calls.iter().find(|span| span.says("url.full").as_str().unwrap_or_default().contains(path));
    let span = span.unwrap_or_else(|| panic!("no span for {path}"));
    let expected = format!("00-{}-{}-", span.trace(), span.id());
    let seen = parents(backend, path);
    assert!(
        seen.iter().any(|fields| fields.len() == 1 && fields[0].starts_with(&expected)),
        "{path}: {expected} {seen:?}"
    );
    assert!(seen.iter().any(Vec::is_empty), "{path} without the plugin: {seen:?}");
}

const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn requests_of_curl_are_spans_and_pass_the_trace_on() {
    for is_worker in IS_WORKER {
        let backend = server();
        let url = format!("http://{}", backend.address());
        let pair = Pair::start(PROGRAM, &json!({ "URL": url }), &[("OTEL_REDACT_QUERY", "token")], is_worker);
        let calls = pair.same("curl");
        let first = calls
            .calls
            .iter()
            .find(|span| span.says("url.full") == format!("{url}/plain?token=REDACTED"))
            .unwrap();
        assert_eq!((first.name(), first.parent()), ("GET", calls.request.id()));
        says(
            first,
            &json!({
                "http.request.method": "GET", "http.response.status_code": 200, "network.protocol.version": "1.1",
                "server.address": "127.0.0.1", "server.port": backend.address().port(),
                "url.full": format!("{url}/plain?token=REDACTED"),
            }),
        );
        for path in [
            "/plain",
            "/own",
            "/object",
            "/reset",
            "/post",
            "/missing",
            "/ref",
            "/multi/1",
            "/multi/2",
            "/multi/missing",
        ] {
            is_passed_on(&backend, &calls, path);
        }
        assert_eq!(calls.count("POST"), 1);
        assert_eq!(parents(&backend, "/theirs"), vec![vec![THEIRS.to_owned()]; 2]);
        let with = |path: &str| {
            calls.calls.iter().find(|span| span.says("url.full") == format!("{url}{path}")).unwrap()
        };
        assert_eq!(with("/missing").says("error.type"), "404");
        assert_eq!(with("/multi/missing").says("http.response.status_code"), 404);
        assert_eq!(with("/throws").says("error.type"), "DomainException");
        let refused = calls.calls.iter().find(|span| span.says("server.port") == 1).unwrap();
        assert_eq!(refused.says("error.type"), "CURLE_COULDNT_CONNECT");
    }
}

#[test]
fn transfers_end_with_their_multi_handle() {
    for is_worker in IS_WORKER {
        let backend = server();
        let url = format!("http://{}", backend.address());
        let calls = Pair::start(PROGRAM, &json!({ "URL": url }), &[], is_worker).same("curl-gone");
        for how in ["unset", "close", "cycle"] {
            let path = format!("/gone/{how}");
            is_passed_on(&backend, &calls, &path);
            let ended: Vec<_> = calls
                .to(&path)
                .iter()
                .map(|span| (span.says("http.response.status_code"), span.says("svc.unfinished")))
                .collect();
            assert_eq!(ended, [(json!(200), Value::Null)], "{how}");
        }
    }
}

#[test]
fn streams_of_http_are_spans_and_pass_the_trace_on() {
    for is_worker in IS_WORKER {
        let backend = server();
        let url = format!("http://{}", backend.address());
        let pair = Pair::start(PROGRAM, &json!({ "URL": url }), &[], is_worker);
        is_passed_on(&backend, &pair.same("streams-first"), "/first");
        let calls = pair.same("streams");
        for path in ["/s/1", "/s/2", "/s/3", "/s/5", "/s/6", "/s/7", "/s/10", "/s/missing"] {
            is_passed_on(&backend, &calls, path);
        }
        assert_eq!(parents(&backend, "/s/4"), vec![vec![THEIRS.to_owned()]; 2]);
        let missing =
            calls.calls.iter().find(|span| span.says("url.full") == format!("{url}/s/missing")).unwrap();
        assert!(missing.is_error());
        assert_eq!(
            calls.calls.iter().filter(|span| span.says("url.full") == format!("{url}/s/2")).count(),
            1
        );
    }
}

#[test]
fn one_trace_goes_through_two_servers() {
    let spans = Spans::collect();
    let inner = spans.svc(&[("index.php", "<?php echo 'inner';")], &[]);
    let script = format!(
        "<?php $c = curl_init('http://{0}/?hop=curl'); curl_setopt($c, CURLOPT_RETURNTRANSFER, true); echo curl_exec($c), file_get_contents('http://{0}/?hop=stream');",
        inner.main()
    );
    let outer = spans.svc(&[("index.php", &script)], &[("PLUGINS", "apm")]);
    assert_eq!(outer.get("/?hop=first").body, b"innerinner");
    let first = spans.request("hop=first");
    for hop in ["hop=curl", "hop=stream"] {
        let second = spans.request(hop);
        assert_eq!(second.trace(), first.trace());
        let call = spans.find("the call", |span| span.id() == second.parent());
        assert_eq!((call.kind(), call.parent()), (3, first.id()));
    }
}

/// The `tracestate` that each call sends, by path; `None` stands for the request's own state.
#[cfg(feature = "async")]
const STATES: [(&str, Option<&str>); 14] = [
    ("/curl", None),
    ("/curl-fields", None),
    ("/curl-again", None),
    ("/curl-copied", None),
    ("/curl-reset", None),
    ("/curl-own-state", Some("mine=1")),
    ("/curl-own-parent", Some("")),
    ("/multi", None),
    ("/stream", None),
    ("/stream-fields", None),
    ("/stream-list", None),
    ("/stream-own-state", Some("mine=1")),
    ("/stream-own-parent", Some("")),
    ("/task", None),
];

#[cfg(feature = "async")]
#[test]
fn the_state_of_the_trace_goes_along() {
    const STATE: &str = "rojo=00f067aa0ba902b7,t61@congo=a b";
    for (is_worker, sampled) in
        IS_WORKER.into_iter().flat_map(|mode| [(mode, "always_on"), (mode, "always_off")])
    {
        let spans = Spans::collect();
        let backend = server();
        let program =
            include_str!("../../php/apm_states.php").replace("BACKEND", &backend.address().to_string());
        let run = "echo json_encode(states());";
        let index =
            if is_worker { format!("Svc\\Worker::serve(function () {{ {run} }});") } else { run.to_owned() };
        let mut settings = vec![("PLUGINS", "apm"), ("ASYNC_WORKERS", "1"), ("OTEL_TRACES_SAMPLER", sampled)];
        if is_worker {
            settings.extend([("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php")]);
        }
        let svc = spans.svc(&[("index.php", &format!("{program}\n{index}"))], &settings);
        let ask =
            |fields: &str| svc.client().request(&format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}")).text();
        let traced = format!(
            "traceparent: {THEIRS}\r\ntracestate: rojo=00f067aa0ba902b7\r\ntracestate: t61@congo=a b\r\n"
        );
        assert_eq!(ask(&traced), json!([STATE, STATE, STATE]).to_string());
        for (path, expected) in STATES {
            let expected = match expected {
                Some("") => vec![],
                other => vec![other.unwrap_or(STATE).to_owned()],
            };
            assert_eq!(
                fields(&backend, &format!("{path} "), "tracestate"),
                [expected],
                "{path}, {is_worker}"
            );
            assert_eq!(parents(&backend, &format!("{path} "))[0].len(), 1, "{path}");
        }
        // A trace without a state, and a state without a trace.
        for fields in [format!("traceparent: {THEIRS}\r\n"), format!("tracestate: {STATE}\r\n")] {
            assert_eq!(ask(&fields), r#"["",null,""]"#, "{fields}");
        }
        assert_eq!(fields(&backend, "/curl ", "tracestate"), [vec![STATE.to_owned()], vec![], vec![]]);
    }
}

#[test]
fn an_unrecorded_trace_propagates_its_decision() {
    let spans = Spans::collect();
    let backend = server();
    let script = format!(
        "<?php file_get_contents('http://{}/none'); (new PDO('sqlite::memory:'))->query('select 1'); echo Svc\\Trace\\traceparent();",
        backend.address()
    );
    let settings = [("PLUGINS", "apm"), ("OTEL_TRACES_SAMPLER", "always_off")];
    let svc = spans.svc(&[("index.php", &script)], &settings);
    let own = String::from_utf8(svc.get("/").body).unwrap();
    assert_eq!(parents(&backend, "/none"), [[own.clone()]]);
    assert!(own.ends_with("-00") && spans.all().is_empty());
}

#[test]
fn a_setting_of_another_plugin_is_not_followed() {
    let other = Plugins::none().with("apm_slow", &[], &[]);
    let spans = Spans::collect();
    let script = "<?php (new PDO('sqlite::memory:'))->query('select 1');";
    let list = format!("apm,{}", other.path("apm_slow.so").display());
    // The plugin with this name reads the setting QUERY_MS; under another name, every query would be slow.
    let settings = [("PLUGINS", list.as_str()), ("PLUGIN_APM_SLOW_QUERY_MS", "0")];
    let svc = spans.svc(&[("index.php", script)], &settings);
    assert_eq!(svc.get("/").status, 200);
    let query = spans.find("the query is a span", |span| span.says("db.query.text") == "select ?");
    assert_eq!(query.says("svc.slow_query"), Value::Null);
    svc_testing::client::eventually("its configuration is shown", || {
        let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
        config["plugins"]["apm"]["slow_query_ms"] == 100
    });
}

#[test]
fn the_plugin_is_listed_and_checked() {
    let spans = Spans::collect();
    let svc = spans.svc(&[("index.php", "")], &[("PLUGINS", "apm"), ("PLUGIN_APM_SLOW_QUERY_MS", "7")]);
    let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    svc_testing::client::eventually("its configuration is shown", || {
        let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
        config["plugins"]["apm"]["slow_query_ms"] == 7
    });
    assert_eq!(config["plugins"]["apm"]["path"], "built-in");
    svc_testing::client::eventually("it is well", || {
        let health: Value = serde_json::from_slice(&svc.ask("/health").body).unwrap();
        health["plugins"]["apm"] == "ok"
    });
    let refused = |settings: &[(&str, &str)]| {
        let mut check = command(svc.root(), &[&[("PLUGINS", "apm")], settings].concat());
        let output = check.arg("check").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (settings, why) in [
        (&[][..], "requires OTEL_ENABLED=true"),
        (
            &[("OTEL_ENABLED", "true"), ("PLUGIN_APM_SLOW_QUERY_MS", "soon")],
            "is not a number (accepts 0 to 3600000)",
        ),
        (
            &[("OTEL_ENABLED", "true"), ("PLUGIN_APM_SLOW", "1")],
            "has no setting PLUGIN_APM_SLOW; accepted: PLUGIN_APM_SLOW_QUERY_MS",
        ),
    ] {
        let (code, error) = refused(settings);
        assert!(code == Some(2) && error.contains(why), "{code:?} {error}");
    }
}
