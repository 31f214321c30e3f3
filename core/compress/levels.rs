//! The compression levels, and which codings are enabled.
//!
//! A coding with level 0 is offered to no client. Clients are not known here.
//!
//! The order of an offer decides if a client accepts several codings equally, as browsers do. The output of scripts is
//! compressed for every request: zstd at its default level needs a ninth of the CPU time of Brotli for pages that are
//! an eleventh larger (see the table in docs/performance.md), so it comes first. A file is compressed once and sent
//! many times, so the smallest copy comes first.

use crate::config::FileConfig;
use crate::http::Coding;

/// The level of each coding; 0 disables it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Of Brotli, 0 to 11.
    pub brotli: u32,
    /// Of gzip, 0 to 9.
    pub gzip: u32,
    /// Of zstd, 0 to 19.
    pub zstd: u32,
}

/// The codings that a client may choose from, in the server's order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedCodings {
    codings: [Coding; Coding::ALL.len()],
    count: usize,
}

impl Levels {
    /// Takes the levels from the settings.
    pub fn new(config: &FileConfig) -> Self {
        Self { brotli: config.brotli_level, gzip: config.gzip_level, zstd: config.zstd_level }
    }

    /// Returns the level of a coding.
    pub const fn level(self, coding: Coding) -> u32 {
        match coding {
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
            Coding::Zstd => self.zstd,
        }
    }

    /// Returns the codings for bodies generated for one request.
    pub fn for_pages(self) -> OfferedCodings {
        self.offer([Coding::Zstd, Coding::Brotli, Coding::Gzip])
    }

    /// Returns the codings for bodies that are compressed once and kept.
    pub fn for_files(self) -> OfferedCodings {
        self.offer([Coding::Brotli, Coding::Zstd, Coding::Gzip])
    }

    fn offer(self, order: [Coding; Coding::ALL.len()]) -> OfferedCodings {
        let mut offer = OfferedCodings { codings: order, count: 0 };
        for coding in order {
            if self.level(coding) > 0 {
                offer.codings[offer.count] = coding;
                offer.count += 1;
            }
        }
        offer
    }
}

impl std::ops::Deref for OfferedCodings {
    type Target = [Coding];

    fn deref(&self) -> &[Coding] {
        &self.codings[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_of_0_withdraws_its_coding_and_keeps_the_order() {
        let all = Levels { brotli: 5, gzip: 6, zstd: 3 };
        assert_eq!(*all.for_pages(), [Coding::Zstd, Coding::Brotli, Coding::Gzip]);
        assert_eq!(*all.for_files(), [Coding::Brotli, Coding::Zstd, Coding::Gzip]);
        assert_eq!(*Levels { zstd: 0, ..all }.for_pages(), [Coding::Brotli, Coding::Gzip]);
        assert_eq!(*Levels { brotli: 0, zstd: 0, ..all }.for_files(), [Coding::Gzip]);
        assert!(Levels::default().for_pages().is_empty());
    }
}
