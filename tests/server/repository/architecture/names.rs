//! Fails when a type has two paths: a module is either public or its items are re-exported by its parent, never both.
//!
//! Names are qualified by their modules, so that two types may share one: `http1::Connection`, `otlp::Connection`.

use std::collections::BTreeMap;

use super::sources;

/// Folders whose modules have not been closed yet.
const OPEN_FOLDERS: [&str; 0] = [];

#[test]
fn a_type_has_one_path() {
    let mut open = BTreeMap::new();
    for (path, code) in sources(&["types", "core", "serve", "ffi", "sapi"]) {
        let modules: Vec<_> = shown_twice(&code).into_iter().map(str::to_owned).collect();
        if !modules.is_empty() {
            open.insert(path, modules);
        }
    }
    let new: Vec<_> = open.iter().filter(|(path, _)| !OPEN_FOLDERS.contains(&path.as_str())).collect();
    assert!(new.is_empty(), "shown by themselves and by their parent: {new:#?}");
    let old: Vec<_> = OPEN_FOLDERS.iter().filter(|path| !open.contains_key(**path)).collect();
    assert!(old.is_empty(), "has one path to each type now and leaves the list: {old:?}");
}

/// Returns the public modules of `code` whose items it also re-exports.
fn shown_twice(code: &str) -> Vec<&str> {
    let shown = |line: &&str| line.starts_with("pub");
    let modules = code.lines().filter(shown).filter_map(|line| line.split_once(" mod ")?.1.strip_suffix(';'));
    let uses = |module: &&str| {
        let paths = [format!(" use {module}::"), format!(" use self::{module}::")];
        code.lines().filter(shown).any(|line| paths.iter().any(|path| line.contains(path)))
    };
    modules.filter(uses).collect()
}

#[test]
fn a_module_shown_twice_is_found() {
    assert_eq!(shown_twice("pub mod a;\nmod b;\npub use self::a::A;\npub use b::B;\n"), ["a"]);
    assert_eq!(shown_twice("pub(crate) mod a;\npub(crate) use a::{A, B};\n"), ["a"]);
    assert!(shown_twice("pub mod a;\nuse a::A;\npub mod aa;\nmod c;\npub use c::C;\n").is_empty());
}
