//! The SQL words that summaries recognize.
//!
//! Matching ignores case; a word that is not listed is a name. The meaning of a word also depends on its position,
//! which is not known here.

/// The possible role of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqlWord {
    /// `CALL`, `EXEC`, `EXECUTE`: a procedure follows.
    Call,
    /// Ends a list of tables.
    Clause,
    /// `CREATE` and others: the kind of an object follows.
    Define,
    /// `DISTINCT`, which may precede a `FROM` without tables.
    Distinct,
    /// `EXPLAIN` and its options: another statement follows.
    Explain,
    /// `FROM`.
    From,
    /// `JOIN` and `INTO`: a table follows.
    Into,
    /// The kind of an object.
    Kind,
    /// Precedes names, but is not one.
    Particle,
    /// `RECURSIVE`, after `WITH`.
    Recursive,
    /// `SELECT`.
    Select,
    /// `UPDATE`: a table follows.
    Update,
    /// `WITH`: a common table expression follows.
    With,
    /// `INSERT`, `DELETE`, `REPLACE`, `MERGE`.
    Write,
}

use SqlWord::{
    Call, Clause, Define, Distinct, Explain, From, Into, Kind, Particle, Recursive, Select, Update, With,
    Write,
};

/// The words by length.
const BY_LENGTH: [&[(&[u8], SqlWord)]; WORD_BYTES_MAX + 1] = [
    &[],
    &[],
    &[(b"AS", Particle), (b"IF", Particle), (b"ON", Clause), (b"OR", Particle)],
    &[(b"FOR", Clause), (b"NOT", Particle), (b"SET", Clause)],
    &[
        (b"CALL", Call),
        (b"DROP", Define),
        (b"EXEC", Call),
        (b"FROM", From),
        (b"INTO", Into),
        (b"JOIN", Into),
        (b"ONLY", Particle),
        (b"ROLE", Kind),
        (b"TEMP", Particle),
        (b"TYPE", Kind),
        (b"USER", Kind),
        (b"VIEW", Kind),
        (b"WITH", With),
    ],
    &[
        (b"ALTER", Define),
        (b"GROUP", Clause),
        (b"INDEX", Kind),
        (b"LIMIT", Clause),
        (b"MERGE", Write),
        (b"ORDER", Clause),
        (b"QUICK", Particle),
        (b"TABLE", Kind),
        (b"UNION", Clause),
        (b"USING", Particle),
        (b"WHERE", Clause),
    ],
    &[
        (b"CREATE", Define),
        (b"DELETE", Write),
        (b"EXISTS", Particle),
        (b"HAVING", Clause),
        (b"IGNORE", Particle),
        (b"INSERT", Write),
        (b"SCHEMA", Kind),
        (b"SELECT", Select),
        (b"UNIQUE", Particle),
        (b"UPDATE", Update),
        (b"VALUES", Clause),
        (b"WINDOW", Clause),
    ],
    &[
        (b"ANALYZE", Explain),
        (b"EXECUTE", Call),
        (b"EXPLAIN", Explain),
        (b"LATERAL", Particle),
        (b"REPLACE", Write),
        (b"TRIGGER", Kind),
        (b"VERBOSE", Explain),
    ],
    &[
        (b"DATABASE", Kind),
        (b"DISTINCT", Distinct),
        (b"FUNCTION", Kind),
        (b"SEQUENCE", Kind),
        (b"TRUNCATE", Define),
        (b"UNLOGGED", Particle),
    ],
    &[
        (b"EXTENSION", Kind),
        (b"PROCEDURE", Kind),
        (b"RECURSIVE", Recursive),
        (b"RETURNING", Clause),
        (b"TEMPORARY", Particle),
    ],
    &[],
    &[],
    &[(b"CONCURRENTLY", Particle), (b"LOW_PRIORITY", Particle)],
];

const WORD_BYTES_MAX: usize = 12;

/// The bits of the initials of the words of each length.
const INITIALS: [u32; WORD_BYTES_MAX + 1] = {
    let mut initials = [0; WORD_BYTES_MAX + 1];
    let mut length = 0;
    while length < initials.len() {
        let mut index = 0;
        while index < BY_LENGTH[length].len() {
            initials[length] |= bit_of(BY_LENGTH[length][index].0[0]);
            index += 1;
        }
        length += 1;
    }
    initials
};

/// Returns the bit of a letter.
const fn bit_of(initial: u8) -> u32 {
    1 << (initial & 31)
}

impl SqlWord {
    /// Returns the possible role of a word; `None` for a name.
    pub(super) fn of(word: &[u8]) -> Option<Self> {
        let words = BY_LENGTH.get(word.len())?;
        let initial = word.first()?.to_ascii_uppercase();
        // Most words are names.
        if INITIALS[word.len()] & bit_of(initial) == 0 {
            return None;
        }
        let is_it = |known: &[u8]| known[0] == initial && word.eq_ignore_ascii_case(known);
        words.iter().find(|(known, _)| is_it(known)).map(|&(_, is)| is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_found_in_any_case() {
        for (length, words) in BY_LENGTH.iter().enumerate() {
            assert!(words.is_sorted_by_key(|(word, _)| word), "{length}");
            for &(word, is) in *words {
                assert_eq!(word.len(), length);
                assert_eq!(SqlWord::of(word), Some(is));
                assert_eq!(SqlWord::of(&word.to_ascii_lowercase()), Some(is));
            }
        }
    }

    #[test]
    fn other_words_are_names() {
        for word in [&b""[..], b"a", b"selects", b"orders", b"concurrently_", &[b'x'; 300]] {
            assert_eq!(SqlWord::of(word), None);
        }
    }
}
