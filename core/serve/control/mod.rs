//! What is looked after beside the requests: the pool, the way down, what is read anew.
//!
//! | file | noun |
//! |---|---|
//! | `tick` | the control thread |
//! | `schedule` | when its jobs run |
//! | `jobs` | what they are |
//! | `machinery` | the threads of the server, and the steps of its way down |
//! | `drain` | which step is due |
//! | `supervisor` | how many workers there are, and what becomes of those that fail |
//! | `watchdog`, `thread_state` | which workers are held up, and by what |
//! | `scan` | what is looked at once a second |
//! | `pool_events` | what workers report |
//! | `reload` | what is read anew on demand |

pub(in crate::serve) mod drain;
pub(in crate::serve) mod jobs;
pub(in crate::serve) mod machinery;
pub(in crate::serve) mod pool_events;
pub(in crate::serve) mod reload;
pub(in crate::serve) mod scan;
pub(in crate::serve) mod schedule;
pub(in crate::serve) mod supervisor;
pub(in crate::serve) mod thread_state;
pub(in crate::serve) mod tick;
pub(in crate::serve) mod watchdog;
