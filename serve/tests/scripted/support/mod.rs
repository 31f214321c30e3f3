//! A complete server with an engine that takes its commands from the path, and a client.

pub(crate) mod engine;
pub(crate) mod persistent;
pub(crate) mod tasks;

pub(crate) mod cache;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use svc_core::admission::ShedReason;
use svc_core::config::{AccessLog, Config, RawConfig};
use svc_core::limits::HTTP2_STREAMS_BESIDE_MIN;
use svc_core::observe::{CancelReason, Log, Metrics, StatusClass};
use svc_core::pool::{Engine, Exchange};
use svc_core::sync::lock::ShortLock;
use svc_core::tasks::Task;
use svc_serve::{ExecutorFacts, PreparedServer, Server, Shared};
use tempfile::TempDir;

use engine::{Scripted, Switchboard};
use persistent::PersistentWorkers;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::Http2Client;
use tasks::{TaskBoard, TaskEngine};

/// A running server; it is drained when the test ends.
pub(crate) struct Site {
    /// `None` once it has ended.
    server: Option<Server>,
    shared: Arc<Shared>,
    main_addr: SocketAddr,
    /// Controls the engine.
    pub(crate) switches: Arc<Switchboard>,
    /// Controls the tasks.
    pub(crate) task_board: Arc<TaskBoard>,
    /// The document root.
    pub(crate) root: TempDir,
    log: Lines,
}

/// The server's log.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<ShortLock<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Site {
    /// Starts a server with these settings in addition to the defaults: two workers, and the script serves every path.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("index.php"), "script").unwrap();
        Self::start_in(root, settings)
    }

    /// Starts a server on an existing document root.
    pub(crate) fn start_in(root: TempDir, settings: &[(&str, &str)]) -> Self {
        Self::start_steered(root, settings, Arc::default())
    }

    /// Starts a server whose tasks `task_board` controls.
    pub(crate) fn start_steered(
        root: TempDir,
        settings: &[(&str, &str)],
        task_board: Arc<TaskBoard>,
    ) -> Self {
        let mut variables = vec![
            ("DOCUMENT_ROOT", root.path().to_str().unwrap()),
            ("LISTEN_ADDR", "127.0.0.1:0"),
            ("ENTRY_FILE", "index.php"),
            ("PHP_WORKERS", "2"),
            // Tests that hold a request in the queue take as long as the machine needs.
            ("QUEUE_WAIT_TIMEOUT_MS", "60000"),
            ("MAX_CONNECTIONS", "100"),
            ("ACCESS_LOG", "all"),
        ];
        variables.retain(|(name, _)| settings.iter().all(|(other, _)| other != name));
        variables.extend(settings.iter().filter(|(_, value)| !value.is_empty()).copied());
        let config = Arc::new(Config::resolve(&RawConfig::new(variables)).unwrap());
        let log = Lines::default();
        let writer = Log::start(config.logs.level, config.logs.access, log.clone()).unwrap();
        let is_persistent = config.php.worker_mode_enabled;
        let prepared = PreparedServer::prepare(config, writer).unwrap();
        let switches = Arc::new(Switchboard::default());
        let engine: Arc<dyn Engine<Exchange>> = if is_persistent {
            Arc::new(PersistentWorkers(Arc::clone(&switches)))
        } else {
            Arc::new(Scripted(Arc::clone(&switches)))
        };
        let engine = prepared.shared().backend.pool().map(|_| &engine);
        let task_engine: Arc<dyn Engine<Task>> = Arc::new(TaskEngine(Arc::clone(&task_board)));
        prepared.start_tasks(&task_engine).unwrap();
        let server = prepared.serve(ExecutorFacts::default(), engine).unwrap();
        let (shared, main_addr) = (Arc::clone(server.shared()), server.main_addr());
        Self { server: Some(server), shared, main_addr, switches, task_board, root, log }
    }

    /// Returns the address of the main port.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.main_addr
    }

    /// Opens a connection.
    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr())
    }

    /// Sends a request to the operations port.
    pub(crate) fn ops(&self, path: &str) -> Response {
        Client::connect(self.server().ops_addr().expect("INTERNAL_ADDR is set")).get(path)
    }

    /// Opens an HTTP/2 connection.
    pub(crate) fn http2(&self) -> Http2Client {
        Http2Client::connect(self.addr())
    }

    /// Returns the state shared by the server's threads.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("the server has not ended")
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared().metrics
    }

    /// Returns the log so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8(self.log.0.lock().clone()).unwrap()
    }

    /// Replaces all persistent workers; returns whether there are any.
    pub(crate) fn restart_workers(&self) -> bool {
        self.server().restart_workers()
    }

    /// Starts the drain.
    pub(crate) fn drain(&self) {
        self.server().drain();
    }

    /// Waits for the end of the drain; returns whether all threads of the pool ended.
    pub(crate) fn wait(&mut self) -> bool {
        self.server.take().expect("the server has not ended").wait()
    }

    /// Leaves the server running until the process ends.
    pub(crate) fn abandon(&mut self) {
        drop(self.server.take());
    }

    /// Requests `path` and disconnects once the server has read a part of the body.
    pub(crate) fn leave_within_body(&self, path: &str) {
        let read = || self.metrics().request_bytes.value();
        let (mut client, before) = (self.client(), read());
        client.send(format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf"));
        eventually("some of it has come", || read() == before + 4);
    }

    /// Waits until a worker is inside `name`.
    pub(crate) fn until_inside(&self, name: &str) {
        eventually("the engine is inside", || self.switches.is_inside(name));
    }

    /// Waits until no request is in flight, and checks the accounting.
    pub(crate) fn check_books(&self) {
        let (metrics, shared) = (self.metrics(), self.shared());
        eventually("every connection ended", || metrics.connections.value() == 0);
        let answered =
            || StatusClass::ALL.into_iter().map(|class| metrics.responses.value(class)).sum::<u64>();
        eventually("every request is answered", || metrics.requests_by_method.total() == answered());
        eventually("no worker is busy", || shared.pool_facts().busy == 0);
        eventually("no worker carries anything", || shared.pool_facts().carrying == 0);
        eventually("no response is held", || shared.spool.memory_bytes() == 0);
        // A connection is counted as ended just before its permits are returned.
        let beside = shared.config.admission.max_connections.max(HTTP2_STREAMS_BESIDE_MIN);
        eventually("the permits are back", || {
            shared.permits.free() == shared.config.admission.max_connections
        });
        eventually("the permits of streams are back", || shared.stream_permits.free() == beside);
        assert_eq!(metrics.pending_requests.value(), 0, "pending");
        assert_eq!(metrics.request_duration.snapshot().count(), answered(), "durations");
        let refused: u64 = ShedReason::ALL.into_iter().map(|reason| metrics.refused.value(reason)).sum();
        let cancelled: u64 =
            CancelReason::ALL.into_iter().map(|reason| metrics.cancelled.value(reason)).sum();
        let dropped = metrics.dropped.value();
        let failures = metrics.responses.value(StatusClass::ClientError)
            + metrics.responses.value(StatusClass::ServerError);
        assert!(
            refused + cancelled + dropped <= failures,
            "{refused} refused, {cancelled} cancelled, {dropped} dropped, {failures} failures"
        );
        if shared.config.logs.access == AccessLog::All {
            // Exactly the clients that left before the head of their response.
            let left = || self.log().matches("\"status\":499,").count() as u64;
            eventually("each 499 is a client that left", || {
                left() == metrics.cancelled.value(CancelReason::ClientAbort)
            });
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.switches.open_all();
        self.task_board.open_all();
        if let Some(server) = self.server.take() {
            server.drain();
            server.wait();
        }
    }
}
