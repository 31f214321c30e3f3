//! SQL as far as traces need it: the operations and tables of a statement, and its text without values.
//!
//! Each function makes one pass over the text. Everything that may be a value is replaced, even in invalid SQL; an
//! unterminated literal includes the rest of the text. This is no parser: a statement that it does not understand gets
//! a poorer summary, but never leaks a literal.

use std::borrow::Cow;

use super::sql_tokens::{SqlDialect, Token, Tokens};
use super::sql_words::SqlWord;

/// The operations of a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlSummary {
    /// The first operation, in upper case; empty if there is none.
    pub operation: Cow<'static, str>,
    /// The table, if it is one operation on one table.
    pub collection: Option<String>,
    /// All operations, each followed by its targets.
    pub text: String,
}

/// The maximum length of a summary; the conventions require one short enough for a name.
const SUMMARY_BYTES_MAX: usize = 255;
/// The initial capacity, sufficient for most summaries.
const SUMMARY_BYTES_USUAL: usize = 64;
/// The maximum length of a word or name in a summary.
const WORD_BYTES_MAX: usize = 128;
/// Operations whose names are not allocated.
const USUAL_OPERATIONS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];
/// The maximum nesting of parentheses that is tracked.
const DEPTH_MAX: usize = 64;
/// The maximum number of common table expressions whose names are distinguished from tables.
const EXPRESSIONS_MAX: usize = 16;

/// Replaces all values of a text by `?` and removes comments. For tests and fuzzing.
pub fn without_literals(sql: &[u8], dialect: SqlDialect) -> Vec<u8> {
    let mut masked = Vec::with_capacity(sql.len());
    let _ = mask(sql, dialect, &mut masked);
    masked.truncate(masked.trim_ascii_end().len());
    masked
}

/// Summarizes a statement.
pub fn summarize(sql: &[u8], dialect: SqlDialect) -> SqlSummary {
    let mut reader = SummaryReader::default();
    let mut tokens = Tokens::of(sql, dialect);
    while let Some(token) = tokens.next_in_clause() {
        match token {
            Token::Word(word) if reader.continues(word) => {}
            Token::Word(_) | Token::Name(_) => {
                let mut path = Cow::Borrowed(token.name().unwrap_or_default());
                // `shop`.orders is one name.
                while let Some(part) = tokens.next_of_path() {
                    if reader.awaits != Awaits::Nothing {
                        let whole = path.to_mut();
                        whole.push(b'.');
                        whole.extend_from_slice(part);
                    }
                }
                reader.name(&path);
            }
            Token::Symbol(symbol) => reader.symbol(symbol),
            Token::Literal | Token::Number | Token::Placeholder(_) => reader.value(),
            Token::Comment | Token::Space(_) => {}
        }
    }
    reader.finish()
}

/// Writes a text into `masked` with values replaced and comments removed. [`summarize`] depends on nothing else, so
/// that texts with the same result have the same summary. Returns false if this text is an exception.
#[must_use]
pub(super) fn mask(sql: &[u8], dialect: SqlDialect, masked: &mut Vec<u8>) -> bool {
    let mut is_masked = true;
    let mut tokens = Tokens::of(sql, dialect);
    // The text up to here is in `masked`; after it, nothing had to be replaced yet.
    let mut copied = 0;
    masked.clear();
    loop {
        tokens.skip_plain();
        let begins_at = sql.len() - tokens.bytes_left();
        let Some(token) = tokens.next() else { break };
        if matches!(token, Token::Literal | Token::Number | Token::Comment) {
            masked.extend_from_slice(&sql[copied..begins_at]);
            copied = sql.len() - tokens.bytes_left();
            if token != Token::Comment {
                masked.push(b'?');
                continue;
            }
            // `shop/**/.orders` is one name, but `shop .orders` is not read as one.
            is_masked &= sql[..begins_at].last() != Some(&b'.') && sql.get(copied) != Some(&b'.');
            if masked.last().is_some_and(|last| !last.is_ascii_whitespace()) {
                masked.push(b' ');
            }
        }
    }
    masked.extend_from_slice(&sql[copied..]);
    is_masked
}

/// The kind of the next name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Awaits {
    #[default]
    Nothing,
    /// The kind of object to create, alter or drop.
    Kind,
    /// A table, or another target.
    Target,
    /// A common table expression.
    Expression,
}

#[derive(Debug, Default)]
struct SummaryReader {
    summary: String,
    operation: Cow<'static, str>,
    operations: usize,
    targets: Vec<String>,
    expressions: Vec<String>,
    awaits: Awaits,
    /// Whether a statement has begun.
    is_inside: bool,
    /// Whether it began with `WITH`.
    has_expressions: bool,
    /// Whether the statement has no tables; its rest is skipped.
    is_opaque: bool,
    depth: usize,
    /// The depth of an open clause that lists tables.
    list_depth: Option<usize>,
    /// A bit for each depth with an operation, where `FROM` names tables.
    operated: u64,
    /// The previous token.
    last: Last,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Start,
    Open,
    Close,
    Distinct,
    Other,
}

impl SummaryReader {
    /// Handles an SQL keyword; returns false if the word is a name in this position.
    fn continues(&mut self, word: &[u8]) -> bool {
        let last = std::mem::replace(&mut self.last, Last::Other);
        let is_first = !self.is_inside;
        let known = SqlWord::of(word);
        match known {
            _ if self.is_opaque => {}
            Some(SqlWord::With) if is_first => {
                self.is_inside = true;
                self.has_expressions = true;
                self.awaits = Awaits::Expression;
            }
            Some(SqlWord::Recursive) if self.awaits == Awaits::Expression => {}
            Some(SqlWord::Select) => self.operate(word),
            Some(SqlWord::Write | SqlWord::Update)
                if is_first || last == Last::Open || (self.has_expressions && last == Last::Close) =>
            {
                self.operate(word);
                if known == Some(SqlWord::Update) {
                    self.awaits = Awaits::Target;
                }
            }
            Some(SqlWord::Define) if is_first => {
                self.operate(word);
                self.awaits = Awaits::Kind;
            }
            Some(SqlWord::Call) if is_first => {
                self.operate(word);
                self.awaits = Awaits::Target;
            }
            Some(SqlWord::Explain) if is_first || self.summary == "EXPLAIN" => {
                if is_first {
                    self.operate(word);
                }
            }
            _ if is_first => {
                self.operate(word);
                self.is_opaque = true;
            }
            Some(SqlWord::From) => self.list(last != Last::Distinct && self.is_operated()),
            Some(SqlWord::Into) => self.list(self.is_operated()),
            Some(SqlWord::Particle) => {}
            Some(SqlWord::Distinct) => self.last = Last::Distinct,
            Some(SqlWord::Clause) => {
                self.list_depth = None;
                self.awaits = Awaits::Nothing;
            }
            Some(SqlWord::Kind) if self.awaits == Awaits::Kind => {
                self.write(word, true);
                self.awaits = Awaits::Target;
            }
            _ => return false,
        }
        true
    }

    fn operate(&mut self, word: &[u8]) {
        self.is_inside = true;
        self.operations += 1;
        self.awaits = Awaits::Nothing;
        self.list_depth = None;
        if self.depth < DEPTH_MAX {
            self.operated |= 1 << self.depth;
        }
        self.write(word, true);
        if self.operation.is_empty() {
            let usual = USUAL_OPERATIONS.iter().find(|usual| word.eq_ignore_ascii_case(usual.as_bytes()));
            self.operation = match usual {
                Some(usual) => Cow::Borrowed(usual),
                None => word_of(word).to_ascii_uppercase().into(),
            };
        }
    }

    fn is_operated(&self) -> bool {
        self.depth < DEPTH_MAX && self.operated & (1 << self.depth) != 0
    }

    /// Starts a list of tables if `do_follow`.
    fn list(&mut self, do_follow: bool) {
        if do_follow {
            self.awaits = Awaits::Target;
            self.list_depth = Some(self.depth);
        }
    }

    fn name(&mut self, path: &[u8]) {
        self.last = Last::Other;
        if self.is_opaque {
            return;
        }
        match std::mem::take(&mut self.awaits) {
            Awaits::Expression => {
                if self.expressions.len() < EXPRESSIONS_MAX {
                    self.expressions.push(word_of(path).into_owned());
                }
            }
            // `TRUNCATE orders`, and created objects whose kind is not listed.
            Awaits::Kind | Awaits::Target => self.target(path),
            Awaits::Nothing if !self.is_inside => {
                self.is_inside = true;
                self.is_opaque = true;
            }
            Awaits::Nothing => {}
        }
    }

    fn target(&mut self, path: &[u8]) {
        let name = word_of(path).into_owned();
        if self.expressions.iter().any(|expression| name.eq_ignore_ascii_case(expression)) {
            return;
        }
        self.write(path, false);
        if self.targets.len() < 2 && !self.targets.contains(&name) {
            self.targets.push(name);
        }
    }

    fn symbol(&mut self, symbol: &[u8]) {
        let last = std::mem::replace(&mut self.last, Last::Other);
        match symbol {
            b"(" => {
                self.awaits = Awaits::Nothing;
                self.depth += 1;
                if self.depth < DEPTH_MAX {
                    self.operated &= !(1 << self.depth);
                }
                self.last = Last::Open;
            }
            b")" => {
                self.depth = self.depth.saturating_sub(1);
                self.awaits = Awaits::Nothing;
                self.last = Last::Close;
            }
            b"," if self.list_depth == Some(self.depth) => self.awaits = Awaits::Target,
            b"," if self.has_expressions && self.operations_at_top() == 0 && last == Last::Close => {
                self.awaits = Awaits::Expression;
            }
            b";" => {
                self.is_inside = false;
                self.is_opaque = false;
                self.has_expressions = false;
                self.awaits = Awaits::Nothing;
                self.list_depth = None;
                self.depth = 0;
                self.operated = 0;
                self.last = Last::Start;
            }
            _ => {}
        }
    }

    fn operations_at_top(&self) -> u64 {
        self.operated & 1
    }

    fn value(&mut self) {
        self.awaits = Awaits::Nothing;
        self.last = Last::Other;
    }

    /// Adds a word to the summary if all of it fits.
    fn write(&mut self, word: &[u8], is_keyword: bool) {
        let word = word_of(word);
        let space = usize::from(!self.summary.is_empty());
        if space == 0 {
            self.summary.reserve(SUMMARY_BYTES_USUAL);
        }
        if self.summary.len() + space + word.len() <= SUMMARY_BYTES_MAX {
            if space == 1 {
                self.summary.push(' ');
            }
            let begins_at = self.summary.len();
            self.summary.push_str(&word);
            if is_keyword {
                self.summary[begins_at..].make_ascii_uppercase();
            }
        }
    }

    fn finish(mut self) -> SqlSummary {
        let is_single = self.operations == 1 && self.targets.len() == 1;
        let is_call = matches!(&*self.operation, "CALL" | "EXEC" | "EXECUTE");
        let is_other = matches!(&*self.operation, "CREATE" | "ALTER" | "DROP")
            && self.summary.split(' ').nth(1) != Some("TABLE");
        let collection = (is_single && !is_call && !is_other).then(|| self.targets.remove(0));
        SqlSummary { operation: self.operation, collection, text: self.summary }
    }
}

fn word_of(bytes: &[u8]) -> Cow<'_, str> {
    let word = &bytes[..bytes.len().min(WORD_BYTES_MAX)];
    std::str::from_utf8(word).map_or_else(|_| String::from_utf8_lossy(word), Cow::Borrowed)
}

#[cfg(test)]
#[path = "sql_tests.rs"]
mod tests;
