//! The settings of the FastCGI executor: the command or the addresses of PHP, and the settings that it excludes.
//!
//! A command is searched for when the settings are resolved, so that a missing one stops the start. Addresses are resolved
//! whenever a worker connects, because a container may get another one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::fastcgi_addr::FastcgiAddr;
use super::id::Id;
use super::keys::KEYS;
use super::problem::{Fault, Problem};
use super::raw::ValueSource;
use super::settings::Settings;
use super::value::Value;

/// The settings of the FastCGI executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FastcgiConfig {
    /// Where PHP is.
    pub target: FastcgiTarget,
    /// Whether a connection carries more than one request.
    pub keeps_connections: bool,
    /// The document root as PHP sees it, if that is another path.
    pub root: Option<PathBuf>,
}

/// Where PHP is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastcgiTarget {
    /// Processes of svc run this program.
    Command(PathBuf),
    /// Other processes listen at these places.
    Addresses(Vec<FastcgiAddr>),
}

impl FastcgiConfig {
    /// Copies its settings, which are already valid.
    pub(super) fn of(settings: &Settings) -> Self {
        let addresses: Vec<_> = settings
            .list(Id::FastcgiAddr)
            .iter()
            .filter_map(|address| FastcgiAddr::parse(address).ok())
            .collect();
        Self {
            target: if addresses.is_empty() {
                FastcgiTarget::Command(settings.text(Id::FastcgiCommand).unwrap_or_default().into())
            } else {
                FastcgiTarget::Addresses(addresses)
            },
            keeps_connections: settings.boolean(Id::FastcgiKeepConn),
            root: settings.path(Id::FastcgiRoot),
        }
    }
}

/// Checks the settings of the executor, and computes the unset ones. `search_path` is the variable `PATH`.
pub(super) fn check(settings: &mut Settings, problems: &mut Vec<Problem>, search_path: &OsStr) {
    let is_set = |settings: &Settings, id: Id| *settings.source(id) != ValueSource::Default;
    let is_zero = |settings: &Settings, id: Id| *settings.value(id) == Value::Integer(0);
    let mut reject = |settings: &Settings, id: Id, fault: Fault, accepted: &str| {
        let value = (*settings.value(id) != Value::Unset).then(|| settings.value(id).to_string());
        let setting = KEYS[id as usize].variable;
        if !problems.iter().any(|problem| problem.setting == setting) {
            problems.push(Problem { setting, value, fault, accepted: accepted.to_owned() });
        }
    };
    if settings.text(Id::Executor) != Some("fastcgi") {
        for id in OWN.into_iter().filter(|id| is_set(settings, *id)) {
            reject(settings, id, Fault::Unused("EXECUTOR=fastcgi"), "unset without EXECUTOR=fastcgi");
        }
        return;
    }
    for (id, inactive) in EXCLUDED {
        if settings.value(id).to_string() != inactive {
            reject(settings, id, Fault::LacksPhp, &format!("{inactive} with EXECUTOR=fastcgi"));
        }
    }
    if settings.list(Id::Plugins).iter().any(|plugin| plugin == "apm") {
        reject(settings, Id::Plugins, Fault::LacksPhp, "other plugins than apm with EXECUTOR=fastcgi");
    }
    if let Some(root) = settings.path(Id::FastcgiRoot) {
        if root.is_absolute() {
            // In the form of DOCUMENT_ROOT, without a slash at the end.
            settings.set(Id::FastcgiRoot, Value::Path(root.components().collect()));
        } else {
            let fault = Fault::Unusable("the path is relative".to_owned());
            reject(settings, Id::FastcgiRoot, fault, "an absolute path");
        }
    }
    let is_external = is_set(settings, Id::FastcgiAddr);
    if *settings.value(Id::FastcgiKeepConn) == Value::Unset {
        settings.set(Id::FastcgiKeepConn, Value::Boolean(!is_external));
    }
    if is_external {
        for id in OF_PROCESSES.into_iter().filter(|id| is_set(settings, *id) && !is_zero(settings, *id)) {
            let fault = Fault::Unusable("svc does not manage the processes at FASTCGI_ADDR".to_owned());
            reject(settings, id, fault, "unset with FASTCGI_ADDR");
        }
        return;
    }
    match find_command(settings.text(Id::FastcgiCommand), search_path) {
        Some(path) => settings.set(Id::FastcgiCommand, Value::Text(path.to_string_lossy().into_owned())),
        None => reject(
            settings,
            Id::FastcgiCommand,
            Fault::NoProgram,
            "php-cgi, by its path or by its name on PATH (Debian has it in the package php-cgi)",
        ),
    }
}

/// The settings that have an effect with this executor only.
const OWN: [Id; 4] = [Id::FastcgiCommand, Id::FastcgiAddr, Id::FastcgiKeepConn, Id::FastcgiRoot];

/// The settings of features that need PHP in svc's process, with their inactive values.
const EXCLUDED: [(Id, &str); 4] = [
    (Id::WorkerModeEnabled, "false"),
    (Id::SuperglobalsEnabled, "true"),
    (Id::AsyncWorkers, "0"),
    (Id::RuntimeHooks, "none"),
];

/// The settings for processes that svc has started.
const OF_PROCESSES: [Id; 3] = [Id::WorkerMaxMemoryMib, Id::WorkerMaxRequests, Id::FastcgiCommand];

/// Finds the program: the one that is named, else `php-cgi`, else the newest `php-cgiX.Y`.
fn find_command(named: Option<&str>, search_path: &OsStr) -> Option<PathBuf> {
    let folders = || std::env::split_paths(search_path).filter(|folder| folder.is_absolute());
    match named {
        Some(path) if path.contains('/') => std::path::absolute(path).ok().filter(|path| is_program(path)),
        Some(name) => folders().map(|folder| folder.join(name)).find(|path| is_program(path)),
        None => find_command(Some("php-cgi"), search_path)
            .or_else(|| folders().filter_map(|folder| newest(&folder)).max().map(|(_, path)| path)),
    }
}

/// Returns the newest `php-cgiX.Y` in a directory, with its version.
fn newest(folder: &Path) -> Option<((u32, u32), PathBuf)> {
    let files = fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let versioned = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let (major, minor) = name.strip_prefix("php-cgi")?.split_once('.')?;
        Some(((major.parse().ok()?, minor.parse().ok()?), file.path()))
    });
    versioned.filter(|(_, path)| is_program(path)).max()
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn folder(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in programs {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
        }
        File::create(folder.path().join("php-cgi9.9")).unwrap();
        folder
    }

    fn found(named: Option<&str>, folders: &[&tempfile::TempDir]) -> Option<String> {
        let path = std::env::join_paths(folders.iter().map(|folder| folder.path())).unwrap();
        let found = find_command(named, &path)?;
        Some(found.file_name().unwrap().to_string_lossy().into_owned())
    }

    #[test]
    fn the_plain_name_precedes_the_newest_version() {
        let (old, new) =
            (folder(&["php-cgi7.4", "php-cgi8.2"]), folder(&["php-cgi8.10", "php-cgi-x", "php-cgi8"]));
        assert_eq!(found(None, &[&old, &new]).as_deref(), Some("php-cgi8.10"));
        assert_eq!(found(None, &[&folder(&["php-cgi"]), &new]).as_deref(), Some("php-cgi"));
        assert_eq!(found(None, &[&folder(&[])]), None, "a file that cannot be executed is no program");
    }

    #[test]
    fn a_name_is_searched_for_and_a_path_is_not() {
        let folder = folder(&["php-cgi7.4"]);
        assert_eq!(found(Some("php-cgi7.4"), &[&folder]).as_deref(), Some("php-cgi7.4"));
        assert_eq!(found(Some("php-cgi8.2"), &[&folder]), None);
        let path = folder.path().join("php-cgi7.4");
        assert_eq!(found(path.to_str(), &[]).as_deref(), Some("php-cgi7.4"));
        assert_eq!(found(Some("/nowhere/php-cgi"), &[&folder]), None);
        assert_eq!(found(folder.path().to_str(), &[&folder]), None, "a directory");
    }
}
