//! Notifications to the service manager (systemd), in datagrams to its socket.
//!
//! Only the control thread sends, and never waits: datagrams that the socket does not accept are sent later, in order.
//! Without a socket, nothing happens.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use svc_core::config::ServiceManagerConfig;
use svc_core::limits::THREAD_EXIT_GRACE;
use svc_core::sync::counter::Flag;
use svc_core::sync::lock::ShortLock;
use svc_core::time;

/// The queue of messages to the service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<NotifySocket>,
    /// The interval between watchdog notifications, if it wants any.
    pub(super) beat: Option<Duration>,
    /// Whether it was notified that the server is ready.
    pub(super) is_told_ready: Flag,
    /// Whether it was notified of a reload, and not yet of its end.
    is_told_reloading: Flag,
    /// The messages that the control thread has not sent yet, oldest first.
    unsent: ShortLock<VecDeque<String>>,
}

#[derive(Debug)]
struct NotifySocket {
    socket: UnixDatagram,
    address: SocketAddr,
}

impl ServiceManager {
    /// Opens the socket of the service manager, if `config` names one that is usable.
    pub(crate) fn new(config: &ServiceManagerConfig) -> Self {
        let socket = config.socket.as_deref().and_then(|name| NotifySocket::open(name).ok());
        let own = rustix::process::getpid().as_raw_nonzero().get().unsigned_abs();
        let is_meant = config.watchdog_pid.is_none_or(|pid| pid == own);
        let beat = config.watchdog.filter(|_| is_meant && socket.is_some());
        Self { socket, beat: beat.map(|limit| (limit / 2).max(BEAT_MIN)), ..Self::default() }
    }

    /// Returns whether there is a service manager.
    pub(super) fn is_present(&self) -> bool {
        self.socket.is_some()
    }

    /// Notes that a reload of files and code has begun. Before the server is ready, that is part of its start.
    pub(crate) fn reload_began(&self) {
        if !self.is_told_ready.is_set() {
            return;
        }
        self.is_told_reloading.set();
        let micros = time::monotonic_micros();
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\nSTATUS=Reloading"));
    }

    /// Notes that the reload has ended; `error` is the reason if it failed. Either way, the server serves.
    pub(super) fn reload_ended(&self, error: Option<&str>) {
        if self.is_told_reloading.is_set() {
            self.is_told_reloading.clear();
            let status = error.map_or_else(|| "Reloaded".to_owned(), failed_reload);
            self.notify(&format!("READY=1\nSTATUS={status}"));
        }
    }

    /// Notes that the drain has begun. Extends the service manager's time limit to the time that the settings grant.
    pub(crate) fn stopping(&self, delay: Duration, timeout: Duration) {
        let limit = time::as_micros(delay + timeout + ENDING);
        self.notify(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={limit}\nSTATUS=Draining"));
    }

    /// Queues a message for the control thread, which the caller then wakes.
    pub(super) fn notify(&self, message: &str) {
        if !self.is_present() {
            return;
        }
        let mut unsent = self.unsent.lock();
        // A service manager that has not read for this long gets the latest messages.
        if unsent.len() >= UNSENT_MAX {
            unsent.pop_front();
        }
        unsent.push_back(message.to_owned());
    }

    /// Sends the messages that the socket accepts; returns whether none is left.
    pub(super) fn flush(&self) -> io::Result<bool> {
        let Some(socket) = &self.socket else { return Ok(true) };
        loop {
            let Some(message) = self.unsent.lock().pop_front() else { return Ok(true) };
            match socket.socket.send_to_addr(message.as_bytes(), &socket.address) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.unsent.lock().push_front(message);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl NotifySocket {
    fn open(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => return Err(io::ErrorKind::Unsupported.into()),
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, address })
    }
}

/// Formats the error of a reload as one line of a status.
pub(super) fn failed_reload(error: &str) -> String {
    format!("The last reload failed: {}", one_line(error))
}

/// Formats why a worker failed to boot before the server was ready as one line of a status.
pub(super) fn failed_boot(error: &str) -> String {
    format!("A PHP worker failed to boot: {}", one_line(error))
}

fn one_line(error: &str) -> String {
    error.chars().map(|c| if c.is_control() { ' ' } else { c }).take(STATUS_MAX).collect()
}

/// The maximum number of characters of an error in a status.
const STATUS_MAX: usize = 500;

/// The shortest interval between two watchdog notifications, whatever was requested.
const BEAT_MIN: Duration = Duration::from_millis(10);

/// The maximum number of messages that wait for the socket.
const UNSENT_MAX: usize = 64;

/// The time that the end of threads, plugins and exports may take after the drain.
const ENDING: Duration = Duration::from_secs(THREAD_EXIT_GRACE.as_secs() * 4);
