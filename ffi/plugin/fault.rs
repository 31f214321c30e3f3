//! Why a plugin cannot be used.

use std::fmt;
use std::path::PathBuf;

/// Why a plugin cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginFault {
    /// The dynamic linker cannot load it, for the given reason.
    CannotLoad(String),
    /// `svc_plugin_entry()` returned an error, for the given reason.
    Entry(String),
    /// It is not a plugin: it has no `svc_plugin_entry()`.
    NoEntry,
    /// It does not exist, or is not a regular file, for the given reason.
    NotFound(String),
    /// Its name differs from the one in the settings.
    OtherName(String),
    /// Its struct is smaller than in the first header of this contract version.
    TooSmall {
        /// The size given by the plugin.
        size: usize,
        /// The minimum size.
        wanted: usize,
    },
    /// A text in its struct is not valid: which one, and what is accepted.
    Text(&'static str),
    /// Other users may write to this file or directory, and so could replace the plugin.
    WritableByOthers(PathBuf),
    /// It was built for another version of the contract.
    WrongAbi {
        /// Its version.
        found: u32,
        /// The version of this server.
        wanted: u32,
    },
}

impl fmt::Display for PluginFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CannotLoad(why) => write!(f, "cannot be loaded: {why}"),
            Self::Entry(why) => write!(f, "svc_plugin_entry failed: {why}"),
            Self::NoEntry => f.write_str("has no entry: it does not export svc_plugin_entry"),
            Self::NotFound(why) => write!(f, "is not found: {why}"),
            Self::OtherName(name) => write!(f, "calls itself {name:?}"),
            Self::TooSmall { size, wanted } => {
                write!(f, "has a struct svc_plugin of {size} bytes, wanted at least {wanted}")
            }
            Self::Text(field) => write!(f, "has no valid {field}"),
            Self::WritableByOthers(path) => write!(f, "{} is writable by others", path.display()),
            Self::WrongAbi { found, wanted } => write!(f, "has ABI {found}, wanted {wanted}"),
        }
    }
}

impl std::error::Error for PluginFault {}
