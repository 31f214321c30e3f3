//! Detects import cycles between files: to understand one file of a cycle, a reader needs all of them.
//!
//! An import, or a path in the code, is an arrow from the file that contains it to the file that it names; a folder's
//! `mod.rs` and a crate's root only re-export names and are no nodes. Re-exports and methods are not followed; they appear
//! as arrows where the type is named.

use std::collections::{BTreeMap, BTreeSet};

use super::architecture::paths::paths;
use super::architecture::sources;

/// The named files, by the naming file.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_files_need_each_other() {
    for crate_dir in ["core", "serve", "sapi", "ffi"] {
        let arrows = arrows(crate_dir, &code_of_crate(crate_dir));
        let count: usize = arrows.values().map(BTreeSet::len).sum();
        assert!(count > 20, "{crate_dir}: only {count} arrows were found");
        let circles = circles(&arrows);
        assert!(circles.is_empty(), "files that need each other: {circles:#?}");
    }
}

#[test]
fn no_folders_of_the_server_need_each_other() {
    let arrows = arrows("serve", &code_of_crate("serve"));
    let folder = |path: &str| {
        let inner = path.strip_prefix("serve/")?;
        inner.split_once('/').map(|(folder, _)| folder.to_owned())
    };
    let mut between = Arrows::new();
    for (from, targets) in &arrows {
        for to in targets {
            if let (Some(from), Some(to)) = (folder(from), folder(to))
                && from != to
            {
                between.entry(from).or_default().insert(to);
            }
        }
    }
    assert!(between.len() > 3, "{between:?}");
    let circles = circles(&between);
    assert!(circles.is_empty(), "folders that need each other: {circles:#?} in {between:#?}");
}

/// Returns the code of a crate by path, without its tests.
fn code_of_crate(crate_dir: &str) -> BTreeMap<String, String> {
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("_tests.rs");
    let files = sources(&[crate_dir]).into_iter().filter(|(path, _)| !is_test(path));
    files.map(|(path, code)| (path, without_tests(&code).to_owned())).collect()
}

/// Removes the tests at the end of a file.
fn without_tests(code: &str) -> &str {
    let is_tests = |rest: &str| {
        let item = rest.split_once("]\n").map_or("", |(_, item)| item);
        item.trim_start().starts_with("mod tests") || item.trim_start().starts_with("#[path")
    };
    let starts = code.match_indices("#[cfg(").map(|(at, _)| at);
    starts.into_iter().find(|at| is_tests(&code[*at..])).map_or(code, |at| &code[..at])
}

/// Finds the references between the files of a crate.
fn arrows(crate_dir: &str, files: &BTreeMap<String, String>) -> Arrows {
    let modules: BTreeMap<Vec<String>, &String> =
        files.keys().map(|path| (module_of(crate_dir, path), path)).collect();
    let mut arrows = Arrows::new();
    for (path, code) in files.iter().filter(|(path, _)| !is_face(path)) {
        let own = module_of(crate_dir, path);
        for named in paths(code) {
            if let Some(target) = file_of(&modules, &own, &named)
                && target != path
                && !is_face(target)
            {
                arrows.entry(path.clone()).or_default().insert(target.clone());
            }
        }
    }
    arrows
}

fn is_face(path: &str) -> bool {
    ["/mod.rs", "/lib.rs", "/main.rs"].iter().any(|face| path.ends_with(face))
}

fn module_of(crate_dir: &str, path: &str) -> Vec<String> {
    let inner = path.trim_start_matches(crate_dir).trim_start_matches('/').trim_end_matches(".rs");
    let names = inner.split('/').map(str::to_owned);
    names.filter(|name| !["mod", "lib", "main"].contains(&name.as_str())).collect()
}

/// Returns the file that a path leads to, seen from the module `own`.
fn file_of<'a>(
    modules: &BTreeMap<Vec<String>, &'a String>,
    own: &[String],
    named: &[String],
) -> Option<&'a String> {
    let (mut at, mut rest) = match named.first().map(String::as_str) {
        Some("crate") => (Vec::new(), &named[1..]),
        Some("super") => (own.to_vec(), named),
        _ => return None,
    };
    while let Some("super") = rest.first().map(String::as_str) {
        at.pop();
        rest = &rest[1..];
    }
    let mut found = None;
    for name in rest {
        at.push(name.clone());
        match modules.get(&at) {
            Some(file) => found = Some(*file),
            None => break,
        }
    }
    found
}

/// Returns the groups whose members can all reach each other.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|from| (from.as_str(), reached_from(arrows, from))).collect();
    let mut circles = Vec::new();
    for (from, all) in &reached {
        if !all.contains(from) || circles.iter().flatten().any(|member| member == from) {
            continue;
        }
        let is_mutual = |to: &&&str| reached.get(**to).is_some_and(|back| back.contains(from));
        circles.push(all.iter().filter(is_mutual).copied().collect());
    }
    circles
}

fn reached_from<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = arrows.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(one) = next.pop() {
        if reached.insert(one) {
            next.extend(arrows.get(one).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

#[test]
fn a_circle_is_found_however_it_is_written() {
    let files = |all: &[(&str, &str)]| -> BTreeMap<String, String> {
        all.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect()
    };
    let ladder = files(&[
        ("core/pool/mod.rs", "pub use slot::Slot; use super::pool::desk::Desk;"),
        ("core/pool/slot.rs", "pub struct Slot;"),
        ("core/pool/desk.rs", "use super::slot::{self, Slot}; use crate::time;"),
        ("core/pool/threads.rs", "fn f(x: &super::desk::Desk) { crate::pool::slot::g() }"),
        ("core/time.rs", ""),
    ]);
    assert_eq!(circles(&arrows("core", &ladder)), Vec::<Vec<&str>>::new());
    for back in [
        "use super::threads::T;",
        "use crate::{time, pool::{slot, threads::{self, T as U}}};",
        "fn f() -> crate::pool::threads::T { loop {} }",
    ] {
        let mut files = ladder.clone();
        files.insert("core/pool/slot.rs".to_owned(), back.to_owned());
        let arrows = arrows("core", &files);
        let expected = ["core/pool/desk.rs", "core/pool/slot.rs", "core/pool/threads.rs"];
        // Only the threads refer to the desk.
        assert_eq!(circles(&arrows), [expected.to_vec()], "{back}: {arrows:?}");
    }
    assert_eq!(
        without_tests("a\n#[cfg(test)]\nmod fixture;\n#[cfg(test)]\nmod tests { b }").trim_end(),
        "a\n#[cfg(test)]\nmod fixture;"
    );
}
