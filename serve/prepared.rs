//! The server before it serves: its ports are bound, and the control thread answers.
//!
//! The control thread is the first thread; errors (a port in use, too few descriptors) are reported before any client is
//! served. All pollers exist before the threads that send messages to them. The server starts no interpreter; the process
//! does, between [`prepare`](PreparedServer::prepare) and [`serve`](PreparedServer::serve).

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use svc_core::admission::Gate;
use svc_core::config::{Config, ListenAddr, Problem};
use svc_core::observe::{Event, Log, PluginEvent};
use svc_core::plugins::{Plugin, PluginEvents, PluginStartError};
use svc_core::policy::{Policy, PolicyError};
use svc_core::pool::{Engine, Exchange, JobSource, PoolEvents, WorkerPool};
use svc_core::spool::SpoolError;
use svc_core::sync::primitive::Arc;
use svc_core::tasks::Task;
use svc_core::time::{self, Clock};
use svc_core::tls::{SessionConfig, TlsError};

use super::backend::PoolBackend;
use super::lifecycle::Phase;
use super::notices::{about_files, about_site};
use super::ports::{InheritedSockets, PortError, Ports, open_ops};
use super::server::Server;
use super::shared::{ExecutorFacts, Shared};
use crate::connection::reactor::Reactor;
use crate::control::control_thread::Control;
use crate::control::jobs::jobs;
use crate::control::plugin_reports::PluginReports;
use crate::control::pool_events::Reports;
use crate::control::service_manager::ServiceManager;
use crate::control::thread_handles::{DrainEnd, ThreadHandles};
use crate::disk::site::Site;
use crate::disk::threads::Disk;
use crate::export::exporter::ExporterError;
use crate::export::exporters::PreparedExporters;
use crate::net::accept::Accepting;

/// A server whose listeners are bound and whose control thread runs. The operations port answers, and connections to the
/// main port wait in its backlog.
///
/// ```text
///   prepare ──▶ PreparedServer ──serve──▶ Server ──drain, wait──▶ ended
/// ```
#[derive(Debug)]
pub struct PreparedServer {
    handles: Arc<ThreadHandles>,
    control: Control,
    reactors: Vec<Reactor>,
    accepting: Accepting,
    exporters: PreparedExporters,
    main: Vec<ListenAddr>,
    redirect_addr: Option<SocketAddr>,
    ops_addr: Option<SocketAddr>,
    clock: Clock,
}

/// Why the server cannot start.
#[derive(Debug)]
pub enum StartError {
    /// A plugin cannot be used.
    Plugin(PluginStartError),
    /// A file that a setting names has invalid contents.
    Policy(PolicyError),
    /// A port is unavailable.
    Port(PortError),
    /// A file that a setting of tracing names cannot be used.
    Tracing(Problem),
    /// No file can be created in `SPOOL_DIR`.
    SpoolDir {
        /// The setting's value.
        dir: PathBuf,
        /// The error of the system.
        error: SpoolError,
    },
    /// The system cannot create a thread or a poller.
    System(io::Error),
    /// The certificates of the main port cannot be used.
    Tls(TlsError),
    /// The system cannot create the threads of the pool.
    Workers(io::Error),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Plugin(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
            Self::Port(error) => error.fmt(f),
            Self::SpoolDir { dir, error } => {
                write!(f, "SPOOL_DIR: {dir:?}: {error}; accepted: a writable directory")
            }
            Self::System(error) => write!(f, "cannot create a thread or a poller: {error}"),
            Self::Tls(error) => error.fmt(f),
            Self::Tracing(problem) => problem.fmt(f),
            Self::Workers(error) => {
                write!(f, "cannot start the PHP threads: cannot create a thread or a poller: {error}")
            }
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<ExporterError> for StartError {
    fn from(error: ExporterError) -> Self {
        match error {
            ExporterError::Setting(problem) => Self::Tracing(problem),
            ExporterError::System(error) => Self::System(error),
        }
    }
}

impl PreparedServer {
    /// Binds the listeners, raises the descriptor limit and starts the control thread.
    ///
    /// # Errors
    ///
    /// If the server cannot listen on an address, a directory is not writable, or the system lacks a resource that the
    /// settings require.
    pub fn prepare(config: Arc<Config>, log: Log) -> Result<Self, StartError> {
        Self::prepare_by(config, log, time::now, InheritedSockets::default())
    }

    /// Like [`prepare`](Self::prepare), with another clock for the control thread, and with inherited sockets.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    pub fn prepare_by(
        config: Arc<Config>,
        log: Log,
        clock: Clock,
        inherited: InheritedSockets,
    ) -> Result<Self, StartError> {
        raise_descriptor_limit()?;
        let policy = Policy::load(&config.clients, &config.serving.document_root, time::now())
            .map_err(StartError::Policy)?;
        let ports = Ports::open(&config.serving, inherited.main).map_err(StartError::Port)?;
        let (ops_listener, ops_addr) =
            open_ops(config.operations.addr, inherited.ops).map_err(StartError::Port)?.unzip();
        let terms = SessionConfig::open(&config.tls).map_err(StartError::Tls)?;
        let exporters = PreparedExporters::new(&config, &log)?;
        let shared = Shared::new(config, policy, terms, log, exporters.sink());
        let mut log = |event: &Event<'_>| shared.log.emit(event);
        about_files(&shared.config, shared.tls.as_ref(), &mut log);
        check_spool(&shared)?;
        let (site, disk) = (Arc::new(Site::new(&shared.config, &shared.policy)), Arc::<Disk>::default());
        shared.set_scripts(Arc::<Site>::clone(&site));
        about_site(&shared.config, &site, &mut log);
        let reactors = Reactor::all(&shared, &site, &disk)?;
        let inboxes: Vec<_> = reactors.iter().map(Reactor::inbox).collect();
        let (main, redirect_addr) = (ports.main(), ports.redirect());
        shared.set_https_port(first_port(&main));
        let accepting = Accepting::new(ports.listeners, inboxes.clone(), Arc::clone(&shared))?;
        let (acceptor, ended) = (accepting.handle(), DrainEnd::default());
        let service_manager = ServiceManager::new(&shared.config.service_manager);
        let handles =
            Arc::new(ThreadHandles { shared, inboxes, acceptor, disk, site, ended, service_manager });
        let control = Control::start(ops_listener, &handles.shared, clock, jobs(&handles, clock()))?;
        Ok(Self { handles, control, reactors, accepting, exporters, main, redirect_addr, ops_addr, clock })
    }

    /// Returns the state that the server's threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.handles.shared
    }

    /// Checks again, after the process has changed its user, that bodies can be spooled.
    ///
    /// # Errors
    ///
    /// If no file can be created in the directory.
    pub fn check_spool(&self) -> Result<(), StartError> {
        check_spool(&self.handles.shared)
    }

    /// Starts the threads of background tasks, if any are configured. Must be called once, before [`serve`](Self::serve),
    /// so that requests that dispatch tasks find the threads running.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread.
    pub fn start_tasks(&self, engine: &Arc<dyn Engine<Task>>) -> Result<(), StartError> {
        let Some(tasks) = &self.handles.shared.tasks else { return Ok(()) };
        tasks.start(engine).map_err(StartError::Workers)?;
        if let Some(workers) = tasks.workers() {
            workers.set_supervisor(self.control.waker());
        }
        self.control.wake();
        Ok(())
    }

    /// Initialises plugins, each on a separate thread, until `stop` is readable. Must be called once, before
    /// [`serve`](Self::serve), which starts them.
    ///
    /// # Errors
    ///
    /// If a plugin cannot be initialised, or does not report its outcome in time; if `stop` is readable.
    pub fn install_plugins(
        &self,
        plugins: Vec<Box<dyn Plugin>>,
        stop: Option<BorrowedFd<'_>>,
    ) -> Result<(), StartError> {
        let shared = &self.handles.shared;
        let events: Arc<dyn PluginEvents> = Arc::new(PluginReports(shared.log.clone()));
        let installed = shared.plugins.install(plugins, &events, &self.control.waker(), self.clock, stop);
        installed.map_err(StartError::Plugin)?;
        for plugin in shared.plugins.abouts() {
            let event = PluginEvent::Loaded { version: &plugin.version, path: &plugin.path };
            shared.log.emit(&Event::Plugin(&plugin.name, event));
        }
        Ok(())
    }

    /// Starts serving: publishes `facts`, and starts the pool of `engine`, the file threads, the I/O threads, and finally
    /// the accepting thread. `engine` is `None` if the executor has no pool.
    ///
    /// # Errors
    ///
    /// If the system cannot create a thread. Some threads may already run, so the process should end.
    pub fn serve(
        self,
        facts: ExecutorFacts,
        engine: Option<&Arc<dyn Engine<Exchange>>>,
    ) -> Result<Server, StartError> {
        self.publish(facts);
        if let Some(engine) = engine {
            self.start_pool(engine).map_err(StartError::Workers)?;
        }
        let Self { handles, control, reactors, accepting, exporters, main, redirect_addr, ops_addr, .. } =
            self;
        let exporters = exporters.start(&handles.shared)?;
        // The file threads are not joined at the end: they end with the process, so a slow disk does not delay it.
        drop(handles.disk.start()?);
        let io_threads = reactors.into_iter().map(Reactor::start).collect::<io::Result<Vec<_>>>()?;
        accepting.start()?;
        let shared = &handles.shared;
        shared.lifecycle.enter(Phase::Running);
        shared.plugins.start();
        for place in &main {
            shared.log.emit(&Event::Listening { addr: &place.to_string() });
        }
        if let Some(addr) = redirect_addr {
            shared.log.emit(&Event::RedirectListening { addr });
        }
        shared.log.emit(&Event::Ready { workers: shared.pool_facts().current as u64 });
        // Makes the control thread notify the service manager.
        control.wake();
        Ok(Server { handles, control, io_threads, exporters, main, redirect_addr, ops_addr })
    }

    fn publish(&self, mut facts: ExecutorFacts) {
        let main: Vec<_> = self.main.iter().map(ToString::to_string).collect();
        facts.report.insert("listen_addr".to_owned(), main.join(",").into());
        let redirect = self.redirect_addr.map(|addr| addr.to_string()).unwrap_or_default();
        facts.report.insert("redirect_addr".to_owned(), redirect.into());
        self.handles.shared.set_executor(facts);
    }

    fn start_pool(&self, engine: &Arc<dyn Engine<Exchange>>) -> io::Result<()> {
        let shared = &self.handles.shared;
        let Some(pool) = shared.backend.pool() else { return Ok(()) };
        let events: Arc<dyn PoolEvents<Exchange>> = Arc::new(Reports(Arc::clone(&self.handles)));
        let source: Arc<dyn JobSource<Exchange>> = Arc::<Gate<Arc<Exchange>>>::clone(&pool.gate);
        let workers =
            WorkerPool::start("svc-php", PoolBackend::size(&shared.config), engine, source, &events)?;
        workers.set_supervisor(self.control.waker());
        pool.set_workers(workers);
        self.control.wake();
        Ok(())
    }
}

/// Fails at the start instead of at the first long body.
fn check_spool(shared: &Shared) -> Result<(), StartError> {
    let created = shared.spool.create();
    created
        .map(drop)
        .map_err(|error| StartError::SpoolDir { dir: shared.config.bodies.spool_dir.clone(), error })
}

/// Returns the port number of the first address.
fn first_port(main: &[ListenAddr]) -> u16 {
    main.iter().find_map(ListenAddr::tcp).map_or(443, |addr| addr.port())
}

/// Raises the soft limit to the hard limit, which the settings were checked against.
fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, raised)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use svc_core::config::{AccessLog, Level, RawConfig};

    fn get(addr: SocketAddr, path: &str) -> String {
        let mut socket = TcpStream::connect(addr).unwrap();
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut response = String::new();
        socket.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn the_operations_port_answers_before_the_executor_is_known() {
        let settings = [
            ("DOCUMENT_ROOT", "/"),
            ("EXECUTOR", "stub"),
            ("INTERNAL_ADDR", "127.0.0.1:0"),
            ("LISTEN_ADDR", "127.0.0.1:0"),
            ("MAX_CONNECTIONS", "10"),
        ];
        let config = Config::resolve(&RawConfig::new(settings)).unwrap();
        let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
        let prepared = PreparedServer::prepare(Arc::new(config), log).unwrap();
        let ops_addr = prepared.ops_addr.unwrap();
        assert!(get(ops_addr, "/config").contains(" 503 "));
        assert!(!get(ops_addr, "/metrics").contains("php_version=\""));
        assert!(get(ops_addr, "/readyz").contains(" 503 "));

        let report = [("php".to_owned(), "8.4.0".into())].into_iter().collect();
        let facts = ExecutorFacts { php_version: Some("8.4.0".to_owned()), report, free_unused: None };
        let server = prepared.serve(facts, None).unwrap();
        let report = get(ops_addr, "/config");
        assert!(report.contains(r#""php":"8.4.0""#), "{report}");
        assert!(report.contains(&format!(r#""listen_addr":"{}""#, server.main_addr())), "{report}");
        assert!(get(ops_addr, "/metrics").contains("php_version=\"8.4.0\""));
        assert!(get(ops_addr, "/readyz").contains(" 200 "));
        server.drain();
        assert!(server.wait());
    }

    #[test]
    fn a_burst_of_connections_finds_room_before_any_is_accepted() {
        let most =
            fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse::<usize>().unwrap();
        let place = ListenAddr::Tcp("127.0.0.1:0".parse().unwrap());
        let listener = crate::ports::bind("LISTEN_ADDR", &place, 0).unwrap();
        let addr = listener.place().tcp().unwrap();

        // A connection that does not fit is retried after at least a second.
        let burst = 300.min(most);
        let connect = |_| TcpStream::connect_timeout(&addr, Duration::from_millis(500));
        let connected: io::Result<Vec<_>> = (0..burst).map(connect).collect();

        assert_eq!(connected.unwrap().len(), burst);
    }
}
