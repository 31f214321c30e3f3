//! Where a port listens: an address, or the path of a Unix socket.
//!
//! Promises: pure. A list names no place twice. Refuses: it binds nothing.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::entries::entries;
use super::problem::Fault;

/// Where a port listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// At an address.
    Tcp(SocketAddr),
    /// At the path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddr {
    /// Parses a list of addresses and paths, as `unix:PATH`; a port alone has the address `port_alone`.
    pub(super) fn list(text: &str, port_alone: IpAddr) -> Result<Vec<Self>, Fault> {
        let mut list: Vec<Self> = Vec::new();
        for entry in entries(text)? {
            let place = match entry.strip_prefix("unix:") {
                Some("") => return Err(Fault::NotAnAddress),
                // Whoever removes the file must find it wherever the process is by then.
                Some(path) => {
                    Self::Unix(std::path::absolute(Path::new(path)).map_err(|_| Fault::NotAnAddress)?)
                }
                None => Self::Tcp(address(entry, port_alone)?),
            };
            if list.iter().any(|other| other.overlaps(&place)) {
                return Err(Fault::Twice(entry.to_owned()));
            }
            list.push(place);
        }
        Ok(list)
    }

    /// The address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        if let Self::Tcp(addr) = self { Some(*addr) } else { None }
    }

    /// Whether two listeners cannot have both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Tcp(one), Self::Tcp(other)) => overlap(*one, *other),
            (Self::Unix(one), Self::Unix(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Parses `host:port`; a port alone has the address `port_alone`.
pub(super) fn address(text: &str, port_alone: IpAddr) -> Result<SocketAddr, Fault> {
    let (host, port) = text.rsplit_once(':').ok_or(Fault::NotAnAddress)?;
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::NotAnAddress);
    }
    let port: u16 = port.parse().map_err(|_| Fault::NotAnAddress)?;
    if host.is_empty() {
        return Ok(SocketAddr::new(port_alone, port));
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    // An IPv6 address stands in brackets; without them its last group would pass for the port.
    if host.contains([':', '[', ']']) {
        return Err(Fault::NotAnAddress);
    }
    let found = (host, port).to_socket_addrs().map_err(|error| Fault::UnknownHost(error.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| Fault::UnknownHost("it has no address".to_owned()))
}

fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // An address of one family that means all addresses leaves the other family alone, except that IPv6 may include IPv4.
    let wide = |ip: IpAddr| ip.is_unspecified();
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || wide(one.ip()) || wide(other.ip()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn shown(text: &str) -> Result<String, Fault> {
        let list = ListenAddr::list(text, Ipv4Addr::UNSPECIFIED.into())?;
        Ok(list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn a_list_has_addresses_and_paths() {
        assert_eq!(
            shown(":8080, [::1]:81,unix:/run/svc.sock").as_deref(),
            Ok("0.0.0.0:8080,[::1]:81,unix:/run/svc.sock")
        );
        assert_eq!(shown("127.0.0.1:0,127.0.0.1:0").as_deref(), Ok("127.0.0.1:0,127.0.0.1:0"));
        let relative = shown("unix:run/svc.sock").unwrap();
        assert!(relative.starts_with("unix:/") && relative.ends_with("/run/svc.sock"), "{relative}");
    }

    #[test]
    fn what_is_neither_and_what_is_there_twice_is_not_accepted() {
        for text in ["unix:", "8080", "host", ":8080,x"] {
            assert_eq!(shown(text), Err(Fault::NotAnAddress), "{text}");
        }
        assert_eq!(shown(" , "), Err(Fault::EmptyList));
        for (text, twice) in [(":80,127.0.0.1:80", "127.0.0.1:80"), ("unix:/a,unix:/a", "unix:/a")] {
            assert_eq!(shown(text), Err(Fault::Twice(twice.to_owned())), "{text}");
        }
    }
}
