//! The compression of one body, piece by piece.
//!
//! After [`flush`](Encoder::flush), a decoder can produce every byte that went in. After [`finish`](Encoder::finish),
//! the coded body is complete; without it, a decoder can detect that the end is missing. The memory of an encoder does
//! not grow with the body:
//!
//! | coding | memory at its default level | maximum memory |
//! |---|---|---|
//! | Brotli | 3.7 MiB | 37 MiB (level 9) |
//! | gzip | 0.4 MiB | 0.4 MiB |
//! | zstd | 1.8 MiB | 5.8 MiB (level 19) |
//!
//! There is no decision here: a body is compressed as requested, even if it grows.

use std::fmt;
use std::io::Write;

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd::stream::raw::{CParameter, Encoder as ZstdContext, InBuffer, Operation, OutBuffer};

use crate::http::Coding;
use crate::limits::{CODED_STEP_BYTES, CODING_WINDOW_LOG, CODING_WINDOW_LOG_MAX};

/// A body that is being compressed.
pub struct Encoder {
    state: EncoderState,
    level: u32,
    taken_bytes: u64,
    given_bytes: u64,
}

/// The library failed because it is out of memory. Its output so far cannot be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncoderFailed;

enum EncoderState {
    /// `None` once the body is complete.
    Brotli(Option<Box<CompressorWriter<Vec<u8>>>>),
    Gzip(Box<Compress>),
    Zstd(ZstdContext<'static>),
}

impl Encoder {
    /// Starts a body in `coding`. Levels above the highest one of the coding count as the highest.
    ///
    /// # Errors
    ///
    /// [`EncoderFailed`] if there is not enough memory.
    pub fn new(coding: Coding, level: u32) -> Result<Self, EncoderFailed> {
        let state = match coding {
            Coding::Brotli => EncoderState::Brotli(Some(Box::new(brotli(level, CODING_WINDOW_LOG, 0)))),
            Coding::Gzip => EncoderState::Gzip(Box::new(gzip(level))),
            Coding::Zstd => {
                let mut context = zstd(level, CODING_WINDOW_LOG)?;
                if level >= ZSTD_LARGE_TABLES_LEVEL {
                    // Without a known length, it allocates tables for a window of megabytes.
                    for table in [CParameter::HashLog, CParameter::ChainLog] {
                        context.set_parameter(table(CODING_WINDOW_LOG + 1)).map_err(|_| EncoderFailed)?;
                    }
                }
                EncoderState::Zstd(context)
            }
        };
        Ok(Self::with(state, level))
    }

    /// Starts a body that is passed in one piece of exactly `length` bytes, with a window that covers all of it.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(super) fn whole(coding: Coding, level: u32, length: usize) -> Result<Self, EncoderFailed> {
        let window_log = usize::BITS - length.leading_zeros();
        let window_log = window_log.clamp(CODING_WINDOW_LOG, CODING_WINDOW_LOG_MAX);
        let state = match coding {
            Coding::Brotli => EncoderState::Brotli(Some(Box::new(brotli(level, window_log, length)))),
            Coding::Gzip => EncoderState::Gzip(Box::new(gzip(level))),
            Coding::Zstd => {
                let mut context = zstd(level, window_log)?;
                // The size of its tables depends on the announced length.
                context.set_pledged_src_size(Some(length as u64)).map_err(|_| EncoderFailed)?;
                EncoderState::Zstd(context)
            }
        };
        Ok(Self::with(state, level))
    }

    fn with(state: EncoderState, level: u32) -> Self {
        Self { state, level, taken_bytes: 0, given_bytes: 0 }
    }

    /// Returns its coding.
    pub fn coding(&self) -> Coding {
        match self.state {
            EncoderState::Brotli(_) => Coding::Brotli,
            EncoderState::Gzip(_) => Coding::Gzip,
            EncoderState::Zstd(_) => Coding::Zstd,
        }
    }

    /// Returns its level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Returns the number of bytes that went in.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes
    }

    /// Returns the number of bytes that came out.
    pub fn given_bytes(&self) -> u64 {
        self.given_bytes
    }

    /// Compresses `bytes` and appends the available output to `out`.
    ///
    /// # Errors
    ///
    /// [`EncoderFailed`]; the body cannot be completed then.
    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.taken_bytes += bytes.len() as u64;
        self.step(out, |state, out| match state {
            _ if bytes.is_empty() => Ok(()),
            EncoderState::Brotli(writer) => with_brotli(writer, out, |writer| writer.write_all(bytes)),
            EncoderState::Gzip(context) => deflate(context, bytes, FlushCompress::None, out),
            EncoderState::Zstd(context) => {
                let mut input = InBuffer::around(bytes);
                while input.pos() < bytes.len() {
                    zstd_step(out, |output| context.run(&mut input, output))?;
                }
                Ok(())
            }
        })
    }

    /// Appends to `out` everything a decoder needs to produce all bytes that went in.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.step(out, |state, out| match state {
            EncoderState::Brotli(writer) => with_brotli(writer, out, Write::flush),
            EncoderState::Gzip(context) => deflate(context, &[], FlushCompress::Sync, out),
            EncoderState::Zstd(context) => {
                while zstd_step(out, |output| context.flush(output))? > 0 {}
                Ok(())
            }
        })
    }

    /// Completes the body.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), EncoderFailed> {
        self.step(out, |state, out| match state {
            EncoderState::Brotli(writer) => {
                let mut writer = writer.take().ok_or(EncoderFailed)?;
                std::mem::swap(writer.get_mut(), out);
                *out = writer.into_inner();
                Ok(())
            }
            EncoderState::Gzip(context) => deflate(context, &[], FlushCompress::Finish, out),
            EncoderState::Zstd(context) => {
                while zstd_step(out, |output| context.finish(output, false))? > 0 {}
                Ok(())
            }
        })
    }

    /// Prepares it for another body, with its allocated memory. Returns whether that is possible; Brotli's library does
    /// not support it.
    pub(super) fn renew(&mut self) -> bool {
        (self.taken_bytes, self.given_bytes) = (0, 0);
        match &mut self.state {
            EncoderState::Brotli(_) => false,
            EncoderState::Gzip(context) => {
                context.reset();
                true
            }
            EncoderState::Zstd(context) => context.reinit().is_ok(),
        }
    }

    fn step(
        &mut self,
        out: &mut Vec<u8>,
        work: impl FnOnce(&mut EncoderState, &mut Vec<u8>) -> Result<(), EncoderFailed>,
    ) -> Result<(), EncoderFailed> {
        let before = out.len();
        let done = work(&mut self.state, out);
        self.given_bytes += (out.len() - before) as u64;
        done
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encoder")
            .field("coding", &self.coding())
            .field("level", &self.level)
            .field("taken_bytes", &self.taken_bytes)
            .field("given_bytes", &self.given_bytes)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for EncoderFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the encoder is out of memory")
    }
}

impl std::error::Error for EncoderFailed {}

/// The window of gzip, as a power of two in bytes.
const GZIP_WINDOW_LOG: u8 = 15;

/// The buffer between Brotli's state and the output, in bytes.
const BROTLI_BUFFER_BYTES: usize = 4096;

/// The zstd level from which its tables would be larger than the window.
const ZSTD_LARGE_TABLES_LEVEL: u32 = 7;

fn brotli(level: u32, window_log: u32, length: usize) -> CompressorWriter<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: level.min(11) as i32,
        lgwin: window_log as i32,
        size_hint: length,
        ..BrotliEncoderParams::default()
    };
    CompressorWriter::with_params(Vec::new(), BROTLI_BUFFER_BYTES, &params)
}

fn gzip(level: u32) -> Compress {
    Compress::new_gzip(Compression::new(level.min(9)), GZIP_WINDOW_LOG)
}

fn zstd(level: u32, window_log: u32) -> Result<ZstdContext<'static>, EncoderFailed> {
    let mut context = ZstdContext::new(level.min(22) as i32).map_err(|_| EncoderFailed)?;
    context.set_parameter(CParameter::WindowLog(window_log)).map_err(|_| EncoderFailed)?;
    Ok(context)
}

/// Lends `out` to the writer, which owns its output during the call.
fn with_brotli(
    writer: &mut Option<Box<CompressorWriter<Vec<u8>>>>,
    out: &mut Vec<u8>,
    work: impl FnOnce(&mut CompressorWriter<Vec<u8>>) -> std::io::Result<()>,
) -> Result<(), EncoderFailed> {
    let writer = writer.as_mut().ok_or(EncoderFailed)?;
    std::mem::swap(writer.get_mut(), out);
    let done = work(writer);
    std::mem::swap(writer.get_mut(), out);
    done.map_err(|_| EncoderFailed)
}

fn deflate(
    context: &mut Compress,
    mut bytes: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(), EncoderFailed> {
    loop {
        reserve(out, bytes.len());
        let before = context.total_in();
        let status = context.compress_vec(bytes, out, flush).map_err(|_| EncoderFailed)?;
        bytes = &bytes[(context.total_in() - before) as usize..];
        // Unused space means that the encoder holds nothing back.
        let is_done = if flush == FlushCompress::Finish {
            status == Status::StreamEnd
        } else {
            bytes.is_empty() && out.len() < out.capacity()
        };
        if is_done {
            return Ok(());
        }
    }
}

fn zstd_step(
    out: &mut Vec<u8>,
    work: impl FnOnce(&mut OutBuffer<'_, Vec<u8>>) -> std::io::Result<usize>,
) -> Result<usize, EncoderFailed> {
    reserve(out, 0);
    let at = out.len();
    work(&mut OutBuffer::around_pos(out, at)).map_err(|_| EncoderFailed)
}

/// Reserves the space that this many bytes may need; more is reserved when it is full.
fn reserve(out: &mut Vec<u8>, bytes: usize) {
    if out.len() == out.capacity() {
        out.reserve((bytes / 2).clamp(CODED_STEP_BYTES / 16, CODED_STEP_BYTES));
    }
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
