//! The settings as text, and the source of each.
//!
//! Promises: an empty value is the same as none; the command line takes precedence over the environment. Refuses: it
//! does not validate values and keeps no variable that is not a setting, of svc or of a plugin, or of a service manager's.

use std::ffi::{OsStr, OsString};

use super::id::Id;
use super::keys::KEYS;
use super::plugins::PluginSettings;
use super::service_manager::ServiceManagerConfig;

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The command line.
    CommandLine,
    /// The default.
    Default,
    /// The environment.
    Environment,
}

/// Unparsed settings.
#[derive(Clone, Debug)]
pub struct RawConfig {
    values: Vec<Option<(OsString, ValueSource)>>,
    temporary_dir: Option<OsString>,
    directives: Vec<OsString>,
    plugins: PluginSettings,
    service_manager: ServiceManagerConfig,
}

impl RawConfig {
    /// Extracts the settings from an environment.
    ///
    /// # Examples
    ///
    /// ```
    /// use svc_core::config::{Config, RawConfig};
    ///
    /// let raw = RawConfig::new([("DOCUMENT_ROOT", "/tmp"), ("PHP_WORKERS", "3")]);
    /// let config = Config::resolve(&raw)?;
    /// assert_eq!(config.php.workers.max, 3);
    /// # Ok::<(), svc_core::config::ConfigError>(())
    /// ```
    pub fn new<N, V>(variables: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: AsRef<OsStr>,
        V: Into<OsString>,
    {
        let mut raw = Self {
            values: vec![None; KEYS.len()],
            temporary_dir: None,
            directives: Vec::new(),
            plugins: PluginSettings::default(),
            service_manager: ServiceManagerConfig::default(),
        };
        for (name, value) in variables {
            let value = value.into();
            if value.is_empty() {
                continue;
            }
            if name.as_ref() == "TMPDIR" {
                raw.temporary_dir = Some(value);
            } else if let Some(row) = KEYS.iter().position(|key| name.as_ref() == key.variable) {
                raw.values[row] = Some((value, ValueSource::Environment));
            } else if !raw.service_manager.keep(name.as_ref(), &value)
                && let Some(name) = name.as_ref().to_str()
            {
                raw.plugins.keep(name, value);
            }
        }
        raw
    }

    /// Overrides the document root.
    #[must_use]
    pub fn with_document_root(mut self, directory: OsString) -> Self {
        self.values[Id::DocumentRoot as usize] = Some((directory, ValueSource::CommandLine));
        self
    }

    /// Adds a PHP directive, in the form `key=value`.
    #[must_use]
    pub fn with_directive(mut self, directive: OsString) -> Self {
        self.directives.push(directive);
        self
    }

    pub(super) fn value(&self, id: Id) -> Option<(&OsStr, ValueSource)> {
        self.values[id as usize].as_ref().map(|(value, source)| (value.as_os_str(), *source))
    }

    pub(super) fn temporary_dir(&self) -> &OsStr {
        self.temporary_dir.as_deref().unwrap_or(OsStr::new("/tmp"))
    }

    pub(super) fn plugins(&self) -> &PluginSettings {
        &self.plugins
    }

    pub(super) fn service_manager(&self) -> &ServiceManagerConfig {
        &self.service_manager
    }

    pub(super) fn directives(&self) -> &[OsString] {
        &self.directives
    }
}

impl ValueSource {
    /// Returns the name for display.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CommandLine => "command line",
            Self::Default => "default",
            Self::Environment => "environment",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_means_unset_and_strangers_are_left_alone() {
        let raw = RawConfig::new([("LOG_LEVEL", ""), ("HOME", "/root"), ("ACCESS_LOG", "all")]);
        assert_eq!(raw.value(Id::LogLevel), None);
        assert_eq!(raw.value(Id::AccessLog), Some((OsStr::new("all"), ValueSource::Environment)));
        assert_eq!(raw.values.iter().flatten().count(), 1);
    }

    #[test]
    fn the_command_line_wins() {
        let raw = RawConfig::new([("DOCUMENT_ROOT", "/srv")]).with_document_root("/tmp".into());
        assert_eq!(raw.value(Id::DocumentRoot), Some((OsStr::new("/tmp"), ValueSource::CommandLine)));
    }
}
