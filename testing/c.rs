//! Compiles small C programs, PHP extensions and plugins for tests.

use std::path::Path;
use std::process::Command;

/// Compiles a program.
pub fn program(source: &str, target: &Path) {
    compile(source, target, &[]);
}

/// Returns the `php-config` of the PHP that the server was built with.
pub fn php_config() -> String {
    std::env::var("SVC_PHP_CONFIG").unwrap_or_else(|_| "php-config".to_owned())
}

/// Compiles an extension for the PHP that the server was built with.
pub fn extension(source: &str, target: &Path) {
    let includes = Command::new(php_config()).arg("--includes").output().expect("php-config is there");
    let includes = String::from_utf8(includes.stdout).unwrap();
    let shim = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../c");
    let inside = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../tests/php");
    compile(source, target, &["-shared -fPIC", shim, inside, &includes]);
}

/// Compiles a library that overrides libc's functions when it is preloaded.
pub fn library(source: &str, target: &Path) {
    compile(source, target, &["-shared -fPIC"]);
}

/// Compiles a plugin the way a plugin author does, with these additional flags.
pub fn plugin(source: &str, target: &Path, flags: &[&str]) {
    let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../include");
    compile(source, target, &[&[PLUGIN_FLAGS, header], flags].concat());
}

/// The compiler flags for plugins.
pub const PLUGIN_FLAGS: &str =
    "-std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden";

/// Compiles with only these flags.
pub fn compiled(source: &str, target: &Path, flags: &[&str]) {
    compile(source, target, flags);
}

fn compile(source: &str, target: &Path, flags: &[&str]) {
    let file = target.with_extension("c");
    std::fs::write(&file, source).unwrap();
    let flags = flags.iter().flat_map(|flags| flags.split_whitespace());
    let status =
        Command::new("cc").args(flags).arg("-o").arg(target).arg(&file).status().expect("cc is there");
    assert!(status.success());
}
