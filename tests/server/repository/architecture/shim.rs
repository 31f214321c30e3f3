//! Fails when files of the shim, or its folders, call each other in a circle.
//!
//! A source has an arrow to another one if it uses a function or variable with the prefix `shim_` that only the other one
//! defines, and a file has an arrow to each header that it includes. Members, tags and the functions behind
//! replacements (`NEXT(close)`) do not count, and macros are not expanded.
//!
//! The first folder below `c/` is the feature that a source belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{code_of, is_word, root};
use crate::repository::circles::circles as members_of_circles;

/// The dependencies between rooms or folders: from, to, through which names.
type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The features that a feature builds on.
const FEATURES: [(&str, &[&str]); 5] = [
    ("php", &[]),
    ("worker", &["php"]),
    ("async", &["php", "worker"]),
    ("trace", &["php"]),
    ("main", &["php", "worker", "async", "trace"]),
];

#[test]
fn a_feature_builds_on_those_below_it() {
    let upward = upward(&arrows(&shim()));
    assert!(upward.is_empty(), "from a feature to one that it does not build on: {upward:#?}");
}

/// The arrows from a feature to one that it does not build on.
fn upward(arrows: &Arrows) -> BTreeSet<String> {
    let feature = |room: &str| room.split_once('/').map(|(feature, _)| feature.to_owned());
    let mut upward = BTreeSet::new();
    for (from, targets) in arrows {
        for to in targets.keys() {
            let (Some(user), Some(used)) = (feature(from), feature(to)) else { continue };
            let below = FEATURES.iter().find(|(name, _)| *name == user).map_or(&[][..], |(_, below)| *below);
            if user != used && !below.contains(&used.as_str()) {
                upward.insert(format!("{from} -> {to}"));
            }
        }
    }
    upward
}

#[test]
fn files_of_the_shim_are_a_ladder() {
    let circles = circles(&arrows(&shim()));
    assert!(circles.is_empty(), "files in a circle:\n{}", circles.join("\n"));
}

/// c/README.md states the maximum size of each folder.
#[test]
fn the_size_of_each_folder_is_stated() {
    let page = fs::read_to_string(root().join("c/README.md")).unwrap();
    let (_, table) = page.split_once("| folder | lines |").unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut sizes = BTreeMap::new();
    for (path, source) in shim().iter().filter(|(path, _)| !path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder);
        let lines = code_of(source).lines().filter(|line| !line.trim().is_empty()).count();
        *sizes.entry(folder.to_owned()).or_insert(0) += lines;
    }
    let mut strange = Vec::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').collect();
        let stated: usize = cells[2].trim().replace(',', "").parse().unwrap();
        let folders = cells[1].split('`').skip(1).step_by(2);
        let counted: usize = folders.map(|folder| sizes.remove(folder).unwrap_or(0)).sum();
        if counted > stated || counted + stated / 20 + 20 < stated {
            strange.push(format!("{}: {counted} lines, but the table says {stated}", cells[1].trim()));
        }
    }
    assert!(sizes.is_empty(), "c/README.md lacks {sizes:?}");
    assert!(strange.is_empty(), "{}", strange.join("\n"));
}

#[test]
fn folders_of_the_shim_are_a_ladder() {
    let circles = circles(&between_folders(&arrows(&shim())));
    assert!(circles.is_empty(), "folders in a circle:\n{}", circles.join("\n"));
}

/// The text of each file below `c/`, by its path from there.
fn shim() -> BTreeMap<String, String> {
    fn walk(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, files);
            } else {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    let home = root().join("c");
    walk(&home, &mut files);
    let path = |file: &PathBuf| file.strip_prefix(&home).unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| (path(file), fs::read_to_string(file).unwrap())).collect()
}

fn arrows(files: &BTreeMap<String, String>) -> Arrows {
    let sources: BTreeMap<&str, Source> = files
        .iter()
        .filter(|(path, _)| is_source(path))
        .map(|(path, text)| (room(path), read(text)))
        .collect();
    let mut homes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (room, source) in &sources {
        for name in source.public.iter().filter(|name| name.starts_with("shim_")) {
            homes.entry(name).or_default().push(room);
        }
    }
    let mut arrows = Arrows::new();
    let mut draw = |from: &str, to: &str, what: &str| {
        if from != to {
            let ties = arrows.entry(from.to_owned()).or_default().entry(to.to_owned()).or_default();
            ties.insert(what.to_owned());
        }
    };
    for (from, source) in &sources {
        for name in source.used.difference(&source.private) {
            if let Some([home]) = homes.get(name.as_str()).map(Vec::as_slice) {
                draw(from, home, name);
            }
        }
    }
    for (path, text) in files {
        for header in includes(text) {
            draw(room(path), room(header), header);
        }
    }
    arrows
}

fn is_source(path: &str) -> bool {
    path.strip_suffix(".c").is_some()
}

/// Sources are named without their extension, headers with it.
fn room(path: &str) -> &str {
    path.strip_suffix(".c").unwrap_or(path)
}

fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'))
}

#[derive(Default)]
struct Source {
    /// The names that it defines, exported and static.
    public: BTreeSet<String>,
    private: BTreeSet<String>,
    used: BTreeSet<String>,
}

fn read(text: &str) -> Source {
    let code = code_of(text);
    let mut source = Source { used: used(&code), ..Source::default() };
    for declaration in declarations(&code) {
        let words: Vec<_> = words(&declaration.text).collect();
        if words.iter().any(|(_, word)| ["extern", "typedef"].contains(word)) {
            continue;
        }
        if let Some(name) = defined(&declaration) {
            let is_private = words.iter().any(|(_, word)| *word == "static");
            let names = if is_private { &mut source.private } else { &mut source.public };
            names.insert(name.to_owned());
        }
    }
    source
}

/// The text at the top level before a body or a semicolon.
struct Declaration {
    text: String,
    has_body: bool,
}

fn declarations(code: &str) -> Vec<Declaration> {
    let mut found = Vec::new();
    let mut text = String::new();
    let mut depth = 0;
    for line in without_directives(code) {
        for c in line.chars().chain(['\n']) {
            match c {
                '{' => {
                    if depth == 0 {
                        found.push(Declaration { text: text.clone(), has_body: true });
                        // Behind the members of a struct its variable may follow; behind a function nothing does.
                        text = if text.contains(['(', '=']) { String::new() } else { text + " " };
                    }
                    depth += 1;
                }
                '}' => depth -= 1,
                ';' if depth == 0 => {
                    found.push(Declaration { text: std::mem::take(&mut text), has_body: false });
                }
                _ if depth == 0 => text.push(c),
                _ => {}
            }
        }
    }
    found
}

/// The lines that are no directives of the preprocessor, nor go on with one.
fn without_directives(code: &str) -> impl Iterator<Item = &str> {
    let mut goes_on = false;
    code.lines().filter(move |line| {
        let is_directive = goes_on || line.trim_start().starts_with('#');
        goes_on = is_directive && line.ends_with('\\');
        !is_directive
    })
}

/// The function or variable that a declaration defines.
fn defined(declaration: &Declaration) -> Option<&str> {
    let text = declaration.text.as_str();
    if let Some((before, _)) = text.split_once('=') {
        return words(before.split('[').next()?).last().map(|(_, name)| name);
    }
    let mut calls = words(text).filter(|(at, word)| text[at + word.len()..].trim_start().starts_with('('));
    // PHP's macros without arguments are on a separate line before the definition.
    let mut calls =
        calls.by_ref().filter(|(at, word)| !text[at + word.len()..].trim_start().starts_with("()"));
    match calls.find(|(_, word)| !word.starts_with("__")) {
        Some((at, word)) if declaration.has_body => {
            let arguments = &text[at + word.len()..];
            // PHP_FUNCTION(name)
            let is_macro = !word.contains(|c: char| c.is_lowercase());
            if is_macro { words(arguments).next().map(|(_, name)| name) } else { Some(word) }
        }
        Some(_) => None,
        None if declaration.has_body => None,
        None => {
            let names: Vec<_> = words(text.split('[').next()?).collect();
            (names.len() > 1).then(|| names[names.len() - 1].1)
        }
    }
}

/// The words of code that may name what another file defines. Files that are included are tied by that already.
fn used(code: &str) -> BTreeSet<String> {
    let code =
        code.lines().filter(|line| !line.trim_start().starts_with("#include")).collect::<Vec<_>>().join("\n");
    let code = code.as_str();
    let words: Vec<_> = words(code).collect();
    let mut used = BTreeSet::new();
    for (index, (at, word)) in words.iter().enumerate() {
        let before = code[..*at].trim_end();
        let last = if index > 0 { words[index - 1].1 } else { "" };
        let follows = |word: &str, sign: &str| last == word && before.ends_with(&format!("{word}{sign}"));
        let is_tag = ["struct", "union", "enum"].iter().any(|tag| follows(tag, ""));
        let is_behind = follows("NEXT", "(");
        let is_member = before.ends_with("->") || before.ends_with('.');
        if !is_tag && !is_behind && !is_member {
            used.insert((*word).to_owned());
        }
    }
    used
}

/// Each identifier, and where it begins.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let pieces = code.split(|c: char| !is_word(c));
    let mut at = 0;
    pieces.filter_map(move |piece| {
        let start = at;
        at = start + piece.len() + code[start + piece.len()..].chars().next().map_or(0, char::len_utf8);
        (!piece.is_empty() && !piece.starts_with(|c: char| c.is_ascii_digit())).then_some((start, piece))
    })
}

fn between_folders(rooms: &Arrows) -> Arrows {
    let folder = |room: &str| room.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
    let mut folders = Arrows::new();
    for (from, targets) in rooms {
        for (to, names) in targets.iter().filter(|(to, _)| folder(from) != folder(to)) {
            let ties = folders.entry(folder(from)).or_default().entry(folder(to)).or_default();
            ties.extend(names.iter().map(|name| format!("{from}: {name}")));
        }
    }
    folders
}

/// Describes each circle by the arrows in it.
fn circles(arrows: &Arrows) -> Vec<String> {
    let plain =
        arrows.iter().map(|(from, targets)| (from.clone(), targets.keys().cloned().collect())).collect();
    let circles = members_of_circles(&plain);
    let mut found = Vec::new();
    for (from, targets) in arrows {
        let own = circles.iter().find(|members| members.contains(&from.as_str()));
        for (to, names) in targets.iter().filter(|(to, _)| own.is_some_and(|own| own.contains(&to.as_str())))
        {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            found.push(format!("{from} -> {to}: {}", names.join(", ")));
        }
    }
    found
}

#[test]
fn definitions_are_recognised() {
    let source = read(
        "/* void commented(void) { } */\n#define macro(x) \\\n    other(x)\nextern int elsewhere;\nZEND_CACHE_DEFINE()\n\n\
         __thread context *current;\nstatic struct {\n    int member;\n} own[4];\nint prototype(int);\n\
         const entry table[] = {\n    {1},\n};\ntypedef struct pair {\n    int a;\n} pair;\n\
         __attribute__((noreturn)) void leave(int status)\n{\n    int local = 1;\n    exit(status);\n}\n\
         static void helper(void)\n{\n}\nPHP_FUNCTION(scripts_call)\n{\n}\n",
    );
    assert_eq!(Vec::from_iter(&source.public), ["current", "leave", "scripts_call", "table"]);
    assert_eq!(Vec::from_iter(&source.private), ["helper", "own"]);
}

#[test]
fn a_member_a_tag_and_a_function_behind_a_replacement_are_no_use() {
    let used = used(&code_of("struct flock lock = {.close = 1}; p->fork = NEXT(fcntl)(open(\"umask\"));"));
    let foreign = ["flock", "close", "fork", "fcntl", "umask"];
    assert!(foreign.iter().all(|name| !used.contains(*name)), "{used:?}");
    assert!(used.contains("open") && used.contains("lock"), "{used:?}");
}

#[test]
fn a_circle_of_two_files_is_found() {
    let files = |upper: &str| {
        let lower = "#include \"low/b.h\"\nvoid shim_lower(void)\n{\n}\n".to_owned() + upper;
        let upper = "#include \"low/b.h\"\nvoid shim_upper(void)\n{\n    shim_lower();\n}\n".to_owned();
        BTreeMap::from([("high/a.c".to_owned(), upper), ("low/b.c".to_owned(), lower)])
    };
    assert!(circles(&arrows(&files(""))).is_empty());
    let planted = "static void again(void)\n{\n    shim_upper();\n}\n";
    assert_eq!(
        circles(&arrows(&files(planted))),
        ["high/a -> low/b: shim_lower", "low/b -> high/a: shim_upper"]
    );
    // A static function of the same name does not count.
    assert!(circles(&arrows(&files("static void shim_upper(void)\n{\n}\n"))).is_empty());
}

#[test]
fn a_call_up_the_shim_is_found() {
    let planted = "\nvoid planted(void)\n{\n    (void)shim_park(-1, 0, 0, false);\n}\n";
    let mut files = shim();
    files.get_mut("worker/engine/guard.c").expect("the guard is there").push_str(planted);
    let arrows = arrows(&files);
    let call = "worker/engine/guard -> worker/stack/park: shim_park";
    assert!(circles(&arrows).iter().any(|arrow| arrow == call), "{:?}", circles(&arrows));
    assert!(
        circles(&between_folders(&arrows))
            .iter()
            .any(|arrow| arrow.starts_with("worker/engine -> worker/stack: "))
    );
}
