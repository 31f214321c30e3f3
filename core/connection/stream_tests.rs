use super::*;
use crate::connection::Ended;
use crate::connection::harness::{Bench, Rest, data, end, head, seconds};
use crate::spool::Spool;

/// Creates an HTTP/1 request that was offered, and waits up to five seconds for its reply.
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
fn waiting_goes_on_where_nothing_is_collected() {
    // A late announcement for the previous request.
    let mut bench = waiting();
    let until = bench.connection.deadline();
    bench.give(0, Vec::new());
    assert!(bench.stream(0).is_waiting() && bench.connection.deadline() == until);
    bench.time_out();
    assert!(matches!(bench.asked.pop(), Some((0, Ask::WaitOver))));
}

#[test]
fn waiting_becomes_replying_with_the_first_part() {
    let mut bench = waiting();
    bench.give(0, vec![head(None), data("abc")]);
    assert!(!bench.stream(0).is_waiting() && bench.stream(0).has_reply());
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

fn body_reader(length: u64) -> BodyReader {
    BodyReader::new(BodyDecoder::new(BodyFraming::Length(length), 1 << 30).unwrap())
}

#[test]
fn a_short_body_stays_in_memory() {
    let mut body_reader = body_reader(5);
    assert!(matches!(body_reader.next(), BodyStep::Bytes));
    assert_eq!(body_reader.take(b"helloGET ").unwrap(), (5, 5));
    assert!(matches!(body_reader.next(), BodyStep::Nothing(Body::Memory(bytes)) if bytes == b"hello"));
}

#[test]
fn a_long_body_goes_to_disk_in_pieces_and_whole() {
    let spool = Spool::new(std::env::temp_dir(), 1 << 20);
    let length = BODY_MEMORY_MAX + 10;
    let mut body_reader = body_reader(length as u64 + 7);
    body_reader.take(&vec![1; length]).unwrap();
    let BodyStep::Spool(None, bytes) = body_reader.next() else { panic!("not spooled") };
    assert_eq!(bytes.len(), length);
    assert!(matches!(body_reader.next(), BodyStep::Disk));
    let file = spool.create().unwrap();
    file.append(&bytes).unwrap();
    body_reader.spooled(file, bytes);
    assert!(matches!(body_reader.next(), BodyStep::Bytes));
    body_reader.take(&[2; 7]).unwrap();
    let BodyStep::Spool(Some(file), bytes) = body_reader.next() else { panic!("the rest stays in memory") };
    file.append(&bytes).unwrap();
    body_reader.spooled(file, bytes);
    assert!(
        matches!(body_reader.next(), BodyStep::Nothing(Body::Spooled(file)) if file.len() == length as u64 + 7)
    );
}

#[test]
fn a_refused_piece_is_offered_again() {
    let mut body_reader = body_reader(1 << 20);
    body_reader.take(&vec![1; BODY_MEMORY_MAX + 1]).unwrap();
    let BodyStep::Spool(file, bytes) = body_reader.next() else { panic!("not spooled") };
    assert!(body_reader.refused(file, bytes, &SpoolError::Full));
    assert!(matches!(body_reader.next(), BodyStep::Room));
    body_reader.retry();
    assert!(matches!(body_reader.next(), BodyStep::Spool(None, bytes) if bytes.len() == BODY_MEMORY_MAX + 1));
}
