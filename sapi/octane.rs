//! `svc octane`: the settings and variables with which an application of Laravel Octane runs.
//!
//! Octane has a worker script for FrankenPHP, which calls `frankenphp_handle_request()`. It finds the application by
//! the variables that `artisan octane:start` sets. The number of requests of a worker is svc's setting, because all
//! workers of Octane would end after the same number.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::overrides::Overrides;

/// Why an application cannot be served.
#[derive(Debug)]
pub enum OctaneError {
    /// The directory is not the base directory of an application.
    NotLaravel(PathBuf),
    /// Octane is missing, or too old to have this file.
    NotInstalled(PathBuf),
    /// The worker script cannot be created.
    WorkerScript(PathBuf, io::Error),
}

/// An application with Octane installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OctaneApplication {
    base: PathBuf,
}

impl OctaneApplication {
    /// Finds the application in the base directory `dir`. Creates the worker script in its public directory if it is
    /// missing, as `artisan octane:install` does.
    ///
    /// # Errors
    ///
    /// If there is no application, if Octane is not installed in it, or if the script cannot be created.
    pub fn find(dir: &Path) -> Result<Self, OctaneError> {
        let base = std::path::absolute(dir).map_err(|_| OctaneError::NotLaravel(dir.to_owned()))?;
        let application = Self { base };
        if !application.base.join("artisan").is_file() || !application.public().is_dir() {
            return Err(OctaneError::NotLaravel(application.base));
        }
        for file in [WORKER, WORKER_STUB] {
            let file = application.base.join(file);
            if !file.is_file() {
                return Err(OctaneError::NotInstalled(file));
            }
        }
        let script = application.public().join(WORKER_SCRIPT);
        if !script.is_file() {
            let copied = fs::copy(application.base.join(WORKER_STUB), &script);
            copied.map_err(|error| OctaneError::WorkerScript(script, error))?;
        }
        Ok(application)
    }

    fn public(&self) -> PathBuf {
        self.base.join("public")
    }

    /// Returns the variables that Octane's worker script reads.
    pub fn variables(&self) -> [(&'static str, OsString); 4] {
        [
            ("APP_BASE_PATH", self.base.clone().into()),
            ("APP_PUBLIC_PATH", self.public().into()),
            ("LARAVEL_OCTANE", "1".into()),
            // The loop of the script ends after this number.
            ("MAX_REQUESTS", i64::MAX.to_string().into()),
        ]
    }

    /// Adds the settings of the application to those of the command line.
    pub fn settings(&self, overrides: &mut Overrides) {
        overrides.document_root = Some(self.public().into());
        overrides.meant = None;
        for (variable, value) in [("ENTRY_FILE", WORKER_SCRIPT), ("WORKER_MODE_ENABLED", "true")] {
            overrides.options.push((COMMAND.to_owned(), variable, OsStr::new(value).to_owned()));
        }
        overrides.defaults.push((COMMAND, "WORKER_MAX_REQUESTS", MAX_REQUESTS));
    }
}

/// The source of the settings, in reports and error messages.
const COMMAND: &str = "octane";

/// Octane's default of `--max-requests`.
const MAX_REQUESTS: &str = "500";

/// The script in the public directory, which includes Octane's worker.
const WORKER_SCRIPT: &str = "frankenphp-worker.php";

/// Octane's worker.
const WORKER: &str = "vendor/laravel/octane/bin/frankenphp-worker.php";

/// The template of the script.
const WORKER_STUB: &str = "vendor/laravel/octane/src/Commands/stubs/frankenphp-worker.php";

impl std::error::Error for OctaneError {}

impl fmt::Display for OctaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLaravel(base) => write!(
                f,
                "octane: {}: is not an application of Laravel; accepted: a directory with the file artisan and the \
                 directory public",
                base.display()
            ),
            Self::NotInstalled(file) => write!(
                f,
                "octane: {}: does not exist; install Octane 2.2 or later with: composer require laravel/octane",
                file.display()
            ),
            Self::WorkerScript(script, error) => write!(
                f,
                "octane: {}: cannot be created: {error}; create it once with: php artisan octane:install \
                 --server=frankenphp",
                script.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(base: &Path, file: &str) {
        let path = base.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file).unwrap();
    }

    fn application(files: &[&str]) -> tempfile::TempDir {
        let base = tempfile::tempdir().unwrap();
        files.iter().for_each(|file| write(base.path(), file));
        base
    }

    const WHOLE: [&str; 4] = ["artisan", "public/index.php", WORKER, WORKER_STUB];

    #[test]
    fn an_application_has_all_its_parts() {
        for missing in WHOLE {
            let present: Vec<_> = WHOLE.into_iter().filter(|file| *file != missing).collect();
            let base = application(&present);
            let error = OctaneApplication::find(base.path()).unwrap_err();
            let is_octane = missing.starts_with("vendor");
            assert_eq!(matches!(error, OctaneError::NotInstalled(_)), is_octane, "{missing}: {error}");
            assert_eq!(matches!(error, OctaneError::NotLaravel(_)), !is_octane, "{missing}: {error}");
        }
    }

    #[test]
    fn the_worker_script_is_created_once() {
        let base = application(&WHOLE);
        let script = base.path().join("public").join(WORKER_SCRIPT);
        OctaneApplication::find(base.path()).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), WORKER_STUB);
        fs::write(&script, "changed").unwrap();
        OctaneApplication::find(base.path()).unwrap();
        assert_eq!(fs::read_to_string(&script).unwrap(), "changed");
    }

    #[test]
    fn a_script_that_cannot_be_created_is_named() {
        let base = application(&WHOLE);
        fs::create_dir(base.path().join("public").join(WORKER_SCRIPT)).unwrap();
        let error = OctaneApplication::find(base.path()).unwrap_err().to_string();
        assert!(error.contains("public/frankenphp-worker.php: cannot be created"), "{error}");
    }

    #[test]
    fn the_worker_finds_the_application_by_absolute_paths() {
        let base = application(&WHOLE);
        let variables = OctaneApplication::find(base.path()).unwrap().variables();
        assert_eq!(variables[0], ("APP_BASE_PATH", base.path().into()));
        assert_eq!(variables[1], ("APP_PUBLIC_PATH", base.path().join("public").into()));
    }

    #[test]
    fn its_settings_are_those_of_worker_mode() {
        let base = application(&WHOLE);
        let mut overrides = Overrides::default();
        OctaneApplication::find(base.path()).unwrap().settings(&mut overrides);
        assert_eq!(overrides.document_root, Some(base.path().join("public").into()));
        let set: Vec<_> = overrides.options.iter().map(|(_, variable, _)| *variable).collect();
        assert_eq!(set, ["ENTRY_FILE", "WORKER_MODE_ENABLED"]);
    }
}
