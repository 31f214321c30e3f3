//! The site: the resource at a path, as found on a file thread, and the cache of static files.
//!
//! A result is open and checked; nothing needs a second lookup to answer. Scripts are not cached here; each I/O thread
//! has its own cache of them.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

use svc_core::compress::{Levels, encode_whole, is_compressible};
use svc_core::config::Config;
use svc_core::files::LookBegun;
use svc_core::files::{
    Asset, AssetOptions, DocumentRoot, FoundScript, Lookup, RelativePath, Resolved, Routing, SendfileRoots,
    SitePart, StaticCache, StaticFile,
};
use svc_core::http::{Coding, NamedFile};
use svc_core::observe::StaticCacheReading;
use svc_core::policy::deny::Denial;
use svc_core::policy::{Policy, Rules};
use svc_core::pool::{FindScript, Script};
use svc_core::sync::lock::ShortLock;
use svc_core::sync::primitive::{Arc, AtomicU64, Ordering};
use svc_core::time;

/// The document root, how its paths are routed, and how its files are sent.
#[derive(Debug)]
pub(crate) struct Site {
    root: DocumentRoot,
    routing: Routing,
    terms: AssetOptions,
    cache: StaticCache,
    policy: Arc<Policy>,
    /// The directories whose files scripts may send.
    sendfile_roots: SendfileRoots,
    /// The real location of the entry file of background tasks, which clients must not reach.
    task_entry: Option<RelativePath>,
    /// The number of reloads. Scripts found before the last one are looked up again.
    reloads: AtomicU64,
    /// The script that workers have loaded, as last found. They serve requests even while its file is missing, for
    /// example during a deployment.
    loaded: ShortLock<Option<Arc<Script>>>,
}

/// The resource at a path.
#[derive(Debug)]
pub(crate) enum Found {
    /// Something that the client must not see, even if it exists.
    Denied(Denial),
    /// A directory that was requested without its trailing slash.
    Directory,
    /// A file.
    File(Ready),
    /// Something that must not be served.
    Forbidden,
    /// Nothing.
    Missing,
    /// A script.
    Script(Arc<Script>),
}

/// The result of resolving a script's name for a file.
#[derive(Debug)]
pub(crate) enum Named {
    /// A file that may be sent.
    File(Ready),
    /// Nothing that may be sent.
    Refused {
        /// The name as written by the script.
        file: Vec<u8>,
        /// The reason.
        reason: &'static str,
    },
}

/// A file that is ready to send.
#[derive(Clone, Debug)]
pub(crate) struct Ready {
    /// The file.
    pub(crate) asset: Arc<Asset>,
    /// Whether it came from the cache.
    pub(crate) was_kept: bool,
}

impl Site {
    /// Creates the site as configured.
    pub(crate) fn new(config: &Config, policy: &Arc<Policy>) -> Self {
        let cache = StaticCache::new(config.files.cache_bytes, config.files.revalidate, time::now());
        // Without a cache, a copy would be encoded for each request.
        let offer = cache.is_on().then(|| Levels::new(&config.files).for_files());
        let codings = offer.map(|offer| offer.to_vec()).unwrap_or_default();
        let terms = AssetOptions {
            max_age: config.files.max_age,
            codings,
            is_compressible,
            memory_file_max: cache.memory_file_max(),
            hashed_file_max: cache.hashed_file_max(),
        };
        Self {
            root: DocumentRoot::new(config.serving.document_root.clone(), config.serving.links_outside_root),
            routing: Routing::new(&config.serving.entry_files, config.php.worker_mode_enabled),
            terms,
            cache,
            policy: Arc::clone(policy),
            sendfile_roots: SendfileRoots::new(config.files.sendfile_roots.clone()),
            task_entry: task_entry(config),
            reloads: AtomicU64::new(0),
            loaded: ShortLock::new(None),
        }
    }

    /// Returns the number of reloads: when it changes, scripts must be looked up again.
    pub(crate) fn reloads(&self) -> u64 {
        // Acquire: pairs with the Release in `forget_files`.
        self.reloads.load(Ordering::Acquire)
    }

    /// Returns whether the entry file of background tasks is below the document root.
    pub(crate) fn holds_task_entry(&self) -> bool {
        self.task_entry.as_ref().is_some_and(RelativePath::is_inside)
    }

    /// Returns the reason to deny a normalized path, as far as it can be determined without disk access.
    pub(crate) fn denies(&self, rules: &Rules, path: &[u8]) -> Option<Denial> {
        if rules.deny.denies(path) {
            Some(Denial::Path)
        } else {
            self.policy.php_deny.names_script(path).then_some(Denial::Php)
        }
    }

    /// Returns the cached file for the normalized `path`, without disk access.
    pub(crate) fn kept(&self, path: &[u8], now: Instant) -> Lookup {
        self.cache.get(path, now)
    }

    /// Returns whether the front controller certainly answers the normalized `path`, and may do so. Does not wait.
    pub(crate) fn leaves_to_front_controller(&self, part: &SitePart, path: &[u8]) -> bool {
        !self.policy.php_deny.matches(path)
            && !self.names_task_entry(path)
            && (part.has_only_the_script(path) || self.root.leaves_all_to_the_entry(&part.mode, path))
    }

    /// Returns the path of the page that certainly answers the normalized `path`, because nothing else does. Does not wait.
    pub(crate) fn page_left_to<'a>(&self, part: &'a SitePart, path: &[u8]) -> Option<&'a [u8]> {
        let page = part.mode.page()?;
        let is_left = path != page
            && !self.names_task_entry(path)
            && self.root.leaves_all_to_the_entry(&part.mode, path);
        is_left.then_some(page)
    }

    /// Returns the part of the site that contains the normalized `path`.
    pub(crate) fn part(&self, path: &[u8]) -> &SitePart {
        self.routing.part(path)
    }

    /// Finds the resource at the normalized `path`. Waits for the disk, unless another request for it has just been
    /// answered.
    pub(crate) fn find(&self, path: &[u8]) -> io::Result<Found> {
        if let Lookup::Good(asset) = self.cache.get(path, time::now()) {
            return Ok(Found::File(Ready { asset, was_kept: true }));
        }
        self.look(path)
    }

    /// Looks up the resource at the normalized `path` on disk, and caches it. Waits for the disk.
    pub(crate) fn look(&self, path: &[u8]) -> io::Result<Found> {
        let look = self.cache.begin_look(time::now());
        let rules = self.policy.rules();
        if self.names_task_entry(path) {
            self.cache.remove(path);
            return Ok(Found::Missing);
        }
        let part = self.part(path);
        let found = match self.root.resolve(&part.mode, path)? {
            Resolved::File(file) if self.is_task_entry(&file.path, file.elsewhere.as_ref()) => Found::Missing,
            Resolved::Script(script)
                if self.is_task_entry(&script.script_name, script.elsewhere.as_ref()) =>
            {
                Found::Missing
            }
            Resolved::File(file) => match self.judge_file(&rules, &file) {
                Some(denial) => Found::Denied(denial),
                None => return self.ready(path, file, look).map(Found::File),
            },
            Resolved::Directory => Found::Directory,
            Resolved::DotFile => Found::Denied(Denial::DotFile),
            Resolved::Forbidden => Found::Forbidden,
            Resolved::Missing if part.leaves_to_workers(path) && !self.policy.php_deny.matches(path) => {
                let loaded = self.loaded.lock().clone();
                let is_its = |script: &Arc<Script>| part.mode.front_controller() == Some(&script.name);
                loaded.filter(is_its).map_or(Found::Missing, Found::Script)
            }
            Resolved::Missing => Found::Missing,
            Resolved::Script(script) => match self.judge_script(&rules, path, &script) {
                Some(denial) => Found::Denied(denial),
                None => {
                    let script = Arc::new(into_script(script));
                    if part.leaves_to_workers(path) {
                        *self.loaded.lock() = Some(Arc::clone(&script));
                    }
                    Found::Script(script)
                }
            },
        };
        self.cache.remove(path);
        Ok(found)
    }

    /// Finds the file that a script named. Waits for the disk.
    pub(crate) fn find_named(&self, named: &NamedFile) -> io::Result<Named> {
        let look = self.cache.begin_look(time::now());
        let rules = self.policy.rules();
        let refused = |reason| Ok(Named::Refused { file: named.as_written().into(), reason });
        let Some(found) = self.sendfile_roots.find(named)? else {
            return refused("there is no such file in SENDFILE_ROOTS that may be sent");
        };
        // Judged as if its directory were the document root, and also by its path relative to the document root.
        let root = self.root.real_path()?;
        let place = RelativePath::of(&root, &found.real_path);
        let is_denied = |path: &[u8]| rules.deny.judge_file(path) == Some(Denial::Path);
        if is_denied(&found.below) || is_denied(place.way()) {
            return refused(".svcdeny denies it");
        }
        let path = found.file.path.clone();
        self.ready(&path, found.file, look).map(Named::File)
    }

    /// Encodes a copy of a file in a content coding, if it is worth caching. Takes a long time.
    pub(crate) fn code(asset: &Asset, coding: Coding) {
        let copy = asset.bytes_to_code().ok().and_then(|bytes| encode_whole(coding, &bytes));
        asset.keep(coding, copy.map(Into::into));
    }

    /// Reads the fill level of the cache of files.
    pub(crate) fn cache_reading(&self) -> StaticCacheReading {
        StaticCacheReading {
            files: self.cache.files(),
            bytes: self.cache.bytes(),
            bytes_max: self.cache.bytes_max(),
        }
    }

    /// Empties the file cache and invalidates the scripts that threads have found; returns whether there is a file cache.
    pub(crate) fn forget_files(&self) -> bool {
        // Release: a thread that sees the new number accesses the disk afterwards.
        self.reloads.fetch_add(1, Ordering::Release);
        self.cache.clear();
        self.cache.is_on()
    }

    /// Evicts files that were not requested recently, to make room.
    pub(crate) fn sweep(&self) {
        self.cache.sweep(time::now());
    }

    fn ready(&self, path: &[u8], file: StaticFile, look: LookBegun) -> io::Result<Ready> {
        // A page that answers all remaining paths is cached under its own path alone: a new file answers the next request,
        // and the paths that clients make up take no room.
        let own_path = file.path.clone();
        let is_fallback = path != own_path && self.part(path).mode.page() == Some(&own_path);
        if is_fallback {
            self.cache.remove(path);
        }
        let path = if is_fallback { &own_path } else { path };
        if let Some(asset) = self.cache.peek(path).filter(|asset| asset.is_of(&file)) {
            self.cache.confirm(path, &asset, look);
            return Ok(Ready { asset, was_kept: true });
        }
        // The file may answer the path of its directory, too.
        if let Some(asset) = self.cache.peek(&own_path).filter(|asset| asset.is_of(&file)) {
            self.cache.insert(path, &asset, look);
            return Ok(Ready { asset, was_kept: true });
        }
        let asset = Arc::new(Asset::load(file, &self.terms, time::wall())?);
        self.cache.insert(path, &asset, look);
        if path != own_path {
            // A second insertion under the same name would count as another request for the file.
            self.cache.insert(&own_path, &asset, look);
        }
        Ok(Ready { asset, was_kept: false })
    }

    /// Judges the file found for a path, by its name and by its real location.
    fn judge_file(&self, rules: &Rules, file: &StaticFile) -> Option<Denial> {
        if self.is_fallback(&file.path) {
            return None;
        }
        judge(rules, &file.path, file.elsewhere.as_ref())
    }

    /// Judges the script found for a path, by its name and by its real location.
    fn judge_script(&self, rules: &Rules, path: &[u8], script: &FoundScript) -> Option<Denial> {
        let no_php_at = |path: &[u8]| self.policy.php_deny.matches(path).then_some(Denial::Php);
        if self.is_fallback(&script.script_name) {
            return no_php_at(path);
        }
        let elsewhere = script.elsewhere.as_ref();
        let inside = elsewhere.filter(|place| place.is_inside());
        let by_pattern = no_php_at(path)
            .or_else(|| no_php_at(&script.script_name))
            .or_else(|| inside.and_then(|place| no_php_at(place.way())));
        judge(rules, &script.script_name, elsewhere).into_iter().chain(by_pattern).min()
    }

    /// Returns whether the normalized `path` is the URL path of the entry file of background tasks, or below it, whatever
    /// other resource would answer it.
    fn names_task_entry(&self, path: &[u8]) -> bool {
        let is_named = |entry: &&RelativePath| {
            let rest = path.strip_prefix(entry.way());
            entry.is_inside() && rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
        };
        self.task_entry.as_ref().filter(is_named).is_some() && !self.is_fallback(path)
    }

    /// Returns whether the file found at this path is the entry file of background tasks. An entry file that is also the
    /// fallback for all other paths is for clients.
    fn is_task_entry(&self, found: &[u8], elsewhere: Option<&RelativePath>) -> bool {
        let real = elsewhere.map_or(found, RelativePath::way);
        self.task_entry.as_ref().is_some_and(|entry| entry.way() == real) && !self.is_fallback(found)
    }

    /// Returns whether this is the fallback for all other paths of a part of the site. Rules define what clients may
    /// request, and a fallback was not requested; if it is, its path is judged.
    fn is_fallback(&self, found: &[u8]) -> bool {
        self.routing.has_entry(found)
    }
}

impl FindScript for Site {
    fn find_script(&self, path: &[u8]) -> Option<Arc<Script>> {
        match self.look(path) {
            Ok(Found::Script(script)) => Some(script),
            _ => None,
        }
    }
}

/// Returns the real location of the entry file of background tasks.
fn task_entry(config: &Config) -> Option<RelativePath> {
    let entry = config.background.async_entry_file.as_ref()?.canonicalize().ok()?;
    let root = config.serving.document_root.canonicalize().ok()?;
    Some(RelativePath::of(root.as_os_str().as_bytes(), entry.as_os_str().as_bytes()))
}

/// Judges a file by its path below the document root, and by the target of its symbolic links.
fn judge(rules: &Rules, path: &[u8], elsewhere: Option<&RelativePath>) -> Option<Denial> {
    let there = elsewhere.and_then(|place| rules.deny.judge_file(place.way()));
    rules.deny.judge_file(path).into_iter().chain(there).min()
}

fn into_script(found: FoundScript) -> Script {
    Script {
        filename: found.filename,
        real_path: found.real_path,
        folder: found.folder,
        name: found.script_name,
        path_info: found.path_info,
        document_root: found.document_root,
    }
}
