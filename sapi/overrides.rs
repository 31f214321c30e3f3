//! Settings on the command line.
//!
//! An option takes precedence over the environment, which takes precedence over the `--env-file` files, of which the
//! last wins. The options are defined in the table of commands.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use svc_core::config::{EnvFile, EnvFileError, RawConfig};

/// Settings from the command line, which override the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The directory to serve.
    pub document_root: Option<OsString>,
    /// The command that `document_root` may be a misspelling of.
    pub meant: Option<&'static str>,
    /// Options, with the variables of their settings and the values.
    pub options: Vec<(String, &'static str, OsString)>,
    /// Defaults that depend on the command, with the name of the command and the variables of their settings.
    pub defaults: Vec<(&'static str, &'static str, &'static str)>,
    /// Files of variables.
    pub env_files: Vec<PathBuf>,
    /// PHP directives, `key=value`.
    pub directives: Vec<OsString>,
    /// Whether code is watched.
    pub is_watching: bool,
    /// The address at which a server for development listens.
    pub host: Option<OsString>,
    /// Its port.
    pub port: Option<OsString>,
}

impl Overrides {
    /// Reads the files of variables, in the order of their precedence.
    ///
    /// # Errors
    ///
    /// For a file that cannot be read or has a malformed line.
    pub fn read_env_files(&self) -> Result<Vec<EnvFile>, EnvFileError> {
        self.env_files.iter().rev().map(|path| EnvFile::read(path)).collect()
    }

    /// Applies the overrides to the settings from the environment.
    pub fn apply(self, environment: RawConfig, files: &[EnvFile]) -> RawConfig {
        let mut raw = files.iter().fold(environment, RawConfig::with_env_file);
        if let Some(directory) = self.document_root {
            raw = raw.with_document_root(directory);
        }
        for (option, variable, value) in self.options {
            raw = raw.with_option(&option, variable, value);
        }
        for (command, variable, value) in self.defaults {
            raw = raw.with_option_by_default(command, variable, value);
        }
        if self.is_watching {
            raw = raw.with_option_by_default("--watch", "LOG_FORMAT", "auto");
            // Developers want to see their changes immediately. A later directive of the same name overrides this.
            raw = raw.with_directive("opcache.revalidate_freq=0".into());
        }
        self.directives.into_iter().fold(raw, RawConfig::with_directive)
    }

    /// Returns the word that was taken for a directory, and the command that was probably meant, if there is no such
    /// directory.
    pub fn misspelt_command(&self) -> Option<(String, &'static str)> {
        let word = self.document_root.as_ref()?;
        let meant = self.meant.filter(|_| !Path::new(word).exists())?;
        Some((word.to_string_lossy().into_owned(), meant))
    }
}
