//! The rules of the architecture: which modules may import which, and where certain names may appear.
//!
//! Comments and string literals are ignored. Each rule is a function of the source text, and tests below show that it
//! finds violations. Style is left to the compiler's lints.

use std::fs;
use std::path::{Path, PathBuf};

mod names;
pub(crate) mod paths;
mod shim;
mod tables;
mod unit_tests;
mod words;

/// The layer of each folder and file at the top of the core; an import goes down, never sideways.
const LAYERS: [(&str, u8); 24] = [
    ("allocation", 0),
    ("limits", 0),
    ("time", 0),
    ("descriptor", 1),
    ("sync", 1),
    ("config", 2),
    ("fastcgi", 2),
    ("http", 2),
    ("spool", 2),
    ("trace", 3),
    ("admission", 4),
    ("compress", 4),
    ("files", 4),
    ("plugins", 4),
    ("policy", 4),
    ("pool", 4),
    ("tls", 4),
    ("admit", 5),
    ("cache", 5),
    ("dev", 5),
    ("connection", 6),
    ("observe", 6),
    ("otlp", 5),
    ("tasks", 6),
];

/// Words that only some files may say.
const RESERVED: [Reserved; 7] = [
    Reserved { words: &["mio"], home: &["serve/"], law: "only the shells in serve own sockets" },
    Reserved {
        words: &["atomic", "atomic_wait", "crossbeam_queue", "crossbeam_utils"],
        home: &["core/sync/primitive.rs", "ffi/"],
        law: "shared words come through core/sync/primitive.rs, so that models can replace them",
    },
    Reserved {
        words: &["Instant::now", "SystemTime::now"],
        // The crate of the interpreter cannot import the core, so it reads the clock itself.
        home: &["core/time.rs", "ffi/restart_barrier.rs", "ffi/tests/"],
        law: "the clock is read in core/time.rs",
    },
    Reserved {
        words: &["env::var", "env::var_os", "env::vars", "env::vars_os"],
        home: &["sapi/", "ffi/env_file.rs", "ffi/tests/"],
        law: "the program reads the environment, in sapi",
    },
    Reserved {
        words: &["tokio"],
        home: &["core/connection/duplex.rs", "core/otlp/pipe.rs"],
        law: "the HTTP/2 library speaks tokio's io traits; nothing else does",
    },
    Reserved {
        words: &["unsafe"],
        home: &["ffi/", "plugin/"],
        law: "unsafe code lives at borders: in ffi and plugin",
    },
    Reserved { words: &["svc_ffi"], home: &["sapi/", "ffi/"], law: "the core knows no interpreter" },
];

struct Reserved {
    words: &'static [&'static str],
    home: &'static [&'static str],
    law: &'static str,
}

#[test]
fn imports_of_the_core_go_down() {
    let mut broken = Vec::new();
    for (path, code) in sources(&["core"]) {
        if path.starts_with("core/tests/") || path == "core/lib.rs" {
            continue;
        }
        broken.extend(broken_imports(&path, &code));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn reserved_words_stay_at_home() {
    let mut broken = Vec::new();
    for (path, code) in sources(&["types", "core", "serve", "sapi", "ffi", "plugin", "examples/plugin-rust"])
    {
        if !path.starts_with("core/tests/") && !path.starts_with("serve/tests/") {
            broken.extend(strayed_words(&path, &code));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_core_and_the_interpreter_share_types_only() {
    let manifest = |crate_dir: &str| fs::read_to_string(root().join(crate_dir).join("Cargo.toml")).unwrap();
    for crate_dir in ["core", "ffi"] {
        let manifest = manifest(crate_dir);
        let normal = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        let others: Vec<_> = own_crates(normal).into_iter().skip(1).collect();
        assert_eq!(others, ["svc-types"], "{crate_dir} depends on other crates of the house");
    }
    assert!(!manifest("types").contains("dependencies]"), "svc-types depends on something");
    for (path, code) in sources(&["ffi"]) {
        assert!(!has_word(&code, "svc_core"), "{path}: ffi names the core");
    }
}

/// The crates of the house that a manifest names, its own name first.
fn own_crates(manifest: &str) -> Vec<&str> {
    let names = manifest.split(|c: char| c != '-' && !is_word(c)).filter(|word| word.starts_with("svc-"));
    let mut found: Vec<&str> = Vec::new();
    names.for_each(|name| {
        if !found.contains(&name) {
            found.push(name);
        }
    });
    found
}

#[test]
fn no_async_runtime_comes_in() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--workspace", "--no-default-features", "--edges", "normal,features"])
        .args(["--invert", "tokio"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8_lossy(&tree.stdout);
    for feature in ["rt", "rt-multi-thread", "net", "time", "full"] {
        assert!(!tree.contains(&format!("tokio feature \"{feature}\"")), "tokio with {feature}:\n{tree}");
    }
}

#[test]
fn unsafe_code_is_forbidden_where_it_has_no_home() {
    for library in ["core/lib.rs", "serve/lib.rs", "sapi/lib.rs", "sapi/main.rs", "types/lib.rs"] {
        let code = code_of(&fs::read_to_string(root().join(library)).unwrap());
        assert!(code.contains("#![forbid(unsafe_code)]"), "{library}");
    }
}

#[test]
fn no_crate_unwraps_in_passing() {
    for crate_root in [
        "core/lib.rs",
        "serve/lib.rs",
        "ffi/lib.rs",
        "plugin/lib.rs",
        "sapi/lib.rs",
        "sapi/main.rs",
        "types/lib.rs",
    ] {
        let code = code_of(&fs::read_to_string(root().join(crate_root)).unwrap());
        assert!(code.contains("#![deny(clippy::expect_used, clippy::unwrap_used)]"), "{crate_root}");
    }
}

#[test]
fn the_contract_with_c_has_no_type_of_zend() {
    let header = code_of(&fs::read_to_string(root().join("c/shim.h")).unwrap());
    let strange = strange_includes(&header);
    assert!(strange.is_empty(), "c/shim.h includes {strange:?}");
    for word in ["zval", "zend_string", "zend_object", "HashTable", "zend_execute_data"] {
        assert!(!has_word(&header, word), "c/shim.h names {word}");
    }
}

#[test]
fn the_contract_with_plugins_needs_nothing_of_the_house() {
    let header = fs::read_to_string(root().join("include/svc_plugin.h")).unwrap();
    let strange = strange_includes(&header);
    assert!(strange.is_empty(), "include/svc_plugin.h includes {strange:?}");
    let manifest = fs::read_to_string(root().join("plugin/Cargo.toml")).unwrap();
    assert!(!manifest.contains("dependencies]"), "the crate for plugins depends on something");
}

#[test]
fn the_map_names_existing_functions() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = map.split_once("Where to look first:").unwrap();
    let rows = table.trim_start().lines().take_while(|line| line.starts_with('|')).skip(2);
    let mut count = 0;
    for row in rows {
        let names: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let (function, files) = names.split_last().unwrap();
        assert!(!files.is_empty(), "{row}");
        for file in files {
            let code = code_of(&fs::read_to_string(root().join(file)).unwrap_or_default());
            let is_defined = |line: &str| match file.ends_with(".c") {
                true => {
                    !line.starts_with(' ') && line.contains(&format!("{function}(")) && !line.ends_with(';')
                }
                false => line.contains(&format!("fn {function}(")),
            };
            assert!(code.lines().any(is_defined), "{file} has no {function}: {row}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn the_map_is_read_in_five_minutes() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let words = map
        .split(|c: char| c.is_whitespace() || c == '|')
        .filter(|word| word.contains(char::is_alphanumeric));
    let count = words.count();
    assert!(count <= 1000, "{count} words");
    let (_, lexicon) = map.split_once("## Lexicon").unwrap();
    let terms = lexicon.lines().filter(|line| line.starts_with("- **")).count();
    assert!((1..=15).contains(&terms), "{terms} terms");
}

#[test]
fn every_file_of_tests_is_in_a_program() {
    let mut files = Vec::new();
    for folder in ["tests", "core/tests", "serve/tests", "ffi/tests"] {
        walk(&root().join(folder), &mut files);
    }
    files.retain(|file| !file.starts_with(root().join("tests/plugins")));
    assert!(files.len() > 200, "{}", files.len());
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let code = |path: &Path| fs::read_to_string(root().join(path)).unwrap_or_default();
    let paths = files.iter().map(|file| file.strip_prefix(root()).unwrap());
    let orphans: Vec<_> = paths.filter(|path| !is_in_a_program(path, &manifest, &code)).collect();
    assert!(orphans.is_empty(), "no program has the tests in {orphans:?}");
}

/// Whether the compiler reads `path`: it is a program, or the file above it declares it.
fn is_in_a_program(path: &Path, manifest: &str, code: &dyn Fn(&Path) -> String) -> bool {
    let (folder, stem) = (path.parent().unwrap(), path.file_stem().unwrap().to_str().unwrap());
    if stem == "main" || folder.ends_with("tests") {
        // Cargo finds those of the other packages.
        return !path.starts_with("tests") || manifest.contains(&format!("path = \"{}\"", path.display()));
    }
    let (name, home) = if stem == "mod" {
        (folder.file_name().unwrap().to_str().unwrap(), folder.parent().unwrap())
    } else {
        (stem, folder)
    };
    let above = [home.join("main.rs"), home.join("mod.rs"), home.with_extension("rs")];
    let is_declared = |line: &str| {
        let line = line.trim_start_matches("pub(crate) ").replace("mod r#", "mod ");
        line == format!("mod {name};")
    };
    above.iter().any(|file| code(file).lines().any(is_declared))
        // The programs of ffi have one folder in common.
        || fs::read_dir(root().join(home)).is_ok_and(|mut programs| {
            home.ends_with("tests") && programs.any(|file| code(&file.unwrap().path()).lines().any(is_declared))
        })
}

#[test]
fn a_file_of_tests_in_no_program_is_found() {
    let code = |path: &Path| match path.to_str().unwrap() {
        "tests/server/main.rs" => "mod r#async;\n".to_owned(),
        "tests/server/async/mod.rs" => "mod old;\n".to_owned(),
        "core/tests/loom/world.rs" => "pub(crate) mod checks;\n".to_owned(),
        _ => String::new(),
    };
    let manifest = "path = \"tests/server/main.rs\"";
    let is_in = |path: &str| is_in_a_program(Path::new(path), manifest, &code);
    for path in ["tests/server/main.rs", "tests/server/async/mod.rs", "tests/server/async/old.rs"] {
        assert!(is_in(path), "{path}");
    }
    assert!(is_in("core/tests/corpus.rs") && is_in("core/tests/loom/world/checks.rs"));
    for path in ["tests/main.rs", "tests/server/async/new.rs", "tests/server/hooks/mod.rs"] {
        assert!(!is_in(path), "{path}");
    }
    assert!(!is_in("core/tests/loom/world/history.rs"));
}

/// Lists the imports of `path` that its layer forbids.
fn broken_imports(path: &str, code: &str) -> Vec<String> {
    let inner = path.trim_start_matches("core/").trim_end_matches(".rs");
    let own = inner.split('/').next().unwrap_or(inner);
    let Some(rank) = rank(own) else { return vec![format!("{path}: {own} has no layer")] };
    let mut broken = Vec::new();
    for target in imports(code, inner.split('/').count()) {
        match self::rank(&target) {
            _ if target == own => {}
            Some(other) if other < rank => {}
            Some(_) => broken.push(format!("{path}: {own} imports {target}, which is not below it")),
            None => broken.push(format!("{path}: imports {target}, which has no layer")),
        }
    }
    broken
}

/// Lists the top-level modules that code names through `crate::`, or by climbing out of `depth` modules.
fn imports(code: &str, depth: usize) -> Vec<String> {
    let target = |path: Vec<String>| {
        let climbs = path.iter().take_while(|name| *name == "super").count();
        match path[0].as_str() {
            "crate" => path.get(1).cloned(),
            // Tests are one module deeper, so that a climb is judged by where it ends.
            _ if climbs >= depth => path.get(climbs).filter(|name| rank(name).is_some()).cloned(),
            _ => None,
        }
    };
    paths::paths(code).into_iter().filter_map(target).collect()
}

fn strayed_words(path: &str, code: &str) -> Vec<String> {
    let strangers = RESERVED.iter().filter(|rule| !rule.home.iter().any(|home| path.starts_with(home)));
    strangers
        .flat_map(|rule| rule.words.iter().map(move |word| (word, rule.law)))
        .filter(|(word, _)| has_word(code, word))
        .map(|(word, law)| format!("{path}: names {word}, but {law}"))
        .collect()
}

fn strange_includes(header: &str) -> Vec<&str> {
    let plain = ["<stdbool.h>", "<stddef.h>", "<stdint.h>"];
    let includes = header.lines().filter_map(|line| line.trim().strip_prefix("#include"));
    includes.map(str::trim).filter(|file| !plain.contains(file)).collect()
}

fn rank(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Blanks out comments and literals of Rust (or C), so that only code is left.
fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => quoted(rest, '"'),
            'r' if !code.ends_with(is_word) => raw_string(rest),
            '\'' => character(rest),
            _ => 0,
        };
        if length == 0 {
            code.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            code.push(' ');
            rest = &rest[length..];
        }
    }
    code
}

fn block_comment(text: &str) -> usize {
    text.find("*/").map_or(text.len(), |end| end + 2)
}

/// The length of a literal between `quote`s, escapes honoured.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string, or 0.
fn raw_string(text: &str) -> usize {
    let hashes = text[1..].bytes().take_while(|byte| *byte == b'#').count();
    if !text[1 + hashes..].starts_with('"') {
        return 0;
    }
    let start = hashes + 2;
    let end = format!("\"{}", "#".repeat(hashes));
    text[start..].find(&end).map_or(text.len(), |at| start + at + end.len())
}

/// The length of a character literal; 0 for a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => 0,
    }
}

/// The code of every Rust file below these folders, with its path from the root.
pub(crate) fn sources(folders: &[&str]) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for folder in folders {
        walk(&root().join(folder), &mut files);
    }
    assert!(!files.is_empty(), "no sources below {folders:?}");
    files
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            (path, code_of(&fs::read_to_string(&file).unwrap()))
        })
        .collect()
}

fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn comments_and_literals_are_not_code() {
    let source = r##"
        // use crate::serve::A;
        /* unsafe */ let a = "unsafe \" mio::Poll"; let b = r#"crate::serve" unsafe"#;
        fn f<'a>(x: &'a str) -> char { '"' } // unsafe
        let quote = '\''; let word = after;
    "##;
    let code = code_of(source);
    assert!(imports(&code, 2).is_empty(), "{code}");
    assert!(!has_word(&code, "unsafe") && !has_word(&code, "mio"), "{code}");
    assert!(code.contains("fn f<'a>(x: &'a str)") && code.contains("let word = after;"), "{code}");
}

#[test]
fn an_import_that_goes_up_or_sideways_is_found() {
    let broken = |path: &str, code: &str| broken_imports(path, code).len();
    assert_eq!(broken("core/http/head.rs", "use crate::limits::HEAD_BYTES_MAX;"), 0);
    assert_eq!(broken("core/http/head.rs", "use crate::http::fields::Fields;"), 0);
    assert_eq!(broken("core/http/head.rs", "use crate::tasks::TaskPool;"), 1);
    assert_eq!(broken("core/http/head.rs", "use crate::config::Config;"), 1);
    assert_eq!(broken("core/observe/log.rs", "use crate::{config::{Config, Level}, tasks::A, sync::B};"), 1);
    assert_eq!(broken("core/pool/mod.rs", "fn f(x: &crate::observe::Metrics) {}"), 1);
    assert_eq!(broken("core/http/head.rs", "use super::super::tasks::A;"), 1);
    assert_eq!(broken("core/http/head.rs", "mod tests { use super::super::super::tasks::A; }"), 1);
    assert_eq!(
        broken("core/http/head.rs", "use super::fields::Fields; mod tests { use super::super::uri; }"),
        0
    );
    assert_eq!(broken("core/novel/thing.rs", ""), 1);
}

#[test]
fn a_word_away_from_home_is_found() {
    let strayed = |path: &str, code: &str| strayed_words(path, code).len();
    assert_eq!(strayed("serve/connection/reactor.rs", "use mio::Poll;"), 0);
    assert_eq!(strayed("core/http/head.rs", "use mio::Poll;"), 1);
    assert_eq!(strayed("core/sync/primitive.rs", "pub use std::sync::atomic::AtomicU8;"), 0);
    assert_eq!(strayed("core/sync/queue.rs", "use std::sync::atomic::AtomicU8;"), 1);
    assert_eq!(strayed("core/pool/slot.rs", "let now = std::time::Instant::now();"), 1);
    assert_eq!(strayed("sapi/boot.rs", "unsafe { f() }"), 1);
    assert_eq!(strayed("sapi/boot.rs", "#![forbid(unsafe_code)] use svc_ffi::Php;"), 0);
    assert_eq!(strayed("core/pool/slot.rs", "use svc_ffi::Php;"), 1);
}

#[test]
fn an_include_beyond_the_plain_ones_is_found() {
    assert_eq!(strange_includes("#include <stdint.h>\n  #include \"php.h\"\n"), ["\"php.h\""]);
}
