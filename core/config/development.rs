//! Development, which no setting enables: the command line does.

use std::path::PathBuf;

/// Facts about the process for a server for development.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevelopmentConfig {
    /// The directory with the code of the application; the rest of the code is that of dependencies.
    pub project: PathBuf,
    /// The environment of the process.
    pub environment: Vec<(String, String)>,
    /// Whether the environment permits colours in a terminal.
    pub permits_colours: bool,
    /// The difference of the local time to UTC.
    pub utc_offset_seconds: i32,
}
