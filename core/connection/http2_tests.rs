//! The arrows of the diagram, driven over real frames.

use super::{Arc, Http2};
use crate::connection::harness::{Bench, Rest, answer, frame, greeting, request, seconds};
use crate::connection::{Ask, Decision};

const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// A connection on which both sides have greeted.
fn open() -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.send(&greeting()), Rest::Wait);
    assert!(bench.connection.is_multiplexed());
    bench
}

/// The kinds and streams of the frames that the peer has been sent since the last call.
fn frames(bench: &mut Bench) -> Vec<(u8, u32)> {
    let (mut rest, mut seen) = (&std::mem::take(&mut bench.taken)[..], Vec::new());
    while let [a, b, c, kind, _, s, t, u, v, ..] = *rest {
        seen.push((kind, u32::from_be_bytes([s, t, u, v])));
        rest = &rest[9 + u32::from_be_bytes([0, a, b, c]) as usize..];
    }
    seen
}

#[test]
fn greeting_waits_for_its_rest() {
    let mut bench = Bench::new();
    for byte in greeting() {
        assert_eq!(bench.send(&[byte]), Rest::Wait);
    }
    assert!(frames(&mut bench).contains(&(SETTINGS, 0)));
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(40)), "it is open, and idle");
}

#[test]
fn greeting_that_ends_within_a_frame_is_late_like_a_head() {
    let mut bench = Bench::new();
    bench.send(&greeting()[..26]);
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(10)));
    assert_eq!(bench.time_out(), Rest::Wait, "it is thrown out, and lingers");
    assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
    assert!(matches!(bench.time_out(), Rest::Close { .. }));
}

#[test]
fn open_answers_streams_as_their_replies_come() {
    let mut bench = open();
    bench.send(&[request(1, "GET", true), request(3, "GET", true)].concat());
    frames(&mut bench);
    bench.decide(3, Decision::Answer(answer("three")));
    assert_eq!(frames(&mut bench), [(1, 3), (DATA, 3)]);
    bench.decide(1, Decision::Answer(answer("one")));
    assert_eq!(frames(&mut bench), [(1, 1), (DATA, 1)]);
    let ends: Vec<_> = bench.ended.iter().map(|it| (it.stream, it.sent_bytes, it.is_lost)).collect();
    assert_eq!(ends, [(3, 5, false), (1, 3, false)]);
}

#[test]
fn open_loses_what_its_peer_calls_off() {
    let mut bench = open();
    bench.send(&request(1, "POST", false));
    bench.decide(1, Decision::ReadBody);
    bench.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert!(matches!(bench.ended[..], [ended] if ended.stream == 1 && ended.is_lost));
    bench.decide(1, Decision::Answer(answer("late")));
    assert_eq!(bench.ended.len(), 1, "what comes late changes nothing");
}

#[test]
fn open_says_goodbye_when_it_is_idle_for_too_long() {
    let mut bench = open();
    frames(&mut bench);
    assert_eq!(bench.time_out(), Rest::Wait);
    assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
    assert!(matches!(bench.time_out(), Rest::Close { .. }));
}

#[test]
fn open_leads_to_over_when_the_drain_is_done() {
    let mut bench = open();
    bench.send(&request(1, "GET", true));
    bench.is_closing = true;
    assert_eq!(bench.turn(), Rest::Wait);
    bench.decide(1, Decision::Answer(answer("last")));
    assert!(matches!(bench.ended[..], [ended] if !ended.is_lost));
    assert!(matches!(bench.send_end(), Rest::Close { .. }));
}

#[test]
fn over_leads_to_lingering_where_the_peer_was_thrown_out() {
    let mut bench = open();
    bench.send(&request(1, "POST", false));
    frames(&mut bench);
    assert_eq!(bench.send(&[0xff; 30]), Rest::Wait, "it lingers");
    assert!(frames(&mut bench).contains(&(GOAWAY, 0)));
    assert!(matches!(bench.ended[..], [ended] if ended.is_lost));
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(2)));
    assert!(matches!(bench.time_out(), Rest::Close { .. }));
}

#[test]
fn nothing_is_left_of_a_connection_whose_streams_were_woken() {
    let http2 = Http2::<u32>::new(&greeting(), crate::time::now());
    let (alarm, set) = (http2.ready.alarm(1), Arc::downgrade(&http2.ready));
    alarm.ring();
    drop(http2);
    alarm.ring();
    drop(alarm);
    assert!(set.upgrade().is_none());
}

#[test]
fn every_stream_ends_once_when_the_connection_is_aborted() {
    let mut bench = open();
    bench.send(&[request(1, "GET", true), request(3, "POST", false)].concat());
    bench.decide(3, Decision::ReadBody);
    assert!(!bench.asked.iter().any(|(_, ask)| matches!(ask, Ask::Offer { .. })));
    bench.connection.abort();
    bench.connection.abort();
    assert!(matches!(bench.turn(), Rest::Close { .. }));
    assert_eq!(
        bench.ended.iter().map(|ended| (ended.stream, ended.is_lost)).collect::<Vec<_>>(),
        [(1, true), (3, true)]
    );
}
