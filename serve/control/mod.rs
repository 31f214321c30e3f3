//! The control thread: supervision of the pool, shutdown, reload.
//!
//! | file | noun |
//! |---|---|
//! | `control_thread` | the control thread |
//! | `schedule` | when its jobs run |
//! | `jobs` | its jobs |
//! | `thread_handles` | the threads of the server, and the steps of the drain |
//! | `drain` | which step of the drain is due |
//! | `supervisor` | how many workers there are, and what happens to failed ones |
//! | `watchdog`, `thread_state` | which workers are stuck, and why |
//! | `memory_peak` | when free memory returns to the system |
//! | `scan` | what is checked once a second |
//! | `io_scaling`, `io_scaling_job` | how many I/O threads are in use, and which connections move between threads |
//! | `pool_events`, `plugin_reports` | what workers and plugins report |
//! | `reload` | what can change at run time |
//! | `service_manager`, `service_manager_job` | notifications to the service manager, and their schedule |

pub(crate) mod control_thread;
pub(crate) mod drain;
mod io_scaling;
mod io_scaling_job;
pub(crate) mod jobs;
mod memory_peak;
pub(crate) mod plugin_reports;
pub(crate) mod pool_events;
pub(crate) mod reload;
pub(crate) mod scan;
pub(crate) mod schedule;
pub(crate) mod service_manager;
pub(crate) mod service_manager_job;
pub(crate) mod supervisor;
pub(crate) mod thread_handles;
pub(crate) mod thread_state;
pub(crate) mod watchdog;
