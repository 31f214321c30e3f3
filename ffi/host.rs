//! How the server takes part in a request: the calls that PHP makes, with plain Rust types.

use std::marker::PhantomData;

use crate::outcome::Outcome;

/// Takes part in one request. All calls come on the thread that runs it, one at a time.
///
/// A call must not run PHP. It may wait (for room, for a disk); it must not wait for this request.
pub trait Host {
    /// The script wrote `output`. False: nobody reads it any more, and the script may be ended.
    fn write(&mut self, output: &[u8]) -> bool;
    /// Whether the client has hung up.
    fn is_gone(&self) -> bool;
    /// Whether `write` would hold the thread until its reader has made room.
    fn is_crowded(&self) -> bool;
    /// The script wants what it wrote to reach the client now. False: nobody reads it any more.
    fn flush(&mut self) -> bool;
    /// Status and fields, once, before the first output.
    fn send_head(&mut self, head: &Head<'_>);
    /// An informational response; the final one is still to come.
    fn send_interim(&mut self, head: &Head<'_>);
    /// The response ends here although the script goes on.
    fn finish(&mut self);
    /// `max_execution_time` has ended the script: the response ends here, shutdown functions still run.
    fn time_limit(&mut self);
    /// Copies bytes of the body to `buffer`; returns how many, 0 at its end.
    fn read_body(&mut self, buffer: &mut [u8]) -> usize;
    /// Appends the variables of `$_SERVER`.
    fn variables(&mut self, out: &mut Pairs);
    /// Appends the request's fields as they came.
    fn fields(&mut self, out: &mut Pairs);
    /// Copies bytes of the body from `offset` on to `buffer`; does not change what [`read_body`](Self::read_body) comes
    /// to next. Returns how many, 0 at its end.
    fn read_body_at(&mut self, buffer: &mut [u8], offset: u64) -> usize;
    /// Path and query as they came.
    fn target(&mut self) -> &[u8];
    /// The client's address.
    fn client(&mut self) -> &[u8];
    /// The request's name in logs.
    fn request_id(&mut self) -> &[u8];
    /// One log record of this request.
    fn log(&mut self, record: &Log<'_>);
}

/// Takes part in one request of a worker, and is kept while the request waits.
pub trait WorkerRequest: Host {
    /// The request waits without its thread from now on.
    fn parks(&mut self);
    /// It goes on.
    fn resumes(&mut self);
    /// Its reply has ended so. Destructors run now, and may wait; when nothing of the request is left, the visit is dropped.
    fn ended(&mut self, outcome: Outcome);
}

/// Takes part in the life of a worker: its own calls come when its script serves, those of [`Host`] while it boots and
/// ends.
pub trait WorkerHost: Host {
    /// The script waits for requests: begins them, resumes them, sleeps; returns when the worker ends and no request is
    /// left.
    fn serve(&mut self, visits: &mut WorkerRequests);
    /// The script waits for one request: runs one [`here`](WorkerRequests::here), and returns false when there is none because
    /// the worker ends.
    fn serve_one(&mut self, visits: &mut WorkerRequests) -> bool;
}

/// The requests that the calling thread's worker carries.
#[derive(Debug)]
pub struct WorkerRequests {
    /// Neither `Send` nor `Sync`: fibers stay on their thread.
    _thread: PhantomData<*const ()>,
}

impl WorkerRequests {
    /// For the callbacks, which come on the worker's thread while its script serves.
    pub(crate) fn of_this_thread() -> Self {
        Self { _thread: PhantomData }
    }
}

/// Status and fields of a response, as PHP keeps them.
#[derive(Debug)]
pub struct Head<'a> {
    /// The status code, as the script set it; not checked.
    pub status: i32,
    /// The whole line given with `header("HTTP/1.1 404 ...")`, or empty.
    pub status_line: &'a [u8],
    /// Each one `Name: value`; not checked.
    pub lines: Vec<&'a [u8]>,
}

/// Where a log record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// An error of the engine, with PHP's `E_` constant.
    Error(i32),
    /// `error_log()` and messages without a type, with their syslog priority.
    Message(i32),
    /// `frankenphp_log()`, with the level that the script gave.
    Script(ScriptLevel),
}

/// How important a script says that its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptLevel {
    /// Below what it wants to see every day.
    Debug,
    /// Worth knowing.
    Info,
    /// Somebody may have to look.
    Warning,
    /// Somebody has to look.
    Error,
}

/// One log record.
#[derive(Debug)]
pub struct Log<'a> {
    /// Where it comes from.
    pub source: LogSource,
    /// The text, without PHP's prefix and without the place.
    pub message: &'a [u8],
    /// What a script has added to it as JSON, or empty.
    pub context: &'a [u8],
    /// The script file, or empty.
    pub file: &'a [u8],
    /// The line in `file`, or 0.
    pub line: u32,
}

/// A list of names and values in one buffer, reused from request to request.
#[derive(Debug, Default)]
pub struct Pairs {
    bytes: Vec<u8>,
    /// Ends of name and value of each pair in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    /// Appends a pair. Names and values may be any bytes; PHP cuts neither.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(name), value);
    }

    /// Appends a pair whose name `write_name` appends to the buffer.
    pub fn push_with(&mut self, write_name: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        write_name(&mut self.bytes);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let pair = (&self.bytes[start..name_end], &self.bytes[name_end..value_end]);
            start = value_end;
            pair
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order() {
        let mut pairs = Pairs::default();
        pairs.push(b"A", b"1");
        pairs.push(b"B", b"");
        pairs.push_with(|name| name.extend_from_slice(b"C_D"), b"3");
        let all: Vec<_> = pairs.iter().collect();
        assert_eq!(all, [(&b"A"[..], &b"1"[..]), (b"B", b""), (b"C_D", b"3")]);
        pairs.clear();
        assert!(pairs.is_empty());
    }
}
