//! The tables of the reference page of the metrics (docs/metrics.md).
//!
//! Every family is in the table of its section, with the text of its row. The text around the tables is written by
//! hand.

use super::families::ALL;
use super::family::{Family, MetricKind, MetricSection};

/// The first line of a table of families.
const HEADER: &str = "| family | type | meaning |";

/// Returns the page with new tables. In a section with a table, the first line of the table marks its place.
pub fn with_tables(page: &str) -> String {
    let mut out = String::with_capacity(2 * page.len());
    let mut section = None;
    let mut is_in_table = false;
    for line in page.lines() {
        if line.starts_with('#') {
            let title = line.trim_start_matches('#').trim();
            section = MetricSection::ALL.into_iter().find(|section| section.title() == title);
        }
        is_in_table = line == HEADER || is_in_table && line.starts_with('|');
        match section {
            Some(section) if line == HEADER => out.push_str(&table(section)),
            Some(_) if is_in_table => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

fn table(section: MetricSection) -> String {
    let families = ALL.iter().filter(|family| family.section == section);
    let rows = families.map(row);
    [HEADER.to_owned(), "|---|---|---|".to_owned()].into_iter().chain(rows).map(|row| row + "\n").collect()
}

fn row(family: &Family) -> String {
    let kind = match family.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
        MetricKind::Info => "gauge, 1",
    };
    // The section of worker mode states the condition once, for all of its families.
    let settings = family.condition.settings().filter(|_| family.section != MetricSection::WorkerMode);
    let condition = settings.map(|settings| format!(" *Conditional: {settings}.*")).unwrap_or_default();
    format!("| `{}` | {kind} | {}{condition} |", family.name, family.meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../docs/metrics.md");

    #[test]
    fn the_tables_of_the_page_are_those_of_the_families() {
        let expected = with_tables(PAGE);
        let difference = PAGE.lines().zip(expected.lines()).find(|(page, expected)| page != expected);
        assert!(PAGE == expected, "docs/metrics.md is out of date (make docs): {difference:?}");
    }

    #[test]
    fn every_family_is_on_the_page_once() {
        let rows: Vec<_> =
            PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ")).collect();
        for family in ALL {
            assert_eq!(rows.iter().filter(|(name, _)| *name == family.name).count(), 1, "{}", family.name);
        }
        assert_eq!(rows.len(), ALL.len(), "the page has families that do not exist");
    }

    #[test]
    fn a_table_of_something_else_is_left_alone() {
        let page = "## Requests\n\n| reason | status |\n|---|---|\n| a | 1 |\n\n## Else\n\n| family | type | meaning |\n| b |\n";
        assert_eq!(with_tables(page), page);
    }
}
