//! The running server with the same settings, which `svc check` finds before a reload or a restart.
//!
//! A port or file held by this server is distinguished from one held by another program, within [`DEADLINE`]. Only a
//! server that proves its identity counts: by the lock on its `PID_FILE`, or by listing the address in the report of
//! its operations port.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use rustix::process::Pid;
use serde_json::Value;

use svc_core::config::Config;
use svc_serve::PortError;

use crate::healthcheck::{DEADLINE, left, reachable};
use crate::pid_file::RunningServer;

/// The running server, as far as known.
#[derive(Debug)]
pub(crate) struct RunningInstance {
    pid: Option<Pid>,
    /// The addresses that it listens on.
    addresses: Vec<String>,
}

impl RunningInstance {
    /// Looks for the running server.
    pub(crate) fn find(config: &Config) -> Self {
        let pid = config.serving.pid_file.clone();
        let pid = pid.and_then(|path| RunningServer::find(Some(path)).ok()).map(|(_, pid)| pid);
        let addresses = config.operations.addr.and_then(|addr| addresses(addr, &report(addr).ok()?));
        Self { pid, addresses: addresses.unwrap_or_default() }
    }

    /// Returns why this port is expected to be taken, if it is.
    pub(crate) fn explain(&self, error: &PortError) -> Option<String> {
        let PortError::Bind { variable, addr, error } = error else { return None };
        if error.kind() != io::ErrorKind::AddrInUse {
            return None;
        }
        if let Some(pid) = self.pid {
            let pid = pid.as_raw_pid();
            return Some(format!(
                "{variable}: {addr} is in use; the server of PID_FILE runs (process {pid})"
            ));
        }
        let is_own = self.addresses.iter().any(|own| is_same_port(own, addr));
        is_own.then(|| format!("{variable}: {addr} is in use by the server that answers at INTERNAL_ADDR"))
    }
}

/// Compares ports, since addresses may differ: a server on all interfaces holds the port on each of them.
fn is_same_port(one: &str, other: &str) -> bool {
    let port = |text: &str| text.parse().ok().map(|addr: SocketAddr| addr.port());
    one == other || port(one).is_some_and(|number| port(other) == Some(number))
}

/// Returns the addresses in a configuration report; `None` if it is not a report of svc.
fn addresses(ops: SocketAddr, report: &Value) -> Option<Vec<String>> {
    let main = report.get("listen_addr")?.as_str()?.split(',');
    let redirect = report.get("redirect_addr")?.as_str()?;
    Some(main.chain([redirect]).map(str::to_owned).chain([ops.to_string()]).collect())
}

/// Fetches the configuration report of a server.
fn report(addr: SocketAddr) -> io::Result<Value> {
    let (address, deadline) = (reachable(addr), svc_core::time::now() + DEADLINE);
    let mut stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    write!(stream, "GET /config HTTP/1.0\r\nHost: {address}\r\nUser-Agent: svc\r\n\r\n")?;
    let (mut answer, mut chunk) = (Vec::new(), [0; 4096]);
    while answer.len() < REPORT_BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut chunk)? {
            0 => break,
            read => answer.extend_from_slice(&chunk[..read]),
        }
    }
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
    let body = end.and_then(|end| answer.get(end + 4..)).unwrap_or_default();
    Ok(serde_json::from_slice(body)?)
}

/// Larger than any report.
const REPORT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn in_use(addr: &str) -> PortError {
        let error = io::ErrorKind::AddrInUse.into();
        PortError::Bind { variable: "LISTEN_ADDR", addr: addr.to_owned(), error }
    }

    #[test]
    fn only_its_own_ports_are_explained() {
        let report = serde_json::json!({ "listen_addr": "0.0.0.0:80,unix:/run/a.sock", "redirect_addr": "" });
        let ops = SocketAddr::from(([127, 0, 0, 1], 9090));
        let found = RunningInstance { pid: None, addresses: addresses(ops, &report).unwrap() };
        for addr in ["0.0.0.0:80", "127.0.0.1:80", "unix:/run/a.sock", "127.0.0.1:9090"] {
            assert!(found.explain(&in_use(addr)).is_some(), "{addr}");
        }
        for addr in ["0.0.0.0:81", "unix:/run/b.sock"] {
            assert!(found.explain(&in_use(addr)).is_none(), "{addr}");
        }
        let denied = io::ErrorKind::PermissionDenied.into();
        let denied =
            PortError::Bind { variable: "LISTEN_ADDR", addr: "0.0.0.0:80".to_owned(), error: denied };
        assert!(found.explain(&denied).is_none());
        assert!(addresses(ops, &serde_json::json!({ "status": "ok" })).is_none());
    }

    #[test]
    fn without_a_running_instance_nothing_is_explained() {
        let found = RunningInstance { pid: None, addresses: Vec::new() };
        assert!(found.explain(&in_use("0.0.0.0:80")).is_none());
    }
}
