//! The addresses of FastCGI responders.
//!
//! Pure. A name is not resolved here, because a container may get another address.

use std::os::unix::net::SocketAddr;
use std::path::PathBuf;

use super::entries::entries;
use super::problem::Fault;

/// A place where a FastCGI responder listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FastcgiAddr {
    /// A host, by name or address, with a port.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for FastcgiAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FastcgiAddr {
    /// Parses `host:port` or `unix:PATH`.
    pub(super) fn parse(entry: &str) -> Result<Self, Fault> {
        if let Some(path) = entry.strip_prefix("unix:") {
            let path = Some(path).filter(|path| !path.is_empty()).map(std::path::absolute);
            // The kernel limits the length of the path.
            let path = path.and_then(Result::ok).filter(|path| SocketAddr::from_pathname(path).is_ok());
            return path.map(Self::Unix).ok_or(Fault::NotAnAddress);
        }
        let Some((host, port)) = entry.rsplit_once(':') else { return Err(Fault::NotAnAddress) };
        let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
        if host.is_empty() || !is_port { Err(Fault::NotAnAddress) } else { Ok(Self::Tcp(entry.to_owned())) }
    }
}

/// Parses a list of addresses; returns them in their canonical form.
pub(super) fn addresses(text: &str) -> Result<Vec<String>, Fault> {
    let mut found: Vec<String> = Vec::new();
    for entry in entries(text)? {
        let address = FastcgiAddr::parse(entry)?.to_string();
        if found.contains(&address) {
            return Err(Fault::Twice(entry.to_owned()));
        }
        found.push(address);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hosts_with_ports_and_sockets() {
        let canonical = addresses("php:9000, [::1]:9000 ,unix:/run/php.sock").unwrap();
        assert_eq!(canonical, ["php:9000", "[::1]:9000", "unix:/run/php.sock"]);
        for wrong in ["php", "php:", ":9000", "php:0", "php:70000", "unix:", "/run/php.sock"] {
            assert_eq!(addresses(wrong), Err(Fault::NotAnAddress), "{wrong}");
        }
        let long = format!("unix:/{}", "a".repeat(107));
        assert_eq!(addresses(&long), Err(Fault::NotAnAddress), "longer than the address of a socket");
        assert_eq!(addresses("a:1,a:1"), Err(Fault::Twice("a:1".to_owned())));
        assert_eq!(addresses(" , "), Err(Fault::EmptyList));
    }
}
