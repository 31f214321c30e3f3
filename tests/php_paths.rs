//! Absolute paths are looked up by the system, others below the working directory of the request.
#![cfg(feature = "php")]

use std::os::unix::fs::symlink;

use crate::support::Svc;

const LOOK: &str = r#"<?php
chdir(__DIR__ . '/one');
$paths = [__DIR__ . '/now/old.txt', __DIR__ . '/now/new.txt', 'old.txt', '../two/new.txt', __DIR__ . '/one/old.txt/',
    __DIR__ . '/one/../two/./new.txt', __DIR__ . '/nowhere/../two/new.txt', '', "\0"];
echo json_encode([array_map(is_file(...), $paths), array_map(file_exists(...), $paths), filesize($paths[3])]);
"#;

#[test]
fn a_link_that_has_changed_is_followed() {
    let files = [("look.php", LOOK), ("one/old.txt", "old"), ("two/new.txt", "newer")];
    let svc = Svc::start_with(&files, &[("PHP_WORKERS", "1")], &[]);
    let now = svc.root().join("now");
    let told = |old: bool| {
        let each = format!("[{old},{},true,true,false,true,false,false,false]", !old);
        format!("[{each},{each},5]")
    };
    symlink("one", &now).unwrap();
    assert_eq!(svc.get("/look.php").text(), told(true));
    // PHP's own cache of resolved paths would know it for two minutes.
    std::fs::remove_file(&now).unwrap();
    symlink("two", &now).unwrap();
    assert_eq!(svc.get("/look.php").text(), told(false));
}
