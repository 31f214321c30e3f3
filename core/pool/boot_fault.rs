//! Why a worker failed to boot.
//!
//! The message and the place stay apart, so that a report can show both. Nothing here depends on an interpreter.

/// Why a worker failed to boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootFault {
    /// The message of the error.
    pub message: String,
    /// The file and line of the error, if known.
    pub place: Option<(String, u32)>,
}

impl From<String> for BootFault {
    fn from(message: String) -> Self {
        Self { message, place: None }
    }
}

impl std::fmt::Display for BootFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)?;
        self.place.as_ref().map_or(Ok(()), |(file, line)| write!(f, " in {file} on line {line}"))
    }
}
