//! Recording the response of an exchange while it is sent.
//!
//! The worker passes the head to the recorder before any coding, copies the body if the recorder wants it, and hands
//! over the complete response at its end. The recorder does not change a response, except that it may replace it before
//! anything was sent.

use crate::http::{Fields, Head};

use super::response_part::ResponseHead;

/// The recorder's decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Send it, and do not record it.
    Nothing,
    /// Do not send it: the I/O thread has another response. [`ResponseHead::replaced`] is sent instead of the head.
    Replaced,
    /// Send it, and copy its body up to this number of bytes.
    UpTo(usize),
}

/// Why a response that was being recorded is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The client left, and the script ended early.
    ClientLeft,
    /// The script failed, or the body is not as long as announced.
    Failed,
    /// It is too long, or may not be stored.
    Unstorable,
}

/// A complete response of a script.
#[derive(Debug)]
pub struct RecordedResponse {
    /// The status code.
    pub status: u16,
    /// The reason phrase, if the script has set one.
    pub reason: Option<Vec<u8>>,
    /// The fields as the script has set them.
    pub fields: Fields,
    /// The body, without content coding.
    pub body: Vec<u8>,
}

/// Records the response of one exchange. The worker makes all calls; the last one is [`complete`](Self::complete) or
/// [`give_up`](Self::give_up). If the worker is lost or does not react to its time limit, the thread that answers on its
/// behalf calls [`begin`](Self::begin), and later calls of the worker have no effect.
pub trait ResponseRecorder: Send + Sync + std::fmt::Debug {
    /// Notes that the worker begins to run the script. A script that is looked up anew begins twice.
    fn start(&self);

    /// Takes the head, before anything was sent.
    fn begin(&self, head: &ResponseHead) -> Recording;

    /// Takes the complete response to `request`, before its end is sent. Returns whether the I/O thread has a replacement for
    /// it. If no part was sent, [`ResponseHead::replaced`] makes the thread send the replacement.
    fn complete(&self, request: &Head, response: RecordedResponse) -> bool;

    /// Notes that the response is not recorded to its end.
    fn give_up(&self, end: RecordingEnd);
}
