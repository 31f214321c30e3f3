//! Plugins that tests compile, and their settings.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use tempfile::TempDir;

use crate::{Svc, binary, c, repository};

/// A folder of compiled plugins.
#[derive(Debug)]
pub struct Plugins {
    dir: TempDir,
    entries: Vec<String>,
    settings: Vec<(String, String)>,
}

/// The plugin whose settings choose its misbehaviour.
const HOSTILE: &str = include_str!("../tests/plugins/hostile.c");

impl Plugins {
    /// Creates an empty folder.
    pub fn none() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), entries: Vec::new(), settings: Vec::new() }
    }

    /// Compiles the plugin `hostile`, with these settings.
    pub fn hostile(settings: &[(&str, &str)]) -> Self {
        Self::none().with("hostile", &[], settings)
    }

    /// Adds a copy of that plugin, compiled with these flags and with these settings.
    pub fn with(mut self, name: &str, flags: &[&str], settings: &[(&str, &str)]) -> Self {
        let define = format!("-DNAME=\"{name}\"");
        let path = self.path(&format!("{name}.so"));
        c::plugin(HOSTILE, &path, &[flags, &[&define]].concat());
        self.entries.push(path.to_str().unwrap().to_owned());
        let own = [("GATE", self.path("gate")), ("TRACE", self.path("trace"))];
        let own = own.map(|(key, path)| (key, path.to_str().unwrap().to_owned()));
        let given = settings.iter().map(|(key, value)| (*key, (*value).to_owned()));
        for (key, value) in own.into_iter().chain(given) {
            self.settings.push((format!("PLUGIN_{}_{key}", name.to_uppercase()), value));
        }
        self
    }

    /// Adds a plugin that was compiled elsewhere, and these settings of the server.
    pub fn add(mut self, path: &Path, settings: &[(&str, &str)]) -> Self {
        self.entries.push(path.to_str().unwrap().to_owned());
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.settings.extend(settings);
        self
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Lets hanging callbacks return.
    pub fn release(&self) {
        std::fs::write(self.path("gate"), "").unwrap();
    }

    /// Returns the callbacks that were called so far.
    pub fn trace(&self) -> Vec<String> {
        let trace = std::fs::read_to_string(self.path("trace")).unwrap_or_default();
        trace.lines().map(str::to_owned).collect()
    }

    /// Returns the settings of the server: the plugins, their settings, and the further ones.
    pub fn settings(&self, further: &[(&str, &str)]) -> Vec<(String, String)> {
        let plugins = ("PLUGINS".to_owned(), self.entries.join(","));
        let stub = ("EXECUTOR".to_owned(), "stub".to_owned());
        let further = further.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        [stub, plugins].into_iter().chain(self.settings.iter().cloned()).chain(further).collect()
    }

    /// Starts a server with the plugins, without PHP unless the settings enable it.
    pub fn start(&self, files: &[(&str, &str)], further: &[(&str, &str)]) -> Svc {
        let settings = self.settings(further);
        Svc::start(files, &borrowed(&settings))
    }

    /// Starts a server with the plugins through a wrapper that changes its process.
    pub fn start_under(&self, wrapper: &Path, further: &[(&str, &str)]) -> Svc {
        let settings = self.settings(further);
        Svc::start_under(wrapper, &[], &borrowed(&settings), &[])
    }

    /// Begins to start a server with the plugins without waiting for it.
    pub fn begin(&self, further: &[(&str, &str)]) -> Child {
        let settings = self.settings(further);
        let mut process = crate::command(self.dir.path(), &borrowed(&settings));
        process.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command of the server that exits by itself; returns its exit code and its standard error.
    pub fn refused(&self, command: Option<&str>, further: &[(&str, &str)]) -> (i32, String) {
        let settings = self.settings(further);
        let mut process = crate::command(self.dir.path(), &borrowed(&settings));
        process.args(command).stdout(Stdio::null()).stderr(Stdio::piped());
        let output = process.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// Builds a plugin of this workspace the way its author would; returns the path of the library `lib<name>.so`.
pub fn built(package: &str, name: &str) -> PathBuf {
    // The tests' target folder is locked by their own build.
    let target = binary().ancestors().nth(2).unwrap().join("tmp/plugins");
    let mut build = std::process::Command::new(env!("CARGO"));
    build.args(["build", "--offline", "--quiet", "--package", package, "--target-dir"]).arg(&target);
    let status = build.current_dir(repository()).status().unwrap();
    assert!(status.success(), "{package}");
    target.join("debug").join(format!("lib{name}.so"))
}

/// Makes a file or a folder writable by other users.
pub fn open_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(path).unwrap().permissions().mode();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode | 0o002)).unwrap();
}
