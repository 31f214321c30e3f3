//! The client side of FastCGI in front of hundreds of random responders.
//!
//! A responder is a list of outputs: a header, a body and messages, cut into records of any size with any padding,
//! with records of unknown types between them. The bytes arrive in random parts. The model is the list itself: the machine
//! must return the same texts, whatever the records and parts were. Then the bytes are damaged, and the machine must not
//! return more than was sent before a fault. A failure names its seed.

use svc_core::fastcgi::{Connection, Event, Fault};
use svc_testing::dice::Dice;

/// The number of histories.
const SEEDS: u64 = 400;

/// The parts of one response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    lines: Vec<Vec<u8>>,
    body: Vec<u8>,
    messages: Vec<u8>,
    app_status: Option<u32>,
}

fn text(dice: &mut Dice, len_max: u64) -> Vec<u8> {
    (0..dice.below(len_max + 1)).map(|_| b'a' + dice.below(26) as u8).collect()
}

fn record(dice: &mut Dice, kind: u8, content: &[u8], out: &mut Vec<u8>) {
    let padding = if dice.one_in(2) { 0 } else { dice.below(256) as u8 };
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    let id = u8::from(kind <= 7 || dice.one_in(2));
    out.extend_from_slice(&[1, kind, 0, id, high, low, padding, dice.roll() as u8]);
    out.extend_from_slice(content);
    out.extend((0..padding).map(|_| 1));
}

/// Appends a stream as records of any size, with other records between them.
fn stream(dice: &mut Dice, mut content: &[u8], said: &mut Said, out: &mut Vec<u8>) {
    while !content.is_empty() {
        match dice.below(8) {
            0 => {
                let message = text(dice, 40);
                record(dice, 7, &message, out);
                said.messages.extend_from_slice(&message);
            }
            1 => {
                let (kind, noise) = (12 + dice.below(200) as u8, text(dice, 300));
                record(dice, kind, &noise, out);
            }
            2 => record(dice, 6, b"", out),
            _ => {
                let sizes = [1, 2, 7, 100, 65_535];
                let most = sizes[dice.below(sizes.len() as u64) as usize].min(content.len());
                let (part, rest) = content.split_at(1 + dice.below(most as u64) as usize);
                record(dice, 6, part, out);
                content = rest;
            }
        }
    }
}

/// Makes a response and its bytes.
fn response(dice: &mut Dice) -> (Said, Vec<u8>) {
    let (mut said, mut out) = (Said::default(), Vec::new());
    let mut content = Vec::new();
    for _ in 0..dice.below(6) {
        let line = [b"X-", &*text(dice, 20), b": ", &*text(dice, 60)].concat();
        content.extend_from_slice(&line);
        content.extend_from_slice(if dice.one_in(3) { b"\n" } else { b"\r\n" });
        said.lines.push(line);
    }
    content.extend_from_slice(b"\r\n");
    let len_max = if dice.one_in(4) { 200_000 } else { 300 };
    said.body = text(dice, len_max);
    content.extend_from_slice(&said.body);
    stream(dice, &content, &mut said, &mut out);
    let app_status = dice.roll() as u32;
    record(dice, 3, &[&app_status.to_be_bytes()[..], &[0; 4]].concat(), &mut out);
    said.app_status = Some(app_status);
    (said, out)
}

/// Passes bytes in random parts to the machine.
fn receive(dice: &mut Dice, connection: &mut Connection, mut bytes: &[u8]) -> (Said, Result<(), Fault>) {
    let mut seen = Said::default();
    while !bytes.is_empty() {
        let most = if dice.one_in(3) { 9 } else { 100_000 };
        let (mut part, rest) = bytes.split_at(bytes.len().min(1 + dice.below(most) as usize));
        bytes = rest;
        loop {
            match connection.receive(&mut part) {
                Ok(None) => break,
                Ok(Some(Event::Head(head))) => {
                    assert_eq!((head.status, head.status_line), (200, &b""[..]));
                    seen.lines = head.lines.iter().map(|line| line.to_vec()).collect();
                }
                Ok(Some(Event::Body(body))) => seen.body.extend_from_slice(body),
                Ok(Some(Event::Stderr(message))) => seen.messages.extend_from_slice(message),
                Ok(Some(Event::End { app_status })) => seen.app_status = Some(app_status),
                Err(fault) => return (seen, Err(fault)),
            }
        }
        assert!(part.is_empty(), "the machine takes all bytes");
    }
    (seen, Ok(()))
}

#[test]
fn responses_arrive_as_they_were_said() {
    for seed in 0..SEEDS {
        let dice = &mut Dice::new(seed);
        let mut connection = Connection::new(true);
        for number in 0..1 + dice.below(4) {
            let mut out = Vec::new();
            connection.begin([(&b"A"[..], &b"b"[..])], &mut out);
            connection.put_body(&text(dice, 100), &mut out);
            connection.end_body(&mut out);
            let (said, bytes) = response(dice);
            let (seen, outcome) = receive(dice, &mut connection, &bytes);
            assert_eq!((outcome, &seen), (Ok(()), &said), "seed {seed}, response {number}");
            assert!(connection.is_idle() && connection.closed().is_none(), "seed {seed}");
        }
    }
}

#[test]
fn a_damaged_response_is_a_fault_or_contains_sent_bytes_only() {
    let mut faults = 0;
    for seed in 0..SEEDS {
        let dice = &mut Dice::new(seed);
        let mut connection = Connection::new(true);
        let mut out = Vec::new();
        connection.begin([], &mut out);
        connection.end_body(&mut out);
        let (said, mut bytes) = response(dice);
        // Damage to content goes unnoticed, and most bytes are content.
        let within = if dice.one_in(2) { 64 } else { bytes.len() as u64 };
        let at = dice.below(within.min(bytes.len() as u64)) as usize;
        if dice.one_in(2) {
            bytes.truncate(at);
        } else {
            bytes[at] ^= 1 << dice.below(8);
        }
        let (seen, outcome) = receive(dice, &mut connection, &bytes);
        faults += u32::from(outcome.is_err());
        if outcome.is_ok() && seen.app_status.is_none() {
            assert_eq!(connection.closed(), Some(Fault::Closed), "seed {seed}");
        }
        let of_streams = |said: &Said| said.body.len() + said.messages.len();
        // A changed length may turn other bytes into content, but never more than there are.
        assert!(of_streams(&seen) <= bytes.len().max(of_streams(&said)), "seed {seed}");
    }
    assert!(faults > 10, "damage is found: {faults}");
}
