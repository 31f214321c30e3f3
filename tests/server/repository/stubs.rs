//! The stub file for editors and static analysis equals the reflection of the running server.
#![cfg(all(feature = "async", feature = "trace"))]

use std::path::Path;

use svc_testing::Svc;
use svc_testing::client::Response;

/// The functions that the server registers beside those of its extension.
const DECLARATIONS: &str = include_str!("../../../c/php/sapi/functions.c");

const GENERATOR: &str = include_str!("../../php/stubs.php");

/// Returns the names in `PHP_FE(name, …)` and `PHP_FALIAS(name, …)`.
fn declared() -> Vec<&'static str> {
    let entries = DECLARATIONS.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("PHP_FE(").or_else(|| line.strip_prefix("PHP_FALIAS("))
    });
    entries.filter_map(|entry| entry.split(',').next()).collect()
}

fn generated() -> Response {
    let svc = Svc::start(&[("stubs.php", GENERATOR)], &[]);
    let response = svc.get(&format!("/stubs.php?functions={}", declared().join(",")));
    assert_eq!(response.status, 200, "{}", response.text());
    response
}

fn path() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/stubs/svc.php"))
}

#[test]
fn the_file_has_the_functions_of_the_server() {
    let text = generated().text();
    assert!(!text.contains("NOT DESCRIBED"), "tests/php/stubs.php describes each:\n{text}");
    if std::env::var_os("SVC_WRITE_STUBS").is_some_and(|value| !value.is_empty()) {
        std::fs::write(path(), &text).unwrap();
    }
    let file = std::fs::read_to_string(path()).unwrap_or_default();
    assert!(file == text, "make stubs writes stubs/svc.php anew; it would be\n{text}");
    assert!(declared().len() > 5);
    for name in declared() {
        assert!(file.contains(&format!("function {name}(")), "{name}");
    }
}

#[test]
fn nothing_is_described_that_does_not_exist() {
    assert_eq!(generated().field("x-strangers").unwrap_or_default(), "");
}

#[test]
fn the_file_is_valid_php_and_declares_its_functions() {
    let file = std::fs::read_to_string(path()).unwrap();
    // Its names exist in the server itself, so it is only parsed.
    let parse = r"<?php try { token_get_all(file_get_contents(__DIR__ . '/stubs.txt'), TOKEN_PARSE); echo 'fine'; } catch (ParseError $e) { echo $e->getMessage(), ' in line ', $e->getLine(); }";
    let svc = Svc::start(&[("stubs.txt", &file), ("parse.php", parse)], &[]);
    assert_eq!(svc.get("/parse.php").text(), "fine");
    for expected in ["namespace Svc {", "final class Worker", "function sleep(float $seconds): void {}"] {
        assert!(file.contains(expected), "{expected}");
    }
}
