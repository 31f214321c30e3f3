//! Extensions that `scripts/php-extensions.sh` builds for the server's PHP.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use svc_testing::c::php_config;
use svc_testing::{Svc, repository, written};

const CONFIG: &str = "PHP_ARG_ENABLE([answer], [for answer], [--enable-answer])
PHP_NEW_EXTENSION(answer, answer.c, $ext_shared)
";
const SOURCE: &str = r#"
#include <php.h>
ZEND_BEGIN_ARG_INFO_EX(arguments, 0, 0, 0)
ZEND_END_ARG_INFO()
PHP_FUNCTION(answer) { ZEND_PARSE_PARAMETERS_NONE(); RETURN_LONG(42); }
static const zend_function_entry functions[] = { PHP_FE(answer, arguments) PHP_FE_END };
zend_module_entry answer_module_entry = { STANDARD_MODULE_HEADER, "answer", functions, NULL, NULL, NULL, NULL, NULL, "1", STANDARD_MODULE_PROPERTIES };
ZEND_GET_MODULE(answer)
"#;

/// Writes a `php-config` that names another folder for extensions, so that the test installs nothing in the machine's PHP.
fn with_own_folder(config: &str, folder: &Path) -> String {
    let own = folder.join("php-config");
    let extensions = folder.display();
    let script = format!(
        "#!/bin/sh\ncase $1 in\n--extension-dir) echo {extensions} ;;\n*) exec {config} \"$@\" ;;\nesac\n"
    );
    fs::write(&own, script).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    symlink(Path::new(config).with_file_name("phpize"), folder.join("phpize")).unwrap();
    own.to_str().unwrap().to_owned()
}

fn build(config: &str, name: &str) -> (bool, String, String) {
    let script = repository().join("scripts/php-extensions.sh");
    let output = Command::new(script).arg(name).env("SVC_PHP_CONFIG", config).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn an_extension_is_built_from_a_folder_in_one_command() {
    let sources = written(&[("answer/config.m4", CONFIG), ("answer/answer.c", SOURCE)]);
    let built = tempfile::tempdir().unwrap();
    let config = with_own_folder(&php_config(), built.path());
    let (is_built, path, progress) = build(&config, sources.path().join("answer").to_str().unwrap());
    assert!(is_built, "{progress}");
    assert_eq!(Path::new(&path), built.path().join("answer.so"));
    assert!(progress.contains("load it with the line extension=answer"), "{progress}");

    let load = format!("extension={path}");
    let php = Command::new(env!("CARGO_BIN_EXE_svc"))
        .args(["php", "-d", &load, "-r", "echo answer();"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&php.stdout), "42", "{}", String::from_utf8_lossy(&php.stderr));
    let svc = Svc::start_with(&[("index.php", "<?php echo answer();")], &[], &[&load]);
    assert_eq!(svc.get("/").text(), "42");
}

#[test]
fn an_extension_that_cannot_be_built_is_an_error() {
    let sources = written(&[("answer/config.m4", CONFIG), ("answer/answer.c", "#error not like this\n")]);
    let built = tempfile::tempdir().unwrap();
    let config = with_own_folder(&php_config(), built.path());
    let (is_built, _, progress) = build(&config, sources.path().join("answer").to_str().unwrap());
    assert!(!is_built && progress.contains("not like this"), "{progress}");
    let (is_built, path, progress) = build(&config, "json");
    assert!(is_built && path.is_empty() && progress.contains("json is part of this PHP"), "{progress}");
    let (is_built, _, progress) = build(&config, "--json");
    assert!(!is_built && progress.contains("unknown option: --json"), "{progress}");
}
