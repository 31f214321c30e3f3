//! The plugins to load, and their settings.
//!
//! A list names each plugin once. Each variable `PLUGIN_<NAME>_<KEY>` belongs to one plugin, the one with the longest
//! matching name. Only the plugin knows the meaning of its settings, so they are not validated here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use super::problem::Fault;
use crate::limits::{PLUGIN_NAME_BYTES_MAX, PLUGINS_MAX};

/// The source of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PluginSource {
    /// An installed plugin with this name.
    Named(String),
    /// A plugin in this file.
    File(PathBuf),
}

/// The variables of all plugins, as found in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSettings(Vec<(String, Vec<u8>)>);

/// The prefix of the variables of plugins.
const PREFIX: &str = "PLUGIN_";

impl PluginSource {
    /// Parses an entry of the list.
    fn of(entry: &str) -> Option<Self> {
        if entry.starts_with('/') {
            Some(Self::File(PathBuf::from(entry)))
        } else {
            is_plugin_name(entry).then(|| Self::Named(entry.to_owned()))
        }
    }

    /// Returns the plugins for the words of a list, which are valid.
    pub(super) fn of_list(words: &[String]) -> Vec<Self> {
        words.iter().filter_map(|word| Self::of(word)).collect()
    }
}

/// Returns whether a plugin may have this name, which becomes part of paths, settings and metrics.
pub fn is_plugin_name(name: &str) -> bool {
    name.len() <= PLUGIN_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the words of a list of names and absolute paths.
pub(super) fn words(text: &str) -> Result<Vec<String>, Fault> {
    let mut words: Vec<String> = Vec::new();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        if PluginSource::of(entry).is_none() {
            return Err(Fault::NotAPlugin(entry.to_owned()));
        }
        if words.iter().any(|word| word == entry) {
            return Err(Fault::Twice(entry.to_owned()));
        }
        words.push(entry.to_owned());
    }
    match words.len() {
        0 => Err(Fault::EmptyList),
        count if count > PLUGINS_MAX => Err(Fault::TooLarge),
        _ => Ok(words),
    }
}

impl PluginSettings {
    /// Returns whether a variable may belong to a plugin.
    pub(super) fn may_have(name: &str) -> bool {
        name.len() > PREFIX.len() && name.starts_with(PREFIX)
    }

    /// Keeps a variable if it belongs to a plugin.
    pub(super) fn keep(&mut self, name: &str, value: OsString) {
        if let Some(rest) = name.strip_prefix(PREFIX) {
            self.0.retain(|(other, _)| other != rest);
            self.0.push((rest.to_owned(), value.into_vec()));
        }
    }

    /// Returns the settings of the plugin `name`, by key; `names` lists all plugins.
    pub fn of_plugin<'a>(&'a self, name: &str, names: &[&str]) -> Vec<(&'a str, &'a [u8])> {
        let key_of = |variable: &'a str, name: &str| {
            let key = variable.strip_prefix(name.to_ascii_uppercase().as_str())?.strip_prefix('_')?;
            (!key.is_empty()).then_some(key)
        };
        let is_taken = |variable: &'a str| {
            names.iter().any(|other| other.len() > name.len() && key_of(variable, other).is_some())
        };
        let own = self.0.iter().filter(|(variable, _)| !is_taken(variable));
        own.filter_map(|(variable, value)| Some((key_of(variable, name)?, value.as_slice()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> PluginSettings {
        let mut settings = PluginSettings::default();
        for (name, value) in variables {
            settings.keep(name, OsString::from(value));
        }
        settings
    }

    #[test]
    fn a_list_has_names_and_absolute_paths_each_once() {
        assert_eq!(words("disk, /opt/a b.so,,x_1").unwrap(), ["disk", "/opt/a b.so", "x_1"]);
        for wrong in ["Disk", "1disk", "_disk", "disk-space", "./disk.so", "lib/disk.so", "a.so"] {
            assert_eq!(words(wrong), Err(Fault::NotAPlugin(wrong.to_owned())), "{wrong}");
        }
        assert_eq!(words(&"x".repeat(33)), Err(Fault::NotAPlugin("x".repeat(33))));
        assert_eq!(words("disk,x,disk"), Err(Fault::Twice("disk".to_owned())));
        assert_eq!(words(" , "), Err(Fault::EmptyList));
    }

    #[test]
    fn words_mean_names_or_files() {
        let sources = PluginSource::of_list(&words("disk,/opt/x.so").unwrap());
        let file = PluginSource::File(PathBuf::from("/opt/x.so"));
        assert_eq!(sources, [PluginSource::Named("disk".to_owned()), file]);
    }

    #[test]
    fn a_setting_belongs_to_the_longest_name_that_fits() {
        let settings = settings(&[
            ("PLUGIN_DISK_PATH", "/"),
            ("PLUGIN_DISK_RUST_PATH", "/tmp"),
            ("PLUGIN_DISK_RUST", "what"),
            ("PLUGIN_DISKS_PATH", "/no"),
            ("DISK_PATH", "/no"),
            ("PLUGIN_DISK_", "no key"),
        ]);
        let of = |name: &str, names: &[&str]| -> Vec<(String, Vec<u8>)> {
            let own = settings.of_plugin(name, names);
            own.into_iter().map(|(key, value)| (key.to_owned(), value.to_vec())).collect()
        };
        let pair = |key: &str, value: &str| (key.to_owned(), value.as_bytes().to_vec());
        let both = ["disk", "disk_rust"];
        // The second name is also a key of the first plugin.
        assert_eq!(of("disk", &both), [pair("PATH", "/"), pair("RUST", "what")]);
        assert_eq!(of("disk_rust", &both), [pair("PATH", "/tmp")]);
        let alone = [pair("PATH", "/"), pair("RUST_PATH", "/tmp"), pair("RUST", "what")];
        assert_eq!(of("disk", &["disk"]), alone);
    }
}
