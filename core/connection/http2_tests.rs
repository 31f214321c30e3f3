//! One test for each arrow of the diagram, with real frames.

use super::{Arc, Http2};
use crate::connection::harness::{
    Bench, Rest, answer, file, frame, greeting, request, request_with, seconds,
};
use crate::connection::{Ask, Decision, Input};
use crate::limits::{
    DISK_SLICE_BYTES, HTTP2_CONNECTION_WINDOW_BYTES, HTTP2_STREAMS_MAX, HTTP2_UNSENT_BYTES_MAX,
    HTTP2_WINDOW_BYTES_MAX, HTTP2_WINDOW_PERMIT_BYTES, HTTP2_WINDOW_PERMITS, LINK_STEPS_MAX, STEP_BYTES,
};
use crate::sync::permits::Permits;

const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// Creates a connection after the exchange of prefaces.
fn open() -> Bench {
    let mut bench = Bench::new();
    assert_eq!(bench.send(&greeting()), Rest::Wait);
    assert!(bench.connection.is_multiplexed());
    bench
}

/// Returns the types and streams of the frames that the peer has received since the last call.
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
fn open_answers_streams_as_their_responses_come() {
    let mut bench = open();
    bench.send(&[request(1, "GET", true), request(3, "GET", true)].concat());
    frames(&mut bench);
    bench.decide(3, Decision::Respond(answer("three")));
    assert_eq!(frames(&mut bench), [(1, 3), (DATA, 3)]);
    bench.decide(1, Decision::Respond(answer("one")));
    assert_eq!(frames(&mut bench), [(1, 1), (DATA, 1)]);
    let ends: Vec<_> = bench.ended.iter().map(|it| (it.stream, it.sent_bytes, it.is_lost)).collect();
    assert_eq!(ends, [(3, 5, false), (1, 3, false)]);
}

#[test]
fn open_drops_streams_that_the_peer_resets() {
    let mut bench = open();
    bench.send(&request(1, "POST", false));
    bench.decide(1, Decision::ReadBody);
    bench.send(&frame(RST_STREAM, 0, 1, &[0, 0, 0, 8]));
    assert!(matches!(bench.ended[..], [ended] if ended.stream == 1 && ended.is_lost));
    assert!(bench.connection.stream(1).is_none(), "a late decision finds no request");
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
    bench.decide(1, Decision::Respond(answer("last")));
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
fn a_connection_whose_streams_were_woken_is_freed() {
    let http2 = Http2::<u32>::new(&greeting(), false, crate::time::now());
    let (alarm, set) = (http2.ready.alarm(1), Arc::downgrade(&http2.ready));
    alarm.wake_part();
    drop(http2);
    alarm.wake_part();
    drop(alarm);
    assert!(set.upgrade().is_none());
}

#[test]
fn every_stream_ends_once_when_the_connection_is_aborted() {
    let mut bench = open();
    bench.send(&[request(1, "GET", true), request(3, "POST", false)].concat());
    bench.decide(3, Decision::ReadBody);
    assert!(!bench.asked.iter().any(|(_, ask)| matches!(ask, Ask::Offer { .. })));
    bench.handle(Input::Abort);
    bench.handle(Input::Abort);
    assert!(matches!(bench.turn(), Rest::Close { .. }));
    assert_eq!(
        bench.ended.iter().map(|ended| (ended.stream, ended.is_lost)).collect::<Vec<_>>(),
        [(1, true), (3, true)]
    );
}

/// Creates a connection whose peer requests files on all its streams, with windows large enough for all of them.
fn asking_for_files(len: u64) -> Bench {
    let mut bench = open();
    let wide = (i32::MAX as u32).to_be_bytes();
    let rest = (i32::MAX as u32 - 65_535).to_be_bytes();
    bench.send(&frame(SETTINGS, 0, 0, &[&[0, 4], &wide[..]].concat()));
    bench.send(&frame(WINDOW_UPDATE, 0, 0, &rest));
    let ids = (0..HTTP2_STREAMS_MAX).map(|place| 2 * place + 1);
    bench.send(&ids.clone().map(|id| request(id, "GET", true)).collect::<Vec<_>>().concat());
    frames(&mut bench);
    bench.room = 0;
    for id in ids {
        bench.decide(id, Decision::Respond(file(len)));
    }
    bench
}

/// Completes the slices requested since the last call; returns their total length.
fn read_slices(bench: &mut Bench) -> usize {
    let asked = std::mem::take(&mut bench.asked);
    let mut bytes = 0;
    for (stream, ask) in asked {
        let Ask::Slice(_, _, len) = ask else { panic!("{ask:?}") };
        bytes += len;
        bench.stream(stream).sliced(vec![0; len]);
        bench.turn();
    }
    bytes
}

#[test]
fn of_files_as_much_is_read_as_has_room_on_the_connection() {
    let len = 3 * DISK_SLICE_BYTES as u64 + 5;
    let mut bench = asking_for_files(len);
    let mut bytes = 0;
    loop {
        match read_slices(&mut bench) {
            0 => break,
            read => bytes += read,
        }
    }
    assert!((DISK_SLICE_BYTES..=HTTP2_UNSENT_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    assert!(bench.ended.is_empty());
    assert_eq!(bench.connection.deadline(), Some(bench.now + seconds(30)), "it waits for its reader");
    // The client reads: all streams end, and none before all have had some bytes.
    let mut served = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        bench.room = HTTP2_UNSENT_BYTES_MAX / 3;
        bench.turn();
        let read = read_slices(&mut bench);
        assert!(read <= HTTP2_UNSENT_BYTES_MAX, "{read} bytes");
        if bench.ended.is_empty() {
            served.extend(frames_of(&bench.taken, DATA));
        } else if served.len() < HTTP2_STREAMS_MAX as usize {
            panic!("{} streams had something when one was over", served.len());
        }
        if bench.ended.len() == HTTP2_STREAMS_MAX as usize {
            break;
        }
    }
    assert_eq!(bench.ended.len(), HTTP2_STREAMS_MAX as usize);
    assert!(bench.ended.iter().all(|it| it.is_whole && it.sent_bytes == len), "{:?}", bench.ended);
}

/// Returns the streams of all complete frames of a type.
fn frames_of(mut bytes: &[u8], kind: u8) -> Vec<u32> {
    let mut streams = Vec::new();
    while let [a, b, c, its, _, s, t, u, v, ..] = *bytes {
        if its == kind {
            streams.push(u32::from_be_bytes([s, t, u, v]));
        }
        let end = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        bytes = bytes.get(end..).unwrap_or_default();
    }
    streams
}

#[test]
fn streams_that_end_leave_their_room_to_others() {
    let mut bench = asking_for_files(1 << 20);
    while read_slices(&mut bench) > 0 {}
    // Reset the streams whose slices are pending, one after the other.
    for place in 0..HTTP2_STREAMS_MAX - 1 {
        bench.send(&frame(RST_STREAM, 0, 2 * place + 1, &[0, 0, 0, 8]));
        while read_slices(&mut bench) > 0 {}
    }
    assert_eq!(bench.ended.len(), HTTP2_STREAMS_MAX as usize - 1);
    (bench.room, bench.reads_at_once) = (usize::MAX, true);
    while bench.turn() == Rest::Yield {}
    assert!(matches!(bench.ended.last(), Some(ended) if ended.is_whole && ended.sent_bytes == 1 << 20));
}

#[test]
fn a_turn_sends_so_much_and_then_others_have_theirs() {
    let mut bench = open();
    let wide = (i32::MAX as u32).to_be_bytes();
    bench.send(&frame(SETTINGS, 0, 0, &[&[0, 4], &wide[..]].concat()));
    bench.send(&frame(WINDOW_UPDATE, 0, 0, &(i32::MAX as u32 - 65_535).to_be_bytes()));
    bench.send(&request(1, "GET", true));
    bench.reads_at_once = true;
    let len = 16u64 << 20;
    let mut rest = bench.decide(1, Decision::Respond(file(len)));
    let mut most = std::mem::take(&mut bench.taken).len();
    while rest == Rest::Yield {
        rest = bench.turn();
        most = most.max(std::mem::take(&mut bench.taken).len());
    }
    assert!(bench.ended[0].is_whole && bench.ended[0].sent_bytes == len);
    let turn = LINK_STEPS_MAX as usize * STEP_BYTES;
    assert!((turn / 2..=turn + HTTP2_UNSENT_BYTES_MAX).contains(&most), "{most} bytes in a turn");
}

/// A peer behind a delay that uploads as much as its windows allow in each round trip.
struct Uploader {
    of_all: i64,
    initial: i64,
    /// The PINGs of the server.
    pings: usize,
}

impl Uploader {
    fn new() -> Self {
        Self { of_all: 65_535, initial: 65_535, pings: 0 }
    }

    /// Uploads `len` bytes on one stream, which the server reads if `takes`; returns the number of round trips.
    fn upload(&mut self, bench: &mut Bench, stream: u32, len: usize, takes: bool) -> usize {
        self.upload_after(&request(stream, "POST", false), bench, stream, len, takes)
    }

    /// As [`Self::upload`], after this head.
    fn upload_after(
        &mut self,
        head: &[u8],
        bench: &mut Bench,
        stream: u32,
        len: usize,
        takes: bool,
    ) -> usize {
        bench.send(head);
        if takes {
            bench.decide(stream, Decision::ReadBody);
        }
        let (mut of_stream, mut left, mut trips) = (self.initial, len, 0);
        while left > 0 && trips < TRIPS_MAX {
            trips += 1;
            let mut bytes = self.receive(bench, &mut of_stream);
            while left > 0 && of_stream.min(self.of_all) > 0 {
                let room = usize::try_from(of_stream.min(self.of_all)).expect("more than none");
                let count = left.min(16_384).min(room);
                left -= count;
                of_stream -= count as i64;
                self.of_all -= count as i64;
                bytes.extend(frame(DATA, u8::from(left == 0), stream, &vec![b'x'; count]));
            }
            for bytes in bytes.chunks(16_384) {
                bench.send(bytes);
                spool_all(bench);
            }
        }
        trips
    }

    /// Processes all bytes from the server at once; returns the response of the client.
    fn receive(&mut self, bench: &mut Bench, of_stream: &mut i64) -> Vec<u8> {
        let (sent, mut answers) = (std::mem::take(&mut bench.taken), Vec::new());
        let mut rest = &sent[..];
        while let [a, b, c, kind, flags, s, t, u, v, ref tail @ ..] = *rest {
            let (payload, next) = tail.split_at(u32::from_be_bytes([0, a, b, c]) as usize);
            let number = |at: usize| {
                i64::from(u32::from_be_bytes(payload[at..at + 4].try_into().expect("four bytes")))
            };
            match (kind, u32::from_be_bytes([s, t, u, v])) {
                (SETTINGS, _) if flags & 1 == 0 => {
                    for at in (0..payload.len()).step_by(6).filter(|&at| payload[at..at + 2] == [0, 4]) {
                        *of_stream += number(at + 2) - self.initial;
                        self.initial = number(at + 2);
                    }
                    answers.extend(frame(SETTINGS, 1, 0, &[]));
                }
                (WINDOW_UPDATE, 0) => self.of_all += number(0),
                (WINDOW_UPDATE, _) => *of_stream += number(0),
                (PING, _) if flags & 1 == 0 => {
                    self.pings += 1;
                    answers.extend(frame(PING, 1, 0, payload));
                }
                _ => {}
            }
            rest = next;
        }
        answers
    }
}

/// The limit of round trips for a client that is blocked.
const TRIPS_MAX: usize = 200;

/// Spools all pending body bytes.
fn spool_all(bench: &mut Bench) {
    while let Some((stream, ask)) = bench.asked.pop() {
        let Ask::Spool(file, bytes) = ask else { continue };
        let spool = crate::spool::Spool::new(std::env::temp_dir(), u64::MAX);
        let file = file.unwrap_or_else(|| spool.create().expect("a file"));
        let now = bench.now;
        bench.stream(stream).spooled(file, bytes, now);
        bench.turn();
    }
}

#[test]
fn the_window_grows_with_the_round_trips_of_an_upload() {
    let (mut bench, mut client) = (open(), Uploader::new());
    bench.body_bytes_max = 1 << 30;
    let trips = client.upload(&mut bench, 1, 10_000_000, true);
    assert!(trips <= 5, "{trips} round trips");
    assert!((1..=trips).contains(&client.pings), "{} pings", client.pings);
    assert!(client.of_all > 4 << 20, "a window of {} bytes", client.of_all);
    bench.decide(1, Decision::Respond(answer("taken")));
    // The learned window is kept.
    let again = client.upload(&mut bench, 3, 20_000_000, true);
    assert!(again <= trips, "{again} round trips after {trips}");
}

#[test]
fn a_length_that_is_known_needs_no_measurement() {
    for (len, most) in [(1_000_000, 1), (10_000_000, 2), (100_000_000, 10)] {
        let (mut bench, mut client) = (open(), Uploader::new());
        bench.body_bytes_max = 1 << 30;
        let head = request_with(&[("content-length", &len.to_string())], 1, "POST", false);
        let trips = client.upload_after(&head, &mut bench, 1, len, true);
        assert!(trips <= most, "{len} bytes take {trips} round trips");
    }
}

/// A client that announces much and sends little.
#[test]
fn half_of_the_permits_are_for_measured_uploads() {
    let permits = Permits::new(HTTP2_WINDOW_PERMITS);
    let mut benches: Vec<_> =
        (0..HTTP2_WINDOW_PERMITS).map(|_| Bench::with_window_permits(&permits)).collect();
    for bench in &mut benches {
        bench.body_bytes_max = 1 << 30;
        bench.send(&greeting());
        bench.send(&request_with(&[("content-length", "900000000")], 1, "POST", false));
        bench.decide(1, Decision::ReadBody);
        bench.send(&frame(DATA, 0, 1, &[b'x'; 16_384]));
        spool_all(bench);
    }
    let granted_at_most = HTTP2_WINDOW_BYTES_MAX / HTTP2_WINDOW_PERMIT_BYTES;
    let least = HTTP2_WINDOW_PERMITS / 2 - granted_at_most as usize;
    assert!((least..=HTTP2_WINDOW_PERMITS / 2).contains(&permits.free()), "{} are free", permits.free());
    let (bench, mut client) = (&mut benches[HTTP2_WINDOW_PERMITS - 1], Uploader::new());
    client.receive(bench, &mut 0);
    client.upload(bench, 3, 20_000_000, true);
    assert!(client.of_all > i64::from(HTTP2_CONNECTION_WINDOW_BYTES), "a window of {} bytes", client.of_all);
}

#[test]
fn a_short_upload_causes_no_ping_and_one_that_is_not_taken_no_larger_window() {
    let first = i64::from(HTTP2_CONNECTION_WINDOW_BYTES);
    let (mut bench, mut client) = (open(), Uploader::new());
    client.upload(&mut bench, 1, 50_000, true);
    assert_eq!((client.pings, client.of_all), (0, first - 50_000));
    for head in [request(1, "POST", false), request_with(&[("content-length", "2097152")], 1, "POST", false)]
    {
        let (mut bench, mut client) = (open(), Uploader::new());
        bench.body_bytes_max = 1 << 30;
        assert_eq!(client.upload_after(&head, &mut bench, 1, 2 << 20, false), TRIPS_MAX);
        assert_eq!(client.of_all, 0, "all that it may send, and no more");
        assert_eq!(bench.connection.copied_bytes(), u64::from(HTTP2_CONNECTION_WINDOW_BYTES));
    }
}

#[test]
fn windows_grow_within_the_bound_for_all_connections() {
    let permits = Permits::new(2);
    let mut benches: Vec<_> = (0..3).map(|_| Bench::with_window_permits(&permits)).collect();
    let mut windows = Vec::new();
    for bench in &mut benches {
        let mut client = Uploader::new();
        bench.send(&greeting());
        bench.body_bytes_max = 1 << 30;
        client.upload(bench, 1, 20_000_000, true);
        client.receive(bench, &mut 0);
        windows.push(client.of_all >> 20);
    }
    assert!(windows[0] == 2 && windows[1..] == [0, 0], "{windows:?} MiB, of which half is open at least");
    drop(benches);
    assert_eq!(permits.free(), 2, "they are back");
}

#[test]
fn a_window_that_cannot_be_taken_back_keeps_its_permits() {
    const PERMITS: usize = 8;
    let permits = Permits::new(PERMITS);
    let (mut bench, mut client) = (Bench::with_window_permits(&permits), Uploader::new());
    bench.send(&greeting());
    bench.body_bytes_max = 1 << 30;
    client.upload(&mut bench, 1, 10_000_000, true);
    bench.decide(1, Decision::Respond(answer("taken")));
    client.receive(&mut bench, &mut 0);
    assert!(client.of_all > 1 << 20, "a window of {} bytes", client.of_all);
    let granted = (1 + PERMITS - permits.free()) << 20;
    assert!(client.of_all as usize <= granted, "{} bytes, and permits for {granted}", client.of_all);
}

/// Returns the error code of the GOAWAY after a client has sent a request and `bytes`.
fn goaway_code(bytes: &[u8], cut: usize) -> Option<u32> {
    let mut bench = open();
    // Adds four fields to the dynamic table.
    let indexed = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [&[0x40][..], &text(name), &text(value)].concat()
    };
    let fields = [(":method", "GET"), (":scheme", "http"), (":authority", "h"), (":path", "/")];
    let block = fields.map(|(name, value)| indexed(name, value)).concat();
    bench.send(&frame(1, 5, 1, &block));
    bench.taken.clear();
    for bytes in bytes.chunks(cut) {
        bench.send(bytes);
    }
    let mut rest = &bench.taken[..];
    while let [a, b, c, kind, _, _, _, _, _, ref tail @ ..] = *rest {
        let (payload, next) = tail.split_at(u32::from_be_bytes([0, a, b, c]) as usize);
        if kind == GOAWAY {
            return Some(u32::from_be_bytes(payload[4..8].try_into().unwrap()));
        }
        rest = next;
    }
    None
}

/// Returns valid SETTINGS, WINDOW_UPDATE of the connection and of a stream, and PING.
fn control() -> Vec<u8> {
    [
        frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0x10, 0, 0, 4, 0, 0, 0xff, 0xff]),
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]),
        frame(PING, 0, 0, &[0; 8]),
    ]
    .concat()
}

/// HTTP/2 error codes.
const PROTOCOL: u32 = 1;
const FLOW_CONTROL: u32 = 3;
const STREAM_CLOSED: u32 = 5;
const FRAME_SIZE: u32 = 6;
const COMPRESSION: u32 = 9;

/// Faults by name, with the client's bytes and the error code of the expected GOAWAY.
fn faults() -> Vec<(&'static str, Vec<u8>, u32)> {
    // A complete request that refers to the dynamic table, extended or replaced below.
    let known = [0xbe, 0xbf, 0xc0, 0xc1];
    let block = |more: &[u8]| frame(1, 5, 3, &[&known[..], more].concat());
    let literal = |name: &[u8], value: &[u8]| {
        [&[0][..], &[name.len() as u8], name, &[value.len() as u8], value].concat()
    };
    vec![
        ("an index beyond both tables", block(&[0xff, 0x80, 0x01]), COMPRESSION),
        ("an index beyond the dynamic table", block(&[0xc2]), COMPRESSION),
        ("index 0", block(&[0x80]), COMPRESSION),
        ("an integer without an end", block(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), COMPRESSION),
        ("a string that is too short", block(&[0x00, 0x01, b'a', 0x05, b'b']), COMPRESSION),
        ("a block that ends within a field", block(&[0x00, 0x01]), COMPRESSION),
        ("a table that is too large", block(&[0x3f, 0xe2, 0x1f]), COMPRESSION),
        ("a table that changes late", block(&[0x20]), COMPRESSION),
        (
            "a Huffman code with the end in it",
            block(&[0x00, 0x01, b'a', 0x84, 0xff, 0xff, 0xff, 0xff]),
            COMPRESSION,
        ),
        ("a Huffman code that is padded with zeros", block(&[0x00, 0x01, b'a', 0x81, 0x00]), COMPRESSION),
        ("a name by an index beyond the table", block(&[0x7f, 0x20, 0x01, b'a']), COMPRESSION),
        (
            "the same in a continuation",
            [frame(1, 1, 3, &known), frame(9, 4, 3, &[0x80])].concat(),
            COMPRESSION,
        ),
        (
            "the same behind whole requests",
            [block(&[]), frame(1, 5, 5, &known), frame(1, 5, 7, &[0x80])].concat(),
            COMPRESSION,
        ),
        ("a name in upper case", block(&literal(b"X-A", b"b")), PROTOCOL),
        ("an unknown pseudo-header field", block(&literal(b":a", b"b")), PROTOCOL),
        ("a name without bytes", block(&literal(b"", b"b")), PROTOCOL),
        ("a value with a line feed", block(&literal(b"a", b"b\nc")), PROTOCOL),
        // "X" and "a" in the Huffman code: 11111100, and 00011 padded with ones.
        ("a coded name in upper case", block(&[0x00, 0x81, 0xfc, 0x01, b'b']), PROTOCOL),
        ("an even stream", frame(1, 5, 2, &known), PROTOCOL),
        ("stream 0", frame(1, 5, 0, &known), PROTOCOL),
        ("more padding than there is", frame(1, 5 | 8, 3, &[200, 0xbe]), PROTOCOL),
        (
            "another frame within a head",
            [frame(1, 1, 3, &known), frame(PING, 0, 0, &[0; 8])].concat(),
            PROTOCOL,
        ),
        ("a continuation of nothing", frame(9, 4, 3, &known), PROTOCOL),
        ("PUSH_PROMISE", frame(5, 4, 1, &[0, 0, 0, 2]), PROTOCOL),
        ("SETTINGS on a stream", frame(SETTINGS, 0, 1, &[]), PROTOCOL),
        ("an initial window of 2^31", frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0]), FLOW_CONTROL),
        ("data on stream 0", frame(DATA, 0, 0, b"a"), PROTOCOL),
        ("a PING that is too short", frame(PING, 0, 0, &[0; 7]), FRAME_SIZE),
        ("SETTINGS of half a value", frame(SETTINGS, 0, 0, &[0; 9]), FRAME_SIZE),
        ("a confirmation with values", frame(SETTINGS, 1, 0, &[0; 6]), FRAME_SIZE),
        ("WINDOW_UPDATE that is too long", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1, 0]), FRAME_SIZE),
        ("RST_STREAM that is too short", frame(RST_STREAM, 0, 1, &[0; 3]), FRAME_SIZE),
        ("PRIORITY that is too short", frame(2, 0, 1, &[0; 4]), FRAME_SIZE),
        ("a head without room for its priority", frame(1, 5 | 0x20, 3, &[0; 4]), FRAME_SIZE),
        ("a head without room for the length of its padding", frame(1, 5 | 0x8, 3, &[]), FRAME_SIZE),
        ("DATA without room for the length of its padding", frame(DATA, 0x8, 1, &[]), FRAME_SIZE),
        ("DATA with more padding than payload", frame(DATA, 0x8, 1, &[1]), PROTOCOL),
        ("a frame beyond the maximum", frame(DATA, 0, 1, &[0; 16_385]), FRAME_SIZE),
        (
            "the first fault counts",
            [frame(PING, 0, 0, &[0; 7]), frame(1, 5, 3, &[0x80])].concat(),
            FRAME_SIZE,
        ),
    ]
}

/// Like `faults`, with DATA that the client may or may not send.
fn faults_beside_data() -> Vec<(&'static str, Vec<u8>, u32)> {
    let known = [0xbe, 0xbf, 0xc0, 0xc1];
    let upload = [frame(1, 4, 3, &known), frame(DATA, 0, 3, b"a")].concat();
    let trailers = frame(1, 5, 3, &[0, 1, b'a', 1, b'b']);
    vec![
        ("data after a request", frame(DATA, 0, 1, b"a"), STREAM_CLOSED),
        ("an end after a request", frame(DATA, 1, 1, b""), STREAM_CLOSED),
        (
            "data after a body",
            [&upload[..], &frame(DATA, 1, 3, b"a"), &frame(DATA, 0, 3, b"a")].concat(),
            STREAM_CLOSED,
        ),
        ("data after trailers", [&upload[..], &trailers, &frame(DATA, 0, 3, b"a")].concat(), STREAM_CLOSED),
        (
            "data after a request, behind other frames",
            [&control()[..], &upload, &frame(DATA, 0, 1, b"a")].concat(),
            STREAM_CLOSED,
        ),
        ("data on an idle stream", frame(DATA, 0, 3, b"a"), PROTOCOL),
        ("data on an even stream", frame(DATA, 0, 2, b"a"), PROTOCOL),
        (
            "data within a head",
            [frame(1, 1, 3, &known), frame(DATA, 0, 1, b"a"), frame(9, 4, 3, &known)].concat(),
            PROTOCOL,
        ),
        ("SETTINGS on a stream behind data", [&upload[..], &frame(SETTINGS, 0, 1, &[])].concat(), PROTOCOL),
        (
            "a PING that is too short behind data",
            [&upload[..], &frame(PING, 0, 0, &[0; 7])].concat(),
            FRAME_SIZE,
        ),
    ]
}

/// Like `faults`, with frames before or after a header block.
fn faults_beside_blocks() -> Vec<(&'static str, Vec<u8>, u32)> {
    let known = [0xbe, 0xbf, 0xc0, 0xc1];
    let block = |more: &[u8]| frame(1, 5, 3, &[&known[..], more].concat());
    vec![
        (
            "an index beyond the dynamic table behind valid frames",
            [control(), block(&[0xc2])].concat(),
            COMPRESSION,
        ),
        (
            "WINDOW_UPDATE of zero bytes in front of a reference",
            [frame(SETTINGS, 0, 0, &[]), frame(WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 0]), block(&[0xc2])]
                .concat(),
            PROTOCOL,
        ),
        (
            "WINDOW_UPDATE of an idle stream in front of a reference",
            [frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1]), block(&[0xc2])].concat(),
            PROTOCOL,
        ),
        (
            "an invalid setting in front of a reference",
            [frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2]), block(&[0xc2])].concat(),
            PROTOCOL,
        ),
        (
            "PING on a stream in front of a reference",
            [frame(PING, 0, 1, &[0; 8]), block(&[0xc2])].concat(),
            PROTOCOL,
        ),
        (
            "a valid frame within a head, and an index of 0",
            [frame(1, 1, 3, &known), control(), frame(9, 4, 3, &[0x80])].concat(),
            PROTOCOL,
        ),
        (
            "a PING that is too short behind a request",
            [block(&[]), frame(PING, 0, 0, &[0x80; 7])].concat(),
            FRAME_SIZE,
        ),
    ]
}

#[test]
fn a_connection_ends_with_the_code_of_its_error() {
    let all = faults().into_iter().chain(faults_beside_blocks()).chain(faults_beside_data());
    for (name, bytes, code) in all {
        for cut in [1, 3, 20, 16_384] {
            assert_eq!(goaway_code(&bytes, cut), Some(code), "{name}, by {cut} bytes");
        }
    }
    let request = frame(1, 5, 3, &[0xbe, 0xbf, 0xc0, 0xc1]);
    let sound = [request, frame(2, 0, 5, &[0, 0, 0, 1, 7]), frame(PING, 0, 0, &[0; 8])].concat();
    assert_eq!(goaway_code(&sound, 5), None);
}
