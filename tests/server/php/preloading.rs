//! `opcache.preload`: classes that exist before svc replaces functions of PHP.

use std::fs;

use svc_testing::tasks::{PLACES, TaskServer};

const PRELOADED: &str = r"<?php
final class WithConstructor extends PDO { function __construct() { parent::__construct('sqlite::memory:'); } }
class WithoutConstructor extends PDO { }
// Its parent does not exist, so it cannot be linked.
if (getenv('NEVER')) { class Unlinked extends Missing { } }
";

const CODE: &str = r"
function ask(PDO $db): int { return (int) $db->query('SELECT 7')->fetchColumn(); }
function preloaded(): array
{
    return [class_exists('WithConstructor', false), ask(new WithConstructor()), ask(new WithoutConstructor('sqlite::memory:')), ask(new PDO('sqlite::memory:'))];
}
";

#[test]
fn preloaded_classes_may_extend_those_of_extensions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("preload.php");
    fs::write(&file, PRELOADED).unwrap();
    // PHP asks root to name the user that preloads.
    let server = TaskServer::new(CODE)
        .directive(&format!("opcache.preload={}", file.display()))
        .directive("opcache.preload_user=root");
    server.in_each_mode(|running| {
        for place in PLACES {
            assert_eq!(running.tell(&format!("preloaded{place}")), "[true,7,7,7]");
        }
    });
}
