//! The encoders that a thread keeps for reuse.
//!
//! A reused encoder is as good as a new one. The pool keeps at most one encoder per coding, no large ones, and none of
//! Brotli, whose library cannot start another body with the same memory.
//!
//! Keeping encoders pays off for small pages: for 4 KiB, a new zstd encoder takes 21 µs and a reused one 7. With gzip,
//! it depends on the allocator: 2 µs if it has the memory available, 90 if it fetches it from the system each time. The
//! cost is 2.1 MiB per thread that compresses.

use crate::http::Coding;

use super::encoder::{Encoder, EncoderFailed};
use super::levels::Levels;

/// The encoders of one thread.
#[derive(Debug)]
pub struct EncoderPool {
    levels: Levels,
    kept: [Option<Encoder>; Coding::ALL.len()],
}

impl EncoderPool {
    /// Creates an empty pool for encoders of these levels.
    pub fn new(levels: Levels) -> Self {
        Self { levels, kept: [const { None }; Coding::ALL.len()] }
    }

    /// Returns the levels of its encoders.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// Returns an encoder for another body.
    ///
    /// # Errors
    ///
    /// [`EncoderFailed`] if there is not enough memory.
    pub fn take(&mut self, coding: Coding) -> Result<Encoder, EncoderFailed> {
        match self.kept[coding as usize].take() {
            Some(encoder) => Ok(encoder),
            None => Encoder::new(coding, self.levels.level(coding)),
        }
    }

    /// Takes an encoder back, whether its body was completed or not.
    pub fn put(&mut self, mut encoder: Encoder) {
        let is_large = encoder.coding() == Coding::Zstd && encoder.level() > KEPT_ZSTD_LEVEL_MAX;
        if !is_large && encoder.renew() {
            let coding = encoder.coding();
            self.kept[coding as usize] = Some(encoder);
        }
    }
}

/// The highest zstd level whose encoder is kept: above it, compression itself takes far longer than creating an
/// encoder.
const KEPT_ZSTD_LEVEL_MAX: u32 = 6;
