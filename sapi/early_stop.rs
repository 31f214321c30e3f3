//! A stop signal during the loading and initialisation of plugins, which may take any time.
//!
//! The signals stay blocked: they are detected, but not received here. Loading a library blocks the main thread,
//! possibly forever, so a second thread ends the process meanwhile; during all other steps, the main thread checks for
//! signals itself. Plugins are not stopped in order.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};

use svc_core::observe::{Event, Log, PluginEvent};
use svc_core::sync::lock::ShortLock;

use crate::pid_file::PidFile;

/// Detects stop signals.
#[derive(Debug)]
pub(crate) struct EarlyStop(Option<OwnedFd>);

impl EarlyStop {
    /// Begins to detect signals. If the system does not support it, signals take effect later.
    pub(crate) fn watch(log: &Log) -> Self {
        Self(svc_ffi::signals::stop_descriptor().inspect_err(|error| report_failure(log, error)).ok())
    }

    /// Returns a descriptor that is readable once a signal is pending.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(AsFd::as_fd)
    }

    /// Calls `load`, and ends the process if a signal arrives before it returns. `load` reports the name of each plugin
    /// before it loads it.
    pub(crate) fn ends<T>(
        &self,
        log: &Log,
        pid_file: Option<&PidFile>,
        load: impl FnOnce(&dyn Fn(&str)) -> T,
    ) -> T {
        let loading = ShortLock::new(String::new());
        let begin = |plugin: &str| plugin.clone_into(&mut loading.lock());
        let pipe = self.descriptor().and_then(|stop| {
            let (ended, end) = io::pipe().inspect_err(|error| report_failure(log, error)).ok()?;
            Some((stop, OwnedFd::from(ended), end))
        });
        let Some((stop, ended, end)) = pipe else { return load(&begin) };
        thread::scope(|scope| {
            // Dropped however `load` ends, and before the scope joins the thread.
            let _end = end;
            let watch = || {
                if comes_first(stop, ended.as_fd()) {
                    give_up(log, pid_file, &loading.lock().clone());
                }
            };
            let watching = thread::Builder::new().name("svc-signals".into()).spawn_scoped(scope, watch);
            if let Err(error) = watching {
                report_failure(log, &error);
            }
            load(&begin)
        })
    }
}

/// Waits for one of two descriptors; returns whether only the first is readable.
fn comes_first(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let mut waits = [one, other].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let is_over = poll(&mut waits, None).is_ok();
    is_over && !waits[0].revents().is_empty() && waits[1].revents().is_empty()
}

/// Ends the process while the main thread is stuck in plugin code, which cannot be interrupted.
fn give_up(log: &Log, pid_file: Option<&PidFile>, plugin: &str) {
    log.emit(&Event::StartStopped);
    let event = PluginEvent::LeftBehind { callback: "svc_plugin_entry" };
    log.emit(&Event::Plugin(plugin, event));
    log.shutdown();
    if let Some(pid_file) = pid_file {
        pid_file.remove();
    }
    svc_ffi::exit_now(crate::commands::Exit::Well.code().into());
}

fn report_failure(log: &Log, error: &dyn Display) {
    let what = format!("cannot watch for signals, so one will not stop the start of plugins: {error}");
    log.emit(&Event::Failure { what: &what });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_work_goes_before_a_signal() {
        let (signal, signals) = io::pipe().unwrap();
        let (ended, end) = io::pipe().unwrap();
        drop(signals);
        assert!(comes_first(signal.as_fd(), ended.as_fd()));
        drop(end);
        assert!(!comes_first(signal.as_fd(), ended.as_fd()));
    }
}
