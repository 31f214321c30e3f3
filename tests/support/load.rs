//! An open-loop load: requests arrive at a fixed rate whether or not earlier ones have been answered.
//!
//! Each arrival is a connection of its own with one request; a client without an answer after its patience leaves by
//! closing. Latencies run from the moment at which the arrival was due, so a generator that falls behind does not
//! flatter the server.

use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// What is sent, how often, for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load<'a> {
    /// Where to.
    pub(crate) addr: SocketAddr,
    /// The path of each request.
    pub(crate) path: &'a str,
    /// Arrivals a second.
    pub(crate) rate: f64,
    /// How long requests arrive.
    pub(crate) duration: Duration,
    /// How long a client waits for its answer; `None` waits to the end.
    pub(crate) patience: Option<Duration>,
}

/// What became of one arrival.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When it was due, after the begin of the load.
    pub(crate) due: Duration,
    /// The status; 0 for a client that left or was not served.
    pub(crate) status: u16,
    /// From the moment it was due to its answer or its leaving.
    pub(crate) latency: Duration,
}

struct Caller {
    socket: TcpStream,
    due: Duration,
    answer: Vec<u8>,
    is_sent: bool,
}

impl Load<'_> {
    /// Sends the load and waits until each arrival has its answer or has left.
    pub(crate) fn run(self) -> Vec<Sample> {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(1024);
        let mut callers: slab::Slab<Caller> = slab::Slab::new();
        let mut samples = Vec::new();
        // The earliest leaving first; a key may have been used again since, so the due time tells.
        let mut leavings: BinaryHeap<std::cmp::Reverse<(Duration, usize, Duration)>> = BinaryHeap::new();
        let request = format!("GET {} HTTP/1.1\r\nHost: load\r\nConnection: close\r\n\r\n", self.path);
        let begin = Instant::now();
        let mut arrived = 0_u32;
        loop {
            let now = begin.elapsed();
            let mut next = Duration::from_secs_f64(f64::from(arrived) / self.rate);
            while next <= now && next < self.duration {
                let entry = callers.vacant_entry();
                let key = entry.key();
                let mut socket = TcpStream::connect(self.addr).unwrap();
                let both = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(&mut socket, Token(key), both).unwrap();
                entry.insert(Caller { socket, due: next, answer: Vec::new(), is_sent: false });
                if let Some(patience) = self.patience {
                    leavings.push(std::cmp::Reverse((next + patience, key, next)));
                }
                arrived += 1;
                next = Duration::from_secs_f64(f64::from(arrived) / self.rate);
            }
            if next >= self.duration && callers.is_empty() {
                return samples;
            }
            let until_leaving = leavings.peek().map(|leaving| leaving.0.0.saturating_sub(now));
            let until_arrival = (next < self.duration).then(|| next.saturating_sub(now));
            let timeout = until_leaving.into_iter().chain(until_arrival).min();
            poll.poll(&mut events, Some(timeout.unwrap_or(Duration::from_secs(30)))).unwrap();
            for event in &events {
                let Some(caller) = callers.get_mut(event.token().0) else { continue };
                if let Some(status) = caller.step(request.as_bytes()) {
                    let caller = callers.remove(event.token().0);
                    samples.push(Sample { due: caller.due, status, latency: begin.elapsed() - caller.due });
                }
            }
            let now = begin.elapsed();
            while leavings.peek().is_some_and(|leaving| leaving.0.0 <= now) {
                let Some(std::cmp::Reverse((_, key, due))) = leavings.pop() else { break };
                if callers.get(key).is_some_and(|caller| caller.due == due) {
                    callers.remove(key);
                    samples.push(Sample { due, status: 0, latency: now - due });
                }
            }
        }
    }
}

impl Caller {
    /// Sends and reads what can be; returns the status at the end of the answer.
    fn step(&mut self, request: &[u8]) -> Option<u16> {
        if !self.is_sent {
            match self.socket.write(request) {
                Ok(count) => {
                    assert_eq!(count, request.len(), "a request fits the socket");
                    self.is_sent = true;
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected) => {
                    return None;
                }
                Err(_) => return Some(0),
            }
        }
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return Some(self.status()),
                Ok(count) => self.answer.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(_) => return Some(0),
            }
        }
    }

    fn status(&self) -> u16 {
        let text = self.answer.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
        text.and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}
