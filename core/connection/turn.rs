//! The turn of one request: it takes steps, and its protocol carries out what they lead to.
//!
//! Promises: both protocols mean the same by a step. Refuses: it keeps nothing; what a turn leaves is the stream's and
//! its carrier's.

use std::time::Instant;

use crate::http::Fields;
use crate::pool::End;

use super::command::Ask;
use super::output::Output;
use super::stream::{Stream, StreamStep};

/// How a protocol carries a request.
pub(super) trait Carrier<R> {
    /// Where the response goes.
    fn output(&mut self) -> &mut Output;

    /// If nothing waits for the peer: from now on it may be waited for.
    fn note_step(&mut self, now: Instant);

    /// Feeds what has come of the body.
    fn feed_body(&mut self, stream: &mut Stream<R>, now: Instant) -> CarrierProgress;

    /// Encodes an informational response.
    fn interim(&mut self, stream: &Stream<R>, status: u16, fields: &Fields);

    /// Makes room in the output.
    fn make_room(&mut self, stream: &mut Stream<R>, now: Instant) -> CarrierProgress;
}

/// What became of something that a step led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CarrierProgress {
    /// There is no more for now.
    Blocked,
    /// The peer is gone.
    Gone,
    /// Another step can be taken.
    Moved,
    /// The socket is to be read.
    Read,
    /// The output is to be written.
    Transmit,
}

/// What a turn ended with.
#[derive(Debug)]
pub(super) enum Turn {
    /// The owner is to do something; then the turn goes on.
    Ask(Ask),
    /// There is nothing more to do for now.
    Blocked,
    /// The reply has ended like this and is in the output.
    End(End),
    /// Nobody is there to be answered.
    Lost,
    /// The socket is to be read; then the turn goes on.
    Read,
    /// The output is to be written; then the turn goes on.
    Transmit,
    /// It has had as many steps as it may.
    Yield,
}

/// Lets `stream` take up to `steps` steps.
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
