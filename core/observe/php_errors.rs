//! The recent errors of PHP, one entry for each place.
//!
//! A handful of entries, however many errors are raised: an error of a known place only updates its entry. Counts since
//! the start are metrics, and kept there.

use std::time::SystemTime;

use crate::limits::{PHP_ERROR_TEXT_MAX, PHP_ERRORS_KEPT};
use crate::sync::lock::ShortLock;
use crate::trace::without_previous;

/// The severity of an error of PHP: its constant without `E_`, or `uncaught` for an uncaught exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpErrorLevel {
    /// `E_ERROR`, except for uncaught exceptions.
    Error,
    /// `E_WARNING`.
    Warning,
    /// `E_PARSE`.
    Parse,
    /// `E_NOTICE`.
    Notice,
    /// `E_CORE_ERROR`.
    CoreError,
    /// `E_CORE_WARNING`.
    CoreWarning,
    /// `E_COMPILE_ERROR`.
    CompileError,
    /// `E_COMPILE_WARNING`.
    CompileWarning,
    /// `E_USER_ERROR`.
    UserError,
    /// `E_USER_WARNING`.
    UserWarning,
    /// `E_USER_NOTICE`.
    UserNotice,
    /// `E_RECOVERABLE_ERROR`.
    RecoverableError,
    /// `E_DEPRECATED`.
    Deprecated,
    /// `E_USER_DEPRECATED`.
    UserDeprecated,
    /// An uncaught exception, which PHP reports as an `E_ERROR`.
    Uncaught,
}

impl PhpErrorLevel {
    /// Every level, in the order of the exposition.
    pub const ALL: [Self; 15] = [
        Self::Error,
        Self::Warning,
        Self::Parse,
        Self::Notice,
        Self::CoreError,
        Self::CoreWarning,
        Self::CompileError,
        Self::CompileWarning,
        Self::UserError,
        Self::UserWarning,
        Self::UserNotice,
        Self::RecoverableError,
        Self::Deprecated,
        Self::UserDeprecated,
        Self::Uncaught,
    ];

    /// Returns the level's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Parse => "parse",
            Self::Notice => "notice",
            Self::CoreError => "core_error",
            Self::CoreWarning => "core_warning",
            Self::CompileError => "compile_error",
            Self::CompileWarning => "compile_warning",
            Self::UserError => "user_error",
            Self::UserWarning => "user_warning",
            Self::UserNotice => "user_notice",
            Self::RecoverableError => "recoverable_error",
            Self::Deprecated => "deprecated",
            Self::UserDeprecated => "user_deprecated",
            Self::Uncaught => "uncaught",
        }
    }
}

/// An error of PHP as it was raised.
#[derive(Clone, Copy, Debug)]
pub struct PhpErrorRaised<'a> {
    /// Its severity.
    pub level: PhpErrorLevel,
    /// PHP's text.
    pub message: &'a [u8],
    /// The script; empty if there is none.
    pub file: &'a [u8],
    /// The line in `file`; 0 if there is none.
    pub line: u32,
}

/// The errors of one level at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpErrorEntry {
    /// Their severity.
    pub level: PhpErrorLevel,
    /// The first line of the first one's text, cut at [`PHP_ERROR_TEXT_MAX`] bytes.
    pub message: String,
    /// The script; empty if there is none.
    pub file: String,
    /// The line in `file`.
    pub line: u32,
    /// Their number since the entry was made.
    pub count: u64,
    /// The time of the first of them.
    pub first_at: SystemTime,
    /// The time of the last one.
    pub last_at: SystemTime,
}

/// The last distinct errors. The lock is held only to update a few words or to exchange an entry.
#[derive(Debug, Default)]
pub struct PhpErrors(ShortLock<PhpErrorBook>);

impl PhpErrors {
    /// Notes an error that was raised at `now`.
    pub fn note(&self, raised: &PhpErrorRaised<'_>, now: SystemTime) {
        if self.0.lock().note_again(raised, now) {
            return;
        }
        // Allocates while the lock is free; another thread may have added the same place meanwhile.
        let entry = PhpErrorEntry::new(raised, now);
        let forgotten = self.0.lock().add(entry);
        drop(forgotten);
    }

    /// Returns the last distinct errors, the latest first.
    pub fn last(&self) -> Vec<PhpErrorEntry> {
        let mut all = self.0.lock().0.clone();
        all.sort_by_key(|entry| std::cmp::Reverse(entry.last_at));
        all
    }
}

/// The entries, in no order.
#[derive(Debug, Default)]
struct PhpErrorBook(Vec<PhpErrorEntry>);

impl PhpErrorBook {
    /// Updates the entry of the place; returns false if there is none.
    fn note_again(&mut self, raised: &PhpErrorRaised<'_>, now: SystemTime) -> bool {
        let known = self.0.iter_mut().find(|entry| {
            entry.level == raised.level && entry.line == raised.line && entry.file.as_bytes() == raised.file
        });
        if let Some(entry) = known {
            entry.count += 1;
            entry.last_at = entry.last_at.max(now);
            return true;
        }
        false
    }

    /// Adds an entry; returns an entry that has become superfluous.
    fn add(&mut self, new: PhpErrorEntry) -> Option<PhpErrorEntry> {
        let same =
            |old: &&mut PhpErrorEntry| (old.level, old.line, &old.file) == (new.level, new.line, &new.file);
        if let Some(entry) = self.0.iter_mut().find(same) {
            entry.count += new.count;
            entry.last_at = entry.last_at.max(new.last_at);
            return Some(new);
        }
        if self.0.len() < PHP_ERRORS_KEPT {
            self.0.push(new);
            return None;
        }
        let oldest = self.0.iter_mut().min_by_key(|entry| entry.last_at)?;
        Some(std::mem::replace(oldest, new))
    }
}

impl PhpErrorEntry {
    fn new(raised: &PhpErrorRaised<'_>, now: SystemTime) -> Self {
        Self {
            level: raised.level,
            message: first_line(&without_previous(raised.message)),
            file: String::from_utf8_lossy(raised.file).into_owned(),
            line: raised.line,
            count: 1,
            first_at: now,
            last_at: now,
        }
    }
}

/// Returns the first line of a text, cut at [`PHP_ERROR_TEXT_MAX`] bytes. In the text of an uncaught exception, the stack
/// trace follows.
fn first_line(text: &[u8]) -> String {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut text = String::from_utf8_lossy(&line[..line.len().min(PHP_ERROR_TEXT_MAX)]).into_owned();
    if line.len() > PHP_ERROR_TEXT_MAX {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn raised(line: u32, message: &str) -> PhpErrorRaised<'_> {
        PhpErrorRaised { level: PhpErrorLevel::Warning, message: message.as_bytes(), file: b"/a.php", line }
    }

    #[test]
    fn one_place_is_one_entry_for_each_level() {
        let errors = PhpErrors::default();
        errors.note(&raised(1, "a\nstack"), at(1));
        errors.note(&raised(1, "b"), at(5));
        errors.note(&PhpErrorRaised { level: PhpErrorLevel::Notice, ..raised(1, "c") }, at(3));
        let last = errors.last();
        assert_eq!((last[0].message.as_str(), last[0].count), ("a", 2), "{last:?}");
        assert_eq!((last[0].first_at, last[0].last_at), (at(1), at(5)));
        assert_eq!((last[1].level, last[1].count, last.len()), (PhpErrorLevel::Notice, 1, 2));
    }

    #[test]
    fn the_entry_without_news_for_longest_makes_room() {
        let errors = PhpErrors::default();
        let count = u32::try_from(PHP_ERRORS_KEPT).unwrap();
        for line in 0..count {
            errors.note(&raised(line, "x"), at(u64::from(line)));
        }
        errors.note(&raised(0, "x"), at(50));
        errors.note(&raised(99, "x"), at(60));
        let lines: Vec<_> = errors.last().iter().map(|entry| entry.line).collect();
        assert_eq!(lines.len(), PHP_ERRORS_KEPT);
        assert_eq!(lines[..2], [99, 0]);
        assert!(!lines.contains(&1), "{lines:?}");
    }

    #[test]
    fn an_entry_that_two_threads_add_is_one() {
        let mut book = PhpErrorBook::default();
        assert!(!book.note_again(&raised(1, "x"), at(1)));
        assert_eq!(book.add(PhpErrorEntry::new(&raised(1, "x"), at(2))), None);
        assert!(book.add(PhpErrorEntry::new(&raised(1, "x"), at(1))).is_some());
        assert_eq!((book.0[0].count, book.0[0].last_at, book.0.len()), (2, at(2), 1));
    }

    #[test]
    fn texts_are_bounded_and_readable() {
        let long = "ü".repeat(PHP_ERROR_TEXT_MAX);
        assert!(first_line(long.as_bytes()).len() < PHP_ERROR_TEXT_MAX + 8);
        assert_eq!(first_line(b"\xff\nsecond"), "\u{fffd}");
        assert_eq!(first_line(b""), "");
    }
}
