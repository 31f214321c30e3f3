//! Checks the documentation: its links have targets, and its settings, metrics and messages exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns all pages of the documentation with their text.
fn pages() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for folder in [root.to_owned(), root.join("docs")] {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    paths.sort();
    assert!(paths.len() > 20, "{paths:?}");
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn page(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// Returns the series of PHP that svc supports, as a range.
pub(crate) fn php_series() -> String {
    let text = page("scripts/php-series");
    let mut series: Vec<_> = text.split_whitespace().collect();
    series.sort_unstable();
    format!("{} to {}", series[0], series[series.len() - 1])
}

#[test]
fn the_pages_about_php_name_the_series_that_are_supported() {
    let (readme, php) = (page("README.md"), page("docs/php.md"));
    assert!(readme.contains(&format!("thread-safe PHP, version {}", php_series())));
    assert!(php.contains(&format!("thread-safe (ZTS) PHP {} with a shared libphp", php_series())));
}

/// Returns the lines outside code examples.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the targets of all links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the texts between backticks in a line.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns the anchor of a heading, as Markdown renderers create it.
fn anchor(heading: &str) -> String {
    let is_kept = |c: &char| c.is_alphanumeric() || *c == ' ' || *c == '-' || *c == '_';
    heading.to_lowercase().chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    for (path, text) in pages() {
        for target in prose(&text).flat_map(links).filter(|target| !target.contains("://")) {
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_there = match fs::read_to_string(&file) {
                Ok(text) => fragment.is_empty() || anchors(&text).contains(fragment),
                // A folder, or a picture.
                Err(_) => fragment.is_empty() && file.exists(),
            };
            if !is_there {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_index_has_each_page() {
    let index = page("docs/README.md");
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<_> = names.filter(|name| name.ends_with(".md") && name != "README.md").collect();
    let without: Vec<_> = pages.iter().filter(|name| !index.contains(&format!("({name})"))).collect();
    assert!(pages.len() > 20 && without.is_empty(), "docs/README.md lacks {without:?}");
}

#[test]
fn files_that_pages_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut named, mut unknown) = (0, Vec::new());
    for (path, text) in pages() {
        for word in prose(&text).flat_map(code).filter_map(|code| code.split([' ', ':']).next()) {
            let is_path = ["tests/", "scripts/", "deploy/", "examples/", "testing/"]
                .iter()
                .any(|folder| word.starts_with(folder) && !word.contains(['*', '$', '<']));
            if is_path {
                named += 1;
                if !root.join(word).exists() {
                    unknown.push(format!("{}: {word}", path.display()));
                }
            }
        }
    }
    assert!(named > 20 && unknown.is_empty(), "{named} {unknown:#?}");
}

#[test]
fn settings_that_pages_name_exist() {
    const PAGES: [&str; 5] = [
        "README.md",
        "docs/applications.md",
        "docs/extensions.md",
        "docs/migrating.md",
        "docs/troubleshooting.md",
    ];
    /// Names from outside svc: variables for scripts, options of libraries and units, and settings of applications.
    const OTHERS: [&str; 12] = [
        "CAP_NET_BIND_SERVICE",
        "CURLOPT_TIMEOUT",
        "DISABLE_WP_CRON",
        "EXTENSION_FLAGS",
        "FRANKENPHP_WORKER",
        "MAX_REQUESTS",
        "PATH_INFO",
        "PHP_AUTH_USER",
        "SVC_PHP_CONFIG",
        "SERVER_NAME",
        "SERVER_SOFTWARE",
        "SWOOLE_HOOK_ALL",
    ];
    let settings = page("docs/settings.md");
    let known: BTreeSet<&str> =
        settings.lines().filter(|line| line.starts_with("| `")).flat_map(code).collect();
    let mut unknown = Vec::new();
    let mut named = 0;
    for name in PAGES {
        let text = page(name);
        for word in prose(&text).flat_map(code).flat_map(|code| code.split([' ', ',', '='])) {
            let is_variable = word.contains('_')
                && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
            if is_variable {
                named += 1;
                if !known.contains(word) && !OTHERS.contains(&word) {
                    unknown.push(format!("{name}: {word}"));
                }
            }
        }
    }
    assert!(named > 60 && unknown.is_empty(), "{named} {unknown:#?}");
}

#[test]
fn metrics_that_pages_name_exist() {
    let metrics = page("docs/metrics.md");
    let known: BTreeSet<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(code)
        .map(|code| code.split('{').next().unwrap_or(code))
        .collect();
    let mut unknown = Vec::new();
    for (path, text) in pages() {
        for word in prose(&text).flat_map(code) {
            let name = word.split('{').next().unwrap_or(word);
            let is_metric = name.starts_with("svc_")
                && (name.ends_with("_total") || name.ends_with("_us") || name.starts_with("svc_worker"))
                && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            if is_metric && !known.contains(name) && !name.starts_with("svc_plugin") {
                unknown.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(known.len() > 60 && unknown.is_empty(), "{} {unknown:#?}", known.len());
}

#[test]
fn messages_that_have_a_remedy_exist() {
    let troubles = page("docs/troubleshooting.md");
    let events = page("docs/events.md");
    let messages: BTreeSet<&str> = events
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| level"))
        .filter_map(|line| line.split(" | ").nth(1))
        .collect();
    let (_, section) = troubles.split_once("## Records in the log").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| message"));
    let named: Vec<&str> = rows.map(|line| line[2..].split(" | ").next().unwrap()).collect();
    let unknown: Vec<_> = named.iter().filter(|message| !messages.contains(**message)).collect();
    assert!(named.len() > 15 && unknown.is_empty(), "{unknown:#?}");
}
