//! The table of settings, written for people: help on the terminal, the reference page, and `svc check`.
//!
//! Promises: every setting appears in each of the three. Refuses: a secret value is masked.

use std::fmt::Write as _;

use super::Config;
use super::key::{Availability, Chapter, Exposure, Initial, Key};
use super::keys::KEYS;
use super::resolve::Setting;
use super::value::Value;

/// Writes the help page of the settings for a terminal.
pub fn help() -> String {
    let mut page = String::from("Settings are environment variables; an empty one counts as unset.\n");
    for chapter in Chapter::ALL {
        let _ = write!(page, "\n{}\n", chapter.title());
        for key in KEYS.iter().filter(|key| key.chapter == chapter) {
            let _ = writeln!(page, "  {} (default: {})", key.variable, initial(key, ""));
            for line in wrapped(key.summary, 92) {
                let _ = writeln!(page, "      {line}");
            }
            let _ = writeln!(page, "      Accepted: {}{}", key.accepted(), limitation(key));
        }
    }
    page
}

/// Writes the reference page of the settings.
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         <!-- Written by `svc help settings --markdown`; a test compares the two. -->\n\n\
         Settings are environment variables. An empty one counts as unset. What is wrong stops the start with a line \
         for each variable that names the value and what is accepted; `svc check` looks without starting and prints \
         every setting with its value and where that came from. Sizes may carry the suffix `K`, `M` or `G` (powers of \
         1024).\n\n\
         The report of the operations port at `/config` has each setting under the variable's name in lower case, or \
         under the name given here.\n",
    );
    for chapter in Chapter::ALL {
        let _ = write!(page, "\n## {}\n\n", chapter.title());
        page.push_str("| variable | default | accepted | meaning |\n|---|---|---|---|\n");
        for key in KEYS.iter().filter(|key| key.chapter == chapter) {
            let _ = writeln!(
                page,
                "| `{}` | {} | {}{} | {}{} |",
                key.variable,
                initial(key, "`"),
                key.accepted(),
                limitation(key),
                key.summary,
                report_note(key)
            );
        }
    }
    page
}

/// Writes every setting of `config` with its value and source, a line each.
pub fn check(config: &Config) -> String {
    let rows: Vec<(&str, String, &str)> = config
        .settings()
        .iter()
        .map(|setting| (setting.key.variable, shown(setting), setting.source.as_str()))
        .chain(config.php_ini.iter().map(|(key, value)| ("-d", format!("{key}={value}"), "command line")))
        .collect();
    let name_width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    // One long path must not push the sources of all others out of sight.
    let value_width = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0).min(40);
    rows.iter().fold(String::new(), |mut page, (name, value, source)| {
        let _ = writeln!(page, "{name:name_width$}  {value:value_width$}  {source}");
        page
    })
}

fn shown(setting: &Setting) -> String {
    match setting.key.exposure {
        Exposure::Secret if setting.value != Value::Unset => "(secret)".to_owned(),
        // Escaped, so that a value is always on one line.
        _ => setting.value.to_string().escape_debug().to_string(),
    }
}

fn initial(key: &Key, quote: &str) -> String {
    match key.initial {
        Initial::Computed(words) if quote.is_empty() => words.replace('`', ""),
        Initial::Computed(words) => words.to_owned(),
        Initial::Is(text) => format!("{quote}{text}{quote}"),
        Initial::Unset => "unset".to_owned(),
    }
}

fn limitation(key: &Key) -> &'static str {
    match key.availability {
        Availability::Live => "",
        Availability::Reserved(_) => " only: this version lacks the feature",
    }
}

fn report_note(key: &Key) -> String {
    match key.report_field() {
        None => " Not in the report.".to_owned(),
        Some((field, _)) if field == key.variable.to_ascii_lowercase() => String::new(),
        Some((field, _)) => format!(" In the report: `{field}`."),
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("it starts with one line and never shrinks");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::{RawConfig, Source};

    #[test]
    fn the_reference_page_is_the_one_the_table_writes() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/settings.md");
        let page = std::fs::read_to_string(path).unwrap();
        assert!(
            page == markdown(),
            "docs/settings.md is out of date: svc help settings --markdown > docs/settings.md"
        );
    }

    #[test]
    fn help_has_every_setting_and_fits_a_terminal() {
        let help = help();
        assert!(KEYS.iter().all(|key| help.contains(&format!("\n  {} (", key.variable))));
        assert!(help.lines().all(|line| line.chars().count() <= 110));
    }

    #[test]
    fn check_prints_a_line_for_each_setting_and_directive() {
        let raw = RawConfig::new([("DOCUMENT_ROOT", "/tmp"), ("SPOOL_DIR", "/tmp"), ("LOG_LEVEL", "warn")])
            .with_directive("memory_limit=1G".into());
        let page = check(&Config::resolve(&raw).unwrap());
        assert_eq!(page.lines().count(), KEYS.len() + 1);
        let words = |name: &str| -> Vec<&str> {
            page.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect()
        };
        assert_eq!(words("LOG_LEVEL"), ["LOG_LEVEL", "warn", "environment"]);
        assert_eq!(words("-d"), ["-d", "memory_limit=1G", "command", "line"]);
        assert_eq!(words("INTERNAL_ADDR"), ["INTERNAL_ADDR", "unset", "default"]);
    }

    #[test]
    fn a_secret_is_masked() {
        static KEY: Key = Key { exposure: Exposure::Secret, ..KEYS_FIRST };
        const KEYS_FIRST: Key =
            Key::new(crate::config::id::Id::Plugins, "TOKEN", crate::config::key::Kind::Text, Initial::Unset);
        let setting =
            Setting { key: &KEY, value: Value::Text("hunter2".to_owned()), source: Source::Environment };
        assert_eq!(shown(&setting), "(secret)");
        assert_eq!(KEY.report_field(), None);
    }
}
