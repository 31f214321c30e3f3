//! `--watch` and `svc dev`: reload code as soon as it changes.
//!
//! Threads that keep code loaded (persistent workers and task threads) are replaced, as by SIGHUP, when a code file is
//! written, moved or removed, also in directories created later. A burst of changes causes one reload. Cache
//! directories are not watched, because applications compile code into them while they serve.
//!
//! With `svc dev`, changes of code and of files for browsers also reload browsers: at once, or once the threads that keep
//! code loaded have been replaced, which `boot` finds out.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use rustix::process::{Signal, getpid, kill_process};

use svc_core::config::Config;
use svc_core::dev::Development;
use svc_core::observe::{Event, Log, WatchEvent};
use svc_core::policy::never_public::sign_of_project;
use svc_core::time;

/// Starts the watching thread if any thread keeps code loaded, or browsers reload; otherwise, each request checks its
/// scripts.
pub(crate) fn start(config: &Config, development: Option<&Arc<Development>>, log: &Log) {
    let keeps_code = config.php.worker_mode_enabled || config.background.async_workers > 0;
    if !keeps_code && development.is_none() {
        log.emit(&Event::Watch(WatchEvent::Revalidated));
        return;
    }
    let given = config.development.as_ref().map(|development| development.project.clone());
    let root = given.unwrap_or_else(|| project_of(&config.serving.document_root));
    let watching = Watcher::new(root, keeps_code, development.cloned(), log.clone()).and_then(|watcher| {
        thread::Builder::new().name("svc-watch".into()).spawn(move || watcher.run())?;
        Ok(())
    });
    if let Err(error) = watching {
        log.emit(&Event::Failure { what: &format!("cannot watch the code: {error}") });
    }
}

/// Returns the directory with all code: the document root, or the project that contains it.
pub(crate) fn project_of(document_root: &Path) -> PathBuf {
    let parent = document_root.parent().filter(|parent| parent.parent().is_some());
    parent.filter(|parent| sign_of_project(parent).is_some()).unwrap_or(document_root).to_owned()
}

struct Watcher {
    inotify: OwnedFd,
    root: PathBuf,
    /// The directories by watch descriptor.
    directories: HashMap<i32, PathBuf>,
    has_failed: bool,
    /// Whether threads keep code loaded.
    keeps_code: bool,
    /// The state of a server for development.
    development: Option<Arc<Development>>,
    log: Log,
}

/// The changes of a burst.
#[derive(Debug, Default)]
struct Changes {
    /// The number of changes of code.
    count: u64,
    /// The first one.
    first: PathBuf,
    /// Whether all of them are files that were saved or removed, and not moved with the time of an earlier change.
    are_saves: bool,
    /// Whether a file for browsers has changed.
    has_assets: bool,
}

impl Watcher {
    fn new(
        root: PathBuf,
        keeps_code: bool,
        development: Option<Arc<Development>>,
        log: Log,
    ) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let directories = HashMap::new();
        let mut watcher =
            Self { inotify, root, directories, has_failed: false, keeps_code, development, log };
        watcher.add(&watcher.root.clone(), &mut Changes::default());
        let event = WatchEvent::Watching {
            path: &watcher.root.to_string_lossy(),
            directories: watcher.directories.len() as u64,
        };
        watcher.log.emit(&Event::Watch(event));
        Ok(watcher)
    }

    fn run(mut self) {
        loop {
            let mut changes = Changes::default();
            self.wait(None);
            self.read(&mut changes);
            if changes.is_empty() {
                continue;
            }
            // Saving many files, or switching branches, causes further changes.
            let latest = time::now() + BURST_MAX;
            while time::now() < latest && self.wait(Some(QUIET)) {
                self.read(&mut changes);
            }
            self.report(&changes);
        }
    }

    /// Makes a burst of changes take effect.
    fn report(&self, changes: &Changes) {
        if changes.count > 0 {
            let path = changes.first.strip_prefix(&self.root).unwrap_or(&changes.first).to_string_lossy();
            self.log.emit(&Event::Watch(WatchEvent::Changed { path: &path, changes: changes.count }));
        }
        if changes.count > 0 && self.keeps_code {
            if let Some(development) = self.development.as_ref().filter(|_| changes.are_saves) {
                development.note_save();
            }
            // A process may always signal itself.
            let _ = kill_process(getpid(), Signal::HUP);
        } else if let Some(development) = &self.development {
            development.changes.note();
        }
    }

    /// Waits for an event; returns whether there is one.
    fn wait(&self, timeout: Option<Duration>) -> bool {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        loop {
            match poll(&mut [PollFd::new(&self.inotify, PollFlags::IN)], timeout.as_ref()) {
                Err(Errno::INTR) => {}
                found => return found.is_ok_and(|ready| ready > 0),
            }
        }
    }

    /// Reads all available events.
    fn read(&mut self, changes: &mut Changes) {
        let mut found = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
            found.push((event.wd(), event.events(), name));
        }
        for (watch, flags, name) in found {
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                let root = self.root.clone();
                changes.note(&root);
                self.add(&root, changes);
            } else if flags.contains(ReadFlags::IGNORED) {
                self.directories.remove(&watch);
            } else if let (Some(directory), Some(name)) = (self.directories.get(&watch), name) {
                let path = directory.join(name);
                if !flags.contains(ReadFlags::ISDIR) {
                    self.note(&path, changes);
                } else if is_watched(&path, &self.root) {
                    if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
                        self.add(&path, changes);
                    } else {
                        changes.note(&path);
                    }
                }
            }
        }
    }

    /// Watches a directory and those below it. Code already in it counts as changed.
    fn add(&mut self, root: &Path, changes: &mut Changes) {
        let mut pending = vec![root.to_owned()];
        while let Some(directory) = pending.pop() {
            match inotify::add_watch(&self.inotify, &directory, EVENTS) {
                Ok(watch) => {
                    self.directories.insert(watch, directory.clone());
                }
                // It was removed, or is not readable for this user.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => continue,
                Err(error) => {
                    self.fail(&directory, error);
                    return;
                }
            }
            for entry in fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok) {
                let path = entry.path();
                // Links are not followed, to avoid cycles.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    if is_watched(&path, &self.root) {
                        pending.push(path);
                    }
                } else {
                    self.note(&path, changes);
                }
            }
        }
    }

    fn note(&self, path: &Path, changes: &mut Changes) {
        if is_code(path) {
            changes.note(path);
        } else {
            changes.has_assets |= self.development.is_some() && is_asset(path);
        }
    }

    /// Reports once that a directory cannot be watched.
    fn fail(&mut self, directory: &Path, error: Errno) {
        if !std::mem::replace(&mut self.has_failed, true) {
            let error = match error {
                Errno::NOSPC => "the system allows no more (fs.inotify.max_user_watches)".to_owned(),
                other => other.to_string(),
            };
            let path = &*directory.to_string_lossy();
            self.log.emit(&Event::Watch(WatchEvent::Incomplete { path, error: &error }));
        }
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.count == 0 && !self.has_assets
    }

    fn note(&mut self, path: &Path) {
        if self.count == 0 {
            self.first = path.to_owned();
        }
        self.are_saves = (self.count == 0 || self.are_saves) && is_save(path);
        self.count += 1;
    }
}

/// Returns whether a changed file cannot have the time of its earlier contents: its time is recent, or it is gone.
fn is_save(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else { return true };
    let age = |changed: SystemTime| time::wall().duration_since(changed);
    metadata.is_file() && metadata.modified().is_ok_and(|changed| age(changed).is_ok_and(|age| age < RECENT))
}

/// Returns whether this file is code, or is read by code at boot.
fn is_code(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let ending = path.extension().map(OsStr::as_bytes);
    name.starts_with(b".env") || ENDINGS.iter().any(|known| ending == Some(known.as_bytes()))
}

/// Returns whether this is a file that browsers ask for.
fn is_asset(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ending| ASSETS.contains(&ending))
}

/// Returns whether a directory below `root` contains source code.
fn is_watched(path: &Path, root: &Path) -> bool {
    let below = path.strip_prefix(root).unwrap_or(path);
    let name = path.file_name().unwrap_or_default().as_bytes();
    let is_dependency = below.starts_with("vendor");
    !name.starts_with(b".") && name != b"node_modules" && (is_dependency || !WRITTEN.contains(&name))
}

/// A burst of changes is over when nothing has changed for this long.
const QUIET: Duration = Duration::from_millis(40);

/// The age of a file that was saved just now, with room for a slow machine.
const RECENT: Duration = Duration::from_secs(10);

/// A burst that continues is handled after this time.
const BURST_MAX: Duration = Duration::from_millis(500);

/// Enough for several hundred events.
const EVENTS_BYTES: usize = 16 * 1024;

const EVENTS: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ONLYDIR);

/// The endings of files with code, templates or configuration.
const ENDINGS: [&str; 12] =
    ["php", "phtml", "inc", "module", "twig", "latte", "yaml", "yml", "neon", "xml", "ini", "env"];

/// The endings of files that browsers ask for.
const ASSETS: [&str; 16] = [
    "css", "js", "mjs", "html", "htm", "json", "svg", "png", "jpg", "jpeg", "gif", "webp", "avif", "ico",
    "woff", "woff2",
];

/// Directories that applications write to while they serve.
const WRITTEN: [&[u8]; 6] = [b"cache", b"log", b"logs", b"storage", b"tmp", b"var"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_known_by_its_name() {
        for name in ["a.php", ".env", ".env.local", "services.yaml", "a.html.twig"] {
            assert!(is_code(Path::new(name)), "{name}");
        }
        for name in ["a.php~", ".a.php.swp", "4913", "app.css", "php", "a.log", ".phpunit.result.cache"] {
            assert!(!is_code(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn directories_that_applications_write_to_are_left_alone() {
        let root = Path::new("/srv/var/app");
        for path in ["src", "vendor", "vendor/symfony/cache", "config"] {
            assert!(is_watched(&root.join(path), root), "{path}");
        }
        for path in [".git", "node_modules", "var", "storage", "bootstrap/cache", "vendor/.bin"] {
            assert!(!is_watched(&root.join(path), root), "{path}");
        }
    }

    #[test]
    fn a_saved_file_has_the_time_of_the_change() {
        let project = tempfile::tempdir().unwrap();
        let path = project.path().join("a.php");
        assert!(is_save(&path), "it was removed");
        fs::write(&path, "").unwrap();
        assert!(is_save(&path));
        let before = time::wall() - 2 * RECENT;
        fs::File::open(&path).unwrap().set_modified(before).unwrap();
        assert!(!is_save(&path), "another file has got its name");
        assert!(!is_save(project.path()), "its files may be of any time");
        let mut changes = Changes::default();
        for (name, are_saves) in [("gone.php", true), ("a.php", false), ("gone.php", false)] {
            changes.note(&project.path().join(name));
            assert_eq!(changes.are_saves, are_saves, "{name}");
        }
    }

    #[test]
    fn a_document_root_is_part_of_a_project_or_alone() {
        let project = tempfile::tempdir().unwrap();
        let public = project.path().join("public");
        fs::create_dir(&public).unwrap();
        assert_eq!(project_of(&public), public);
        fs::write(project.path().join("composer.json"), "{}").unwrap();
        assert_eq!(project_of(&public), project.path());
    }
}
