//! The settings as text, and the source of each.
//!
//! An empty value is the same as none. Options of the command line take precedence over the environment, which takes
//! precedence over files of variables; of the two variables of a setting, `SVC_<NAME>` takes precedence. Values are not
//! validated. Only variables of svc's settings, of plugins and of service managers are kept.

use std::ffi::{OsStr, OsString};

use super::development::DevelopmentConfig;
use super::env_file::EnvFile;
use super::id::Id;
use super::key::Key;
use super::keys::KEYS;
use super::plugins::PluginSettings;
use super::service_manager::ServiceManagerConfig;
use super::spelling;

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// The command line: the option, or `None` for the directory to serve.
    CommandLine(Option<String>),
    /// The default.
    Default,
    /// A line of a file of variables, as `file:line`.
    EnvFile {
        /// The file and the line.
        place: String,
        /// Whether the variable begins with [`PREFIX`].
        is_prefixed: bool,
    },
    /// The environment.
    Environment {
        /// Whether the variable begins with [`PREFIX`].
        is_prefixed: bool,
    },
}

/// The prefix of the second name of each setting.
pub const PREFIX: &str = "SVC_";

/// Unparsed settings.
#[derive(Clone, Debug, Default)]
pub struct RawConfig {
    variables: Vec<Variable>,
    unknown_variables: Vec<UnknownVariable>,
    options: Vec<(Id, OsString, Option<String>)>,
    directives: Vec<OsString>,
    service_manager: ServiceManagerConfig,
    development: Option<DevelopmentConfig>,
}

/// A variable of a setting, of a plugin, or one of [`OF_THE_SYSTEM`].
#[derive(Clone, Debug)]
struct Variable {
    name: String,
    value: OsString,
    place: Option<String>,
}

/// A variable that resembles a setting but is not one.
#[derive(Clone, Debug)]
pub(super) struct UnknownVariable {
    pub(super) variable: String,
    pub(super) place: Option<String>,
    /// The setting that was probably meant.
    pub(super) meant: Option<&'static Key>,
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
        let mut raw = Self::default();
        for (name, value) in variables {
            raw.keep(name.as_ref(), value.into(), None);
        }
        raw
    }

    /// Adds the variables of a file, except those that are already set. Of several files, add the one that takes precedence
    /// first.
    #[must_use]
    pub fn with_env_file(mut self, file: &EnvFile) -> Self {
        for (name, value, place) in file.variables() {
            self.keep(OsStr::new(name), value.to_owned(), Some(place));
        }
        self
    }

    /// Overrides the setting of this variable by an option of the command line.
    ///
    /// # Panics
    ///
    /// If there is no such setting.
    #[must_use]
    pub fn with_option(mut self, option: &str, variable: &str, value: OsString) -> Self {
        self.options.push((id_of(variable), value, Some(option.to_owned())));
        self
    }

    /// Changes the default of a setting because of an option of the command line.
    ///
    /// # Panics
    ///
    /// If there is no such setting.
    #[must_use]
    pub fn with_option_by_default(self, option: &str, variable: &str, value: &str) -> Self {
        if self.value(id_of(variable)).is_some() {
            return self;
        }
        self.with_option(option, variable, value.into())
    }

    /// Overrides the document root.
    #[must_use]
    pub fn with_document_root(mut self, directory: OsString) -> Self {
        self.options.push((Id::DocumentRoot, directory, None));
        self
    }

    /// Adds a PHP directive, in the form `key=value`.
    #[must_use]
    pub fn with_directive(mut self, directive: OsString) -> Self {
        self.directives.push(directive);
        self
    }

    /// Adds PHP directives that all others override.
    #[must_use]
    pub fn with_directives_by_default(mut self, directives: &[&str]) -> Self {
        self.directives.splice(0..0, directives.iter().map(OsString::from));
        self
    }

    /// Makes the server one for development.
    #[must_use]
    pub fn with_development(mut self, development: DevelopmentConfig) -> Self {
        self.development = Some(development);
        self
    }

    pub(super) fn value(&self, id: Id) -> Option<(&OsStr, ValueSource)> {
        if let Some((_, value, option)) = self.options.iter().rev().find(|(other, ..)| *other == id) {
            return Some((value, ValueSource::CommandLine(option.clone())));
        }
        let name = KEYS[id as usize].variable;
        let prefixed = self.variables.iter().find(|variable| variable.plain_name() == Some(name));
        let found = prefixed.or_else(|| self.variables.iter().find(|variable| variable.name == name))?;
        Some((&found.value, found.source()))
    }

    pub(super) fn temporary_dir(&self) -> &OsStr {
        let found = self.variables.iter().find(|variable| variable.name == TEMPORARY_DIR);
        found.map_or(OsStr::new("/tmp"), |variable| &variable.value)
    }

    /// Returns the directories in which programs are searched for.
    pub(super) fn search_path(&self) -> &OsStr {
        let found = self.variables.iter().find(|variable| variable.name == SEARCH_PATH);
        found.map_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"), |variable| &variable.value)
    }

    pub(super) fn plugins(&self) -> PluginSettings {
        let mut settings = PluginSettings::default();
        for variable in &self.variables {
            settings.keep(&variable.name, variable.value.clone());
        }
        // Prefixed variables replace the others.
        for variable in &self.variables {
            if let Some(name) = variable.plain_name() {
                settings.keep(name, variable.value.clone());
            }
        }
        settings
    }

    pub(super) fn development(&self) -> Option<&DevelopmentConfig> {
        self.development.as_ref()
    }

    pub(super) fn service_manager(&self) -> &ServiceManagerConfig {
        &self.service_manager
    }

    pub(super) fn directives(&self) -> &[OsString] {
        &self.directives
    }

    pub(super) fn unknown_variables(&self) -> &[UnknownVariable] {
        &self.unknown_variables
    }

    /// Keeps the variables of svc. Of duplicates in the environment the last one is kept; the environment precedes
    /// files.
    fn keep(&mut self, name: &OsStr, value: OsString, place: Option<String>) {
        if value.is_empty() || (place.is_none() && self.service_manager.keep(name, &value)) {
            return;
        }
        let Some(name) = name.to_str() else { return };
        let plain = name.strip_prefix(PREFIX);
        let setting = plain.unwrap_or(name);
        let is_setting = PluginSettings::may_have(setting) || KEYS.iter().any(|key| key.variable == setting);
        if is_setting || OF_THE_SYSTEM.contains(&name) {
            match self.variables.iter_mut().find(|variable| variable.name == name) {
                None => self.variables.push(Variable { name: name.to_owned(), value, place }),
                Some(first) if place.is_none() => first.value = value,
                Some(_) => {}
            }
            return;
        }
        let is_foreign = NOT_SETTINGS.contains(&name)
            || SET_BY_KUBERNETES.iter().any(|start| name.starts_with(start))
            || self.unknown_variables.iter().any(|unknown| unknown.variable == name);
        let meant = meant_setting(setting, plain.is_some());
        if !is_foreign && (plain.is_some() || meant.is_some()) {
            self.unknown_variables.push(UnknownVariable { variable: name.to_owned(), place, meant });
        }
    }
}

impl Variable {
    /// Returns the name without the prefix, if it has the prefix.
    fn plain_name(&self) -> Option<&str> {
        self.name.strip_prefix(PREFIX)
    }

    fn source(&self) -> ValueSource {
        let is_prefixed = self.plain_name().is_some();
        match &self.place {
            Some(place) => ValueSource::EnvFile { place: place.clone(), is_prefixed },
            None => ValueSource::Environment { is_prefixed },
        }
    }
}

impl ValueSource {
    /// Describes the source of the value of the setting `variable`.
    pub fn describe(&self, variable: &str) -> String {
        match self {
            Self::CommandLine(None) => "command line".to_owned(),
            Self::CommandLine(Some(option)) => format!("command line ({option})"),
            Self::Default => "default".to_owned(),
            Self::EnvFile { place, is_prefixed: false } => place.clone(),
            Self::EnvFile { place, is_prefixed: true } => format!("{place} ({PREFIX}{variable})"),
            Self::Environment { is_prefixed: false } => "environment".to_owned(),
            Self::Environment { is_prefixed: true } => format!("environment ({PREFIX}{variable})"),
        }
    }

    /// Returns the variable or option as the operator wrote it, for error messages; in a file, after its place.
    pub(super) fn name(&self, variable: &str) -> String {
        match self {
            Self::CommandLine(None) | Self::Default | Self::Environment { is_prefixed: false } => {
                variable.to_owned()
            }
            Self::CommandLine(Some(option)) => option.clone(),
            Self::Environment { is_prefixed: true } => format!("{PREFIX}{variable}"),
            Self::EnvFile { place, is_prefixed } => {
                format!("{place}: {}{variable}", if *is_prefixed { PREFIX } else { "" })
            }
        }
    }

    /// Returns whether the value may be meant for another program, which gives the variable a different meaning.
    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Self::EnvFile { is_prefixed: false, .. } | Self::Environment { is_prefixed: false })
    }
}

/// Returns the setting of this variable.
fn id_of(variable: &str) -> Id {
    let key = KEYS.iter().find(|key| key.variable == variable);
    key.map_or_else(|| unreachable!("{variable} is no setting"), |key| key.id)
}

/// The directory of temporary files; it is not a setting.
const TEMPORARY_DIR: &str = "TMPDIR";

/// The variable that names the directories of programs.
const SEARCH_PATH: &str = "PATH";

/// The variables that are no settings, and are read nevertheless.
const OF_THE_SYSTEM: [&str; 2] = [SEARCH_PATH, TEMPORARY_DIR];

/// Variables of the build that have the prefix but are not misspelt settings.
const NOT_SETTINGS: [&str; 2] = ["SVC_PHP_CONFIG", "SVC_WERROR"];

/// Prefixes of the variables that Kubernetes sets in every container if there is a service named `svc`.
const SET_BY_KUBERNETES: [&str; 2] = ["SVC_SERVICE_", "SVC_PORT"];

/// Returns the setting that is spelt almost like `name`. A variable with the prefix is meant for svc, so its spelling
/// may differ more than that of others, which may belong to any program.
fn meant_setting(name: &str, is_prefixed: bool) -> Option<&'static Key> {
    let upper = name.to_ascii_uppercase();
    let variable = spelling::nearest(&upper, KEYS.iter().map(|key| key.variable), |candidate| {
        match candidate.len() {
            length if is_prefixed => length / 4,
            // OpenTelemetry's names resemble each other, and svc does not know all of them.
            _ if candidate.starts_with("OTEL_") => 1,
            length => 1 + usize::from(length >= 10),
        }
    })?;
    KEYS.iter().find(|key| key.variable == variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: ValueSource = ValueSource::Environment { is_prefixed: false };
    const PREFIXED: ValueSource = ValueSource::Environment { is_prefixed: true };

    fn unknown_variables(variables: &[(&str, &str)]) -> Vec<(String, Option<&'static str>)> {
        let raw = RawConfig::new(variables.iter().copied());
        let pair =
            |unknown: &UnknownVariable| (unknown.variable.clone(), unknown.meant.map(|key| key.variable));
        raw.unknown_variables().iter().map(pair).collect()
    }

    #[test]
    fn empty_means_unset_and_strangers_are_left_alone() {
        let raw = RawConfig::new([("LOG_LEVEL", ""), ("HOME", "/root"), ("ACCESS_LOG", "all")]);
        assert_eq!(raw.value(Id::LogLevel), None);
        assert_eq!(raw.value(Id::AccessLog), Some((OsStr::new("all"), PLAIN)));
        assert_eq!((raw.variables.len(), raw.unknown_variables.len()), (1, 0));
    }

    #[test]
    fn the_prefixed_name_wins_unless_it_is_empty() {
        let raw = RawConfig::new([("SVC_LOG_LEVEL", "warn"), ("LOG_LEVEL", "info"), ("ACCESS_LOG", "all")]);
        assert_eq!(raw.value(Id::LogLevel), Some((OsStr::new("warn"), PREFIXED)));
        let raw = RawConfig::new([("LOG_LEVEL", "info"), ("SVC_LOG_LEVEL", "")]);
        assert_eq!(raw.value(Id::LogLevel), Some((OsStr::new("info"), PLAIN)));
    }

    #[test]
    fn plugins_have_prefixed_settings_too() {
        let raw = RawConfig::new([("SVC_PLUGIN_DISK_PATH", "/a"), ("PLUGIN_DISK_PATH", "/b")]);
        assert_eq!(raw.plugins().of_plugin("disk", &["disk"]), [("PATH", &b"/a"[..])]);
        assert!(raw.unknown_variables().is_empty());
    }

    #[test]
    fn the_command_line_wins() {
        let raw = RawConfig::new([("SVC_DOCUMENT_ROOT", "/srv")]).with_document_root("/tmp".into());
        let source = ValueSource::CommandLine(None);
        assert_eq!(raw.value(Id::DocumentRoot), Some((OsStr::new("/tmp"), source)));
    }

    #[test]
    fn a_file_sets_variables_missing_in_the_environment() {
        let file = EnvFile::parse("f", b"LOG_LEVEL=warn\nACCESS_LOG=all\nSVC_ENTRY_FILE=a.php\n").unwrap();
        let raw = RawConfig::new([("LOG_LEVEL", "info"), ("ACCESS_LOG", "")]).with_env_file(&file);
        assert_eq!(raw.value(Id::LogLevel), Some((OsStr::new("info"), PLAIN)));
        let source = |id| raw.value(id).unwrap().1;
        let line = |place: &str, is_prefixed| ValueSource::EnvFile { place: place.to_owned(), is_prefixed };
        assert_eq!(source(Id::AccessLog), line("f:2", false));
        assert_eq!(source(Id::EntryFile), line("f:3", true));
        assert_eq!(source(Id::EntryFile).describe("ENTRY_FILE"), "f:3 (SVC_ENTRY_FILE)");
    }

    #[test]
    fn variables_similar_to_settings_are_noticed() {
        let name = |name: &str, meant| vec![(name.to_owned(), meant)];
        for (variable, meant) in [
            ("MAX_CONECTIONS", "MAX_CONNECTIONS"),
            ("max_connections", "MAX_CONNECTIONS"),
            ("SVC_MAX_CONNECTS", "MAX_CONNECTIONS"),
            ("LOG_LEVLE", "LOG_LEVEL"),
            ("OTEL_ENABLE", "OTEL_ENABLED"),
        ] {
            assert_eq!(unknown_variables(&[(variable, "5")]), name(variable, Some(meant)), "{variable}");
        }
        assert_eq!(unknown_variables(&[("SVC_POETRY", "5")]), name("SVC_POETRY", None));
        assert_eq!(unknown_variables(&[("SVC_POETRY", "")]), []);
    }

    #[test]
    fn variables_of_other_programs_are_not_unknown() {
        for variable in [
            "SVC_PHP_CONFIG",
            "SVC_WERROR",
            "SVC_SERVICE_HOST",
            "SVC_PORT",
            "SVC_PORT_80_TCP",
            "LISTEN_FDS",
            "SERVER_NAME",
            "OTEL_BLRP_SCHEDULE_DELAY",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
            "TRUSTED_HOSTS",
            "LOG_CHANNEL",
        ] {
            assert_eq!(unknown_variables(&[(variable, "5")]), [], "{variable}");
        }
    }
}
