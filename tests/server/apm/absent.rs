//! The plugin apm changes nothing in PHP while it is off.

use std::collections::BTreeSet;

use svc_testing::c;
use svc_testing::fetched::fetched;
use svc_testing::spans::Spans;

/// Functions that `apm` replaces in the extensions of the tests' PHP: at least one of each kind.
const REPLACED: [&str; 18] = [
    "pdo::__construct",
    "pdo::query",
    "pdo::exec",
    "pdo::prepare",
    "pdo::begintransaction",
    "pdo::commit",
    "pdo::rollback",
    "pdostatement::execute",
    "mysqli::query",
    "mysqli_query",
    "mysqli_stmt::execute",
    "pg_query",
    "pg_execute",
    "redis::get",
    "redis::rawcommand",
    "memcached::get",
    "http",
    "https",
];

/// Returns whether the server replaces a method of a database in every mode: a persistent connection takes no callback, and is
/// not constructed again.
fn is_always_replaced(name: &str) -> bool {
    name == "pdo\\pgsql::setnoticecallback" || (name.starts_with("pdo") && name.ends_with("::__construct"))
}

/// Returns whether a function becomes a span with `apm`, or sets what such a call sends.
fn is_a_client_s(name: &str) -> bool {
    ["pdo", "mysqli", "pg_", "redis", "memcached", "curl", "http"].iter().any(|of| name.starts_with(of))
}

#[test]
fn handlers_are_replaced_only_with_the_plugin() {
    let Some(extensions) = fetched("php-extensions") else { return };
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("handlers.so");
    c::extension(include_str!("../../php/handlers.c"), &library);
    let all =
        [library.to_str().unwrap(), &format!("{extensions}/redis.so"), &format!("{extensions}/memcached.so")];
    let directives = all.map(|library| format!("extension={library}"));
    let directives: Vec<_> = directives.iter().map(String::as_str).collect();
    let spans = Spans::collect();
    #[cfg(feature = "worker")]
    let worker = "<?php Svc\\Worker::serve(function () { echo json_encode(test_handlers()); });";
    let modes = [
        ("<?php echo json_encode(test_handlers());", "false"),
        #[cfg(feature = "worker")]
        (worker, "true"),
    ];
    for (script, mode) in modes {
        let ours = |plugins: &[(&str, &str)]| -> BTreeSet<String> {
            let settings = [&[("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "index.php")], plugins].concat();
            let svc = spans.svc_with(&[("index.php", script)], &settings, &directives);
            let names: Vec<String> = serde_json::from_slice(&svc.get("/").body).unwrap();
            names.into_iter().map(|name| name.to_lowercase()).collect()
        };
        let (without, with) = (ours(&[]), ours(&[("PLUGINS", "apm")]));
        // Workers track connections of databases and Redis without `apm`.
        let is_apm_s = |name: &&String| {
            is_a_client_s(name)
                && !is_always_replaced(name)
                && (mode == "false" || name.starts_with("curl") || name.starts_with("http"))
        };
        let clients: Vec<_> = without.iter().filter(is_apm_s).collect();
        assert!(clients.is_empty(), "{clients:?}");
        for name in REPLACED {
            let is_there = with.contains(name);
            assert!(is_there, "{name} in {with:?}");
        }
        let others: Vec<_> = with.difference(&without).filter(|name| !is_a_client_s(name)).collect();
        assert!(others.is_empty(), "{others:?}");
        assert!(!with.contains("(observers)"), "PHP's observers cost every call");
    }
}
