//! The addresses of responders, and their reachability.
//!
//! [`Balancer`] chooses the address of a connection. An address that refuses a connection is skipped until a connection to it
//! succeeds again; an idle worker tries one once a second.

use std::io;
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use svc_core::config::FastcgiAddr;
use svc_core::fastcgi::Balancer;
use svc_core::observe::{Event, Log, WorkerEvent};
use svc_core::sync::lock::ShortLock;
use svc_core::time;

use super::stream::Stream;

/// The addresses.
#[derive(Debug)]
pub(super) struct Endpoints {
    addrs: Vec<FastcgiAddr>,
    /// Held only to read or write a few words.
    book: ShortLock<Book>,
    log: Log,
}

#[derive(Debug)]
struct Book {
    balancer: Balancer,
    probed_at: Option<Instant>,
}

impl std::fmt::Display for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (n, addr) in self.addrs.iter().enumerate() {
            write!(f, "{}{addr}", if n > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

/// One use of an address, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    endpoints: Arc<Endpoints>,
    index: usize,
}

impl Endpoints {
    /// Assumes that all addresses can be reached.
    pub(super) fn new(addrs: Vec<FastcgiAddr>, log: Log) -> Self {
        let book = Book { balancer: Balancer::new(addrs.len()), probed_at: None };
        Self { addrs, book: ShortLock::new(book), log }
    }

    /// Takes a place at an address that can be reached; `None` if there is none. Another one than `failed` is preferred.
    pub(super) fn take(self: &Arc<Self>, failed: Option<usize>) -> Option<Place> {
        let index = self.book.lock().balancer.take(time::now(), failed)?;
        Some(Place { endpoints: Arc::clone(self), index })
    }

    /// Returns why no address can be reached; `None` if one can.
    pub(super) fn trouble(&self) -> Option<String> {
        let book = self.book.lock();
        let each =
            self.addrs.iter().zip(book.balancer.errors()?).map(|(addr, error)| format!("{addr}: {error}"));
        Some(each.collect::<Vec<_>>().join("; "))
    }

    /// Connects to each address, at most once every [`PROBE_PAUSE`].
    pub(super) fn probe(&self, now: Instant) {
        let is_recent = |at: Instant| now.saturating_duration_since(at) < PROBE_PAUSE;
        let mut book = self.book.lock();
        if book.probed_at.is_some_and(is_recent) {
            return;
        }
        book.probed_at = Some(now);
        drop(book);
        for index in 0..self.addrs.len() {
            self.note(index, connect(&self.addrs[index]).err().as_ref());
        }
    }

    /// Notes whether an address can be reached, and reports a change.
    fn note(&self, index: usize, error: Option<&io::Error>) {
        // It listens, and is busy.
        let error = error.filter(|error| error.kind() != io::ErrorKind::WouldBlock).map(ToString::to_string);
        let before = self.book.lock().balancer.set_error(index, error.clone());
        let addr = &self.addrs[index].to_string();
        match (before, &error) {
            (None, Some(error)) => {
                self.log.emit(&Event::Worker(WorkerEvent::ResponderUnreachable { addr, error }));
            }
            (Some(_), None) => self.log.emit(&Event::Worker(WorkerEvent::ResponderReachable { addr })),
            _ => {}
        }
    }
}

impl Place {
    /// Returns the address.
    pub(super) fn addr(&self) -> &FastcgiAddr {
        &self.endpoints.addrs[self.index]
    }

    /// Returns the index of the address.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Notes a complete response.
    pub(super) fn succeeded(&self) {
        let recovers = self.endpoints.book.lock().balancer.succeeded(self.index);
        if recovers {
            let addr = &self.addr().to_string();
            self.endpoints.log.emit(&Event::Worker(WorkerEvent::ResponderRecovered { addr }));
        }
    }

    /// Notes a request without a complete response.
    pub(super) fn failed(&self) {
        let begins = self.endpoints.book.lock().balancer.failed(self.index, time::now());
        if begins {
            let addr = &self.addr().to_string();
            self.endpoints.log.emit(&Event::Worker(WorkerEvent::ResponderAvoided { addr }));
        }
    }

    /// Connects to the address.
    ///
    /// # Errors
    ///
    /// As reported by the system; [`io::ErrorKind::WouldBlock`] if the address is busy, and another attempt may succeed.
    pub(super) fn connect(&self) -> io::Result<Stream> {
        let outcome = connect(self.addr());
        self.endpoints.note(self.index, outcome.as_ref().err());
        outcome
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.endpoints.book.lock().balancer.give_back(self.index);
    }
}

/// Connects to one address, once.
///
/// # Errors
///
/// As reported by the system.
pub(super) fn connect(addr: &FastcgiAddr) -> io::Result<Stream> {
    match addr {
        FastcgiAddr::Unix(path) => Stream::connect_unix(path, CONNECT_WAIT),
        FastcgiAddr::Tcp(name) => {
            let mut last = io::Error::other("the name has no address");
            for addr in name.to_socket_addrs()? {
                match Stream::connect_tcp(addr, CONNECT_WAIT) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                }
            }
            Err(last)
        }
    }
}

/// The pause between two probes of the addresses.
pub(super) const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// How long an attempt to connect may take.
const CONNECT_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use svc_core::config::{AccessLog, Level};

    use super::*;

    fn endpoints(paths: &[std::path::PathBuf]) -> Arc<Endpoints> {
        let log = Log::start(Level::Error, AccessLog::Off, io::sink()).unwrap();
        Arc::new(Endpoints::new(paths.iter().cloned().map(FastcgiAddr::Unix).collect(), log))
    }

    #[test]
    fn an_address_that_refuses_is_left_out_until_it_is_reached_again() {
        let folder = tempfile::tempdir().unwrap();
        let (gone, there) = (folder.path().join("gone"), folder.path().join("there"));
        let listener = UnixListener::bind(&there).unwrap();
        let endpoints = endpoints(&[gone.clone(), there.clone()]);
        let now = time::now();
        endpoints.probe(now);
        assert_eq!(endpoints.take(None).unwrap().index, 1);
        assert_eq!(endpoints.trouble(), None);
        drop(listener);
        endpoints.probe(now + PROBE_PAUSE / 2);
        assert_eq!(endpoints.trouble(), None, "it was asked a moment ago");
        assert!(endpoints.take(None).unwrap().connect().is_err());
        assert!(endpoints.take(None).is_none());
        assert!(endpoints.trouble().unwrap().contains("gone"));
        let _listener = UnixListener::bind(&gone).unwrap();
        endpoints.probe(now + PROBE_PAUSE);
        assert_eq!(endpoints.take(None).unwrap().index, 0);
    }
}
