//! Fails when a unit test stands anywhere but at the foot of its file, or in `foo_tests.rs` beside `foo.rs`.
//!
//! So the last lines of a file always tell where its tests are. Test programs (`tests/`, `core/tests/`, `ffi/tests/`) are
//! exempt.

use std::fs;

use super::{root, walk};

#[test]
fn unit_tests_stand_at_the_foot_or_beside() {
    let mut misplaced = Vec::new();
    let mut files = 0;
    for folder in ["types", "core", "serve", "ffi", "sapi", "testing"] {
        let mut sources = Vec::new();
        walk(&root().join(folder), &mut sources);
        sources.retain(|file| !file.starts_with(root().join(folder).join("tests")));
        files += sources.len();
        for file in sources {
            let path = file.strip_prefix(root()).unwrap().to_str().unwrap();
            let tested = file.to_str().unwrap().strip_suffix("_tests.rs").map(|stem| format!("{stem}.rs"));
            let tested = tested.map(|tested| fs::read_to_string(tested).unwrap_or_default());
            let found = match tested {
                Some(tested)
                    if foot_of(&tested).is_some_and(|foot| foot.trim_end().ends_with("mod tests;")) =>
                {
                    None
                }
                Some(_) => Some("no file beside it ends with these tests"),
                None => fault(path, &fs::read_to_string(&file).unwrap()),
            };
            misplaced.extend(found.map(|fault| format!("{path}: {fault}")));
        }
    }
    assert!(files > 150, "{files}");
    assert!(misplaced.is_empty(), "{}", misplaced.join("\n"));
}

/// Returns the error in the placement of the tests in the file at `path`.
fn fault(path: &str, source: &str) -> Option<&'static str> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.trim_end_matches(".rs");
    if stem == "tests" || folder.ends_with("/tests") {
        return Some("tests of x.rs are in x_tests.rs");
    }
    let foot = foot_of(source);
    let head = &source[..source.len() - foot.map_or(0, str::len)];
    if head.lines().any(|line| line.trim() == "#[test]" || line.trim_start().starts_with("mod tests")) {
        return Some("tests stand before the foot of the file");
    }
    let beside = format!("#[cfg(test)]\n#[path = \"{stem}_tests.rs\"]\nmod tests;");
    match foot.map(str::trim_end) {
        Some(foot) if foot.ends_with(';') && foot != beside => Some("tests beside x.rs are in x_tests.rs"),
        _ => None,
    }
}

/// The module of tests that ends `source`, with its attributes.
fn foot_of(source: &str) -> Option<&str> {
    let foot = &source[source.rfind("\n#[cfg(test)]\n")? + 1..];
    let module = foot.lines().find(|line| !line.starts_with("#["))?;
    let last = foot.lines().last()?;
    let is_last = match module {
        "mod tests;" => last == module,
        "mod tests {" => foot.lines().position(|line| line == "}") == Some(foot.lines().count() - 1),
        _ => false,
    };
    is_last.then_some(foot)
}

#[test]
fn a_test_in_another_place_is_found() {
    let fault = |path: &str, source: &str| fault(path, source).is_some();
    let inside = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n";
    let beside = "fn f() {}\n\n#[cfg(test)]\n#[path = \"a_tests.rs\"]\nmod tests;\n";
    assert!(!fault("core/a.rs", "fn f() {}\n"));
    assert!(!fault("core/a.rs", inside));
    assert!(!fault("core/a.rs", beside));
    assert!(fault("core/a/tests.rs", ""));
    assert!(fault("core/tests/a.rs", ""));
    assert!(fault("core/b.rs", beside), "another's tests");
    assert!(fault("core/a.rs", "fn f() {}\n\n#[cfg(test)]\nmod tests;\n"));
    assert!(fault("core/a.rs", &format!("{inside}\nfn g() {{}}\n")));
    assert!(fault("core/a.rs", &format!("{inside}\n{inside}")));
    assert!(fault("core/a.rs", "#[test]\nfn t() {}\n"));
}
