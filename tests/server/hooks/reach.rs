//! Libraries whose calls do not reach the hooks: the start reports them, and the other libraries keep their hooks.

use serde_json::json;

use svc_testing::fetched::fetched;
use svc_testing::{Svc, c};

/// An extension with a known name. `WAITS` waits for a descriptor.
const EXTENSION: &str = r#"
#include <php.h>
#include <poll.h>

PHP_FUNCTION(waits)
{
    ZEND_PARSE_PARAMETERS_NONE();
    struct pollfd none = {.fd = -1};
    RETURN_LONG(poll(&none, 1, 10));
}

ZEND_BEGIN_ARG_INFO_EX(no_arguments, 0, 0, 0)
ZEND_END_ARG_INFO()

static const zend_function_entry functions[] = {
    PHP_FE(waits, no_arguments)
    PHP_FE_END
};

zend_module_entry redis_module_entry = {
    STANDARD_MODULE_HEADER, "redis", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES,
};

ZEND_GET_MODULE(redis)
"#;

/// A function that the library prefers to the global one.
const OWN_POLL: &str = r#"
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
int poll(struct pollfd *list, nfds_t length, int time_ms) { return (int)syscall(SYS_poll, list, length, time_ms); }
"#;

/// Returns the libraries that the start reports, and the hooks in `/config`.
fn started_with(extension: &str, hooks: &str) -> (Vec<String>, serde_json::Value) {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("index.php"), "<?php Svc\\Worker::serve(function () {});").unwrap();
    let mut svc = Svc::launch(
        root,
        &[("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("RUNTIME_HOOKS", hooks)],
        &[&format!("extension={extension}")],
    );
    let config: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
    let warnings = svc.whole_log().of("svc");
    let libraries = warnings
        .iter()
        .filter(|record| record["level"] == "WARN")
        .filter_map(|record| record["fields"]["library"].as_str())
        .map(|library| library.rsplit('/').next().unwrap().to_owned());
    (libraries.collect(), config["runtime_hooks"].clone())
}

#[test]
fn a_library_out_of_reach_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.so");
    let extension = path.to_str().unwrap();
    let build = |source: &str| c::extension(source, &path);

    build(EXTENSION);
    assert_eq!(started_with(extension, "net"), (vec![], json!(["net"])));

    build(&format!("{OWN_POLL}{EXTENSION}"));
    // The hook is active for all other libraries.
    assert_eq!(started_with(extension, "net"), (vec!["redis.so".to_owned()], json!(["net"])));
    assert_eq!(started_with(extension, "none"), (vec![], json!([])), "its calls have no hook");

    // The waits of an unknown library block as usual, which needs no report.
    let other = folder.path().join("other.so");
    c::extension(&format!("{OWN_POLL}{EXTENSION}").replace("redis", "other"), &other);
    assert_eq!(started_with(other.to_str().unwrap(), "net"), (vec![], json!(["net"])));
}

#[test]
fn the_libraries_of_the_tests_are_in_reach() {
    let Some(extensions) = fetched("php-extensions") else { return };
    for name in ["redis", "memcached"] {
        assert_eq!(started_with(&format!("{extensions}/{name}.so"), "all").0, [""; 0], "{name}");
    }
}
