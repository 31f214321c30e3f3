//! Descriptions of SQL statements, and a cache of them.
//!
//! A cached statement is described exactly like an uncached one, and the cache is bounded. Results of statements are
//! not kept.

use std::borrow::Cow;

use super::sql::{SqlSummary, mask, summarize};
use super::sql_tokens::SqlDialect;

/// The description of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Its text, free of values unless it was prepared.
    pub text: String,
    /// Its operations.
    pub summary: SqlSummary,
}

impl Statement {
    /// Reads a statement. Values in the text are replaced unless it was prepared.
    ///
    /// # Examples
    ///
    /// ```
    /// use svc_core::trace::{SqlDialect, Statement};
    ///
    /// let statement = Statement::of(b"select name from users where id = 5", SqlDialect::MySql, false);
    /// assert_eq!(statement.text, "select name from users where id = ?");
    /// assert_eq!(statement.summary.text, "SELECT users");
    /// ```
    pub fn of(sql: &[u8], dialect: SqlDialect, is_prepared: bool) -> Self {
        let mut masked = Vec::new();
        if !is_prepared {
            masked.reserve_exact(sql.len());
            let _ = mask(sql, dialect, &mut masked);
        }
        Self::with_text(sql, dialect, if is_prepared { sql } else { masked.trim_ascii_end() })
    }

    /// Builds the description with the text as recorded.
    fn with_text(sql: &[u8], dialect: SqlDialect, text: &[u8]) -> Self {
        // Validating it at once is faster than looking for invalid sequences.
        let text = str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed);
        Self { text: text.into_owned(), summary: summarize(sql, dialect) }
    }
}

/// A cache of descriptions, because applications repeat their statements with other values. It is direct-mapped: a new
/// entry replaces the previous one in its slot.
#[derive(Debug, Default)]
pub struct Statements {
    /// Empty until the first statement.
    places: Vec<Option<KeptStatement>>,
    /// The description of a statement that is not cached.
    other: Statement,
    /// A buffer for the last text without values.
    masked: Vec<u8>,
}

#[derive(Debug)]
struct KeptStatement {
    /// The text without values, which is the key.
    masked: Box<[u8]>,
    dialect: SqlDialect,
    is_prepared: bool,
    statement: Statement,
}

impl Statements {
    /// The number of slots; a power of two.
    const PLACES: usize = 64;

    /// Longer statements are not cached. With the number of slots, this bounds the cache to about 300 KiB.
    const SQL_BYTES_MAX: usize = 2048;

    /// Returns the same description as [`Statement::of`].
    pub fn describe(&mut self, sql: &[u8], dialect: SqlDialect, is_prepared: bool) -> &Statement {
        if sql.len() > Self::SQL_BYTES_MAX {
            self.other = Statement::of(sql, dialect, is_prepared);
            return &self.other;
        }
        let is_masked = is_prepared || mask(sql, dialect, &mut self.masked);
        let masked = if is_prepared { sql } else { &self.masked[..] };
        let text = if is_prepared { sql } else { masked.trim_ascii_end() };
        if !is_masked {
            self.other = Statement::with_text(sql, dialect, text);
            return &self.other;
        }
        if self.places.is_empty() {
            self.places.resize_with(Self::PLACES, || None);
        }
        let place = &mut self.places[place_of(masked)];
        let is_it = |kept: &KeptStatement| {
            kept.dialect == dialect && kept.is_prepared == is_prepared && *kept.masked == *masked
        };
        if !place.as_ref().is_some_and(is_it) {
            let statement = Statement::with_text(sql, dialect, text);
            *place = Some(KeptStatement { masked: masked.into(), dialect, is_prepared, statement });
        }
        place.as_ref().map_or(&self.other, |kept| &kept.statement)
    }
}

/// Returns the slot of a text. Colliding texts, even chosen ones, only cost a new reading.
fn place_of(text: &[u8]) -> usize {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, part: u64| (hash.rotate_left(5) ^ part).wrapping_mul(FACTOR);
    let (parts, rest) = text.as_chunks();
    let hash = parts.iter().fold(text.len() as u64, |hash, part| mix(hash, u64::from_le_bytes(*part)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    // The highest bits depend on the whole text.
    (mix(hash, u64::from_le_bytes(last)) >> (u64::BITS - Statements::PLACES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use SqlDialect::{Loose, MySql, PostgreSql, Standard};

    #[test]
    fn one_that_comes_with_other_values_is_not_read_again() {
        let mut statements = Statements::default();
        let first = statements.describe(b"select 'a', 1 from t -- x", MySql, false).text.as_ptr();
        let second = statements.describe(b"select  'bcd', 2 from t", MySql, false).text.as_ptr();
        let third = statements.describe(b"select 'bcd', 2 from t -- y", MySql, false).text.as_ptr();
        assert!(first != second && first == third, "by its text without values");
    }

    #[test]
    fn remembered_statements_equal_parsed_ones() {
        let mut statements = Statements::default();
        let long = format!("select '{}' from t", "x".repeat(Statements::SQL_BYTES_MAX));
        let mut texts: Vec<String> =
            (0..500).map(|i| format!("select \"a{i}\" from t{} where b = {i}", i / 2)).collect();
        texts.extend([String::new(), long]);
        texts.extend(
            ["select 1 from a/**/.b", "select 1 from a .b", "select 1 from \"a ", "select 1 from \"a"]
                .map(Into::into),
        );
        for text in texts.iter().chain(&texts) {
            for dialect in [MySql, PostgreSql, Standard, Loose, MySql] {
                for is_prepared in [true, false, false] {
                    let sql = text.as_bytes();
                    let expected = Statement::of(sql, dialect, is_prepared);
                    assert_eq!(*statements.describe(sql, dialect, is_prepared), expected);
                }
            }
        }
        assert_eq!(statements.places.len(), Statements::PLACES);
        assert!(
            statements.places.iter().flatten().all(|kept| kept.masked.len() <= Statements::SQL_BYTES_MAX)
        );
    }

    #[test]
    fn one_that_comes_again_is_not_read_again() {
        let mut statements = Statements::default();
        let first = statements.describe(b"select 1", MySql, false).text.as_ptr();
        assert_eq!(statements.describe(b"select 1", MySql, false).text.as_ptr(), first);
    }
}
