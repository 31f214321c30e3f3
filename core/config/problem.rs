//! Errors in the settings, described so that they can be fixed without a manual.
//!
//! One line per variable, `VARIABLE: "value" fault; accepted: …`. The value is quoted and escaped, so that it cannot
//! forge a line. Secret values are never shown.

use std::fmt;

/// All errors in the settings; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The problems, each with the name of its setting as the operator wrote it.
    problems: Vec<(String, Problem)>,
}

/// An error in one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The variable or the command line option.
    pub setting: &'static str,
    /// The invalid value; `None` if it is absent or secret.
    pub value: Option<String>,
    /// The fault of the value.
    pub fault: Fault,
    /// The accepted values.
    pub accepted: String,
}

/// The reasons why a value is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The address overlaps with that of another listener.
    AddressTaken(&'static str),
    /// The connections need more descriptors than the limit allows.
    Descriptors {
        /// The number of connections.
        max_connections: u64,
        /// The number of descriptors that they need.
        needed: u64,
        /// The limit.
        granted: u64,
    },
    /// The list has no entries.
    EmptyList,
    /// The other setting of the pair is set, but this one is not.
    HalfPair(&'static str),
    /// It requires PHP in the process of svc.
    LacksPhp,
    /// It requires one script in `ENTRY_FILE`.
    LacksScript,
    /// The minimum is greater than the maximum.
    MinAboveMax,
    /// Not `host:port`.
    NotAnAddress,
    /// Not a boolean.
    NotABoolean,
    /// Not a usable directory, for the given reason.
    NotADirectory(String),
    /// Not the permissions of a file.
    NotAMode,
    /// Not a readable file, for the given reason.
    NotReadable(String),
    /// No program of this name can be executed.
    NoProgram,
    /// Not `key=value`.
    NotADirective,
    /// Not a field of a request that may be set.
    NotAField(String),
    /// Not a URL.
    NotAUrl,
    /// Not a regular file in the document root.
    NotAFile,
    /// This list entry is neither a network nor an address.
    NotANetwork(String),
    /// Not an integer.
    NotANumber,
    /// This is not a path without empty segments, `.` and `..`.
    NotAPrefix(String),
    /// Not a list of `key=value` pairs.
    NotPairs,
    /// Not a number from 0 to 1.
    NotARatio,
    /// This list entry is not a valid pattern, for the given reason.
    NotAPattern(String, String),
    /// This list entry is neither a name of a plugin nor an absolute path.
    NotAPlugin(String),
    /// This list entry is not of the form `NAME=value`.
    NotAVariable(String),
    /// Outside the document root, or hidden.
    NotBelowRoot,
    /// Not UTF-8.
    NotUtf8,
    /// Above the maximum.
    TooLarge,
    /// Below the minimum.
    TooSmall,
    /// It cannot be used, for the given reason.
    Unusable(String),
    /// It has no effect without the given value of the given setting.
    Unused(&'static str),
    /// This list entry occurs more than once.
    Twice(String),
    /// Its number of entries differs from that of the given setting.
    UnequalPair(usize, &'static str, usize),
    /// The host cannot be resolved, for the given reason.
    UnknownHost(String),
    /// This list entry is not one of the accepted words.
    UnknownEntry(String),
    /// Not one of the accepted words.
    UnknownWord,
}

impl ConfigError {
    pub(super) fn new(problems: Vec<(String, Problem)>) -> Self {
        debug_assert!(!problems.is_empty(), "an error without a problem");
        Self { problems }
    }

    /// Returns the problems, in the order of the settings.
    pub fn problems(&self) -> impl ExactSizeIterator<Item = &Problem> {
        self.problems.iter().map(|(_, problem)| problem)
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, problem)) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            problem.fmt_as(name, f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as(self.setting, f)
    }
}

impl Problem {
    fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name}: ")?;
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
            Self::Descriptors { max_connections, needed, granted } => {
                write!(f, "{max_connections} requires {needed} file descriptors, but the limit is {granted}")
            }
            Self::EmptyList => f.write_str("is an empty list"),
            Self::HalfPair(other) => write!(f, "is not set, but {other} is"),
            Self::LacksPhp => f.write_str("requires EXECUTOR=sapi"),
            Self::NoProgram => f.write_str("is not an executable program"),
            Self::LacksScript => {
                f.write_str("requires ENTRY_FILE to name one script, which handles all paths")
            }
            Self::MinAboveMax => f.write_str("has a minimum greater than its maximum"),
            Self::NotAnAddress => f.write_str("is not a valid address"),
            Self::NotABoolean => f.write_str("is not a boolean"),
            Self::NotADirectory(why) => write!(f, "is not a usable directory ({why})"),
            Self::NotAMode => f.write_str("is not a file mode"),
            Self::NotReadable(why) => write!(f, "is not a readable file ({why})"),
            Self::NotADirective => f.write_str("is not a valid directive"),
            Self::NotAField(name) => write!(f, "contains {name:?}, which is not a field that can be set"),
            Self::NotAUrl => f.write_str("is not a valid URL"),
            Self::NotAFile => f.write_str("is not a file in the document root"),
            Self::NotANetwork(entry) => write!(f, "contains {entry:?}, which is not a network or an address"),
            Self::NotANumber => f.write_str("is not an integer"),
            Self::NotAPrefix(prefix) => {
                write!(
                    f,
                    "contains the prefix {prefix:?}, which is not a percent-encoded path that begins with a slash, without empty segments, . and .."
                )
            }
            Self::NotPairs => f.write_str("is not a list of pairs"),
            Self::NotARatio => f.write_str("is not a number from 0 to 1"),
            Self::NotAPattern(entry, why) => {
                write!(f, "contains {entry:?}, which is not a valid pattern ({why})")
            }
            Self::NotAVariable(entry) => write!(f, "contains {entry:?}, which is not of the form NAME=value"),
            Self::NotAPlugin(entry) => {
                write!(
                    f,
                    "contains {entry:?}, which is neither a name of lower-case letters, digits and underscores nor an absolute path"
                )
            }
            Self::NotBelowRoot => f.write_str("is outside the document root or hidden"),
            Self::NotUtf8 => f.write_str("is not valid UTF-8"),
            Self::TooLarge => f.write_str("is too large"),
            Self::TooSmall => f.write_str("is too small"),
            Self::Twice(entry) => write!(f, "contains {entry:?} twice"),
            Self::UnequalPair(own, other, theirs) => {
                let entries = if *own == 1 { "entry" } else { "entries" };
                write!(f, "has {own} {entries}, but {other} has {theirs}")
            }
            Self::UnknownEntry(entry) => write!(f, "contains {entry:?}, which is not supported"),
            Self::UnknownHost(why) => write!(f, "has a host that cannot be resolved ({why})"),
            Self::UnknownWord => f.write_str("is not a valid value"),
            Self::Unusable(why) => write!(f, "cannot be used ({why})"),
            Self::Unused(needed) => write!(f, "has no effect without {needed}"),
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
