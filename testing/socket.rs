//! TCP and Unix sockets in one type, for scripted servers that offer both.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// One end of a connection; dropping its last clone closes it.
#[derive(Clone, Debug)]
pub struct Socket(Arc<Wire>);

#[derive(Debug)]
enum Wire {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A listening socket.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Listens on a free port of the loopback interface.
    pub fn tcp() -> Self {
        Self::Tcp(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    /// Listens on a new Unix socket.
    pub fn unix(path: PathBuf) -> Self {
        Self::Unix(UnixListener::bind(&path).unwrap(), path)
    }

    pub fn address(&self) -> Address {
        match self {
            Self::Tcp(listener) => Address::Tcp(listener.local_addr().unwrap()),
            Self::Unix(_, path) => Address::Unix(path.clone()),
        }
    }

    /// Waits for a connection; returns `None` once the listener has been shut down.
    pub fn accept(&self) -> Option<Socket> {
        let wire = match self {
            Self::Tcp(listener) => {
                let stream = listener.accept().ok()?.0;
                stream.set_nodelay(true).unwrap();
                Wire::Tcp(stream)
            }
            Self::Unix(listener, _) => Wire::Unix(listener.accept().ok()?.0),
        };
        Some(Socket(Arc::new(wire)))
    }

    /// Wakes the thread that accepts.
    pub fn shut_down(&self) {
        // The listener may be shut down already.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Address {
    pub fn connect(&self) -> io::Result<Socket> {
        let wire = match self {
            Self::Tcp(addr) => Wire::Tcp(TcpStream::connect(addr)?),
            Self::Unix(path) => Wire::Unix(UnixStream::connect(path)?),
        };
        if let Wire::Tcp(stream) = &wire {
            stream.set_nodelay(true)?;
        }
        Ok(Socket(Arc::new(wire)))
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tcp(addr) => addr.port(),
            Self::Unix(path) => panic!("{} has no port", path.display()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => addr.fmt(out),
            Self::Unix(path) => path.display().fmt(out),
        }
    }
}

impl Socket {
    /// Shuts down a direction; the peer may have closed already.
    pub fn shut_down(&self, how: Shutdown) {
        let _ = match &*self.0 {
            Wire::Tcp(stream) => stream.shutdown(how),
            Wire::Unix(stream) => stream.shutdown(how),
        };
    }

    /// Makes closing send a reset. A Unix socket sends a reset only for unread data.
    pub fn reset_at_close(&self) {
        if let Wire::Tcp(stream) = &*self.0 {
            set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
        }
    }

    /// Limits the time of a write, which then fails with `WouldBlock`.
    pub fn write_timeout(&self, time: Duration) {
        match &*self.0 {
            Wire::Tcp(stream) => stream.set_write_timeout(Some(time)).unwrap(),
            Wire::Unix(stream) => stream.set_write_timeout(Some(time)).unwrap(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &*self.0 {
            Wire::Tcp(stream) => (&mut &*stream).read(bytes),
            Wire::Unix(stream) => (&mut &*stream).read(bytes),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &*self.0 {
            Wire::Tcp(stream) => (&mut &*stream).write(bytes),
            Wire::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
