//! The descriptors that the operations port holds in reserve.
//!
//! While the reserve lasts, connections can be accepted even if scripts have taken every descriptor of the process.
//! The reserve accepts nothing and logs nothing.

use std::io;
use std::time::Instant;

use mio::net::TcpListener;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use svc_core::descriptor;
use svc_core::limits::{OPS_RESERVE_DESCRIPTORS, TROUBLE_RECORD_PAUSE};

/// Descriptors held in reserve, so that probes are answered when scripts have taken all others.
#[derive(Debug, Default)]
pub(crate) struct Reserve {
    held: Vec<OwnedFd>,
    /// When the log last reported that the reserve is in use.
    told_at: Option<Instant>,
}

impl Reserve {
    /// Refills the reserve, as far as the system has descriptors. They are duplicates of `of`, so that no disk access
    /// is needed.
    pub(crate) fn fill(&mut self, of: &TcpListener) {
        while self.held.len() < OPS_RESERVE_DESCRIPTORS {
            match descriptor::duplicate(of) {
                Ok(descriptor) => self.held.push(descriptor),
                Err(_) => return,
            }
        }
    }

    /// Releases one descriptor for a connection; returns whether there was one.
    pub(crate) fn draw(&mut self) -> bool {
        self.held.pop().is_some()
    }

    /// Returns whether the log has not reported it for a while; the caller is then expected to log it.
    pub(crate) fn is_news(&mut self, now: Instant) -> bool {
        let is_news = self.told_at.is_none_or(|told_at| now >= told_at + TROUBLE_RECORD_PAUSE);
        if is_news {
            self.told_at = Some(now);
        }
        is_news
    }
}

/// Returns whether the process, or the system, has no descriptor left.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno == Some(Errno::MFILE) || errno == Some(Errno::NFILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_a_fixed_number_of_descriptors_and_can_be_refilled() {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut reserve = Reserve::default();
        assert!(!reserve.draw());
        for _ in 0..2 {
            reserve.fill(&listener);
            assert_eq!(
                (0..=OPS_RESERVE_DESCRIPTORS).filter(|_| reserve.draw()).count(),
                OPS_RESERVE_DESCRIPTORS
            );
        }
    }

    #[test]
    fn its_use_is_news_once_in_a_while() {
        let (mut reserve, now) = (Reserve::default(), svc_core::time::now());
        assert!(reserve.is_news(now));
        assert!(!reserve.is_news(now));
        assert!(reserve.is_news(now + TROUBLE_RECORD_PAUSE));
    }
}
