//! The plugin apm: calls of every form and with any arguments behave as without the plugin.

use serde_json::{Value, json};

use svc_testing::IS_WORKER;
use svc_testing::backend::Backend;
use svc_testing::databases::{self, PASSWORD, USER};
use svc_testing::fetched::fetched;
use svc_testing::pair::{Pair, constants_of};

/// Every case of these tests.
const PROGRAM: &str = include_str!("../../php/apm_shapes.php");

/// Returns a pair with strict types and one without, in each mode.
fn pairs(constants: &Value, directives: &[&str]) -> impl Iterator<Item = Pair> {
    let kinds =
        IS_WORKER.into_iter().flat_map(|is_worker| [false, true].map(|is_strict| (is_worker, is_strict)));
    kinds.map(move |(is_worker, is_strict)| {
        let begin = if is_strict { "<?php declare(strict_types=1);" } else { "<?php" };
        Pair::start_with(&PROGRAM.replacen("<?php", begin, 1), constants, &[], is_worker, directives)
    })
}

/// Checks every form of call of PDO with this driver.
fn pdo_is_called(constants: &Value, places: &str) {
    let mut constants = constants.clone();
    constants["PLACES"] = json!(places);
    for pair in pairs(&constants, &[]) {
        let calls = pair.same("pdo");
        let count = |text: &str| calls.calls.iter().filter(|span| span.says("db.query.text") == text).count();
        assert_eq!(count("select ? as five"), 13, "each spelling that is a call");
        assert_eq!(count("select ? as seven"), 1);
        pair.same("pdo-references");
    }
}

#[test]
fn pdo_of_sqlite_is_called_in_any_way() {
    let file = tempfile::tempdir().unwrap();
    let dsn = format!("sqlite:{}", file.path().join("a.db").display());
    pdo_is_called(&json!({"DSN": dsn, "USER": null, "PASSWORD": null}), "?, ?");
}

#[test]
fn pdo_of_mysql_is_called_in_any_way() {
    let Some(database) = databases::mariadb() else { return };
    pdo_is_called(&constants_of(&database), "?, ?");
}

#[test]
fn pdo_of_pgsql_is_called_in_any_way() {
    let Some(database) = databases::postgres() else { return };
    pdo_is_called(&constants_of(&database), "?::text, ?::text");
}

#[test]
fn mysqli_is_called_in_any_way() {
    let Some(database) = databases::mariadb() else { return };
    for pair in pairs(&constants_of(&database), &[]) {
        pair.same("mysqli").keeps(PASSWORD);
    }
}

#[test]
fn pgsql_is_called_in_any_way() {
    let Some(database) = databases::postgres() else { return };
    let (name, port) = (database.name(), database.address().port());
    let dsn = format!("host=127.0.0.1 port={port} dbname={name} user={USER} password={PASSWORD}");
    for pair in pairs(&json!({ "DSN": dsn }), &[]) {
        pair.same("pgsql").keeps(PASSWORD);
    }
}

#[test]
fn redis_is_called_in_any_way() {
    let Some((store, extensions)) = databases::redis().zip(fetched("php-extensions")) else { return };
    for pair in
        pairs(&json!({ "PORT": store.address().port() }), &[&format!("extension={extensions}/redis.so")])
    {
        pair.same("redis");
    }
}

#[test]
fn memcached_is_called_in_any_way() {
    let Some((store, extensions)) = databases::memcached().zip(fetched("php-extensions")) else { return };
    for pair in
        pairs(&json!({ "PORT": store.address().port() }), &[&format!("extension={extensions}/memcached.so")])
    {
        pair.same("memcached");
    }
}

fn server() -> Backend {
    Backend::http(|request| {
        let own = request.lines().filter(|line| line.starts_with("X-"));
        request.lines().take(1).chain(own).collect::<Vec<_>>().join(",")
    })
}

#[test]
fn curl_is_called_in_any_way() {
    let backend = server();
    for pair in pairs(&json!({ "URL": format!("http://{}", backend.address()) }), &[]) {
        let calls = pair.same("curl");
        for (path, count) in [("/m1", 6), ("/m2", 3)] {
            assert_eq!(calls.carried(&backend, path), count, "{path}");
        }
    }
}

#[test]
fn curl_continues_with_its_options_when_php_refuses_others() {
    let backend = server();
    for pair in pairs(&json!({ "URL": format!("http://{}", backend.address()) }), &[]) {
        let calls = pair.same("curl-refused");
        assert_eq!(calls.carried(&backend, "/reset"), 6, "what a reset that was refused has not reset");
    }
}

#[test]
fn streams_are_opened_in_any_way() {
    let backend = server();
    for pair in pairs(&json!({ "URL": format!("http://{}", backend.address()) }), &[]) {
        pair.same("streams");
    }
}
