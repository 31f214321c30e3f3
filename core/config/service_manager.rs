//! The service manager's (systemd's) variables for the process.
//!
//! The variables of its protocol are read like settings; invalid ones count as unset. They are not settings, because
//! operators do not write them.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// The interface of the service manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceManagerConfig {
    /// The notification socket: a path, or an abstract name after `@`.
    pub socket: Option<OsString>,
    /// The watchdog timeout: without a keep-alive message in this time, the process is restarted.
    pub watchdog: Option<Duration>,
    /// The process that must send keep-alive messages; `None` means this one.
    pub watchdog_pid: Option<u32>,
}

impl ServiceManagerConfig {
    /// The variables, which are removed from the environment, because they do not concern programs started by PHP.
    pub const VARIABLES: [&str; 3] = [NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID];

    /// Keeps a variable of the protocol; returns whether it is one.
    pub(super) fn keep(&mut self, name: &OsStr, value: &OsStr) -> bool {
        match name.to_str() {
            Some(NOTIFY_SOCKET) => self.socket = Some(value.to_owned()),
            Some(WATCHDOG_USEC) => {
                self.watchdog = number(value).filter(|micros| *micros > 0).map(Duration::from_micros);
            }
            Some(WATCHDOG_PID) => self.watchdog_pid = number(value).and_then(|pid| u32::try_from(pid).ok()),
            _ => return false,
        }
        true
    }
}

fn number(value: &OsStr) -> Option<u64> {
    value.to_str()?.parse().ok()
}

const NOTIFY_SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG_USEC: &str = "WATCHDOG_USEC";
const WATCHDOG_PID: &str = "WATCHDOG_PID";

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(variables: &[(&str, &str)]) -> ServiceManagerConfig {
        let mut config = ServiceManagerConfig::default();
        for (name, value) in variables {
            assert!(config.keep(OsStr::new(name), OsStr::new(value)), "{name}");
        }
        config
    }

    #[test]
    fn the_protocol_is_understood() {
        let config =
            kept(&[("NOTIFY_SOCKET", "@notify"), ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", "12")]);
        assert_eq!(config.socket.as_deref(), Some(OsStr::new("@notify")));
        assert_eq!((config.watchdog, config.watchdog_pid), (Some(Duration::from_secs(30)), Some(12)));
    }

    #[test]
    fn invalid_values_are_ignored() {
        for micros in ["0", "-1", "soon"] {
            assert_eq!(kept(&[("WATCHDOG_USEC", micros)]).watchdog, None, "{micros}");
        }
        assert!(!ServiceManagerConfig::default().keep(OsStr::new("NOTIFY"), OsStr::new("x")));
    }
}
