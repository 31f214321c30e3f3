//! Fails when a type has a namesake, or two paths.
//!
//! Promises: the name of a type leads to one definition in the whole workspace, and a module shows what is in it either by
//! itself or through its parent, never both. Refuses: tests, and types inside of functions and modules of a file, may be
//! called as they like.

use std::collections::{BTreeMap, BTreeSet};

use super::{code_of, is_word, sources};

/// Names that are not qualified yet.
const NAMESAKES: [&str; 0] = [];

/// Folders whose modules have not been closed yet.
const OPEN_FOLDERS: [&str; 0] = [];

#[test]
fn a_type_is_defined_once() {
    let mut homes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, code) in sources(&["core", "ffi", "sapi"]) {
        if !path.contains("/tests/") && !path.ends_with("_tests.rs") {
            for name in defined(&code) {
                homes.entry(name).or_default().insert(path.clone());
            }
        }
    }
    assert!(homes.len() > 300, "{}", homes.len());
    let namesakes: BTreeMap<_, _> = homes.iter().filter(|(_, homes)| homes.len() > 1).collect();
    let new: Vec<_> = namesakes.iter().filter(|(name, _)| !NAMESAKES.contains(&name.as_str())).collect();
    assert!(new.is_empty(), "defined more than once: {new:#?}");
    let old: Vec<_> =
        NAMESAKES.iter().filter(|name| !namesakes.keys().any(|namesake| namesake == name)).collect();
    assert!(old.is_empty(), "has one definition now and leaves the list: {old:?}");
}

/// The types that the code of a file defines at its top, before its tests.
fn defined(code: &str) -> Vec<String> {
    let code = code.find("\n#[cfg(test)]\nmod tests").map_or(code, |tests| &code[..tests]);
    code.lines().filter_map(definition).map(str::to_owned).collect()
}

/// The name in `pub(crate) struct Name<T> {`.
fn definition(line: &str) -> Option<&str> {
    let item = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.strip_prefix(' ')?,
        None => line,
    };
    let (keyword, rest) = item.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type", "union"].contains(&keyword);
    let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
    (is_type && !name.is_empty()).then_some(name)
}

#[test]
fn a_type_has_one_path() {
    let mut open = BTreeMap::new();
    for (path, code) in sources(&["core", "ffi", "sapi"]) {
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

/// The modules that `code` shows as a whole, and whose items it shows as well.
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
fn definitions_are_told_from_uses() {
    let code = code_of(
        "pub struct A<T> {\n    type B = C;\n}\nenum D { E }\npub(in crate::f) type G = H;\nfn i() {\n    struct J;\n}\n\
         // struct K;\nimpl L for M {}\npub trait N: O {}\n\n#[cfg(test)]\nmod tests {\nstruct P;\n}\n",
    );
    assert_eq!(defined(&code), ["A", "D", "G", "N"]);
}

#[test]
fn a_module_shown_twice_is_found() {
    assert_eq!(shown_twice("pub mod a;\nmod b;\npub use self::a::A;\npub use b::B;\n"), ["a"]);
    assert_eq!(shown_twice("pub(crate) mod a;\npub(crate) use a::{A, B};\n"), ["a"]);
    assert!(shown_twice("pub mod a;\nuse a::A;\npub mod aa;\nmod c;\npub use c::C;\n").is_empty());
}
