//! A socket on which connections arrive: bound to an address or to a path in the file system, or inherited.
//!
//! A socket file without a listener is replaced; one with a listener is not, nor is a file of any other kind. The file
//! is removed when the listener is dropped, if it is still the same one. A listener does not choose the protocol of a
//! connection.

use std::fmt;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener};
use mio::{Interest, Registry, Token};
use rustix::fs::{Access, access};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};

use svc_core::config::ListenAddr;
use svc_core::descriptor;
use svc_core::limits::LISTEN_BACKLOG;

/// A socket on which connections arrive.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: ListenSocket,
    place: ListenAddr,
    /// Whether it stays open when this process ends: another process then accepts the connections that wait.
    is_inherited: bool,
}

#[derive(Debug)]
enum ListenSocket {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: Option<SocketFile> },
}

/// The file of a socket that this process has bound.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// The two ends of an accepted connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The peer.
    pub(crate) peer: SocketAddr,
    /// The address that it connected to; `None` if the socket knows it.
    pub(crate) local: Option<SocketAddr>,
}

impl Addresses {
    /// The placeholder for the ends of a connection through a Unix socket: both are on this machine, and neither has a
    /// port.
    const UNIX: Self = {
        let here = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        Self { peer: here, local: Some(SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 80)) }
    };
}

impl Listener {
    /// Listens at an address or path. The file of a Unix socket gets this `mode`.
    ///
    /// # Errors
    ///
    /// The error of the system; `AddrInUse` if there is a listener already.
    pub(crate) fn bind(place: &ListenAddr, mode: u32) -> io::Result<Self> {
        let (socket, place) = match place {
            ListenAddr::Tcp(_) | ListenAddr::Ipv6Only(_) => {
                let listener = std::net::TcpListener::from(bind_tcp(place)?);
                net::listen(&listener, LISTEN_BACKLOG)?;
                let place = match place {
                    // The system has chosen a port if it was 0.
                    ListenAddr::Tcp(_) => ListenAddr::Tcp(listener.local_addr()?),
                    _ => place.clone(),
                };
                (ListenSocket::Tcp(TcpListener::from_std(listener)), place)
            }
            ListenAddr::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path)?;
                let found = fs::symlink_metadata(path)?;
                let file = SocketFile { path: path.clone(), device: found.dev(), inode: found.ino() };
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
                // The library listens with its own backlog; a second call of listen only changes that.
                net::listen(&listener, LISTEN_BACKLOG)?;
                (ListenSocket::Unix { listener, _file: Some(file) }, ListenAddr::Unix(path.clone()))
            }
        };
        Ok(Self { socket, place, is_inherited: false })
    }

    /// Tests whether it is possible to listen at an address or path, without doing so: clients cannot connect meanwhile,
    /// and a server that starts now is not disturbed.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub(crate) fn try_out(place: &ListenAddr) -> io::Result<()> {
        match place {
            ListenAddr::Tcp(_) | ListenAddr::Ipv6Only(_) => bind_tcp(place).map(drop),
            ListenAddr::Unix(path) => {
                // The path may be too long.
                std::os::unix::net::SocketAddr::from_pathname(path)?;
                is_stale(path)?;
                let folder = path.parent().unwrap_or(Path::new("/"));
                Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
            }
        }
    }

    /// Takes over a listening socket that another process has bound.
    ///
    /// # Errors
    ///
    /// If it is not a listening socket.
    pub(crate) fn inherit(descriptor: OwnedFd) -> io::Result<Self> {
        let descriptor = descriptor::move_up(descriptor);
        if !net::sockopt::socket_acceptconn(&descriptor)? {
            return Err(io::Error::other("the socket is not listening"));
        }
        if net::sockopt::socket_domain(&descriptor)? == AddressFamily::UNIX {
            let listener = std::os::unix::net::UnixListener::from(descriptor);
            listener.set_nonblocking(true)?;
            let path = listener.local_addr()?.as_pathname().map(Path::to_owned).unwrap_or_default();
            let socket = ListenSocket::Unix { listener: UnixListener::from_std(listener), _file: None };
            return Ok(Self { socket, place: ListenAddr::Unix(path), is_inherited: true });
        }
        let listener = std::net::TcpListener::from(descriptor);
        listener.set_nonblocking(true)?;
        let place = ListenAddr::Tcp(listener.local_addr()?);
        Ok(Self { socket: ListenSocket::Tcp(TcpListener::from_std(listener)), place, is_inherited: true })
    }

    /// Returns the address or path, with the port number that the system chose for port 0.
    pub(crate) fn place(&self) -> &ListenAddr {
        &self.place
    }

    /// Returns whether another process accepts the connections that wait when this one ends.
    pub(crate) fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Returns whether its connections arrive through a Unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.socket, ListenSocket::Unix { .. })
    }

    /// Registers the listener with a poller, which then reports connections.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let source: &mut dyn Source = match &mut self.socket {
            ListenSocket::Tcp(listener) => listener,
            ListenSocket::Unix { listener, .. } => listener,
        };
        source.register(registry, token, Interest::READABLE)
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The error of the system; `WouldBlock` if no connection waits.
    pub(crate) fn accept(&self) -> io::Result<(TcpStream, Addresses)> {
        match &self.socket {
            ListenSocket::Tcp(listener) => {
                let (socket, peer) = listener.accept()?;
                Ok((socket, Addresses { peer, local: None }))
            }
            ListenSocket::Unix { listener, .. } => {
                let (socket, _) = listener.accept()?;
                // The operations on a connection are the same for both kinds of socket: read, write, send a file, shut
                // down. Only the addresses differ, and these are never read from the socket.
                let socket = std::net::TcpStream::from(OwnedFd::from(socket));
                Ok((TcpStream::from_std(socket), Addresses::UNIX))
            }
        }
    }

    /// Converts it to the listener of a port that supports TCP only.
    ///
    /// # Errors
    ///
    /// If it is a Unix socket.
    pub(crate) fn into_tcp(self) -> io::Result<TcpListener> {
        match self.socket {
            ListenSocket::Tcp(listener) => Ok(listener),
            ListenSocket::Unix { .. } => Err(io::Error::other("a Unix socket")),
        }
    }
}

/// Binds a socket to an address.
fn bind_tcp(place: &ListenAddr) -> io::Result<OwnedFd> {
    let addr = place.tcp().ok_or(io::ErrorKind::InvalidInput)?;
    let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections in TIME_WAIT do not prevent binding; another listener does.
    net::sockopt::set_socket_reuseaddr(&socket, true)?;
    if addr.is_ipv6() {
        // The default depends on net.ipv6.bindv6only.
        net::sockopt::set_ipv6_v6only(&socket, matches!(place, ListenAddr::Ipv6Only(_)))?;
    }
    net::bind(&socket, &addr)?;
    Ok(socket)
}

/// Removes the file of a socket without a listener.
fn remove_stale(path: &Path) -> io::Result<()> {
    if is_stale(path)? { fs::remove_file(path) } else { Ok(()) }
}

/// Returns whether there is a socket file without a listener. A file that must stay is an error.
fn is_stale(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {}
        Ok(_) => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        // A socket with a full backlog has a listener too.
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) => Err(error),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_same = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode));
        if is_same {
            // If it cannot be removed, the next start replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn place(folder: &Path) -> ListenAddr {
        ListenAddr::Unix(folder.join("svc.sock"))
    }

    #[test]
    fn a_socket_file_has_its_mode_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.sock");
        let listener = Listener::bind(&place(folder.path()), 0o640).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(listener.is_unix() && !listener.is_inherited());
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_stale_file_is_replaced_and_a_used_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = Listener::bind(&place(folder.path()), 0o600).unwrap();
        let error = Listener::bind(&place(folder.path()), 0o600).expect_err("the address is in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        // The file was replaced: it no longer belongs to this listener.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        drop(first);
        assert!(Listener::bind(&place(folder.path()), 0o600).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_place_is_tried_out_without_taking_it() {
        let folder = tempfile::tempdir().unwrap();
        let (unix, path) = (place(folder.path()), folder.path().join("svc.sock"));
        let tcp = ListenAddr::Tcp(([127, 0, 0, 1], 0).into());
        for place in [&unix, &tcp] {
            Listener::try_out(place).unwrap();
            let listener = Listener::bind(place, 0o600).unwrap();
            let error = Listener::try_out(listener.place()).expect_err("the address is in use");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{place}");
            let free = listener.place().clone();
            drop(listener);
            Listener::try_out(&free).unwrap();
        }
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        Listener::try_out(&unix).unwrap();
        assert!(path.exists(), "nothing is removed");
        fs::remove_file(&path).unwrap();
        fs::write(&path, "precious").unwrap();
        assert_eq!(Listener::try_out(&unix).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let nowhere = place(&folder.path().join("nowhere"));
        assert_eq!(Listener::try_out(&nowhere).unwrap_err().kind(), io::ErrorKind::NotFound);
        let long = place(&folder.path().join("x".repeat(200)));
        assert_eq!(Listener::try_out(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn bytes_pass_through_a_unix_socket() {
        let folder = tempfile::tempdir().unwrap();
        let listener = Listener::bind(&place(folder.path()), 0o600).unwrap();
        assert_eq!(listener.accept().expect_err("no connection waits").kind(), io::ErrorKind::WouldBlock);
        let mut client = UnixStream::connect(folder.path().join("svc.sock")).unwrap();
        let (mut socket, addresses) = listener.accept().unwrap();
        assert_eq!(
            (addresses.peer.to_string().as_str(), addresses.local.map(|local| local.port())),
            ("127.0.0.1:0", Some(80))
        );
        socket.write_all(b"hello").unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn a_stale_socket_of_another_user_is_replaced() {
        let bound = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = ListenAddr::Tcp(bound.local_addr().unwrap());
        let listener = Listener::inherit(bound.into()).unwrap();
        assert!(listener.is_inherited() && *listener.place() == place);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.sock");
        let unix = Listener::inherit(std::os::unix::net::UnixListener::bind(&path).unwrap().into()).unwrap();
        assert_eq!(*unix.place(), ListenAddr::Unix(path.clone()));
        drop(unix);
        assert!(path.exists(), "it is not ours");
        let file = fs::File::open("/dev/null").unwrap();
        assert!(Listener::inherit(file.into()).is_err());
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(Listener::inherit(one.into()).is_err());
    }
}
