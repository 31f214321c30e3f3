//! The worker pool: threads that claim jobs from a queue and run them with an [`Engine`].
//!
//! Each job is claimed by one worker and settled once (see [`Job`]); a worker that dies loses only the jobs that it has
//! claimed. Engine and job are traits, so that the pool depends on neither PHP nor sockets. The job of the HTTP
//! server is an [`Exchange`], which notifies the I/O thread of its client through [`Notify`].
//!
//! | file | noun |
//! |---|---|
//! | `job` | the pool's view of a unit of work |
//! | `exchange` | one request and its response: the job of the HTTP server |
//! | `request`, `request_id` | the request that an engine receives; its ID |
//! | `recorder` | the view of a component that records responses |
//! | `response_part` | the parts of a response |
//! | `mailbox` | these parts on their way to the I/O thread |
//! | `engine` | the interface to the interpreter |
//! | `probe` | how other threads inspect a worker's thread |
//! | `context` | a worker's interface to the pool |
//! | `slot` | a place in the pool, which outlives its workers |
//! | `state` | the state that the workers share |
//! | `events` | the events of their threads |
//! | `workers` | the threads |
//! | `scaling` | how many workers there should be |
//! | `boot_fault` | why a worker failed to boot |
//! | `backoff` | when the next worker is started |
//! | `lifetime` | how many requests a worker handles |
//! | `relief` | stand-ins for workers that want to be replaced and cannot end yet |
//! | `renewal` | emptying a cache that workers share |
//! | `rolling_restart` | replacing all workers without a gap |
//! | `supervisor` | starts, stops and replaces workers, using the state machines above |
//! | `stuck`, `watchdog` | jobs that hold up their workers |
//! | `stall` | threads that are alive and take no jobs |
//!
//! # Terms
//!
//! - *Overrun*: the tick takes the answer away from a worker whose time limit has expired, and answers. The *serial number*
//!   of a job is its position among the jobs that its slot has claimed.
//! - A *rolling restart* replaces all persistent workers, each after another has booted. A *recycle* is the end of one
//!   persistent worker that must be replaced. It *lingers* while another worker has taken its slot and it still has jobs in
//!   flight; it *carries on* if no worker may linger and no other worker takes the jobs that its own wait for.
//! - A *renewal* is two rolling restarts around a restart of OPcache. An *uncached worker* is a persistent worker that does
//!   not use OPcache.

mod backoff;
mod boot_fault;
mod context;
mod engine;
mod events;
mod exchange;
mod job;
mod lifetime;
mod mailbox;
mod probe;
mod recorder;
mod relief;
mod renewal;
mod request;
mod request_id;
mod response_part;
mod rolling_restart;
mod scaling;
mod slot;
mod stall;
mod state;
mod stuck;
mod supervisor;
mod watchdog;
mod workers;

pub use backoff::{Backoff, SpawnLimit};
pub use boot_fault::BootFault;
pub use context::{Claim, Directive, WorkerContext};
pub use engine::{Engine, PersistentWorker, Started, Worker, WorkerExit, WorkerStartError};
pub use events::{PoolEvents, RecycleReason};
pub use exchange::{Exchange, Gone, Notify, StreamKey};
pub use job::{Job, NotClaimed};
pub use lifetime::lifetime;
pub use mailbox::{Closed, Mailbox, ReaderNotice};
pub use probe::ThreadProbe;
pub use recorder::{RecordedResponse, Recording, RecordingEnd, ResponseRecorder};
pub use relief::relieved;
pub use renewal::{Renewal, RenewalSample, RenewalStep};
pub use request::{Body, CompleteRequest, FindScript, Script, TlsFacts};
pub use request_id::RequestId;
pub use response_part::{End, Origin, Part, ResponseBatch, ResponseHead, SpooledPart};
pub use rolling_restart::{RollingRestart, RollingRestartStep};
pub use scaling::{IdleWorker, Scale, Scaling, ScalingSample};
pub use slot::{SlotPhase, SlotReading, WorkerOrder};
pub use stall::{StallDetector, StallReport, StallSample};
pub use state::{Failure, JobSource, PoolSize};
pub use stuck::{Finding, HeldJob, StuckKind};
pub use supervisor::{Supervisor, SupervisorEvents, SupervisorReport};
pub use watchdog::{Inspection, STUCK_THRESHOLD, Watchdog};
pub use workers::{PoolFacts, Probation, WorkerPool};

pub use svc_types::OpcacheFacts;
