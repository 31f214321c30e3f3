//! `svc dev`.

mod modes;
#[cfg(feature = "php")]
mod other_modes;
#[cfg(feature = "trace")]
mod pages;
#[cfg(feature = "php")]
mod reload;
mod terminal;
#[cfg(all(feature = "trace", feature = "worker"))]
mod worker_pages;

use svc_testing::client::{Client, Response};
use svc_testing::{Svc, command, written};

/// The arguments for each mode of this build; `worker.php` is the script of worker mode.
#[cfg(feature = "php")]
const MODES: &[&[&str]] = if cfg!(feature = "worker") { &[&[], &["--worker", "worker.php"]] } else { &[&[]] };

/// Starts `svc dev` on these files, with these arguments, and a log as tests read it.
fn start(files: &[(&str, &str)], words: &[&str]) -> Svc {
    start_with(files, words, &[])
}

fn start_with(files: &[(&str, &str)], words: &[&str], settings: &[(&str, &str)]) -> Svc {
    let root = written(files);
    let mut command = command(root.path(), settings);
    command.env("LOG_FORMAT", "json").arg("dev").args(words);
    Svc::spawn(root, command)
}

/// Asks as a browser that shows a page.
fn visit(svc: &Svc, path: &str) -> Response {
    asked(&mut svc.client(), "GET", path, "Accept: text/html,*/*;q=0.8\r\nSec-Fetch-Dest: document")
}

/// Asks with further header fields.
fn asked(client: &mut Client, method: &str, path: &str, fields: &str) -> Response {
    client.request(&format!("{method} {path} HTTP/1.1\r\nHost: test\r\n{fields}"))
}

/// Writes a file the way editors do: a new file replaces it by name.
#[cfg(feature = "php")]
fn save(path: &std::path::Path, text: &str) {
    let other = path.with_extension("new");
    std::fs::write(&other, text).unwrap();
    std::fs::rename(other, path).unwrap();
}
