//! The server as a whole: it starts all threads and ends them.
//!
//! Promises: the control thread starts first and ends last; what cannot work (a port in use, too few descriptors) is
//! reported before anything is served. Refuses: it handles no signals and does not shut down the interpreter; the process
//! does, once [`wait`](Server::wait) has told how the pool ended.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use mio::net::TcpListener;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::admission::Gate;
use crate::config::Config;
use crate::limits::{DESCRIPTOR_MIN, DESCRIPTORS_RESERVED, LISTEN_BACKLOG};
use crate::observe::{Event, Hint, Log};
use crate::policy::never_public::sign_of_project;
use crate::policy::{Policy, PolicyError};
use crate::pool::{Engine, Exchange, JobSource, PoolEvents, WorkerPool};
use crate::spool::SpoolError;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;
use crate::time::{self, Clock};
use crate::tls::{SessionConfig, TlsError};

use super::backend::PoolBackend;
use super::lifecycle::Phase;
use super::shared::Shared;
use crate::serve::connection::reactor::Reactor;
use crate::serve::control::jobs::jobs;
use crate::serve::control::machinery::{Machinery, ServingThreads};
use crate::serve::control::pool_events::Reports;
use crate::serve::control::reload;
use crate::serve::control::tick::Control;
use crate::serve::disk::site::Site;
use crate::serve::io_thread::inbox::Message;
use crate::serve::net::accept::Acceptor;

/// A server whose listeners are bound and whose control thread runs.
#[derive(Debug)]
pub struct Server {
    machinery: Arc<Machinery>,
    control: ShortLock<Option<Control>>,
    listener: ShortLock<Option<TcpListener>>,
    main_addr: SocketAddr,
    ops_addr: Option<SocketAddr>,
}

/// Why the server cannot start.
#[derive(Debug)]
pub enum StartError {
    /// The server cannot listen on the address of this setting.
    Bind {
        /// The setting.
        variable: &'static str,
        /// Its value.
        addr: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The descriptor limit is too low for `MAX_CONNECTIONS`.
    Descriptors {
        /// The setting's value.
        max_connections: usize,
        /// How many descriptors that needs.
        needed: u64,
        /// How many the system grants.
        granted: u64,
    },
    /// A file that a setting names has invalid contents.
    Policy(PolicyError),
    /// No file can be created in `SPOOL_DIR`.
    SpoolDir {
        /// The setting's value.
        dir: PathBuf,
        /// What the system said.
        error: SpoolError,
    },
    /// The system cannot create a thread or a poller.
    System(io::Error),
    /// The certificates of the main port cannot be used.
    Tls(TlsError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bind { variable, addr, error } => {
                write!(f, "{variable}: cannot listen on {addr}: {error}")
            }
            Self::Descriptors { max_connections, needed, granted } => {
                write!(
                    f,
                    "MAX_CONNECTIONS: {max_connections} requires {needed} file descriptors, but the limit is {granted}; accepted: "
                )?;
                let room = granted.saturating_sub(descriptors(0));
                if room > 0 {
                    write!(f, "up to {room}, or ")?;
                }
                write!(f, "a limit of at least {needed} (ulimit -Hn)")
            }
            Self::Policy(error) => error.fmt(f),
            Self::SpoolDir { dir, error } => {
                write!(f, "SPOOL_DIR: {dir:?}: {error}; accepted: a writable directory")
            }
            Self::System(error) => write!(f, "cannot create a thread or a poller: {error}"),
            Self::Tls(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Server {
    /// Binds the listeners, raises the descriptor limit and starts the control thread. The main port does not serve yet, but
    /// the operations port answers.
    ///
    /// # Errors
    ///
    /// When the server cannot listen on an address, a directory is not writable, or the system does not grant what the
    /// settings require.
    pub fn prepare(config: Arc<Config>, log: Log) -> Result<Self, StartError> {
        Self::prepare_by(config, log, time::now)
    }

    /// Like [`prepare`](Self::prepare), with another clock for the control thread.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare).
    pub fn prepare_by(config: Arc<Config>, log: Log, clock: Clock) -> Result<Self, StartError> {
        raise_descriptor_limit(config.admission.max_connections)?;
        let policy = Policy::load(&config.clients, &config.serving.document_root, time::now())
            .map_err(StartError::Policy)?;
        let (listener, main_addr) = bind("LISTEN_ADDR", config.serving.listen_addr)?;
        let ops = config.operations.addr.map(|addr| bind("INTERNAL_ADDR", addr)).transpose()?;
        let (ops_listener, ops_addr) = ops.unzip();
        let terms = SessionConfig::open(&config.tls).map_err(StartError::Tls)?;
        let shared = Shared::new(config, policy, terms, log);
        if let Some(terms) = &shared.tls {
            reload::warn_about_dates(&shared, terms);
        }
        if let Some(found) = sign_of_project(&shared.config.serving.document_root) {
            let path = &*shared.config.serving.document_root.to_string_lossy();
            shared.log.emit(&Event::Hint(Hint::ProjectAsRoot { path, found }));
        }
        // Find out now rather than with the first long body.
        shared
            .spool
            .create()
            .map_err(|error| StartError::SpoolDir { dir: shared.config.bodies.spool_dir.clone(), error })?;
        let site = Arc::new(Site::new(&shared.config, &shared.policy));
        let machinery = Arc::new(Machinery::new(shared, site));
        let control = Control::start(ops_listener, &machinery.shared, clock, jobs(&machinery, clock()))?;
        let (control, listener) = (ShortLock::new(Some(control)), ShortLock::new(Some(listener)));
        Ok(Self { machinery, control, listener, main_addr, ops_addr })
    }

    /// The state that the server's threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.machinery.shared
    }

    /// The address of the main port, with the port number that the system chose for port 0.
    pub fn main_addr(&self) -> SocketAddr {
        self.main_addr
    }

    /// The address of the operations port, likewise.
    pub fn ops_addr(&self) -> Option<SocketAddr> {
        self.ops_addr
    }

    /// Starts the pool. Call it once, before [`open`](Self::open), and not at all for an executor without a pool.
    ///
    /// # Errors
    ///
    /// When the system cannot create a thread.
    pub fn start_pool(&self, engine: &Arc<dyn Engine<Exchange>>) -> Result<(), StartError> {
        let shared = &self.machinery.shared;
        let events: Arc<dyn PoolEvents<Exchange>> = Arc::new(Reports(Arc::clone(&self.machinery)));
        let Some(pool) = shared.backend.pool() else { return Ok(()) };
        let source: Arc<dyn JobSource<Exchange>> = Arc::<Gate<Arc<Exchange>>>::clone(&pool.gate);
        let workers =
            WorkerPool::start("svc-php", PoolBackend::size(&shared.config), engine, source, &events)?;
        if let Some(control) = &*self.control.lock() {
            workers.set_supervisor(control.waker());
        }
        pool.set_workers(workers);
        self.wake_control();
        Ok(())
    }

    /// Starts serving: starts the file threads, the io threads, and finally the accepting thread.
    ///
    /// # Errors
    ///
    /// When the system cannot create a thread or a poller.
    pub fn open(&self) -> Result<(), StartError> {
        let Some(listener) = self.listener.lock().take() else { return Ok(()) };
        let machinery = &self.machinery;
        let shared = &machinery.shared;
        // They end with the process; nothing waits for a disk.
        drop(machinery.disk.start()?);
        let (mut inboxes, mut io_threads) = (Vec::new(), Vec::new());
        for index in 0..shared.config.serving.io_workers.max(1) {
            let reactor = {
                let (site, disk) = (Arc::clone(&machinery.site), Arc::clone(&machinery.disk));
                Reactor::new(Arc::clone(shared), site, disk)?
            };
            inboxes.push(reactor.inbox());
            io_threads.push(reactor.start(index)?);
        }
        let acceptor = Acceptor::start(listener, inboxes.clone(), Arc::clone(shared))?;
        let serving = ServingThreads { inboxes, acceptor, io_threads: ShortLock::new(io_threads) };
        // Set once, by the one caller that took the listener.
        let _ = machinery.serving.set(serving);
        shared.lifecycle.enter(Phase::Running);
        shared.log.emit(&Event::Listening { addr: self.main_addr });
        shared.log.emit(&Event::Ready { workers: shared.pool_facts().current as u64 });
        Ok(())
    }

    /// Reloads what can change while the server runs, and logs the result. Waits for disks.
    pub fn reload(&self) {
        let machinery = &self.machinery;
        let tell = || machinery.tell_all(|| Message::RulesChanged);
        let has_new_code = self.restart_workers() || self.refresh_code();
        reload::reload(self.shared(), &machinery.site, has_new_code, tell);
    }

    /// Begins the drain; later calls change nothing.
    pub fn drain(&self) {
        let shared = &self.machinery.shared;
        if shared.lifecycle.enter(Phase::Draining) {
            let (delay, timeout) = (shared.config.timeouts.drain_delay, shared.config.timeouts.drain);
            shared.log.emit(&Event::Draining { delay, timeout });
        }
        self.wake_control();
    }

    /// Begins to replace all persistent workers, each after a new one has booted, so that no request is refused. Returns
    /// whether there are persistent workers: classic workers keep nothing that could be out of date.
    pub fn restart_workers(&self) -> bool {
        let shared = &self.machinery.shared;
        let Some(pool) = shared.backend.pool().filter(|pool| pool.workers().is_some()) else { return false };
        if !shared.config.php.worker_mode_enabled {
            return false;
        }
        pool.restart_wanted.set();
        self.wake_control();
        true
    }

    /// Has classic workers check scripts on disk again. Returns whether that changes anything.
    fn refresh_code(&self) -> bool {
        let shared = &self.machinery.shared;
        !shared.config.php.worker_mode_enabled && shared.backend.workers().is_some_and(WorkerPool::refresh)
    }

    fn wake_control(&self) {
        if let Some(control) = &*self.control.lock() {
            control.wake();
        }
    }

    /// Waits until the drain is over; returns whether all threads of the pool have ended. If they have not, the interpreter
    /// must not be shut down.
    pub fn wait(&self) -> bool {
        let all_ended = self.machinery.ended.wait();
        let shared = &self.machinery.shared;
        self.machinery.tell_all(|| Message::Stop);
        if let Some(serving) = self.machinery.serving.get() {
            for thread in std::mem::take(&mut *serving.io_threads.lock()) {
                // A thread that panicked has reported it on standard error.
                let _ = thread.join();
            }
        }
        self.machinery.disk.close();
        let all_ended = all_ended && shared.backend.workers().is_none_or(WorkerPool::join);
        shared.lifecycle.enter(Phase::Stopped);
        shared.log.emit(&Event::Stopped);
        if let Some(control) = self.control.lock().take() {
            control.stop();
        }
        all_ended
    }
}

fn bind(variable: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = TcpListener::bind(addr).and_then(|listener| {
        // The library uses a backlog of 128; calling listen again only changes that.
        rustix::net::listen(&listener, LISTEN_BACKLOG)?;
        listener.local_addr().map(|addr| (listener, addr))
    });
    bound.map_err(|error| StartError::Bind { variable, addr, error })
}

/// The number of descriptors that `max_connections` connections and the rest of the server need.
fn descriptors(max_connections: usize) -> u64 {
    u64::from(DESCRIPTOR_MIN.unsigned_abs()) + max_connections as u64 + DESCRIPTORS_RESERVED
}

/// Raises the soft limit to the hard limit, and checks that this is enough.
fn raise_descriptor_limit(max_connections: usize) -> Result<(), StartError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, raised).map_err(io::Error::from)?;
    }
    let (needed, granted) = (descriptors(max_connections), limit.maximum.unwrap_or(u64::MAX));
    if needed > granted {
        return Err(StartError::Descriptors { max_connections, needed, granted });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_of_connections_finds_room_before_any_is_accepted() {
        let most =
            fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap().trim().parse::<usize>().unwrap();
        let (_listener, addr) = bind("LISTEN_ADDR", "127.0.0.1:0".parse().unwrap()).unwrap();

        // A connection that does not fit is retried after a second at the earliest.
        let burst = 300.min(most);
        let connect = |_| TcpStream::connect_timeout(&addr, Duration::from_millis(500));
        let connected: io::Result<Vec<_>> = (0..burst).map(connect).collect();

        assert_eq!(connected.unwrap().len(), burst);
    }
}
