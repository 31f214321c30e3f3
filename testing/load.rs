//! An open-loop load: requests arrive at a fixed rate whether or not earlier ones have been answered.
//!
//! Each arrival is a new connection with one request. A client whose patience ends without a response disconnects.
//! Latencies are measured from the time at which the arrival was due, so a generator that falls behind does not flatter the
//! server.

use std::collections::BinaryHeap;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// The load to apply.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// The address of the server.
    pub addr: SocketAddr,
    /// The path of each request.
    pub path: &'a str,
    /// Arrivals per second.
    pub rate: f64,
    /// The duration of the load.
    pub duration: Duration,
    /// How long a client waits for its response; `None` means without a limit.
    pub patience: Option<Duration>,
}

/// The result of one arrival.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was due, relative to the start of the load.
    pub due: Duration,
    /// The status; 0 for a client that disconnected or was not served.
    pub status: u16,
    /// The time from when it was due to its response or disconnection.
    pub latency: Duration,
}

struct Caller {
    socket: TcpStream,
    due: Duration,
    answer: Vec<u8>,
    is_sent: bool,
}

impl Load<'_> {
    /// Applies the load and waits until each arrival has its response or has disconnected.
    pub fn run(self) -> Vec<Sample> {
        let mut poll = Poll::new().unwrap();
        let mut events = Events::with_capacity(1024);
        let mut callers: slab::Slab<Caller> = slab::Slab::new();
        let mut samples = Vec::new();
        // The earliest disconnection comes first. A key may have been reused, so the due time identifies the arrival.
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
    /// Sends and reads as much as possible; returns the status at the end of the response.
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
