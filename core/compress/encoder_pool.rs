//! What a thread keeps of its encoders.
//!
//! Promises: a body is coded by an encoder that is as good as new. Refuses: it keeps one encoder of a coding at most, no
//! large one, and none of Brotli, whose library cannot start another body with the memory it has.
//!
//! To keep them pays where pages are small: for 4 KiB a new encoder of zstd takes 21 µs and a kept one 7. With gzip it
//! depends on the allocator: 2 µs where it has the memory at hand, 90 where it fetches it from the system each time. The
//! price is 2.1 MiB for each thread that codes.

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
    /// Makes an empty stock for encoders of these levels.
    pub fn new(levels: Levels) -> Self {
        Self { levels, kept: [const { None }; Coding::ALL.len()] }
    }

    /// How hard its encoders try.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// Gives an encoder for another body.
    ///
    /// # Errors
    ///
    /// [`EncoderFailed`] when there is no memory for one.
    pub fn take(&mut self, coding: Coding) -> Result<Encoder, EncoderFailed> {
        match self.kept[coding as usize].take() {
            Some(encoder) => Ok(encoder),
            None => Encoder::new(coding, self.levels.level(coding)),
        }
    }

    /// Takes an encoder back, whatever became of its body.
    pub fn put(&mut self, mut encoder: Encoder) {
        let is_large = encoder.coding() == Coding::Zstd && encoder.level() > KEPT_ZSTD_LEVEL_MAX;
        if !is_large && encoder.renew() {
            let coding = encoder.coding();
            self.kept[coding as usize] = Some(encoder);
        }
    }
}

/// The highest level of zstd whose encoder is kept: beyond it the coding itself takes far longer than a start.
const KEPT_ZSTD_LEVEL_MAX: u32 = 6;
