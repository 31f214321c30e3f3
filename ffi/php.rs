//! The interpreter as a whole, one per process.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use svc_types::{OpcacheFacts, OpcacheMemory, RuntimeHook};

use crate::bindings::{self, shim_facts, shim_opcache, shim_options, shim_pair};
use crate::callbacks::{self, ERROR_SINK, LOG_SINK, RESTART_SINK};
use crate::code_renewal::renew_code;
use crate::completion;
use crate::helper::{self, HelperCall};
use crate::hook;
use crate::host::PhpLog;
use crate::ini_line::ini_line;
use crate::interpreter::Interpreter;
use crate::restart_barrier::{BARRIER, RestartEvent};
use crate::runtime::Runtime;
use crate::view::{bytes, view};

/// Why PHP could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpError {
    /// PHP has already been started in this process; it starts only once.
    StartedBefore,
    /// The shim's error.
    NotStarted(String),
}

impl std::fmt::Display for PhpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::StartedBefore => f.write_str("PHP was already started in this process"),
            Self::NotStarted(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PhpError {}

/// The options that PHP is started with.
pub struct StartOptions<'a> {
    /// Values that php.ini may override.
    pub ini_defaults: &'a [(&'a str, &'a str)],
    /// Values that override php.ini.
    pub ini_overrides: &'a [(String, String)],
    /// Variables set during PHP's start, unless the process has them.
    pub environment: &'a [(&'a str, PathBuf)],
    /// The command-line PHP of the same build, for `PHP_BINARY`.
    pub command_line: Option<PathBuf>,
    /// Whether the superglobals contain the request.
    pub superglobals: bool,
    /// Whether threads boot a script that serves many requests or tasks.
    pub boots: bool,
    /// The calls that let other requests run while they wait.
    pub hooks: &'a [RuntimeHook],
    /// Whether requests may be traced.
    pub traces: bool,
    /// Whether [`Host::fail`](crate::Host::fail) is called for each request, recorded or not.
    pub reports_failures: bool,
    /// How calls of clients are observed; `None` if they are not.
    pub clients: Option<ClientOptions>,
    /// Receives log records that belong to no request. Called on any PHP thread.
    pub log: Box<dyn Fn(&PhpLog<'_>) + Send + Sync>,
    /// Receives each error that PHP raises and `@` does not silence, logged or not. Called on any PHP thread; must not
    /// block.
    pub errors: Box<dyn Fn(&PhpLog<'_>) + Send + Sync>,
    /// Receives events of OPcache's restarts. Called on the PHP thread that restarts or has waited; must not block.
    pub restarts: Box<dyn Fn(RestartEvent) + Send + Sync>,
}

/// How calls of databases, key-value stores and HTTP servers are observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Whether HTTP calls propagate the trace.
    pub propagates: bool,
    /// The minimum duration of a slow query, in milliseconds.
    pub slow_query_ms: u32,
}

/// Facts about the linked PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub struct PhpFacts {
    /// `PHP_VERSION`.
    pub version: String,
    /// The package that it was built from, with its version and suite, if known.
    pub source: Option<&'static str>,
    /// Thread-safe; always true in a built server.
    pub zts: bool,
    /// A debug build, which is slow.
    pub debug: bool,
    /// Built with Zend signals, which do not work in threaded servers.
    pub zend_signals: bool,
    /// Whether execution time limits work on threads.
    pub max_execution_timers: bool,
    /// Whether OPcache is loaded and enabled.
    pub opcache_enabled: bool,
    /// Whether each thread has its own file mode mask; otherwise, `umask()` affects the whole process.
    pub umask_per_thread: bool,
    /// The php.ini that was read; empty if there is none.
    pub ini_path: String,
}

static STARTED: AtomicBool = AtomicBool::new(false);

/// The running interpreter. It is started and dropped on the same thread, which outlives all [`Interpreter`]s.
#[derive(Debug)]
pub struct Php {
    /// Not `Send`: PHP is shut down on the thread that started it.
    _thread: PhantomData<*const ()>,
}

impl Php {
    /// Starts PHP: reads php.ini and starts all extensions. `R` runs tasks and creates the completions that requests
    /// wait for.
    ///
    /// # Errors
    ///
    /// A [`PhpError`]; PHP has logged the reason.
    pub fn start<R: Runtime>(options: StartOptions<'_>) -> Result<Self, PhpError> {
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(PhpError::StartedBefore);
        }
        // Not set before: this is the first start.
        let _ = LOG_SINK.set(options.log);
        let _ = ERROR_SINK.set(options.errors);
        let _ = RESTART_SINK.set(options.restarts);
        let pairs: Vec<_> = options
            .ini_defaults
            .iter()
            .map(|(name, value)| shim_pair { name: view(name.as_bytes()), value: view(value.as_bytes()) })
            .collect();
        let environment: Vec<_> = options
            .environment
            .iter()
            .map(|(name, value)| shim_pair {
                name: view(name.as_bytes()),
                value: view(value.as_os_str().as_bytes()),
            })
            .collect();
        let lines: String = options.ini_overrides.iter().map(|(name, value)| ini_line(name, value)).collect();
        completion::set_source::<R>();
        let callbacks = callbacks::callbacks::<R>();
        let raw = shim_options {
            callbacks: &raw const callbacks,
            ini_defaults: pairs.as_ptr(),
            ini_defaults_count: pairs.len(),
            ini_overrides: view(lines.as_bytes()),
            environment: environment.as_ptr(),
            environment_count: environment.len(),
            command_line: view(
                options.command_line.as_deref().map_or(b"", |path| path.as_os_str().as_bytes()),
            ),
            superglobals: options.superglobals,
            boots: options.boots,
            hooks: hook::bits(options.hooks),
            traces: options.traces,
            reports_failures: options.reports_failures,
            observes_clients: options.clients.is_some(),
            propagates: options.clients.is_some_and(|clients| clients.propagates),
            slow_query_ms: options.clients.map_or(0, |clients| clients.slow_query_ms),
        };
        // SAFETY: the first call of the shim in this process, on the thread that keeps `Self`; all views are valid.
        let error = unsafe { bindings::shim_startup(&raw const raw) };
        if error.is_null() {
            return Ok(Self { _thread: PhantomData });
        }
        // SAFETY: a static, NUL-terminated string.
        let text = unsafe { std::ffi::CStr::from_ptr(error) };
        Err(PhpError::NotStarted(text.to_string_lossy().into_owned()))
    }

    /// Returns the paths of the libraries whose calls the hooks cannot intercept.
    pub fn libraries_out_of_reach(&self) -> Vec<String> {
        let path = |index| {
            // SAFETY: PHP has started.
            let path = unsafe { bindings::shim_library_without_hooks(index) };
            // SAFETY: the view is valid while the library is loaded, and is copied immediately.
            unsafe { bytes(path) }
        };
        let paths = (0..).map(path).take_while(|path| !path.is_empty());
        paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    }

    /// Sets the receiver of calls that may block; it is called on any thread. Must be called once, before scripts run.
    pub fn set_helpers(&self, helpers: Box<dyn Fn(HelperCall) + Send + Sync>) {
        helper::set(helpers);
    }

    /// Returns the facts.
    pub fn facts(&self) -> PhpFacts {
        let mut raw = shim_facts {
            version: view(&[]),
            zts: false,
            debug: false,
            zend_signals: false,
            max_execution_timers: false,
            opcache_enabled: false,
            umask_per_thread: false,
            ini_path: view(&[]),
        };
        // SAFETY: PHP has started, and `raw` is an out parameter.
        unsafe { bindings::shim_facts_read(&raw mut raw) };
        // SAFETY: views of static storage.
        let version = unsafe { bytes(raw.version) };
        // SAFETY: as above.
        let ini_path = unsafe { bytes(raw.ini_path) };
        let version = String::from_utf8_lossy(version).into_owned();
        // If libphp has been replaced, its source is unknown.
        let source =
            option_env!("SHIM_PHP_SOURCE").filter(|_| option_env!("SHIM_PHP_VERSION") == Some(&version));
        PhpFacts {
            version,
            source,
            zts: raw.zts,
            debug: raw.debug,
            zend_signals: raw.zend_signals,
            max_execution_timers: raw.max_execution_timers,
            opcache_enabled: raw.opcache_enabled,
            umask_per_thread: raw.umask_per_thread,
            ini_path: String::from_utf8_lossy(ini_path).into_owned(),
        }
    }

    /// Returns the state of OPcache's memory; `None` if OPcache is off.
    pub fn opcache_memory(&self) -> Option<OpcacheMemory> {
        let mut raw = shim_opcache {
            used_bytes: 0,
            free_bytes: 0,
            wasted_bytes: 0,
            scripts: 0,
            hits: 0,
            misses: 0,
            is_full: false,
        };
        // SAFETY: PHP has started, on this thread, and `raw` is an out parameter.
        let is_known = unsafe { bindings::shim_opcache_read(&raw mut raw) };
        is_known.then_some(OpcacheMemory {
            used_bytes: raw.used_bytes,
            free_bytes: raw.free_bytes,
            wasted_bytes: raw.wasted_bytes,
            scripts: raw.scripts,
            hits: raw.hits,
            misses: raw.misses,
            is_full: raw.is_full,
        })
    }

    /// Returns the ini files that were read, in order.
    pub fn ini_files(&self) -> Vec<String> {
        // SAFETY: PHP has started.
        let scanned = unsafe { bindings::shim_ini_scanned() };
        // SAFETY: a view of static storage.
        let scanned = String::from_utf8_lossy(unsafe { bytes(scanned) }).into_owned();
        let first = Some(self.facts().ini_path).filter(|path| !path.is_empty());
        let others = scanned.split(['\n', ',']).map(str::trim).filter(|path| !path.is_empty());
        first.into_iter().chain(others.map(str::to_owned)).collect()
    }

    /// Returns the directories in which PHP looks for php.ini and for further ini files, unless the environment
    /// overrides them. An empty path stands for none.
    pub fn ini_directories(&self) -> [PathBuf; 2] {
        let (mut first, mut further) = (view(&[]), view(&[]));
        // SAFETY: both are out parameters.
        unsafe { bindings::shim_ini_directories(&raw mut first, &raw mut further) };
        // SAFETY: views of static storage.
        [first, further].map(|path| PathBuf::from(OsStr::from_bytes(unsafe { bytes(path) })))
    }

    /// Makes requests and workers that start later run the code on disk: OPcache is reset, and threads clear their
    /// realpath caches. The restart is not reported. `is_saved`: files were saved just now; OPcache then keeps the others,
    /// if its directives make it check each file.
    pub fn renew_code(&self, is_saved: bool) {
        // SAFETY: PHP has started, on this thread.
        unsafe { renew_code(is_saved) };
    }

    /// Returns the names and versions of the extensions.
    pub fn extensions(&self) -> Vec<(String, String)> {
        let one = |index| {
            let (mut name, mut version) = (view(&[]), view(&[]));
            // SAFETY: PHP has started, and both are out parameters.
            let found = unsafe { bindings::shim_extension_read(index, &raw mut name, &raw mut version) };
            // SAFETY: a view of the extension's storage, copied immediately.
            let text = |view| String::from_utf8_lossy(unsafe { bytes(view) }).into_owned();
            found.then(|| (text(name), text(version)))
        };
        (0..).map_while(one).collect()
    }

    /// Returns whether PHP or an extension has a directive of this name.
    pub fn has_directive(&self, name: &str) -> bool {
        // SAFETY: PHP has started on this thread; the view is valid for the call.
        unsafe { bindings::shim_ini_exists(view(name.as_bytes())) }
    }

    /// Returns the first extension whose per-thread state was not classified as belonging to a request or to the
    /// thread; empty if there is none. For tests: the isolation of requests in worker mode depends on it.
    pub fn unclassified_state(&self) -> String {
        // SAFETY: PHP has started; a static text.
        let view = unsafe { bindings::shim_state_unclassified() };
        // SAFETY: a view of static storage.
        String::from_utf8_lossy(unsafe { bytes(view) }).into_owned()
    }

    /// Returns the extensions whose per-request state has a layout unknown to svc; it stays with the thread.
    pub fn mismatched_extensions(&self) -> Vec<ExtensionMismatch> {
        let one = |index| {
            let mut raw = bindings::shim_mismatch { extension: view(&[]), has_header: false };
            // SAFETY: PHP has started, and `raw` is an out parameter.
            let found = unsafe { bindings::shim_state_mismatch(index, &raw mut raw) };
            found.then(|| ExtensionMismatch {
                // SAFETY: a view of static storage.
                extension: String::from_utf8_lossy(unsafe { bytes(raw.extension) }).into_owned(),
                has_header: raw.has_header,
            })
        };
        (0..).map_while(one).collect()
    }

    /// Returns a handle by which other threads create interpreters while PHP runs.
    pub fn threads(&self) -> Threads {
        Threads(())
    }
}

/// An extension whose per-request state has a layout unknown to svc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionMismatch {
    /// The name.
    pub extension: String,
    /// The headers that svc was built with differ as well, so this is another PHP.
    pub has_header: bool,
}

/// A range of an extension's struct that is switched with requests.
#[derive(Clone, Debug)]
pub struct SwitchedRange {
    /// The extension's name.
    pub extension: String,
    /// The size of its struct; 0 if the whole struct is switched, whatever its size.
    pub struct_size: usize,
    /// The range that is switched.
    pub range: std::ops::Range<usize>,
}

/// Returns all known ranges of extensions' structs, whether the extensions are loaded or not. For tests.
pub fn travelling() -> impl Iterator<Item = SwitchedRange> {
    (0..).map_while(|index| {
        let mut raw = bindings::shim_state_part { module: view(&[]), struct_size: 0, offset: 0, size: 0 };
        // SAFETY: static tables, which need no PHP, and `raw` is an out parameter.
        let found = unsafe { bindings::shim_state_range(index, &raw mut raw) };
        found.then(|| SwitchedRange {
            // SAFETY: a view of static storage.
            extension: String::from_utf8_lossy(unsafe { bytes(raw.module) }).into_owned(),
            struct_size: raw.struct_size,
            range: raw.offset..raw.offset + raw.size,
        })
    })
}

impl Drop for Php {
    fn drop(&mut self) {
        if Interpreter::alive() == 0 {
            // SAFETY: on the thread that started PHP, and no other thread has an interpreter.
            unsafe { bindings::shim_shutdown() };
        }
        // Otherwise a thread is still running PHP: its memory must not be freed, and the process is about to end
        // anyway.
    }
}

/// Creates [`Interpreter`]s on other threads.
#[derive(Clone, Debug)]
pub struct Threads(());

impl Threads {
    /// Prepares the calling thread to run PHP.
    pub fn enter(&self) -> Interpreter {
        Interpreter::new()
    }

    /// Returns facts about OPcache's memory.
    pub fn cache(&self) -> OpcacheFacts {
        BARRIER.cache()
    }
}
