//! Listening addresses: a socket address, or the path of a Unix socket.
//!
//! Pure. A list contains no duplicates. Binds nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use super::entries::entries;
use super::problem::Fault;

/// A listening address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddr {
    /// At an address; at `[::]`, IPv4 connections are accepted as well.
    Tcp(SocketAddr),
    /// `[::]` with this port, for IPv6 only.
    Ipv6Only(u16),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddr {
    /// Parses a list of addresses and `unix:PATH` entries; a port alone has the address `port_alone`. `[::]` accepts
    /// IPv6 only if the list contains an IPv4 address with the same port.
    pub(super) fn list(text: &str, port_alone: IpAddr) -> Result<Vec<Self>, Fault> {
        let entries: Vec<_> = entries(text)?.collect();
        let mut places = Vec::new();
        for entry in &entries {
            places.push(match entry.strip_prefix("unix:") {
                Some("") => return Err(Fault::NotAnAddress),
                // Absolute, so that the file can be removed after a change of the working directory.
                Some(path) => {
                    Self::Unix(std::path::absolute(Path::new(path)).map_err(|_| Fault::NotAnAddress)?)
                }
                None => Self::Tcp(address(entry, port_alone)?),
            });
        }
        let ipv4_ports: Vec<u16> = places.iter().filter_map(Self::ipv4_port).collect();
        for place in &mut places {
            place.leave_ipv4(&ipv4_ports);
        }
        let twice =
            (1..places.len()).find(|&at| places[..at].iter().any(|other| other.overlaps(&places[at])));
        match twice {
            Some(at) => Err(Fault::Twice(entries[at].to_owned())),
            None => Ok(places),
        }
    }

    /// Returns the socket address, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            Self::Ipv6Only(port) => Some(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), *port)),
            Self::Unix(_) => None,
        }
    }

    fn ipv4_port(&self) -> Option<u16> {
        if let Self::Tcp(SocketAddr::V4(addr)) = self { Some(addr.port()) } else { None }
    }

    /// Restricts it to IPv6 if its port is one of `ports`. With port 0, each socket gets a different port.
    fn leave_ipv4(&mut self, ports: &[u16]) {
        if let Self::Tcp(SocketAddr::V6(addr)) = self
            && addr.ip().is_unspecified()
            && addr.port() != 0
            && ports.contains(&addr.port())
        {
            *self = Self::Ipv6Only(addr.port());
        }
    }

    /// Returns whether two listeners cannot bind both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        if let (Self::Unix(one), Self::Unix(other)) = (self, other) {
            return one == other;
        }
        let (Some(one), Some(two)) = (self.tcp(), other.tcp()) else { return false };
        let takes_all_of = |place: &Self, wide: SocketAddr, ip: IpAddr| {
            wide.ip().is_unspecified()
                && (wide.is_ipv4() == ip.is_ipv4() || (wide.is_ipv6() && !matches!(place, Self::Ipv6Only(_))))
        };
        one.port() != 0
            && one.port() == two.port()
            && (one.ip() == two.ip()
                || takes_all_of(self, one, two.ip())
                || takes_all_of(other, two, one.ip()))
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(f),
            Self::Ipv6Only(port) => write!(f, "[::]:{port}"),
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
    if let Ok(address) = text.parse::<SocketAddr>() {
        // An IPv4-mapped IPv6 address.
        let canonical = address.ip().to_canonical();
        return Ok(if canonical.is_ipv4() { SocketAddr::new(canonical, port) } else { address });
    }
    // An IPv6 address must be in brackets; otherwise its last group would be taken for the port.
    if host.contains([':', '[', ']']) {
        return Err(Fault::NotAnAddress);
    }
    let found = (host, port).to_socket_addrs().map_err(|error| Fault::UnknownHost(error.to_string()))?;
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| Fault::UnknownHost("it has no address".to_owned()))
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

    /// Returns whether each address accepts IPv4, IPv6 or both.
    fn families(text: &str) -> Vec<&'static str> {
        let list = ListenAddr::list(text, Ipv4Addr::UNSPECIFIED.into()).unwrap();
        let family = |place: &ListenAddr| match place {
            ListenAddr::Tcp(SocketAddr::V4(_)) => "4",
            ListenAddr::Tcp(SocketAddr::V6(addr)) if addr.ip().is_unspecified() => "both",
            _ => "6",
        };
        list.iter().map(family).collect()
    }

    #[test]
    fn all_addresses_of_ipv6_leave_ipv4_to_those_that_are_named() {
        for (text, expected) in [
            ("[::]:80", &["both"][..]),
            ("0.0.0.0:80,[::]:80", &["4", "6"]),
            ("[::]:80,:80", &["6", "4"]),
            ("127.0.0.1:80,10.0.0.1:80,[::]:80", &["4", "4", "6"]),
            ("0.0.0.0:80,[::]:81", &["4", "both"]),
            ("0.0.0.0:80,[::1]:80,[fe80::1%1]:80", &["4", "6", "6"]),
            ("0.0.0.0:0,[::]:0", &["4", "both"]),
            ("[::ffff:10.0.0.1]:80,[::]:80", &["4", "6"]),
        ] {
            assert_eq!(families(text), expected, "{text}");
        }
        assert_eq!(shown("0.0.0.0:80,[::]:80").as_deref(), Ok("0.0.0.0:80,[::]:80"));
        assert_eq!(shown("[::ffff:10.0.0.1]:80,[fe80::1%7]:80").as_deref(), Ok("10.0.0.1:80,[fe80::1%7]:80"));
    }

    #[test]
    fn overlap_depends_on_the_families_of_both() {
        let place = |text: &str| ListenAddr::list(text, Ipv4Addr::UNSPECIFIED.into()).unwrap().remove(0);
        for (one, other, expected) in [
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("[::]:80", "[::]:80", true),
            ("[::]:80", "[::]:81", false),
            ("[::]:80,:80", "127.0.0.1:80", false),
            ("[::]:80,:80", "[::1]:80", true),
            ("[::]:80,:80", "[::]:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("10.0.0.1:80", "10.0.0.2:80", false),
        ] {
            let (one_place, other_place) = (place(one), place(other));
            assert_eq!(one_place.overlaps(&other_place), expected, "{one} {other}");
            assert_eq!(other_place.overlaps(&one_place), expected, "{other} {one}");
        }
    }

    #[test]
    fn invalid_and_repeated_addresses_are_refused() {
        for text in ["unix:", "8080", "host", ":8080,x"] {
            assert_eq!(shown(text), Err(Fault::NotAnAddress), "{text}");
        }
        assert_eq!(shown(" , "), Err(Fault::EmptyList));
        for (text, twice) in [
            (":80,127.0.0.1:80", "127.0.0.1:80"),
            ("unix:/a,unix:/a", "unix:/a"),
            ("[::]:80,[::1]:80", "[::1]:80"),
            ("[::1]:80,0.0.0.0:80,[::]:80", "[::]:80"),
            ("127.0.0.1:80,[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:80"),
        ] {
            assert_eq!(shown(text), Err(Fault::Twice(twice.to_owned())), "{text}");
        }
    }
}
