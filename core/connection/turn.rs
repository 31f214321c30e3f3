//! The turn of one request: runs its steps, whose results its protocol carries out.
//!
//! A step means the same in both protocols. The turn keeps no state; that is in the stream and its carrier.

use std::time::Instant;

use crate::http::Fields;
use crate::pool::End;

use super::command::Ask;
use super::output::Output;
use super::stream::{Stream, StreamStep};

/// The part of a protocol that carries a request.
pub(super) trait Carrier<R> {
    /// Returns the output of the response.
    fn output(&mut self) -> &mut Output;

    /// Restarts the write timeout, if no output is pending.
    fn note_step(&mut self, now: Instant);

    /// Feeds received bytes to the body.
    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> CarrierProgress;

    /// Encodes an informational response.
    fn interim(&mut self, stream: &Stream<R>, status: u16, fields: &Fields);

    /// Makes room in the output.
    fn make_room(&mut self, stream: &mut Stream<R>, now: Instant) -> CarrierProgress;
}

/// The result of a carrier's action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CarrierProgress {
    /// Nothing more can be done for now.
    Blocked,
    /// The peer has gone.
    Gone,
    /// Another step is possible.
    Moved,
    /// Read from the socket first.
    Read,
    /// Write the output first.
    Transmit,
}

/// The outcome of a turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// An action for the owner; then the turn continues.
    Ask(Ask),
    /// Nothing more can be done for now.
    Blocked,
    /// The reply has ended; all of it is in the output.
    End(End),
    /// The peer has gone.
    Lost,
    /// Read from the socket; then the turn continues.
    Read,
    /// Write the output; then the turn continues.
    Transmit,
    /// All steps of the turn are used up.
    Yield,
}

/// Runs up to `steps` steps of `stream`.
pub(super) fn take_turn<R>(
    stream: &mut Stream<R>,
    carrier: &mut impl Carrier<R>,
    steps: &mut u32,
    now: Instant,
) -> Turn {
    while let Some(left) = steps.checked_sub(1) {
        *steps = left;
        carrier.note_step(now);
        let progress = match stream.step(carrier.output()) {
            StreamStep::Ask(ask) => return Turn::Ask(ask),
            StreamStep::Bytes => carrier.feed_body(stream, now),
            StreamStep::End(end) => return Turn::End(end),
            StreamStep::Interim(status, fields) => {
                carrier.interim(stream, status, &fields);
                CarrierProgress::Moved
            }
            StreamStep::Lost => CarrierProgress::Gone,
            StreamStep::Room => carrier.make_room(stream, now),
            StreamStep::Wait => CarrierProgress::Blocked,
        };
        match progress {
            CarrierProgress::Blocked => return Turn::Blocked,
            CarrierProgress::Gone => return Turn::Lost,
            CarrierProgress::Moved => {}
            CarrierProgress::Read => return Turn::Read,
            CarrierProgress::Transmit => return Turn::Transmit,
        }
    }
    Turn::Yield
}
