use super::*;
use crate::connection::harness::{data, head};
use crate::limits::{DISK_SLICE_BYTES, OUTPUT_BYTES_MAX};

fn memory(bytes: u64) -> Spool {
    Spool::with_memory(std::env::temp_dir(), 0, bytes)
}

fn written(out: &mut Output) -> String {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        bytes.extend_from_slice(&out.take(usize::MAX));
    }
    String::from_utf8(bytes).unwrap()
}

/// Sends `parts`; returns the announced length, the body as sent, and how it ended.
fn sent(parts: Vec<Part>, choose: impl Fn(Option<u64>) -> Frame) -> (Option<u64>, String, End) {
    let (mut response, mut out) =
        (Response { parts: parts.into(), ..Response::default() }, Output::default());
    let mut announced = None;
    loop {
        match response.pump(&mut out) {
            ResponseStep::Head(_, length) => {
                announced = length;
                response.begin_body(choose(length));
            }
            ResponseStep::End(end) => return (announced, written(&mut out), end),
            want => panic!("unexpected {want:?}"),
        }
    }
}

#[test]
fn a_response_that_is_all_here_has_a_length() {
    let parts = vec![head(None), data("abc"), data("de"), Part::End(End::Complete)];
    let framing = |length: Option<u64>| Frame::Length { left: length.unwrap() };
    assert_eq!(sent(parts, framing), (Some(5), "abcde".to_owned(), End::Complete));
}

#[test]
fn a_body_is_replaced_before_it_has_begun() {
    let parts = vec![head(None), data("abc"), data("de"), Part::End(End::Complete)];
    let (mut response, mut out) =
        (Response { parts: parts.into(), ..Response::default() }, Output::default());
    let ResponseStep::Head(..) = response.pump(&mut out) else { panic!("no head") };
    response.replace_body(b"page".to_vec());
    response.begin_body(Frame::Length { left: 4 });
    assert!(matches!(response.pump(&mut out), ResponseStep::End(End::Complete)));
    assert_eq!(written(&mut out), "page");
}

#[test]
fn a_response_of_unknown_length_goes_out_in_chunks() {
    let mut response = Response { parts: vec![head(None), data("abc")].into(), ..Response::default() };
    let mut out = Output::default();
    let ResponseStep::Head(_, None) = response.pump(&mut out) else { panic!("no head") };
    response.begin_body(Frame::Chunked);
    assert!(matches!(response.pump(&mut out), ResponseStep::Parts));
    assert_eq!(written(&mut out), "3\r\nabc\r\n");
    response.parts.push_back(Part::End(End::Complete));
    assert!(matches!(response.pump(&mut out), ResponseStep::End(End::Complete)));
    assert_eq!(written(&mut out), "0\r\n\r\n");
}

#[test]
fn a_broken_response_has_no_last_chunk() {
    let parts = vec![head(None), data("abc"), Part::End(End::Broken)];
    assert_eq!(sent(parts, |_| Frame::Chunked), (None, "3\r\nabc\r\n".to_owned(), End::Broken));
}

#[test]
fn a_body_longer_than_announced_is_cut() {
    let parts = vec![head(Some(2)), data("abc"), data("de"), Part::End(End::Complete)];
    assert_eq!(sent(parts, |_| Frame::Length { left: 2 }), (Some(2), "ab".to_owned(), End::Complete));
}

#[test]
fn a_body_shorter_than_announced_is_broken() {
    let parts = vec![head(Some(9)), data("abc"), Part::End(End::Complete)];
    assert_eq!(sent(parts, |_| Frame::Length { left: 9 }), (Some(9), "abc".to_owned(), End::Broken));
}

#[test]
fn a_spooled_run_is_read_in_slices_between_its_neighbours() {
    let spool = crate::spool::Spool::new(std::env::temp_dir(), 1 << 20);
    let file = Arc::new(spool.create().unwrap());
    let len = DISK_SLICE_BYTES as u64 + 5;
    file.append(&vec![b'x'; DISK_SLICE_BYTES + 5]).unwrap();
    let spooled = Part::Spooled(SpooledPart { file, offset: 0, len });
    let parts = vec![head(None), data("a"), spooled, data("b"), Part::End(End::Complete)];
    let (mut response, mut out) =
        (Response { parts: parts.into(), ..Response::default() }, Output::default());
    let (mut sizes, mut text) = (Vec::new(), String::new());
    loop {
        match response.pump(&mut out) {
            ResponseStep::Head(_, length) => {
                assert_eq!(length, Some(len + 2));
                response.begin_body(Frame::Length { left: len + 2 });
            }
            ResponseStep::Slice(_, offset, count) => {
                sizes.push((offset, count));
                assert!(matches!(response.pump(&mut out), ResponseStep::Disk));
                response.sliced(vec![b'x'; count]);
            }
            ResponseStep::Room => text.push_str(&written(&mut out)),
            ResponseStep::End(end) => break assert_eq!(end, End::Complete),
            want => panic!("unexpected {want:?}"),
        }
    }
    assert_eq!(sizes, [(0, DISK_SLICE_BYTES), (DISK_SLICE_BYTES as u64, 5)]);
    text.push_str(&written(&mut out));
    assert!(text.starts_with("ax") && text.ends_with("xb") && text.len() as u64 == len + 2);
}

#[test]
fn a_full_output_stops_the_collecting() {
    let (mut response, mut out) = (Response::default(), Output::default());
    response.parts.push_back(data("abc"));
    out.push(vec![0; OUTPUT_BYTES_MAX]);
    assert!(matches!(response.pump(&mut out), ResponseStep::Room));
}

#[test]
fn sent_bytes_are_no_longer_counted() {
    let spool = crate::spool::Spool::with_memory(std::env::temp_dir(), 0, 1 << 20);
    let mut response =
        Response { parts: vec![head(None), data(&"x".repeat(40_000))].into(), ..Response::default() };
    response.share.take(&spool, 40_000);
    let (mut out, whole) = (Output::default(), spool.memory_bytes());
    let ResponseStep::Head(..) = response.pump(&mut out) else { panic!("no head") };
    response.begin_body(Frame::Bare);
    assert!(matches!(response.pump(&mut out), ResponseStep::Parts));
    assert_eq!(spool.memory_bytes(), whole, "it is in the output");
    let lent = response.lend(out.take(10_000));
    response.note_unsent(out.len());
    assert!(spool.memory_bytes() <= whole && spool.memory_bytes() > whole - 8192, "the reader keeps it");
    drop(lent);
    assert!(spool.memory_bytes() <= whole - 8192);
    drop(out.take(usize::MAX));
    response.note_unsent(out.len());
    assert_eq!(spool.memory_bytes(), 0);
}

#[test]
fn little_of_a_spooled_run_comes_back_while_memory_is_short() {
    let spool = crate::spool::Spool::with_memory(std::env::temp_dir(), 1 << 20, 100_000);
    let file = Arc::new(spool.create().unwrap());
    file.append(&[b'x'; 80_000]).unwrap();
    let spooled = Part::Spooled(SpooledPart { file, offset: 0, len: 80_000 });
    let mut response = Response { parts: vec![head(None), spooled].into(), ..Response::default() };
    let (mut out, mut other) = (Output::default(), Share::default());
    other.take(&spool, 90_000);
    let held = spool.memory_bytes();
    let ResponseStep::Head(..) = response.pump(&mut out) else { panic!("no head") };
    response.begin_body(Frame::Bare);
    assert!(matches!(response.pump(&mut out), ResponseStep::Slice(_, 0, TIGHT_SLICE_BYTES)));
    response.sliced(vec![b'x'; TIGHT_SLICE_BYTES]);
    assert!(matches!(response.pump(&mut out), ResponseStep::Room), "nothing more before it has gone");
    assert_eq!(spool.memory_bytes(), held + TIGHT_SLICE_BYTES as u64);
    drop((out.take(usize::MAX), other));
    assert!(matches!(response.pump(&mut out), ResponseStep::Slice(_, _, DISK_SLICE_BYTES)));
    assert_eq!(spool.memory_bytes(), DISK_SLICE_BYTES as u64, "it is on its way");
    response.sliced(vec![b'x'; 100]);
    response.pump(&mut out);
    response.fail();
    response.note_unsent(0);
    assert_eq!(spool.memory_bytes(), 0);
}

/// Creates a response with `len` bytes of a file whose head was sent, with this response memory.
fn file_response(len: u64, memory: &Spool, out: &mut Output) -> Response {
    let Part::Head(head) = head(Some(len)) else { panic!() };
    let file = Arc::new(tempfile::tempfile().unwrap());
    let mut response = Response::pieces(head, vec![BodyPiece::File(file, 0..len)], memory);
    let ResponseStep::Head(..) = response.pump(out) else { panic!("no head") };
    response.begin_body(Frame::Length { left: len });
    response
}

#[test]
fn no_more_is_read_of_a_file_than_can_be_sent() {
    let memory = memory(1 << 20);
    let mut out = Output::default();
    let mut response = file_response(1 << 20, &memory, &mut out);
    out.set_slice_room(0);
    assert!(matches!(response.pump(&mut out), ResponseStep::Room));
    out.set_slice_room(1000);
    assert!(matches!(response.pump(&mut out), ResponseStep::Slice(_, 0, 1000)));
    response.sliced(vec![b'x'; 1000]);
    out.set_slice_room(usize::MAX);
    assert!(
        matches!(response.pump(&mut out), ResponseStep::Slice(_, 1000, DISK_SLICE_BYTES)),
        "behind a head"
    );
    response.sliced(vec![b'x'; DISK_SLICE_BYTES]);
    assert!(matches!(response.pump(&mut out), ResponseStep::Room), "behind what waits");
    assert!(memory.memory_bytes() > DISK_SLICE_BYTES as u64 - 4096, "it is counted");
    drop(out.take(usize::MAX));
    drop(out.take(usize::MAX));
    response.note_unsent(out.len());
    assert_eq!((out.len(), memory.memory_bytes()), (0, 0));
}

#[test]
fn little_of_a_file_is_read_while_memory_is_short() {
    let memory = memory(0);
    let mut out = Output::default();
    let mut response = file_response(1 << 20, &memory, &mut out);
    for place in 0..3 {
        let at = place * TIGHT_SLICE_BYTES as u64;
        let ResponseStep::Slice(_, offset, TIGHT_SLICE_BYTES) = response.pump(&mut out) else {
            panic!("{place}")
        };
        assert_eq!(offset, at);
        response.sliced(vec![b'x'; TIGHT_SLICE_BYTES]);
        assert!(matches!(response.pump(&mut out), ResponseStep::Room), "nothing more before it has gone");
        drop(out.take(usize::MAX));
    }
}

#[test]
fn a_file_goes_out_as_runs_where_the_sink_sends_files() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let end = 2 * SEND_FILE_BYTES as u64 + 10;
    let Part::Head(head) = head(Some(end - 5)) else { panic!() };
    let mut response = Response::pieces(head, vec![BodyPiece::File(file, 5..end)], &memory(1 << 20));
    let mut out = Output::default();
    out.set_sends_files(true);
    let ResponseStep::Head(_, Some(length)) = response.pump(&mut out) else { panic!("no head") };
    response.begin_body(Frame::Length { left: length });
    assert!(matches!(response.pump(&mut out), ResponseStep::Room));
    assert_eq!(out.len(), SEND_FILE_BYTES);
    let mut out = Output::full_at(usize::MAX);
    out.set_sends_files(true);
    assert!(matches!(response.pump(&mut out), ResponseStep::End(End::Complete)));
    assert_eq!((out.len(), response.body_bytes()), (SEND_FILE_BYTES + 5, end - 5));
}

#[test]
fn a_source_that_ends_early_breaks_the_response() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let Part::Head(head) = head(Some(10)) else { panic!() };
    let pieces = vec![BodyPiece::Bytes(Bytes::from_static(b"abc")), BodyPiece::File(file, 3..10)];
    let (mut response, mut out) = (Response::pieces(head, pieces, &memory(1 << 20)), Output::default());
    let ResponseStep::Head(..) = response.pump(&mut out) else { panic!("no head") };
    response.begin_body(Frame::Length { left: 10 });
    assert!(matches!(response.pump(&mut out), ResponseStep::Slice(_, 3, 7)));
    response.sliced(Vec::new());
    assert!(matches!(response.pump(&mut out), ResponseStep::End(End::Broken)));
}
