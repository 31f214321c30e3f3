//! Keeps the server's descriptors above the range that PHP's `select` supports.
//!
//! A descriptor moves up if a higher number is free, and stays as it is otherwise. The object behind a descriptor does
//! not matter.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::limits::DESCRIPTOR_MIN;

/// Moves a descriptor to a number of at least [`DESCRIPTOR_MIN`]; it keeps its number if none is free there.
pub fn move_up<D: AsFd + From<OwnedFd>>(descriptor: D) -> D {
    duplicate_from(descriptor.as_fd(), DESCRIPTOR_MIN).map_or(descriptor, D::from)
}

/// Returns a second descriptor for the same file, at or above [`DESCRIPTOR_MIN`] if a number is free there.
///
/// # Errors
///
/// If the process has no descriptor left.
pub fn duplicate(of: impl AsFd) -> io::Result<OwnedFd> {
    duplicate_from(of.as_fd(), DESCRIPTOR_MIN).or_else(|_| duplicate_from(of.as_fd(), 0))
}

fn duplicate_from(of: BorrowedFd<'_>, min: i32) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(of, min)?)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;

    #[test]
    fn a_descriptor_moves_up_and_so_does_its_duplicate() {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
        let low = File::open("/dev/null").unwrap();
        assert!(low.as_raw_fd() < DESCRIPTOR_MIN);
        let high = move_up(low);
        assert!(high.as_raw_fd() >= DESCRIPTOR_MIN);
        let second = duplicate(&high).unwrap();
        assert!(second.as_raw_fd() >= DESCRIPTOR_MIN && second.as_raw_fd() != high.as_raw_fd());
    }
}
