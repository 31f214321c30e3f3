//! What is wrong with the settings, said so that it can be put right without a manual.
//!
//! Promises: one line for each variable, `VARIABLE: "value" fault; accepted: …`; the value is quoted and escaped, so
//! that no value can forge a line. Refuses: a secret value is never repeated.

use std::fmt;

/// Everything that is wrong with the settings; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

/// What is wrong with one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable, or the option of the command line.
    pub setting: &'static str,
    /// The offending value; `None` when it is absent or secret.
    pub value: Option<String>,
    /// What is wrong with it.
    pub fault: Fault,
    /// What would be accepted.
    pub accepted: String,
}

/// The ways in which a value can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It overlaps with another listener's address.
    AddressTaken(&'static str),
    /// A list without an entry.
    EmptyList,
    /// Its own pair is unset.
    HalfPair(&'static str),
    /// It needs a script, and `ENTRY_FILE` names none.
    LacksScript,
    /// Its lower bound is above its upper bound.
    MinAboveMax,
    /// Not `host:port`.
    NotAnAddress,
    /// Neither true nor false.
    NotABoolean,
    /// No directory is there, for the reason given.
    NotADirectory(String),
    /// Not `key=value`.
    NotADirective,
    /// No regular file is there.
    NotAFile,
    /// This entry of a list is neither a network nor an address.
    NotANetwork(String),
    /// Not a whole number.
    NotANumber,
    /// This entry of a list is no pattern, for the reason given.
    NotAPattern(String, String),
    /// This version lacks the feature.
    NotAvailable,
    /// This entry of a list sets no variable.
    NotAVariable(String),
    /// Not a path below the document root.
    NotBelowRoot,
    /// Not UTF-8.
    NotUtf8,
    /// Above the largest number.
    TooLarge,
    /// Below the smallest number.
    TooSmall,
    /// It has so many entries, and its own pair another number.
    UnequalPair(usize, &'static str, usize),
    /// The host has no address, for the reason given.
    UnknownHost(String),
    /// Not one of the words.
    UnknownWord,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "an error without a problem");
        Self { problems }
    }

    /// Lists the problems, in the order of the settings.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.setting)?;
        if let Some(value) = &self.value {
            write!(f, "{value:?} ")?;
        }
        write!(f, "{}; accepted: {}", self.fault, self.accepted)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AddressTaken(other) => write!(f, "conflicts with {other}"),
            Self::EmptyList => f.write_str("is an empty list"),
            Self::HalfPair(other) => write!(f, "is not set, but {other} is"),
            Self::LacksScript => f.write_str("requires ENTRY_FILE to name a script"),
            Self::MinAboveMax => f.write_str("has a minimum greater than its maximum"),
            Self::NotAnAddress => f.write_str("is not a valid address"),
            Self::NotABoolean => f.write_str("is not a boolean"),
            Self::NotADirectory(why) => write!(f, "is not a usable directory ({why})"),
            Self::NotADirective => f.write_str("is not a valid directive"),
            Self::NotAFile => f.write_str("is not a file in the document root"),
            Self::NotANetwork(entry) => write!(f, "contains {entry:?}, which is not a network or an address"),
            Self::NotANumber => f.write_str("is not an integer"),
            Self::NotAPattern(entry, why) => {
                write!(f, "contains {entry:?}, which is not a valid pattern ({why})")
            }
            Self::NotAVariable(entry) => write!(f, "contains {entry:?}, which is not of the form NAME=value"),
            Self::NotAvailable => f.write_str("is not available in this version"),
            Self::NotBelowRoot => f.write_str("is outside the document root or hidden"),
            Self::NotUtf8 => f.write_str("is not valid UTF-8"),
            Self::TooLarge => f.write_str("is too large"),
            Self::TooSmall => f.write_str("is too small"),
            Self::UnequalPair(own, other, theirs) => {
                let entries = if *own == 1 { "entry" } else { "entries" };
                write!(f, "has {own} {entries}, but {other} has {theirs}")
            }
            Self::UnknownHost(why) => write!(f, "has a host that cannot be resolved ({why})"),
            Self::UnknownWord => f.write_str("is not a valid value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_forge_a_line() {
        let problem = Problem {
            setting: "LOG_LEVEL",
            value: Some("x\nsvc: all is well".to_owned()),
            fault: Fault::UnknownWord,
            accepted: "info".to_owned(),
        };
        assert_eq!(
            problem.to_string(),
            r#"LOG_LEVEL: "x\nsvc: all is well" is not a valid value; accepted: info"#
        );
    }
}
