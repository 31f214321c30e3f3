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
//! | `scan` | what is checked once a second |
//! | `io_scaling`, `io_scaling_job` | how many I/O threads are in use, and which connections move between threads |
//! | `pool_events`, `plugin_reports` | what workers and plugins report |
//! | `reload` | what can change at run time |
//! | `service_manager`, `service_manager_job` | notifications to the service manager, and their schedule |

pub(in crate::serve) mod control_thread;
pub(in crate::serve) mod drain;
mod io_scaling;
mod io_scaling_job;
pub(in crate::serve) mod jobs;
mod memory_peak;
pub(in crate::serve) mod plugin_reports;
pub(in crate::serve) mod pool_events;
pub(in crate::serve) mod reload;
pub(in crate::serve) mod scan;
pub(in crate::serve) mod schedule;
pub(in crate::serve) mod service_manager;
pub(in crate::serve) mod service_manager_job;
pub(in crate::serve) mod supervisor;
pub(in crate::serve) mod thread_handles;
pub(in crate::serve) mod thread_state;
pub(in crate::serve) mod watchdog;
