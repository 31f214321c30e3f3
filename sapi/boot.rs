//! Startup and shutdown of the server process.
//!
//! The operations port is the first to answer and the last to close. A failed start reports its reason in one line and
//! leaves no files or threads behind. PHP starts and ends on the main thread. Serving is up to the core.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use svc_core::config::{Activation, Config, EnvFile, Executor, RawConfig, ServiceManagerConfig};
use svc_core::limits::{CONTROL_TICK, THREAD_EXIT_GRACE};
use svc_core::observe::{Event, Hint, Log, LogTap, PluginEvent};
use svc_core::plugins::{PluginCall, PluginStartError};
use svc_core::pool::{Engine, Exchange};
use svc_core::time::{self, Clock};
use svc_serve::{ExecutorFacts, InheritedSockets, PreparedServer, ReloadReading, Server, StartError};

use svc_ffi::signals::{self, Signal};

use crate::activation;
use crate::build_features;
use crate::commands::{self, Exit};
use crate::development::BrowserReloads;
use crate::early_stop::EarlyStop;
use crate::fastcgi;
use crate::pid_file::{PidFile, PidFileError};
use crate::plugins;
use crate::reload_report::{ReloadReport, ReportedReloads};
use crate::run_as::{self, ProcessUser};
use crate::watch;

/// Serves until a signal stops the process. Returns the exit code.
pub fn serve(raw: &RawConfig, activation: &Activation, is_watching: bool) -> Exit {
    let inherited = match activation::take(activation) {
        Ok(inherited) => inherited,
        Err(error) => return fail(&error, Exit::Misused),
    };
    // The signal mask is set before any other thread exists, so that all inherit it.
    svc_ffi::signals::block();
    detach_stdin();
    // Its value is in `raw`; child processes of PHP must not inherit it.
    svc_ffi::environment::remove(&ServiceManagerConfig::VARIABLES);
    let config = match Config::resolve(raw) {
        Ok(config) => Arc::new(config),
        Err(error) => return fail(&error, Exit::Misused),
    };
    let exported = config.tracing.as_ref().and_then(|tracing| tracing.logs.as_ref());
    let tap = exported.map(|logs| Arc::new(LogTap::new(logs.batch.queue_items_max)));
    let log = match Log::to_stdout(&config, tap) {
        Ok(log) => log,
        Err(error) => return fail(&format_args!("cannot start the log thread: {error}"), Exit::Failed),
    };
    log.emit(&Event::Starting { version: env!("CARGO_PKG_VERSION") });
    for warning in &config.warnings {
        log.emit(&Event::Setting(warning));
    }
    let exit = run_on(inherited, &config, &log, time::now, |server, main| {
        if is_watching {
            watch::start(&config, server.shared().development.as_ref(), &log);
        }
        wait_for_signal(server, main);
    });
    log.shutdown();
    exit
}

/// Connects standard input to `/dev/null`. Otherwise a script, or a program that it starts, could wait on a terminal or an
/// open pipe forever.
fn detach_stdin() {
    // Without /dev/null, standard input remains open.
    if let Ok(null) = File::open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(null);
    }
}

/// Adds the variables of the files to the environment, for PHP and its child processes. Must be called while no other
/// thread runs.
pub fn adopt(files: &[EnvFile]) {
    for file in files {
        svc_ffi::env_file::add(file.variables().map(|(name, value, _)| (name, value)));
    }
}

/// Adds these variables to the environment, for PHP and its child processes, except those that are set. Must be called
/// while no other thread runs.
#[cfg_attr(not(feature = "php"), expect(unused_variables, reason = "only PHP reads them"))]
pub fn add_variables(variables: &[(&str, OsString)]) {
    #[cfg(feature = "php")]
    svc_ffi::env_file::add(variables.iter().map(|(name, value)| (*name, &**value)));
}

fn fail(error: &dyn Display, exit: Exit) -> Exit {
    commands::print_error(error);
    exit
}

/// Binds the ports, starts the executor, opens the main port, calls `until`, and drains when it returns. The control
/// thread uses `clock`. The executor starts and ends on the calling thread.
pub fn run(config: &Arc<Config>, log: &Log, clock: Clock, until: impl FnOnce(&Server)) -> Exit {
    run_on(InheritedSockets::default(), config, log, clock, |server, _| until(server))
}

/// Actions of the main thread, which has started PHP.
struct MainThread<'a> {
    /// Reads the state of OPcache.
    read: &'a dyn Fn(),
    /// Makes later requests and workers run the code on disk; returns whether there is any code.
    renew_code: &'a dyn Fn() -> bool,
    /// The file from which `svc reload` reads the outcome.
    report: Option<&'a ReloadReport>,
}

fn run_on(
    inherited: InheritedSockets,
    config: &Arc<Config>,
    log: &Log,
    clock: Clock,
    until: impl FnOnce(&Server, &MainThread<'_>),
) -> Exit {
    if config.response_cache.is_some() {
        // Large responses that replace each other would leave gaps.
        svc_ffi::allocator::map_large_blocks();
    }
    let user = match run_as::prepare(config) {
        Ok(user) => user,
        Err(problem) => return fail(&problem, Exit::Misused),
    };
    let prepared = match PreparedServer::prepare_by(Arc::clone(config), log.clone(), clock, inherited) {
        Ok(prepared) => prepared,
        Err(error) => {
            // A setting that does not suit the machine is a usage error; a port in use is a runtime failure.
            let is_misuse = matches!(
                error,
                StartError::Policy(_)
                    | StartError::SpoolDir { .. }
                    | StartError::Tls(_)
                    | StartError::Tracing(_)
            );
            let exit = if is_misuse { Exit::Misused } else { Exit::Failed };
            return fail(&error, exit);
        }
    };
    let pid_file = match config.serving.pid_file.as_deref().map(PidFile::create).transpose() {
        Ok(pid_file) => pid_file,
        Err(error @ PidFileError::Taken(..)) => return fail(&error, Exit::Failed),
        Err(error) => return fail(&error, Exit::Misused),
    };
    let owner = user.as_ref().map(run_as::ids);
    let report = config.serving.pid_file.as_deref().and_then(|path| ReloadReport::create(path, owner));
    let shared = Arc::clone(prepared.shared());
    let is_set_up = become_user(user.as_ref(), config, log, &prepared)
        .and_then(|()| install_plugins(config, log, &prepared, pid_file.as_ref()));
    let exit = match is_set_up {
        Ok(()) => execute(config, log, prepared, report.as_ref(), until),
        Err(exit) => {
            drop(prepared);
            exit
        }
    };
    drop(report);
    drop(pid_file);
    let has_stopped = shared.lifecycle.is_stopped();
    // After a failed start, the plugins have not been stopped yet.
    let left = shared.plugins.end(if has_stopped { Duration::ZERO } else { THREAD_EXIT_GRACE });
    for (plugin, call) in left.iter().filter(|_| !has_stopped) {
        let event = PluginEvent::LeftBehind { callback: call.map_or("", PluginCall::as_str) };
        log.emit(&Event::Plugin(plugin, event));
    }
    if !left.is_empty() {
        // A thread is still running plugin code, and an orderly exit would free memory that it uses.
        log.shutdown();
        svc_ffi::exit_now(exit.code().into());
    }
    exit
}

/// Serves with the configured executor.
fn execute(
    config: &Config,
    log: &Log,
    prepared: PreparedServer,
    report: Option<&ReloadReport>,
    until: impl FnOnce(&Server, &MainThread<'_>),
) -> Exit {
    let (engine, facts) = match config.serving.executor {
        Executor::Sapi => return executor::run(config, log, prepared, report, until),
        Executor::Fastcgi => match fastcgi::executor::prepare(config, log, &prepared) {
            Ok(prepared) => (Some(prepared.engine), prepared.facts),
            Err(problems) => return fail(&problems.join("\n"), Exit::Misused),
        },
        Executor::Stub => (None, ExecutorFacts::default()),
    };
    // Processes of the FastCGI executor load the code on disk when they are replaced.
    let renew_code = || engine.is_some();
    let main = MainThread { read: &|| {}, renew_code: &renew_code, report };
    match serve_until(prepared, facts, engine.as_ref(), |server| until(server, &main)) {
        Ok(true) => Exit::Well,
        Ok(false) => {
            // A thread is left; it ends with the process.
            log.shutdown();
            svc_ffi::exit_now(0)
        }
        Err(exit) => exit,
    }
}

/// Switches to the user of the settings, if there is one.
fn become_user(
    user: Option<&ProcessUser>,
    config: &Config,
    log: &Log,
    prepared: &PreparedServer,
) -> Result<(), Exit> {
    let Some(user) = user else { return Ok(()) };
    let unreadable = run_as::assume(user, config).map_err(|problem| fail(&problem, Exit::Misused))?;
    for path in unreadable {
        log.emit(&Event::Hint(Hint::UnreadableAtReload { path: &path.to_string_lossy() }));
    }
    prepared.check_spool().map_err(|error| fail(&error, Exit::Misused))
}

/// Loads and initialises the plugins, while the operations port is already answering. This may take any time, so a
/// signal aborts it.
fn install_plugins(
    config: &Config,
    log: &Log,
    prepared: &PreparedServer,
    pid_file: Option<&PidFile>,
) -> Result<(), Exit> {
    if config.background.plugins.is_empty() {
        return Ok(());
    }
    let stop = EarlyStop::watch(log);
    let loaded = stop.ends(log, pid_file, |begin| plugins::load(config, Some(log), begin));
    let loaded = loaded.map_err(|error| fail(&error, Exit::Misused))?;
    prepared.install_plugins(loaded, stop.descriptor()).map_err(|error| match error {
        StartError::Plugin(PluginStartError::Stopped) => {
            log.emit(&Event::StartStopped);
            Exit::Well
        }
        error => fail(&error, Exit::Failed),
    })
}

impl MainThread<'_> {
    /// Reports the progress of reloads to `svc reload`.
    fn report(&self, server: &Server, reloads: &ReloadReading, is_stopping: bool) {
        if let Some(report) = self.report {
            let needs_restart = server.shared().metrics.restart_required.is_set();
            report.note(ReportedReloads { reloads: reloads.clone(), needs_restart, is_stopping });
        }
    }
}

/// Waits for the signal to stop, and reads the state of OPcache once a second. A second signal then ends the
/// process immediately.
fn wait_for_signal(server: &Server, main: &MainThread<'_>) {
    let mut browsers = server.shared().development.as_ref().map(BrowserReloads::new);
    loop {
        (main.read)();
        let reloads = server.reloads();
        if let Some(browsers) = &mut browsers {
            browsers.note(&reloads);
        }
        let pause = if reloads.ended < reloads.begun { RELOAD_PAUSE } else { CONTROL_TICK };
        main.report(server, &reloads, false);
        match signals::wait_up_to(pause) {
            Some(Signal::Hangup) => server.reload(main.renew_code),
            Some(Signal::Interrupt | Signal::Terminate) => break,
            Some(Signal::Meaningless { number, sender }) => {
                server.shared().log.emit(&Event::SignalIgnored { number, sender });
            }
            None => {}
        }
    }
    main.report(server, &server.reloads(), true);
    if let Some(development) = &server.shared().development {
        development.changes.close();
    }
    let force = || {
        while !matches!(signals::wait(), Signal::Interrupt | Signal::Terminate) {}
        svc_ffi::exit_now(1);
    };
    if let Err(error) = std::thread::Builder::new().name("svc-signals".into()).spawn(force) {
        let what = format!(
            "cannot start the signal thread, so a second signal will not stop the process immediately: {error}"
        );
        server.shared().log.emit(&Event::Failure { what: &what });
    }
}

/// The polling interval during a reload.
const RELOAD_PAUSE: Duration = Duration::from_millis(10);

/// Starts the pool of `engine`, if there is one, opens the main port, calls `until`, and drains. Returns whether every
/// thread has ended.
fn serve_until(
    prepared: PreparedServer,
    facts: ExecutorFacts,
    engine: Option<&Arc<dyn Engine<Exchange>>>,
    until: impl FnOnce(&Server),
) -> Result<bool, Exit> {
    let server = prepared.serve(facts, engine).map_err(|error| fail(&error, Exit::Failed))?;
    until(&server);
    server.drain();
    Ok(server.wait())
}

/// Returns the output of `svc version`.
pub fn version() -> String {
    format!("svc {}\n{}{}", env!("CARGO_PKG_VERSION"), executor::version(), build_features::line())
}

#[cfg(feature = "php")]
mod executor {
    use std::io;

    use svc_core::observe::Hint;
    use svc_core::tasks::Task;
    use svc_serve::Shared;

    use svc_ffi::Php;

    use crate::ini_files::IniFiles;
    use crate::installation::Installation;
    use crate::php::{self, PhpStartError};
    use crate::php_engine::PhpEngine;
    use crate::php_task_worker::PhpTaskEngine;
    use crate::running_request::{RecordOrigin, write_log};
    use crate::runtime::ServerRuntime;

    use super::{
        Arc, Config, Engine, Event, Exchange, ExecutorFacts, Exit, Log, MainThread, PreparedServer,
        ReloadReport, Server, build_features, commands, fail, serve_until,
    };

    pub(super) fn run(
        config: &Config,
        log: &Log,
        prepared: PreparedServer,
        report: Option<&ReloadReport>,
        until: impl FnOnce(&Server, &MainThread<'_>),
    ) -> Exit {
        let missing = build_features::missing(config);
        if !missing.is_empty() {
            return fail(&missing.join("\n"), Exit::Misused);
        }
        let php = match php::start(&config.php, prepared.shared()) {
            Ok(php) => php,
            Err(PhpStartError::Directives(faults)) => return fail(&php::fault_lines(&faults), Exit::Misused),
            Err(PhpStartError::Php(error)) => {
                return fail(&format_args!("cannot start PHP: {error}"), Exit::Misused);
            }
        };
        match run_with(&php, prepared, report, until) {
            Ok(true) => Exit::Well,
            Ok(false) => {
                // A thread is still running PHP, and an orderly exit would free memory that it uses.
                log.shutdown();
                svc_ffi::exit_now(0)
            }
            Err(exit) => exit,
        }
    }

    fn run_with(
        php: &Php,
        prepared: PreparedServer,
        report: Option<&ReloadReport>,
        until: impl FnOnce(&Server, &MainThread<'_>),
    ) -> Result<bool, Exit> {
        let ini_files = IniFiles::of(php);
        let facts = php.facts();
        let engine: Arc<dyn Engine<Exchange>> =
            Arc::new(PhpEngine::new(php.threads(), &facts, Arc::clone(prepared.shared())));
        let tasks: Arc<dyn Engine<Task>> =
            Arc::new(PhpTaskEngine::new(php.threads(), &facts, Arc::clone(prepared.shared())));
        prepared.start_tasks(&tasks).map_err(|error| fail(&error, Exit::Failed))?;
        let config_report = php::report(&facts);
        let free_unused: Option<fn()> = Some(svc_ffi::allocator::free_unused);
        let facts = ExecutorFacts { php_version: Some(facts.version), report: config_report, free_unused };
        let shared = Arc::clone(prepared.shared());
        let read = || {
            if let Some(memory) = php.opcache_memory() {
                let has_filled = shared.opcache.lock().note(memory);
                if has_filled {
                    shared.log.emit(&Event::OpcacheFull { scripts: memory.scripts });
                }
            }
        };
        // Read before the first scrape of a ready server.
        read();
        let renew_code = || {
            note_ini_files(&ini_files, &shared);
            let is_saved = shared.development.as_ref().is_some_and(|development| development.take_save());
            // Last, directly before the pools restart: one restart then serves both.
            php.renew_code(is_saved);
            true
        };
        let main = MainThread { read: &read, renew_code: &renew_code, report };
        serve_until(prepared, facts, Some(&engine), |server| until(server, &main))
    }

    /// Reports the ini files that have changed since PHP started.
    fn note_ini_files(ini_files: &IniFiles, shared: &Shared) {
        let changed = ini_files.changed();
        for path in &changed {
            shared.log.emit(&Event::Hint(Hint::IniFileChanged { path: &path.to_string_lossy() }));
        }
        if changed.is_empty() {
            shared.metrics.restart_required.clear();
        } else {
            shared.metrics.restart_required.set();
        }
    }

    pub(super) fn version() -> String {
        let Ok(log) =
            Log::start(svc_core::config::Level::Error, svc_core::config::AccessLog::Off, io::sink())
        else {
            return String::new();
        };
        let installation = Installation::of_this_binary();
        match Php::start::<ServerRuntime>(svc_ffi::StartOptions {
            ini_defaults: &[],
            ini_overrides: &[],
            environment: &installation.as_ref().map(Installation::environment).unwrap_or_default(),
            command_line: crate::php_command::binary(installation.as_ref()),
            superglobals: true,
            boots: false,
            hooks: &[],
            traces: false,
            reports_failures: false,
            clients: None,
            log: Box::new(move |record| {
                write_log(&log, record, RecordOrigin::default());
            }),
            errors: Box::new(|_| {}),
            restarts: Box::new(|_| {}),
        }) {
            Ok(php) => php::lines(&php.facts()),
            Err(error) => {
                commands::print_error(&error);
                String::new()
            }
        }
    }
}

#[cfg(not(feature = "php"))]
mod executor {
    use super::{Config, Exit, Log, MainThread, PreparedServer, ReloadReport, Server, fail};

    pub(super) fn run(
        _config: &Config,
        _log: &Log,
        _prepared: PreparedServer,
        _report: Option<&ReloadReport>,
        _until: impl FnOnce(&Server, &MainThread<'_>),
    ) -> Exit {
        fail(
            &"EXECUTOR: \"sapi\" is not available in this build, which does not include PHP; accepted: fastcgi, stub",
            Exit::Misused,
        )
    }

    pub(super) fn version() -> String {
        "PHP: not included in this build\n".to_owned()
    }
}
