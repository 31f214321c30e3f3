//! Fails when the prose of a folder begins to read like a translation.
//!
//! Counts the comment blocks (Rust, C) and sentences (Markdown) with a phrase that native technical English rarely uses:
//! 0.2 % of the comments of rustls, quinn, hyper, linkerd2-proxy, pingora and ripgrep have one. Each phrase is sometimes
//! right, so a share is allowed.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// The share of marked blocks in an area stays below one in this number.
const BLOCKS_PER_MARK: usize = 100;

/// Blocks with fewer characters are not counted: they are labels.
const BLOCK_CHARS_MIN: usize = 25;

/// Folders and files whose prose is counted together. Small folders share an area, so that one mark is not too many.
const AREAS: [&[&str]; 10] = [
    &["types", "core"],
    &["serve"],
    &["sapi"],
    &["ffi"],
    &["c"],
    &["include", "plugin", "examples", "packages", "benches", "fuzz/fuzz_targets"],
    &["testing"],
    &["tests"],
    &["docs"],
    &["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md", "RELEASING.md", "SECURITY.md"],
];

/// Texts that are copies of published versions and stay as they were.
const COPIES: [&str; 1] = ["tests/plugins/abi1/"];

/// The phrases, with sentence ends as ` . ` and without other punctuation.
const PHRASES: [&str; 32] = [
    " . What ",
    " nobody ",
    " Nobody ",
    " anybody ",
    " everybody ",
    " Everybody ",
    " somebody ",
    " Somebody ",
    " of its own ",
    " of their own ",
    " of our own ",
    " nothing of ",
    " Nothing of ",
    " so many ",
    " So many ",
    " is told ",
    " are told ",
    " is asked ",
    " are asked ",
    " is looked at ",
    " are looked at ",
    " says ",
    " tells ",
    " hears ",
    " any more ",
    " in the place of ",
    " is to be ",
    " are to be ",
    " 's . ",
    " Promises . ",
    " Refuses . ",
    " in vain ",
];

/// Verbs after `who`: threads, functions and values are not persons.
const WHO_VERBS: [&str; 24] = [
    "has", "is", "does", "asks", "owns", "gives", "takes", "sees", "waits", "begins", "frees", "needs",
    "ends", "sends", "reads", "writes", "looks", "uses", "wants", "knows", "lets", "finds", "answers",
    "runs",
];

#[test]
fn the_prose_of_each_area_is_native_english() {
    let mut broken = Vec::new();
    for area in AREAS {
        let mut blocks = Vec::new();
        for path in area.iter().map(|path| root().join(path)) {
            assert!(path.exists(), "{} does not exist", path.display());
            collect(&path, &mut blocks);
        }
        assert!(!blocks.is_empty(), "no prose in {area:?}");
        let marked: Vec<_> = blocks.iter().filter(|(_, block)| is_marked(block)).collect();
        if marked.len() * BLOCKS_PER_MARK >= blocks.len() {
            let list = marked.iter().map(|(path, block)| format!("{path}: {block}")).collect::<Vec<_>>();
            broken.push(format!(
                "{area:?}: {} of {} blocks read like a translation; reword some:\n{}",
                marked.len(),
                blocks.len(),
                list.join("\n")
            ));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

/// Adds the blocks of the file at `path`, or of all files below it, with the paths of their files.
fn collect(path: &Path, blocks: &mut Vec<(String, String)>) {
    for file in files(path) {
        let name = file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if COPIES.iter().any(|copy| name.starts_with(copy)) {
            continue;
        }
        let text = || fs::read_to_string(&file).unwrap();
        let found = match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => comment_blocks(&text(), &["//"]),
            Some("c" | "h" | "def") => comment_blocks(&text(), &["//", "/*", "*"]),
            Some("md") => sentences(&text()),
            _ => continue,
        };
        blocks.extend(found.into_iter().map(|block| (name.clone(), block)));
    }
}

/// Returns `path`, or all files below it.
fn files(path: &Path) -> Vec<PathBuf> {
    if !path.is_dir() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    let kept = entries.filter(|entry| !["target", "vendor"].iter().any(|name| entry.file_name() == *name));
    kept.flat_map(|entry| files(&entry.path())).collect()
}

/// Returns the text of each run of lines that begin with one of `openers`.
fn comment_blocks(source: &str, openers: &[&str]) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in source.lines().map(str::trim) {
        let block = blocks.last_mut().unwrap();
        if openers.iter().any(|opener| line.starts_with(opener)) {
            let text = line.trim_start_matches(['/', '!', '*']).trim_end_matches("*/").trim();
            block.push_str(if block.is_empty() || text.is_empty() { "" } else { " " });
            block.push_str(text);
        } else if !block.is_empty() {
            blocks.push(String::new());
        }
    }
    blocks.retain(|block| block.len() >= BLOCK_CHARS_MIN && !block.contains("----"));
    blocks
}

/// Returns the sentences, table cells and list items of a page, without its code blocks.
fn sentences(page: &str) -> Vec<String> {
    let mut text = String::new();
    for (at, part) in page.split("```").enumerate() {
        if at % 2 == 0 {
            text.push_str(part);
        }
    }
    let breaks = ["\n\n", "\n| ", "\n- ", ". ", ".\n", ": ", ":\n", "; ", ";\n"];
    let text = breaks.iter().fold(text, |text, end| text.replace(end, &format!("{}\0", end.trim_end())));
    let joined = text.split('\0').map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
    joined.filter(|sentence| sentence.len() >= BLOCK_CHARS_MIN).collect()
}

fn is_marked(block: &str) -> bool {
    let mut words = String::from(" . ");
    for c in block.chars() {
        match c {
            '.' | ';' | ':' => words.push_str(" . "),
            '\'' => words.push_str(" '"),
            c if c.is_alphanumeric() || c == '_' => words.push(c),
            _ => words.push(' '),
        }
    }
    words.push_str(" . ");
    let words = format!(" {} ", words.split_whitespace().collect::<Vec<_>>().join(" "));
    PHRASES.iter().any(|phrase| words.contains(phrase))
        || ["who", "Who"]
            .iter()
            .any(|who| WHO_VERBS.iter().any(|verb| words.contains(&format!(" {who} {verb} "))))
}

#[test]
fn a_phrase_is_found_across_lines_and_punctuation() {
    for block in [
        "What a thread owns",
        "Ends. What is left is freed.",
        "The thread (who owns it) waits.",
        "has a lock of its own",
        "The mutex is the process's.",
        "Promises: nothing",
    ] {
        assert!(is_marked(block), "{block}");
    }
    for block in
        ["Returns what a thread owns", "a process's memory", "The owner of its ownership", "so manyfold"]
    {
        assert!(!is_marked(block), "{block}");
    }
}

#[test]
fn comments_and_sentences_are_taken_apart() {
    let rust = "//! One block of prose\n//! in two lines.\n\nlet a = 1; // not at the beginning of a line\n// too short\n";
    assert_eq!(comment_blocks(rust, &["//"]), ["One block of prose in two lines."]);
    let c = "/*\n * Frees the memory\n * of a request.\n */\nint x;\n/* Another block of the file. */\n";
    assert_eq!(
        comment_blocks(c, &["//", "/*", "*"]),
        ["Frees the memory of a request.", "Another block of the file."]
    );
    let page = "First sentence with many words. The second of them.\n```sh\ncode is not counted here\n```\n- an item with a few more words";
    assert_eq!(
        sentences(page),
        ["First sentence with many words.", "- an item with a few more words"].map(String::from).to_vec()
    );
}
