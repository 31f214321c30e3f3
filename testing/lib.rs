//! Shared by the tests: the server as a process, its clients, the backends that it and its scripts call, and readers of
//! its exports. The crate depends on no other crate of svc, so that a fault there is not repeated here.
#![expect(missing_docs, reason = "fields, variants and numbers of protocols are named after what they are")]
#![expect(clippy::new_without_default, reason = "constructors that start servers are called by name")]

pub mod answering;
pub mod any_client;
pub mod authority;
pub mod backend;
pub mod books;
pub mod browser;
pub mod c;
pub mod chromium;
pub mod client;
pub mod collector;
pub mod counted_calls;
pub mod daemon;
pub mod databases;
pub mod decoder;
pub mod descriptors;
pub mod dice;
pub mod dns;
pub mod exposition;
pub mod fetched;
pub mod fpm;
pub mod gate;
pub mod hooked;
pub mod http2;
pub mod load;
pub mod otlp;
pub mod pair;
pub mod plugins;
pub mod proxy;
pub mod results;
pub mod scraper;
pub mod skip;
pub mod socket;
pub mod spans;
pub mod tasks;
pub mod tls;
pub mod turns;
pub mod visits;
pub mod waits;
pub mod wiki;

mod svc;

use std::path::{Path, PathBuf};

pub use svc::{Log, Svc, command, written};

/// Whether a test runs in worker mode, for each mode of the server that is tested: classic mode, and worker mode.
pub const IS_WORKER: [bool; 1 + cfg!(feature = "worker") as usize] = [
    false,
    #[cfg(feature = "worker")]
    true,
];

/// Returns the folder of the repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is a folder of the repository")
}

/// Returns the server's binary. Cargo builds it before the tests and benchmarks of its package, beside the folder of
/// their programs.
pub fn binary() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(2).expect("the program is in target/PROFILE/deps").join("svc")
}
