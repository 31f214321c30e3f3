//! One test for each arrow of the diagram, in order.

use crate::connection::harness::{Bench, Rest, answer, file, seconds};
use crate::connection::{Ask, Decision, Input};
use crate::http::NamedFile;
use crate::limits::{DISK_SLICE_BYTES, LINK_STEPS_MAX, STEP_BYTES};
use crate::pool::{End, Origin, Part, ResponseHead};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const POST: &[u8] = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n";

fn serving(head: &[u8]) -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.send(head), Rest::Wait);
    assert_eq!(bench.connection.streams(), [0], "it has begun");
    bench
}

/// Returns the sent bytes and the loss of each ended request.
fn ends(bench: &Bench) -> Vec<(u64, bool)> {
    bench.ended.iter().map(|ended| (ended.sent_bytes, ended.is_lost)).collect()
}

#[test]
fn head_waits_for_its_rest_and_serving_leads_back_to_head() {
    let mut bench = Bench::new();
    for byte in GET {
        assert!(bench.connection.streams().is_empty());
        assert_eq!(bench.send(&[*byte]), Rest::Wait);
    }
    assert_eq!(bench.decide(0, Decision::Respond(answer("abc"))), Rest::Wait);
    assert_eq!((ends(&bench), bench.connection.streams()), (vec![(3, false)], vec![]));
    assert!(bench.text().ends_with("\r\n\r\nabc"));
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(40)), "it is kept");
    assert_eq!(bench.time_out(), Rest::Close { is_whole: true });
}

#[test]
fn head_that_is_malformed_is_refused() {
    let mut bench = serving(b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(bench.decide(0, Decision::Respond(answer("bad"))), Rest::Wait, "it lingers");
    assert_eq!(ends(&bench), [(3, false)]);
    assert_eq!(bench.time_out(), Rest::Close { is_whole: true });
}

#[test]
fn head_that_is_late_is_refused() {
    let mut bench = Bench::new();
    bench.send(&GET[..9]);
    assert_eq!(bench.time_out(), Rest::Wait);
    assert_eq!(bench.connection.streams(), [0]);
}

#[test]
fn serving_leads_through_skipping_where_a_body_is_left() {
    let mut bench = serving(POST);
    bench.decide(0, Decision::Respond(answer("abc")));
    assert_eq!(ends(&bench), [(3, false)], "the answer does not wait for the body");
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(20)));
    bench.send(b"hel");
    assert!(bench.connection.streams().is_empty());
    bench.send(&[b"lo", GET].concat());
    assert_eq!(bench.connection.streams(), [0], "the next request begins behind it");
}

#[test]
fn skipping_ends_with_its_deadline() {
    let mut bench = serving(POST);
    bench.decide(0, Decision::Respond(answer("abc")));
    assert_eq!(bench.time_out(), Rest::Close { is_whole: true });
}

#[test]
fn serving_leads_to_lingering_where_a_body_is_refused() {
    let mut bench = serving(POST);
    assert_eq!(bench.decide(0, Decision::Refuse(answer("no"))), Rest::Wait);
    assert_eq!(ends(&bench), [(2, false)]);
    assert_eq!(bench.send(&[b"hello", GET].concat()), Rest::Wait);
    assert_eq!(bench.connection.take_received(), 5, "what belongs to the body is counted");
    assert!(bench.connection.streams().is_empty(), "no further stream begins");
    assert_eq!(bench.send_end(), Rest::Close { is_whole: true });
}

#[test]
fn serving_leads_to_over_where_nothing_is_on_its_way() {
    let mut bench = serving(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    bench.peer.is_closed = true;
    assert_eq!(bench.decide(0, Decision::Respond(answer("abc"))), Rest::Close { is_whole: true });
}

#[test]
fn serving_leads_to_aborting_where_the_peer_is_gone() {
    let mut bench = serving(POST);
    bench.decide(0, Decision::ReadBody);
    assert_eq!(bench.send_end(), Rest::Close { is_whole: false });
    assert_eq!(ends(&bench), [(0, true)]);
    assert_eq!(bench.turn(), Rest::Close { is_whole: false }, "once");
    assert_eq!(bench.ended.len(), 1);
}

#[test]
fn aborting_counts_the_bytes_that_were_sent() {
    let mut bench = serving(GET);
    bench.room = 0;
    bench.decide(0, Decision::Respond(answer(&"x".repeat(1000))));
    bench.room = 300;
    bench.turn();
    bench.handle(Input::Abort);
    assert_eq!(bench.turn(), Rest::Close { is_whole: false });
    let head = bench.text().find("\r\n\r\n").expect("a head") as u64 + 4;
    assert_eq!(ends(&bench), [(300 - head, true)]);
}

#[test]
fn serving_ends_with_a_peer_that_reads_nothing() {
    let mut bench = serving(GET);
    bench.room = 0;
    bench.decide(0, Decision::Respond(answer("abc")));
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(30)));
    assert_eq!(bench.time_out(), Rest::Close { is_whole: false });
    assert_eq!(ends(&bench), [(0, true)]);
}

#[test]
fn serving_waits_no_longer_for_a_worker_because_its_peer_reads_nothing() {
    let mut bench = Bench::new();
    bench.room = 0;
    bench.send(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    bench.decide(0, Decision::ReadBody);
    bench.send(b"hello");
    let until = Some(bench.now + seconds(5));
    bench.decide(0, Decision::Await { until });
    assert_eq!(bench.connection.deadline(), until);
    bench.asked.clear();
    assert_eq!(bench.time_out(), Rest::Wait);
    assert!(matches!(bench.asked.pop(), Some((0, Ask::WaitOver))));
    assert_eq!(bench.time_out(), Rest::Close { is_whole: false }, "and then its own time is over");
}

#[test]
fn serving_says_that_it_goes_on_when_the_body_is_wanted() {
    let mut bench =
        serving(b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_eq!(bench.text(), "");
    bench.decide(0, Decision::ReadBody);
    assert_eq!(bench.text(), "HTTP/1.1 100 Continue\r\n\r\n");
    bench.send(b"hello");
    assert!(matches!(bench.asked.pop(), Some((0, Ask::Offer { .. }))));
}

#[test]
fn a_response_that_names_a_file_waits_for_another_in_its_place() {
    let mut bench = serving(GET);
    bench.decide(0, Decision::ReadBody);
    bench.decide(0, Decision::Await { until: None });
    let mut head = ResponseHead::bare(Origin::Script);
    head.file = Some(NamedFile::Uri(b"/a"[..].into()));
    bench.asked.clear();
    bench.give(0, vec![Part::Head(head), Part::Data(b"own".to_vec()), Part::End(End::Complete)]);
    let Some((0, Ask::SendFile(head))) = bench.asked.pop() else { panic!("it asks for the file") };
    assert!(head.file.is_some() && bench.text().is_empty() && !bench.stream(0).has_response());
    bench.stream(0).note_response();
    assert_eq!(bench.turn(), Rest::Wait, "nothing else is asked until it is there");
    bench.decide(0, Decision::Respond(answer("the file")));
    assert!(bench.text().ends_with("\r\n\r\nthe file"), "{}", bench.text());
    assert_eq!(ends(&bench), [(8, false)]);
}

#[test]
fn a_turn_sends_so_much_and_then_others_have_theirs() {
    let mut bench = serving(GET);
    bench.reads_at_once = true;
    let len = 8u64 << 20;
    let mut rest = bench.decide(0, Decision::Respond(file(len)));
    let mut turns = vec![std::mem::take(&mut bench.taken).len()];
    while rest == Rest::Yield {
        rest = bench.turn();
        turns.push(std::mem::take(&mut bench.taken).len());
    }
    assert_eq!(ends(&bench), [(len, false)]);
    let turn = LINK_STEPS_MAX as usize * STEP_BYTES;
    let most = *turns.iter().max().unwrap();
    assert!((turn / 4..=turn).contains(&most), "{most} bytes in a turn");
}

#[test]
fn a_file_behind_unsent_bytes_is_not_read() {
    let mut bench = serving(GET);
    (bench.reads_at_once, bench.room) = (true, 0);
    assert_eq!(bench.decide(0, Decision::Respond(file(8 << 20))), Rest::Wait);
    let mut bytes = 0;
    bench
        .connection
        .transmit(bench.now, |output| {
            bytes = output.len();
            Ok::<_, ()>(crate::connection::Sent { is_all: false, bytes: 0, held_back: 0 })
        })
        .unwrap();
    assert!((1..=2 * DISK_SLICE_BYTES).contains(&bytes), "{bytes} bytes wait");
    assert_eq!(bench.time_out(), Rest::Close { is_whole: false });
}
