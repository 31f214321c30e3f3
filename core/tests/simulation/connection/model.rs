//! The required results of each request, independent of the machine: a few numbers for each.

use svc_core::connection::{Announced, Ended};

use super::plan::{Asked, PAGE, REPLIED, run};

/// The model of one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) stream: u32,
    pub(crate) is_begun: bool,
    /// Whether no permit was available.
    pub(crate) is_refused: bool,
    /// Whether the machine reported it as unreadable.
    pub(crate) is_unreadable: bool,
    pub(crate) ended: Option<(u64, bool)>,
    pub(crate) told: Option<Told>,
    /// The number of body bytes that its response has.
    pub(crate) supplied: usize,
    /// Whether its response or the source of the body breaks off.
    pub(crate) is_broken: bool,
    /// Whether the client has reset it.
    pub(crate) is_reset: bool,
}

/// The head of a response as announced by the owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) status: u16,
    pub(crate) length: Option<u64>,
    pub(crate) has_body: bool,
    pub(crate) head_only: bool,
    pub(crate) page: Option<usize>,
}

/// A response as seen by a reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) body: usize,
    pub(crate) is_complete: bool,
    /// Whether it ends with the connection.
    pub(crate) is_until_close: bool,
    pub(crate) is_reset: bool,
    pub(crate) keeps: bool,
    pub(crate) interims: usize,
}

impl Record {
    /// Returns the number of body bytes that a client gets if it gets all.
    pub(crate) fn body_bytes(&self) -> usize {
        let Some(told) = self.told.filter(|told| told.has_body) else { return 0 };
        let supplied = told.page.unwrap_or(self.supplied);
        told.length.map_or(supplied, |length| supplied.min(length as usize))
    }

    /// Returns whether the response has the length that its head announces.
    pub(crate) fn is_whole(&self) -> bool {
        let is_short = self.told.is_some_and(|told| {
            told.has_body
                && told.page.is_none()
                && told.length.is_some_and(|length| length > self.supplied as u64)
        });
        !self.is_broken && !is_short
    }
}

/// All requests of a connection.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) records: Vec<Record>,
    /// Whether the connection was ended early on purpose, which excuses missing data.
    pub(crate) is_excused: bool,
    pub(crate) is_closed: bool,
}

impl Model {
    pub(crate) fn new(requests: &[Asked]) -> Self {
        Self { records: vec![Record::default(); requests.len()], is_excused: false, is_closed: false }
    }

    pub(crate) fn begin(&mut self, number: usize, stream: u32) {
        assert!(!self.is_closed, "request {number} begins after the end");
        let record = &mut self.records[number];
        assert!(!record.is_begun, "request {number} begins twice");
        (record.is_begun, record.stream) = (true, stream);
    }

    pub(crate) fn announce(&mut self, number: usize, announced: &Announced, head_only: bool) {
        let record = &mut self.records[number];
        assert!(record.told.is_none(), "request {number} is answered twice");
        assert!(record.ended.is_none(), "request {number} is answered after its end");
        let (status, length, has_body) = (announced.status, announced.length, announced.has_body);
        let page = announced.page.as_ref().map(Vec::len);
        record.told = Some(Told { status, length, has_body, head_only, page });
    }

    pub(crate) fn end(&mut self, number: usize, ended: Ended) {
        let record = &mut self.records[number];
        assert!(record.is_begun, "request {number} ends before it begins");
        assert!(record.ended.is_none(), "request {number} ends twice");
        assert_eq!(record.stream, ended.stream, "request {number} ends as another");
        record.ended = Some((ended.sent_bytes, ended.is_lost));
    }

    /// Handles the close of the connection.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        for (number, record) in self.records.iter().enumerate() {
            assert!(record.ended.is_some() || !record.is_begun, "request {number} never ends: {record:?}");
        }
    }

    pub(crate) fn begun(&self) -> usize {
        self.records.iter().filter(|record| record.is_begun).count()
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, &Record)> {
        self.records.iter().enumerate().filter(|(_, record)| record.is_begun && record.ended.is_none())
    }

    /// Checks the head of a response.
    pub(crate) fn check_head(&self, number: usize, status: u16) {
        let told = self.records[number].told;
        assert_eq!(told.map(|told| told.status), Some(status), "request {number} got another status");
    }

    /// Checks received bytes of a body.
    pub(crate) fn check_body(&self, number: usize, seen: &mut Seen, bytes: &[u8]) {
        let told = self.records[number].told.expect("a body has a head");
        let salt = number as u32 + if told.page.is_some() { PAGE } else { REPLIED };
        let expected = run(salt, seen.body, bytes.len());
        if bytes != expected {
            let index = bytes.iter().zip(expected).position(|(found, due)| found != due).unwrap_or(0);
            panic!("byte {} of the body of {number} is another's", seen.body + index);
        }
        seen.body += bytes.len();
        let whole = self.records[number].body_bytes();
        assert!(seen.body <= whole, "request {number} got {} bytes of {whole}", seen.body);
    }

    /// Checks a response that is complete from the client's point of view.
    pub(crate) fn check_complete(&self, number: usize, seen: &Seen, by_length: bool) {
        let record = &self.records[number];
        assert!(
            by_length || record.is_whole(),
            "the client of {number} cannot tell that its response is cut: {record:?}"
        );
        let whole = record.body_bytes();
        assert_eq!(seen.body, whole, "the client of {number} takes a part for the whole: {record:?}");
    }
}
