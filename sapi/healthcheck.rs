//! Queries a running server, for container health checks without another tool.
//!
//! A result is available within [`DEADLINE`], whatever the server does. Only the status of the response is read.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::cli::ProbeKind;

/// The time limit for the whole exchange.
pub const DEADLINE: Duration = Duration::from_secs(3);

/// Why a server is not healthy.
#[derive(Debug)]
pub enum Unhealthy {
    /// The response is not HTTP.
    NotHttp(SocketAddr),
    /// The status returned by the probe.
    Status(SocketAddr, ProbeKind, u16),
    /// The connection failed or timed out.
    Unreachable(SocketAddr, io::Error),
}

/// Queries the operations port at `address`.
///
/// # Errors
///
/// Why the server is not healthy.
pub fn ask(address: SocketAddr, probe: ProbeKind) -> Result<(), Unhealthy> {
    let address = reachable(address);
    let deadline = svc_core::time::now() + DEADLINE;
    let line = exchange(address, probe, deadline).map_err(|error| Unhealthy::Unreachable(address, error))?;
    match status(&line) {
        Some(200) => Ok(()),
        Some(status) => Err(Unhealthy::Status(address, probe, status)),
        None => Err(Unhealthy::NotHttp(address)),
    }
}

impl std::error::Error for Unhealthy {}

impl fmt::Display for Unhealthy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHttp(address) => write!(f, "{address}: the response is not HTTP"),
            Self::Status(address, probe, status) => {
                write!(f, "{address}: {} returned status {status}", probe.path())
            }
            // The end of a socket's timeout has the same code as a socket without blocking.
            Self::Unreachable(address, error)
                if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) =>
            {
                write!(f, "{address}: no response within {} seconds", DEADLINE.as_secs())
            }
            Self::Unreachable(address, error) => write!(f, "{address}: {error}"),
        }
    }
}

/// Replaces the address of a listener on all interfaces with one that can be connected to.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Sends the request and reads until the status is complete.
fn exchange(address: SocketAddr, probe: ProbeKind, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, left(deadline)?)?;
    stream.set_write_timeout(Some(left(deadline)?))?;
    let path = probe.path();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: svc\r\nConnection: close\r\n\r\n")?;
    let mut line = Vec::with_capacity(STATUS_BYTES);
    while line.len() < STATUS_BYTES {
        // Each read gets the remaining time, so that a server that trickles bytes gains nothing.
        stream.set_read_timeout(Some(left(deadline)?))?;
        let mut chunk = [0; STATUS_BYTES];
        let room = STATUS_BYTES - line.len();
        match stream.read(&mut chunk[..room])? {
            0 => break,
            read => line.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(line)
}

/// Returns the remaining time.
///
/// # Errors
///
/// If no time is left.
pub(crate) fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(svc_core::time::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn status(line: &[u8]) -> Option<u16> {
    let digits = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "))?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The length of `HTTP/1.1 200`.
const STATUS_BYTES: usize = 12;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection with `answer`; returns the request line and the result of the probe.
    fn against(answer: &'static [u8]) -> (String, Result<(), Unhealthy>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer).unwrap();
            String::from_utf8(request).unwrap().lines().next().unwrap().to_owned()
        });
        let verdict = ask(SocketAddr::from(([0, 0, 0, 0], port)), ProbeKind::Readiness);
        (server.join().unwrap(), verdict)
    }

    #[test]
    fn a_listener_on_every_interface_is_asked_on_loopback() {
        let (request, verdict) = against(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nreadiness");
        assert_eq!(request, "GET /health/readiness HTTP/1.1");
        assert!(verdict.is_ok());
    }

    #[test]
    fn another_status_is_not_well() {
        let (_, verdict) = against(b"HTTP/1.1 503 Service Unavailable\r\n\r\n");
        assert!(verdict.expect_err("503").to_string().ends_with("/health/readiness returned status 503"));
    }

    #[test]
    fn something_else_is_not_well() {
        assert!(matches!(against(b"220 mail ready\r\n").1, Err(Unhealthy::NotHttp(_))));
        assert!(matches!(against(b"").1, Err(Unhealthy::NotHttp(_))));
    }

    #[test]
    fn silence_is_described() {
        let address = SocketAddr::from(([127, 0, 0, 1], 9090));
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            let said = Unhealthy::Unreachable(address, kind.into()).to_string();
            assert_eq!(said, "127.0.0.1:9090: no response within 3 seconds");
        }
    }

    #[test]
    fn a_missing_server_is_unhealthy() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(matches!(ask(free, ProbeKind::Liveness), Err(Unhealthy::Unreachable(..))));
    }
}
