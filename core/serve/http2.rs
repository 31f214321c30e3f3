//! HTTP/2 is recognised by its preface; a connection that speaks it is closed.

use std::time::Instant;

use crate::sync::primitive::Arc;

use super::io::Io;
use super::link::Step;
use super::output::Output;
use super::stream::{Ends, Stream};
use super::wire::Wire;

/// A connection that speaks HTTP/2.
#[derive(Debug)]
pub(super) struct Http2;

/// What a client sends first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether a connection begins as HTTP/2 does.
pub(super) fn is_preface(input: &[u8]) -> bool {
    input.starts_with(PREFACE)
}

/// Whether a connection may yet begin as HTTP/2 does.
pub(super) fn is_preface_or_part(input: &[u8]) -> bool {
    is_preface(input) || PREFACE.starts_with(input)
}

impl Http2 {
    pub(super) fn new(_connection: u64, _ends: Arc<Ends>, _input: &[u8], _now: Instant) -> Self {
        Self
    }

    pub(super) fn visit(&mut self, _stream: u32, _act: impl FnOnce(&mut Stream, &mut Output)) {}

    pub(super) fn visit_all(&mut self, _act: impl FnMut(&mut Stream)) {}

    pub(super) fn step(&mut self, _wire: &mut Wire, _io: &mut Io) -> Step {
        Step::Close
    }

    pub(super) fn deadline(&self, _io: &Io) -> Option<Instant> {
        None
    }

    pub(super) fn on_deadline(&mut self, _io: &mut Io) -> Step {
        Step::Close
    }

    pub(super) fn lose(&mut self, _io: &Io) {}
}
