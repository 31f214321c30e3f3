//! The tokens of SQL.
//!
//! Every byte belongs to exactly one token, in order. A token has at least one byte, so that the end is reached.
//! Grammar is not known here.

/// The lexical rules of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// Double quotes enclose values, and a backslash escapes.
    MySql,
    /// As `MySql` with `NO_BACKSLASH_ESCAPES`: a backslash in a value stands for itself.
    MySqlPlain,
    /// Dollar signs quote values, and `E'…'` has escapes.
    PostgreSql,
    /// As `PostgreSql` with `standard_conforming_strings = off`: other values have escapes, too.
    PostgreSqlEscapes,
    /// Double quotes, backticks and brackets enclose names.
    Standard,
    /// As `Standard`, but double quotes may also enclose values: SQLite falls back to a value if no such name exists.
    Loose,
}

impl SqlDialect {
    /// Returns the dialect for a server whose handling of a backslash in a value differs from the default.
    #[must_use]
    pub fn with_other_backslash(self) -> Self {
        match self {
            Self::MySql => Self::MySqlPlain,
            Self::MySqlPlain => Self::MySql,
            Self::PostgreSql => Self::PostgreSqlEscapes,
            Self::PostgreSqlEscapes => Self::PostgreSql,
            Self::Standard | Self::Loose => self,
        }
    }

    fn is_mysql(self) -> bool {
        matches!(self, Self::MySql | Self::MySqlPlain)
    }

    fn is_pgsql(self) -> bool {
        matches!(self, Self::PostgreSql | Self::PostgreSqlEscapes)
    }

    /// Returns whether values without a prefix have escapes.
    fn has_escapes(self) -> bool {
        matches!(self, Self::MySql | Self::PostgreSqlEscapes)
    }
}

/// A token; slices point into the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A complete comment.
    Comment,
    /// A value in quotes.
    Literal,
    /// A quoted name, including its quotes.
    Name(&'a [u8]),
    /// A number.
    Number,
    /// A placeholder: `?`, `$1`, `:name`, `@name`.
    Placeholder(&'a [u8]),
    /// White space.
    Space(&'a [u8]),
    /// Anything else: one byte, or two for `::`.
    Symbol(&'a [u8]),
    /// A keyword or a name.
    Word(&'a [u8]),
}

impl<'a> Token<'a> {
    /// Returns a word, or a name without its quotes.
    pub(super) fn name(self) -> Option<&'a [u8]> {
        match self {
            Self::Name(text) => Some(text.get(1..text.len().saturating_sub(1)).unwrap_or_default()),
            Self::Word(text) => Some(text),
            _ => None,
        }
    }
}

/// The tokens of a text.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a [u8],
    dialect: SqlDialect,
    /// Whether the previous token was an operand; if not, a minus before a digit is a sign, and part of the number.
    is_operand: bool,
    is_after_literal: bool,
    /// Whether `E'…'` and white space precede: a quoted text then continues the value, with the same escapes.
    has_escapes: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(sql: &'a [u8], dialect: SqlDialect) -> Self {
        Self { rest: sql, dialect, is_operand: false, is_after_literal: false, has_escapes: false }
    }

    /// Returns the number of bytes not tokenized yet.
    pub(super) fn bytes_left(&self) -> usize {
        self.rest.len()
    }

    /// Returns the next token other than white space and comments.
    pub(super) fn next_in_clause(&mut self) -> Option<Token<'a>> {
        loop {
            while let Some((&byte, rest)) = self.rest.split_first()
                && is_space(byte)
            {
                self.rest = rest;
                self.is_after_literal = false;
            }
            match self.next() {
                Some(Token::Comment) => {}
                token => return token,
            }
        }
    }

    /// Returns the next part of a path, after a dot that follows a name. Comments may surround the dot, white space may
    /// not.
    pub(super) fn next_of_path(&mut self) -> Option<&'a [u8]> {
        // Only these can start a dot or a comment.
        if !matches!(self.rest.first(), Some(b'.' | b'/' | b'-' | b'#')) {
            return None;
        }
        let mut ahead = self.clone();
        if ahead.find(|token| *token != Token::Comment) != Some(Token::Symbol(b".")) {
            return None;
        }
        *self = ahead.clone();
        let part = ahead.find(|token| *token != Token::Comment)?.name()?;
        *self = ahead;
        Some(part)
    }

    /// Skips words, white space and symbols, up to the first byte of any other possible token.
    ///
    /// These make up most of a text; callers that do not need the tokens get past them in a few steps per byte.
    pub(super) fn skip_plain(&mut self) {
        let text = self.rest;
        let (mut is_operand, mut is_after_literal) = (self.is_operand, self.is_after_literal);
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            match BYTES[usize::from(byte)] {
                STARTS if !is_after_literal => {
                    let end = self.span(at + 1, is_word_part);
                    let next = text.get(end).copied().unwrap_or_default();
                    if next == b'\'' {
                        break;
                    }
                    is_operand = ends_as_operand(next);
                    self.has_escapes = false;
                    // Usually a space follows.
                    at = end + usize::from(next == b' ');
                }
                SPACE => {
                    at += 1;
                    is_after_literal = false;
                }
                kind @ (CLOSES | STANDS_ALONE) => {
                    at += 1;
                    self.has_escapes = false;
                    is_operand = kind == CLOSES;
                    is_after_literal = false;
                }
                DOT if is_operand || !text.get(at + 1).is_some_and(u8::is_ascii_digit) => {
                    at += 1;
                    self.has_escapes = false;
                    is_operand = false;
                    is_after_literal = false;
                }
                _ => break,
            }
        }
        self.rest = text.get(at..).unwrap_or_default();
        (self.is_operand, self.is_after_literal) = (is_operand, is_after_literal);
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(length.clamp(1, self.rest.len()));
        self.rest = rest;
        taken
    }

    fn second(&self) -> u8 {
        self.rest.get(1).copied().unwrap_or_default()
    }

    /// Returns the number of bytes from `start` for which `is_part` holds.
    fn span(&self, start: usize, is_part: impl Fn(u8) -> bool) -> usize {
        let tail = self.rest.get(start..).unwrap_or_default();
        start + tail.iter().position(|&byte| !is_part(byte)).unwrap_or(tail.len())
    }

    /// Returns the length of the quoted text at `start`; without a closing quote, it includes the rest.
    fn quoted(&self, start: usize, close: u8, has_escapes: bool) -> usize {
        let mut at = start + 1;
        while let Some(&byte) = self.rest.get(at) {
            let is_doubled = byte == close && self.rest.get(at + 1) == Some(&close);
            if is_doubled || (byte == b'\\' && has_escapes) {
                at += 2;
            } else if byte == close {
                return at + 1;
            } else {
                at += 1;
            }
        }
        self.rest.len()
    }

    fn line_comment(&self) -> usize {
        let is_pgsql = self.dialect.is_pgsql();
        self.span(0, |byte| byte != b'\n' && !(is_pgsql && byte == b'\r'))
    }

    /// Returns whether two minus signs at this position begin a comment. MySQL requires white space after them.
    fn is_comment(&self) -> bool {
        let third = self.rest.get(2).copied().unwrap_or_default();
        !self.dialect.is_mysql() || third == b' ' || third.is_ascii_control()
    }

    /// Returns the length of a block comment. PostgreSQL's nest, others do not: `/* a /* b */` is a comment either way,
    /// and so is never recorded.
    fn block_comment(&self) -> usize {
        let nests = self.dialect.is_pgsql();
        let (mut at, mut depth) = (2, 1_usize);
        while at < self.rest.len() {
            match &self.rest[at..] {
                [b'*', b'/', ..] => {
                    at += 2;
                    depth -= 1;
                    if depth == 0 {
                        return at;
                    }
                }
                [b'/', b'*', ..] if nests => {
                    at += 2;
                    depth += 1;
                }
                _ => at += 1,
            }
        }
        self.rest.len()
    }

    /// Returns whether two minus signs become a MySQL comment once the comment after them is removed.
    fn is_nearly_comment(&self) -> bool {
        self.dialect.is_mysql() && matches!(self.rest.get(2), Some(b'-' | b'#' | b'/'))
    }

    /// Returns whether the text up to `close` is ambiguous: a server that reads it differently, and finds values and
    /// comments in it, would go on past `close`, so it is unknown where values begin after it.
    fn is_unclear(&self, start: usize, close: &[u8]) -> bool {
        let is_mysql = self.dialect.is_mysql();
        let mut at = start;
        while let Some(rest) = self.rest.get(at..).filter(|rest| !rest.is_empty()) {
            match rest {
                _ if rest.starts_with(close) => return false,
                [quote @ (b'\'' | b'"' | b'`'), ..] => {
                    let end = self.quoted(at, *quote, self.dialect.has_escapes() && *quote != b'`');
                    if memchr::memmem::find(&self.rest[at..end], close).is_some() {
                        return true;
                    }
                    at = end;
                }
                // It is checked separately, up to the same end.
                [b'[', ..] if close == b"]" => return false,
                [b'#', ..] if is_mysql => return true,
                [b'-', b'-', ..] | [b'/', b'*', ..] => return true,
                _ => at += 1,
            }
        }
        false
    }

    /// Returns whether a `/*!…*/` comment is ambiguous: MySQL executes its content, unless the server is too old, and a
    /// value that is open at its end continues.
    fn is_unclear_comment(&self) -> bool {
        let is_code = self.rest.starts_with(b"/*!") || self.rest.starts_with(b"/*M!");
        self.dialect.is_mysql() && is_code && self.is_unclear(b"/*!".len(), b"*/")
    }

    /// Returns whether `[…]` is ambiguous: a name for SQLite whatever it contains, but elsewhere perhaps the elements
    /// of an array.
    fn is_unclear_name(&self) -> bool {
        let has_brackets = matches!(self.dialect, SqlDialect::Standard | SqlDialect::Loose);
        has_brackets && self.is_unclear(1, b"]")
    }

    /// Returns the length of `$tag$…$tag$`; `None` if it is something else.
    fn dollar_quoted(&self) -> Option<usize> {
        let tag_end = self.span(1, |byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
        let is_tag = self.rest.get(tag_end) == Some(&b'$') && !self.second().is_ascii_digit();
        let tag = is_tag.then(|| &self.rest[..=tag_end])?;
        let body = tag_end + 1;
        let end = memchr::memmem::find(&self.rest[body..], tag);
        Some(end.map_or(self.rest.len(), |end| body + end + tag.len()))
    }

    fn number(&self, start: usize) -> usize {
        let mut at = self.span(start, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'));
        // 1e-5
        if matches!(self.rest.get(at), Some(b'+' | b'-'))
            && self.rest[at - 1].eq_ignore_ascii_case(&b'e')
            && !self.rest[start..].starts_with(b"0x")
        {
            at = self.span(at + 1, |byte| byte.is_ascii_digit());
        }
        at
    }

    fn word(&mut self) -> Token<'a> {
        let end = self.span(0, is_word_part);
        let has_quote = self.rest.get(end) == Some(&b'\'');
        let prefix = &self.rest[..end];
        // N'…', X'…', b'…', E'…', U&'…', _utf8'…'
        if has_quote && (end == 1 || prefix[0] == b'_') {
            let escapes =
                self.dialect.has_escapes() || (self.dialect.is_pgsql() && prefix.eq_ignore_ascii_case(b"e"));
            let length = self.quoted(end, b'\'', escapes);
            self.take(length);
            self.has_escapes = escapes;
            return Token::Literal;
        }
        Token::Word(self.take(end))
    }

    fn read(&mut self, first: u8) -> Token<'a> {
        // The most frequent case comes first.
        if is_word_start(first) {
            return self.word();
        }
        if is_space(first) {
            let length = self.span(1, is_space);
            return Token::Space(self.take(length));
        }
        let is_mysql = self.dialect.is_mysql();
        let second = self.second();
        match first {
            b'-' if second == b'-' && self.is_nearly_comment() => self.rest_as_literal(),
            b'-' if second == b'-' && self.is_comment() => self.comment(Self::line_comment),
            b'#' if is_mysql => self.comment(Self::line_comment),
            b'/' if second == b'*' && self.is_unclear_comment() => self.rest_as_literal(),
            b'/' if second == b'*' => self.comment(Self::block_comment),
            b'\'' => self.literal(b'\'', self.dialect.has_escapes() || self.has_escapes),
            b'"' if is_mysql => self.literal(b'"', self.dialect.has_escapes()),
            b'"' if self.dialect == SqlDialect::Loose => self.literal(b'"', false),
            b'"' | b'`' => Token::Name(self.take(self.quoted(0, first, false))),
            // A space separates it from an array, or from a removed comment.
            b'[' if matches!(self.dialect, SqlDialect::Standard | SqlDialect::Loose)
                && is_word_start(second) =>
            {
                Token::Name(self.take(self.quoted(0, b']', false)))
            }
            b'[' if self.is_unclear_name() => self.rest_as_literal(),
            b'$' if self.dialect.is_pgsql() && !second.is_ascii_digit() => match self.dollar_quoted() {
                Some(length) => {
                    self.take(length);
                    Token::Literal
                }
                None => Token::Symbol(self.take(1)),
            },
            b':' if second == b':' => Token::Symbol(self.take(2)),
            b'?' => Token::Placeholder(self.take(1)),
            // PostgreSQL's placeholders are `$1`; these are an absolute value and an array slice.
            b':' | b'@' if self.dialect.is_pgsql() && second.is_ascii_digit() => Token::Symbol(self.take(1)),
            b'$' | b':' | b'@' if is_word_part(second) => {
                let length = self.span(1, is_word_part);
                Token::Placeholder(self.take(length))
            }
            b'0'..=b'9' => self.take_number(0),
            b'.' if second.is_ascii_digit() && !self.is_operand => self.take_number(1),
            b'-' | b'+' if second.is_ascii_digit() && !self.is_operand => self.take_number(1),
            _ => Token::Symbol(self.take(1)),
        }
    }

    fn comment(&mut self, length: impl Fn(&Self) -> usize) -> Token<'a> {
        self.take(length(self));
        Token::Comment
    }

    fn literal(&mut self, quote: u8, has_escapes: bool) -> Token<'a> {
        self.take(self.quoted(0, quote, has_escapes));
        Token::Literal
    }

    fn rest_as_literal(&mut self) -> Token<'a> {
        self.take(self.rest.len());
        Token::Literal
    }

    fn take_number(&mut self, start: usize) -> Token<'a> {
        self.take(self.number(start));
        Token::Number
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let first = *self.rest.first()?;
        let token = match self.read(first) {
            // Invalid SQL: it is unclear where the literal ends, so this may be part of it.
            Token::Word(_) if self.is_after_literal => Token::Literal,
            token => token,
        };
        self.is_after_literal = token == Token::Literal;
        self.has_escapes &= matches!(token, Token::Literal | Token::Comment | Token::Space(_));
        match token {
            Token::Comment | Token::Space(_) => {}
            // A minus is an operator after these.
            Token::Literal
            | Token::Name(_)
            | Token::Number
            | Token::Placeholder(_)
            | Token::Symbol(b")" | b"]") => {
                self.is_operand = true;
            }
            // `a-1`, but `select -1`.
            Token::Word(_) => {
                self.is_operand = ends_as_operand(self.rest.first().copied().unwrap_or_default());
            }
            Token::Symbol(_) => self.is_operand = false,
        }
        Some(token)
    }
}

/// Returns whether a word before this byte is an operand: `a-1`, but `select -1`.
fn ends_as_operand(next: u8) -> bool {
    matches!(next, b'.' | b'-' | b'+')
}

fn is_word_start(byte: u8) -> bool {
    BYTES[usize::from(byte)] == STARTS
}

fn is_word_part(byte: u8) -> bool {
    BYTES[usize::from(byte)] <= CONTINUES
}

fn is_space(byte: u8) -> bool {
    BYTES[usize::from(byte)] == SPACE
}

/// The class of each byte; a table, because nearly every byte of a text is looked up.
const BYTES: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut byte = 0;
    while byte < table.len() {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let own = byte as u8;
        table[byte] = match own {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | 0x80.. => STARTS,
            b'0'..=b'9' | b'$' => CONTINUES,
            b')' | b']' => CLOSES,
            b',' | b'(' | b'=' | b'*' | b'<' | b'>' | b';' | b'!' | b'%' => STANDS_ALONE,
            b'.' => DOT,
            _ if own.is_ascii_whitespace() => SPACE,
            _ => OTHER,
        };
        byte += 1;
    }
    table
};

/// Starts or continues a word.
const STARTS: u8 = 0;

/// Continues a word, but does not start one. Greater classes are not part of a word.
const CONTINUES: u8 = 1;

/// White space.
const SPACE: u8 = 2;

/// Always a symbol.
const STANDS_ALONE: u8 = 3;

/// Always a symbol, and ends an operand.
const CLOSES: u8 = 4;

/// A symbol, or the beginning of a number.
const DOT: u8 = 5;

/// Depends on the neighbouring bytes.
const OTHER: u8 = 6;
