use super::*;
use crate::connection::Ended;
use crate::connection::harness::{Bench, Rest, data, end, head, seconds};

/// Creates an HTTP/1 request that was offered, and waits up to five seconds for its response.
fn waiting() -> Bench {
    let mut bench = Bench::new();
    bench.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    bench.decide(0, Decision::ReadBody);
    assert!(matches!(bench.asked.pop(), Some((0, Ask::Offer { client_gone: false, .. }))));
    let until = Some(bench.now + seconds(5));
    assert_eq!(bench.decide(0, Decision::Await { until }), Rest::Wait);
    assert_eq!(bench.connection.deadline(), until);
    bench
}

#[test]
fn waiting_continues_where_nothing_is_collected() {
    // A late announcement for the previous request.
    let mut bench = waiting();
    let until = bench.connection.deadline();
    bench.give(0, Vec::new());
    assert!(bench.stream(0).is_waiting() && bench.connection.deadline() == until);
    bench.time_out();
    assert!(matches!(bench.asked.pop(), Some((0, Ask::WaitOver))));
}

#[test]
fn waiting_becomes_responseing_with_the_first_part() {
    let mut bench = waiting();
    bench.give(0, vec![head(None), data("abc")]);
    assert!(!bench.stream(0).is_waiting() && bench.stream(0).has_response());
    bench.give(0, vec![end()]);
    assert!(bench.text().ends_with("3\r\nabc\r\n0\r\n\r\n"));
    assert!(matches!(bench.ended[..], [Ended { stream: 0, sent_bytes: 3, is_lost: false, is_whole: true }]));
}

#[test]
fn waiting_ends_with_its_peer() {
    let mut bench = waiting();
    assert_eq!(bench.send_end(), Rest::Close { is_whole: false });
    assert!(matches!(bench.ended[..], [Ended { stream: 0, sent_bytes: 0, is_lost: true, is_whole: false }]));
}
