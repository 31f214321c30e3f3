//! Extensions that keep request state in unexpected ways: the server warns, or refuses worker mode.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use svc_testing::Svc;
use svc_testing::client::eventually;

const MESSAGE: &str =
    "unknown version of a PHP extension: all requests of a worker share its per-request state";

/// An extension that only requests `SIZE` bytes of globals, like a real one of its name, and has a directive whose value is
/// `OFFSET` bytes into them.
const IMPOSTOR: &str = r#"
#include <php.h>

ZEND_BEGIN_MODULE_GLOBALS(impostor)
    char bytes[SIZE];
ZEND_END_MODULE_GLOBALS(impostor)
ZEND_DECLARE_MODULE_GLOBALS(impostor)

static const zend_ini_entry_def directives[] = {
    ZEND_INI_ENTRY3_EX(DIRECTIVE, "1", PHP_INI_ALL, NULL, (void *)OFFSET, NULL, NULL, NULL)
    {0},
};

static int start(int type, int number)
{
#ifdef MOVES
    zend_ini_entry *entry = zend_hash_str_find_ptr(EG(ini_directives), MOVES, strlen(MOVES));
    entry->mh_arg1 = (char *)entry->mh_arg1 + 8;
#endif
    return zend_register_ini_entries_ex(directives, number, type);
}

zend_module_entry impostor_module_entry = {
    STANDARD_MODULE_HEADER, NAME, NULL, start, NULL, NULL, NULL, NULL, "1",
    PHP_MODULE_GLOBALS(impostor),
    NULL, NULL, NULL, STANDARD_MODULE_PROPERTIES_EX
};
ZEND_GET_MODULE(impostor)
"#;

/// Compiles an impostor; returns the directive that loads it.
fn impostor(folder: &Path, name: &str, facts: &[&str]) -> String {
    let config = std::env::var("SVC_PHP_CONFIG").unwrap_or_else(|_| "php-config".into());
    let includes = Command::new(config).arg("--includes").output().unwrap().stdout;
    let (source, object) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&source, IMPOSTOR).unwrap();
    let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
    // Hidden symbols: all impostors have the same names.
    compiler.args(["-w", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE", "-D_REENTRANT"]);
    compiler.args(String::from_utf8(includes).unwrap().split_whitespace());
    compiler.arg(format!("-DNAME=\"{name}\"")).args(facts.iter().map(|fact| format!("-D{fact}")));
    assert!(compiler.arg("-o").arg(&object).arg(&source).status().unwrap().success());
    format!("extension={}", object.display())
}

const WORKER: (&str, &str) =
    ("worker.php", "<?php Svc\\Worker::serve(function () { echo json_encode(get_loaded_extensions()); });");
const SETTINGS: [(&str, &str); 3] =
    [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];

#[test]
fn an_extension_of_another_layout_is_named() {
    // The only extension with request state that scripts/php-zts.sh does not build.
    const NAME: &str = "snmp";
    for (size, is_named) in [("SIZE=4", false), ("SIZE=4096", true)] {
        let folder = tempfile::tempdir().unwrap();
        let directive = impostor(folder.path(), NAME, &[size, "DIRECTIVE=\"snmp.other\"", "OFFSET=0"]);
        let svc = Svc::start_with(&[WORKER], &SETTINGS, &[&directive]);
        let loaded = svc.get("/").text();
        assert!(loaded.contains(&format!("\"{NAME}\"")), "{loaded}");
        let named = || {
            let records = svc.log().of("svc").into_iter().filter(|it| it["fields"]["message"] == MESSAGE);
            records.map(|record| record["fields"]["extension"].clone()).collect::<Vec<_>>()
        };
        if is_named {
            eventually("it is named", || named() == [NAME]);
        } else {
            assert_eq!(named(), [""; 0]);
        }
    }
}

#[test]
fn a_php_of_another_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(WORKER.0), WORKER.1).unwrap();
    let facts = ["SIZE=8", "OFFSET=0", "DIRECTIVE=\"mover.other\"", "MOVES=\"session.gc_probability\""];
    let directive = impostor(folder.path(), "mover", &facts);
    let mut server = svc_testing::command(folder.path(), &SETTINGS);
    server.args(["-d", &directive]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = server.spawn().unwrap();
    let mut records = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    if records.any(|record| record.contains("svc is ready")) {
        child.kill().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it has started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("PHP's session extension differs from the one that svc was built with"), "{said}");
}
