//! PHP as scripts see it in classic mode.

mod archives;
mod backends;
mod children;
mod clients;
mod databases;
mod end;
mod extensions;
mod failed_output;
mod frankenphp;
mod gone_scripts;
mod header_lines;
mod isolation;
mod libc_state;
mod limits;
mod mappings;
mod names;
mod objects;
mod opcache;
mod paths;
mod process;
mod programs;
mod request;
mod response;
mod shutdown;
mod signals;
pub(crate) mod streams;
mod transfers;
