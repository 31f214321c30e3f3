//! Socket activation: the descriptors that a service manager passes in, as described by its environment variables.
//!
//! Pure. Descriptors for another process are ignored; malformed variables stop the start, because a port would be
//! missing. Opens and closes no descriptor.

use std::ffi::{OsStr, OsString};

/// The values of `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activation {
    /// The process that should take the descriptors.
    pub pid: Option<OsString>,
    /// The number of descriptors.
    pub count: Option<OsString>,
    /// Their names, separated by colons.
    pub names: Option<OsString>,
}

/// The purpose of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassedSocket {
    /// The main port.
    Main,
    /// The operations port.
    Ops,
}

/// The environment variables.
pub const ACTIVATION_VARIABLES: [&str; 4] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"];

impl Activation {
    /// Returns the purposes of the descriptors, in order, if they are meant for the process with the ID `own_pid`.
    ///
    /// # Errors
    ///
    /// Returns a message about invalid variables.
    pub fn sockets(&self, own_pid: u32) -> Result<Vec<PassedSocket>, String> {
        let (Some(pid), Some(count)) = (number(self.pid.as_deref()), &self.count) else {
            return Ok(Vec::new());
        };
        if pid != u64::from(own_pid) {
            return Ok(Vec::new());
        }
        let count = number(Some(count)).filter(|count| *count <= DESCRIPTORS_MAX);
        let Some(count) = count.and_then(|count| usize::try_from(count).ok()) else {
            return Err(format!(
                "LISTEN_FDS: {:?} is not a number; accepted: up to {DESCRIPTORS_MAX}",
                self.count.as_deref().unwrap_or_default()
            ));
        };
        let Some(names) = &self.names else { return Ok(vec![PassedSocket::Main; count]) };
        let names: Vec<_> = names.to_str().map(|names| names.split(':').collect()).unwrap_or_default();
        if count > 0 && names.len() != count {
            return Err(format!(
                "LISTEN_FDNAMES: has {} names, but LISTEN_FDS is {count}; accepted: a name for each descriptor",
                names.len()
            ));
        }
        let sockets = names.iter().take(count).map(|name| match *name {
            "http" => Ok(PassedSocket::Main),
            "ops" => Ok(PassedSocket::Ops),
            other => Err(format!("LISTEN_FDNAMES: {other:?} is not known; accepted: http, ops")),
        });
        let sockets = sockets.collect::<Result<Vec<_>, _>>()?;
        if sockets.iter().filter(|socket| **socket == PassedSocket::Ops).count() > 1 {
            return Err(
                "LISTEN_FDNAMES: \"ops\" is there twice; accepted: one descriptor with this name".to_owned()
            );
        }
        Ok(sockets)
    }
}

/// The maximum number of descriptors.
const DESCRIPTORS_MAX: u64 = 64;

fn number(text: Option<&OsStr>) -> Option<u64> {
    text?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(pid: &str, count: &str, names: Option<&str>) -> Result<Vec<PassedSocket>, String> {
        let text = |text: &str| (!text.is_empty()).then(|| text.into());
        let activation = Activation { pid: text(pid), count: text(count), names: names.map(Into::into) };
        activation.sockets(42)
    }

    #[test]
    fn descriptors_have_names() {
        use PassedSocket::{Main, Ops};
        assert_eq!(sockets("42", "2", Some("http:ops")), Ok(vec![Main, Ops]));
        assert_eq!(sockets("42", "3", Some("ops:http:http")), Ok(vec![Ops, Main, Main]));
        assert_eq!(sockets("42", "2", None), Ok(vec![Main, Main]));
        assert_eq!(sockets("42", "0", Some("")), Ok(vec![]));
    }

    #[test]
    fn sockets_of_another_process_are_ignored() {
        for (pid, count) in [("", ""), ("42", ""), ("", "1"), ("41", "1"), ("x", "1"), ("41", "x")] {
            assert_eq!(sockets(pid, count, Some("other")), Ok(vec![]), "{pid}, {count}");
        }
    }

    #[test]
    fn malformed_values_stop_the_start() {
        for (count, names, part) in [
            ("x", "http", "LISTEN_FDS: \"x\" is not a number"),
            ("-1", "http", "LISTEN_FDS"),
            ("65", "http", "LISTEN_FDS"),
            ("2", "http", "LISTEN_FDNAMES: has 1 names, but LISTEN_FDS is 2"),
            ("1", "svc.socket", "LISTEN_FDNAMES: \"svc.socket\" is not known"),
            ("2", "ops:ops", "twice"),
        ] {
            let error = sockets("42", count, Some(names)).expect_err(names);
            assert!(error.contains(part), "{error}");
        }
    }
}
