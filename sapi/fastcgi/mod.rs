//! The FastCGI executor: runs PHP in child processes, or through responders such as php-fpm.
//!
//! A worker thread drives one connection, and to the pool it is a worker like any other. The protocol is
//! [`svc_core::fastcgi`]; these files own the sockets, the processes and the time. There is no `unsafe` code here, and no
//! dependency on PHP in the process of svc.
//!
//! | file | noun |
//! |---|---|
//! | `endpoints` | the addresses of responders, and their reachability |
//! | `engine` | makes workers |
//! | `executor` | starts and ends with the server |
//! | `inspection` | PHP's report about itself |
//! | `launch` | the command that becomes the program of a process |
//! | `message` | PHP's messages, as log records |
//! | `plan` | the settings of all workers, completed by PHP's report |
//! | `process` | one process, from its start to its end |
//! | `process_probe` | how other threads inspect a worker's process |
//! | `script` | the script that PHP is asked to run |
//! | `stream` | a connection's socket |
//! | `transfer` | one request on a connection |
//! | `waker` | wakes a worker thread |
//! | `worker` | the loop of a worker thread |

mod endpoints;
mod engine;
pub(crate) mod executor;
pub(crate) mod inspection;
pub mod launch;
mod message;
mod plan;
mod process;
mod process_probe;
mod script;
mod stream;
mod transfer;
mod waker;
mod worker;
