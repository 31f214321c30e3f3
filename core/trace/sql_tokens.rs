//! The tokens of SQL.
//!
//! Promises: every byte belongs to one token, in order; a token has at least one byte, so that the end is reached. Refuses:
//! it knows no grammar.

/// What texts look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// Double quotes enclose values, and a backslash escapes.
    MySql,
    /// The same with `NO_BACKSLASH_ESCAPES`: a backslash in a value is one.
    MySqlPlain,
    /// Dollars quote, and `E'…'` has escapes.
    PostgreSql,
    /// The same with `standard_conforming_strings = off`: other values have escapes, too.
    PostgreSqlEscapes,
    /// Double quotes, backticks and brackets enclose names.
    Standard,
    /// As `Standard`, but double quotes may enclose values, too: SQLite takes what is no name for one.
    Loose,
}

impl SqlDialect {
    /// The same where the server takes a backslash in a value for what it is not by default.
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

    /// In values without a prefix.
    fn has_escapes(self) -> bool {
        matches!(self, Self::MySql | Self::PostgreSqlEscapes)
    }
}

/// A token; texts are those of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A comment, to its end.
    Comment,
    /// A value in quotes.
    Literal,
    /// A name in quotes, with them.
    Name(&'a [u8]),
    /// A number.
    Number,
    /// What a value is bound to: `?`, `$1`, `:name`, `@name`.
    Placeholder(&'a [u8]),
    /// White space.
    Space(&'a [u8]),
    /// Anything else: one byte, or two for `::`.
    Symbol(&'a [u8]),
    /// A keyword or a name.
    Word(&'a [u8]),
}

impl<'a> Token<'a> {
    /// A word, or a name without its quotes.
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
    /// A minus before a digit is a sign, and part of the number.
    is_operand: bool,
    is_after_literal: bool,
    /// Behind `E'…'`, and white space: what follows in quotes is the rest of it, with the same escapes.
    has_escapes: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(sql: &'a [u8], dialect: SqlDialect) -> Self {
        Self { rest: sql, dialect, is_operand: false, is_after_literal: false, has_escapes: false }
    }

    /// How many bytes no token has been made of.
    pub(super) fn bytes_left(&self) -> usize {
        self.rest.len()
    }

    /// The next token that is neither white space nor a comment.
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

    /// After a name: the next part of its path, behind a dot. There may be comments around the dot, and no white space.
    pub(super) fn next_of_path(&mut self) -> Option<&'a [u8]> {
        // Nothing else is a dot, or a comment.
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

    /// Passes over words, white space and symbols up to what may be something else.
    ///
    /// Most of a text is that. Who needs no tokens gets over it in a few steps a byte.
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
                    // Mostly, a space follows.
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

    /// How many bytes there are up to where `is_part` ends, from `start`.
    fn span(&self, start: usize, is_part: impl Fn(u8) -> bool) -> usize {
        let tail = self.rest.get(start..).unwrap_or_default();
        start + tail.iter().position(|&byte| !is_part(byte)).unwrap_or(tail.len())
    }

    /// The length of what begins with a quote at `start`; all of the rest if it does not end.
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

    /// Whether two minus signs, here, begin a comment. For MySQL, white space has to follow.
    fn is_comment(&self) -> bool {
        let third = self.rest.get(2).copied().unwrap_or_default();
        !self.dialect.is_mysql() || third == b' ' || third.is_ascii_control()
    }

    /// PostgreSQL's comments nest, others' do not: `/* a /* b */` is one in either case, and so is not shown.
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

    /// Two minus signs that only become a comment of MySQL's when the comment behind them is left out.
    fn is_nearly_comment(&self) -> bool {
        self.dialect.is_mysql() && matches!(self.rest.get(2), Some(b'-' | b'#' | b'/'))
    }

    /// Whether what goes up to `close` for one reader of it goes on for another, who looks for values and comments in it:
    /// where values begin behind it is not known.
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
                // It is looked at by itself, up to the same end.
                [b'[', ..] if close == b"]" => return false,
                [b'#', ..] if is_mysql => return true,
                [b'-', b'-', ..] | [b'/', b'*', ..] => return true,
                _ => at += 1,
            }
        }
        false
    }

    /// MySQL carries out what is in `/*!…*/`, unless it is too old for it. A value that is open where that ends goes on.
    fn is_unclear_comment(&self) -> bool {
        let is_code = self.rest.starts_with(b"/*!") || self.rest.starts_with(b"/*M!");
        self.dialect.is_mysql() && is_code && self.is_unclear(b"/*!".len(), b"*/")
    }

    /// `[…]`, which for SQLite is a name whatever is in it, and elsewhere may be what an array consists of.
    fn is_unclear_name(&self) -> bool {
        let has_brackets = matches!(self.dialect, SqlDialect::Standard | SqlDialect::Loose);
        has_brackets && self.is_unclear(1, b"]")
    }

    /// `$tag$…$tag$`; `None` if it is something else.
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
        // What most of a text consists of comes first.
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
            // A space follows where an array begins, or where a comment was.
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
            // PostgreSQL's own placeholders are `$1`; these are an absolute value, and a part of an array.
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
            // No SQL: where a literal ends is not clear, so this may be a part of it.
            Token::Word(_) if self.is_after_literal => Token::Literal,
            token => token,
        };
        self.is_after_literal = token == Token::Literal;
        self.has_escapes &= matches!(token, Token::Literal | Token::Comment | Token::Space(_));
        match token {
            Token::Comment | Token::Space(_) => {}
            // After these, a minus is an operator.
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

/// Whether a word is one before this byte: `a-1`, but `select -1`.
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

/// What each byte may be. A table, because this is asked about nearly every byte of a text.
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

/// It begins a word, and stands in words.
const STARTS: u8 = 0;

/// It stands in a word, behind its beginning. What is greater does not.
const CONTINUES: u8 = 1;

/// White space.
const SPACE: u8 = 2;

/// A symbol whatever follows it.
const STANDS_ALONE: u8 = 3;

/// The same, and the end of an operand.
const CLOSES: u8 = 4;

/// A symbol, or the beginning of a number.
const DOT: u8 = 5;

/// Whatever its neighbours make of it.
const OTHER: u8 = 6;
