//! What is said about statements of SQL.
//!
//! Promises: a statement that was kept is described as one that was not; what is kept is bounded. Refuses: nothing is kept
//! about what a statement did.

use std::hash::{DefaultHasher, Hasher};

use super::sql::{SqlSummary, read};
use super::sql_tokens::SqlDialect;

/// What is said about one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement {
    /// Its text, in which nothing is a value unless it was prepared.
    pub text: String,
    /// What it does.
    pub summary: SqlSummary,
}

impl Statement {
    /// Reads a statement. One that is not prepared has values in its text, which are replaced.
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
        let (summary, masked) = read(sql, dialect, !is_prepared);
        let text = if is_prepared { sql.to_vec() } else { masked };
        let text = String::from_utf8(text)
            .unwrap_or_else(|not| String::from_utf8_lossy(not.as_bytes()).into_owned());
        Self { text, summary }
    }
}

/// Statements that were read, because applications repeat theirs. Each has one place, which the next one for that place
/// takes.
#[derive(Debug, Default)]
pub struct Statements {
    /// Empty before the first statement.
    places: Vec<Option<KeptStatement>>,
    /// One that is too long to be kept.
    long: Statement,
}

#[derive(Debug)]
struct KeptStatement {
    sql: Box<[u8]>,
    dialect: SqlDialect,
    is_prepared: bool,
    statement: Statement,
}

impl Statements {
    /// How many are kept; a power of two.
    const PLACES: usize = 64;

    /// A longer one is read each time. Together, this bounds what is kept to about 300 KiB.
    const SQL_BYTES_MAX: usize = 2048;

    /// Returns what [`Statement::of`] would.
    pub fn describe(&mut self, sql: &[u8], dialect: SqlDialect, is_prepared: bool) -> &Statement {
        if sql.len() > Self::SQL_BYTES_MAX {
            self.long = Statement::of(sql, dialect, is_prepared);
            return &self.long;
        }
        if self.places.is_empty() {
            self.places.resize_with(Self::PLACES, || None);
        }
        let mut hasher = DefaultHasher::new();
        hasher.write(sql);
        #[expect(clippy::cast_possible_truncation, reason = "any of its bits will do")]
        let place = &mut self.places[hasher.finish() as usize % Self::PLACES];
        let kept = place
            .take()
            .filter(|kept| kept.dialect == dialect && kept.is_prepared == is_prepared && *kept.sql == *sql);
        let kept = kept.unwrap_or_else(|| KeptStatement {
            sql: sql.into(),
            dialect,
            is_prepared,
            statement: Statement::of(sql, dialect, is_prepared),
        });
        &place.insert(kept).statement
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SqlDialect::{MySql, PostgreSql, Standard};

    #[test]
    fn what_is_kept_is_what_would_be_read() {
        let mut statements = Statements::default();
        let long = format!("select '{}' from t", "x".repeat(Statements::SQL_BYTES_MAX));
        let mut texts: Vec<String> =
            (0..500).map(|i| format!("select \"a{i}\" from t{i} where b = {i}")).collect();
        texts.extend([String::new(), long]);
        for text in texts.iter().chain(&texts) {
            for dialect in [MySql, PostgreSql, Standard, MySql] {
                for is_prepared in [true, false, false] {
                    let sql = text.as_bytes();
                    let expected = Statement::of(sql, dialect, is_prepared);
                    assert_eq!(*statements.describe(sql, dialect, is_prepared), expected);
                }
            }
        }
        assert_eq!(statements.places.len(), Statements::PLACES);
        assert!(statements.places.iter().flatten().all(|kept| kept.sql.len() <= Statements::SQL_BYTES_MAX));
    }

    #[test]
    fn one_that_comes_again_is_not_read_again() {
        let mut statements = Statements::default();
        let first = statements.describe(b"select 1", MySql, false).text.as_ptr();
        assert_eq!(statements.describe(b"select 1", MySql, false).text.as_ptr(), first);
    }
}
