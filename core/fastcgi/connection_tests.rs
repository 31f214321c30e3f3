use super::*;

/// Returns the bytes of a record without padding.
fn record(kind: u8, request_id: u16, content: &[u8]) -> Vec<u8> {
    padded(kind, request_id, content, 0)
}

fn padded(kind: u8, request_id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let [id_high, id_low] = request_id.to_be_bytes();
    let [high, low] = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[1, kind, id_high, id_low, high, low, padding, 9][..], content, &vec![0xee; usize::from(padding)]]
        .concat()
}

fn end(app_status: u8, protocol_status: u8) -> Vec<u8> {
    record(3, 1, &[0, 0, 0, app_status, protocol_status, 0, 0, 0])
}

/// An event that owns its bytes. Neighbouring bytes of one stream are joined.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Head(i32, Vec<String>),
    Body(String),
    Stderr(String),
    End(u32),
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Passes `bytes` to the machine in parts of `step` bytes.
fn receive(connection: &mut Connection, bytes: &[u8], step: usize) -> Result<Vec<Seen>, Fault> {
    let mut seen: Vec<Seen> = Vec::new();
    for part in bytes.chunks(step) {
        let mut rest = part;
        while let Some(event) = connection.receive(&mut rest)? {
            match (event, seen.last_mut()) {
                (Event::Head(head), _) => {
                    seen.push(Seen::Head(head.status, head.lines.iter().map(|line| text(line)).collect()));
                }
                (Event::Body(bytes), Some(Seen::Body(last))) => last.push_str(&text(bytes)),
                (Event::Body(bytes), _) => seen.push(Seen::Body(text(bytes))),
                (Event::Stderr(bytes), Some(Seen::Stderr(last))) => last.push_str(&text(bytes)),
                (Event::Stderr(bytes), _) => seen.push(Seen::Stderr(text(bytes))),
                (Event::End { app_status }, _) => seen.push(Seen::End(app_status)),
            }
        }
        assert!(rest.is_empty(), "all bytes are taken");
    }
    Ok(seen)
}

/// A connection on which a request without a body was sent.
fn asked(keeps: bool) -> Connection {
    let mut connection = Connection::new(keeps);
    let mut out = Vec::new();
    connection.begin([(&b"A"[..], &b"1"[..])], &mut out);
    connection.end_body(&mut out);
    connection
}

fn answer(bytes: &[u8]) -> Result<Vec<Seen>, Fault> {
    receive(&mut asked(true), bytes, usize::MAX)
}

#[test]
fn a_request_is_a_sequence_of_records() {
    let mut connection = Connection::new(true);
    let mut out = Vec::new();
    connection.begin([(&b"A"[..], &b"1"[..])], &mut out);
    connection.put_body(b"12345678", &mut out);
    connection.end_body(&mut out);
    connection.end_body(&mut out);
    let expected = [
        &[1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0][..],
        &[1, 4, 0, 1, 0, 4, 4, 0, 1, 1, b'A', b'1', 0, 0, 0, 0],
        &[1, 4, 0, 1, 0, 0, 0, 0],
        &[1, 5, 0, 1, 0, 8, 0, 0],
        b"12345678",
        &[1, 5, 0, 1, 0, 0, 0, 0],
    ];
    assert_eq!(out, expected.concat());
    let mut out = Vec::new();
    connection.abort(&mut out);
    assert_eq!(out, [1, 2, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn a_connection_that_is_not_kept_says_so() {
    let mut out = Vec::new();
    let mut connection = Connection::new(false);
    connection.begin([], &mut out);
    assert_eq!(out[10], 0);
    connection.end_body(&mut out);
    receive(&mut connection, &[record(6, 1, b"\r\n"), end(0, 0)].concat(), 99).unwrap();
    assert_eq!((connection.is_idle(), connection.closed()), (false, None));
}

#[test]
fn a_response_does_not_depend_on_its_records_and_on_how_they_arrive() {
    let response = [
        padded(6, 1, b"Status: 404 No\r\nX-", 3),
        record(7, 1, b"a warning"),
        padded(6, 1, b"A: 1\r\n\r\nbo", 255),
        padded(6, 1, b"", 7),
        record(6, 1, b"dy"),
        padded(3, 1, &[0, 0, 1, 2, 0, 0, 0, 0, 9, 9], 5),
    ]
    .concat();
    let expected = [
        Seen::Stderr("a warning".into()),
        Seen::Head(404, vec!["X-A: 1".into()]),
        Seen::Body("body".into()),
        Seen::End(258),
    ];
    for step in 1..=response.len() {
        let mut connection = asked(true);
        assert_eq!(receive(&mut connection, &response, step).as_deref(), Ok(&expected[..]), "{step}");
        assert!(connection.is_idle(), "{step}");
    }
}

#[test]
fn one_request_follows_another() {
    let mut connection = Connection::new(true);
    for number in 0..3 {
        assert!(connection.is_idle());
        assert_eq!(connection.closed(), None);
        let mut out = Vec::new();
        connection.begin([], &mut out);
        connection.end_body(&mut out);
        assert_eq!(connection.closed(), Some(Fault::Closed));
        let response = [record(6, 1, b"\n"), record(6, 1, b"x"), end(0, 0)].concat();
        let seen = receive(&mut connection, &response, 5).unwrap();
        assert_eq!(seen, [Seen::Head(200, vec![]), Seen::Body("x".into()), Seen::End(0)], "{number}");
    }
}

#[test]
fn a_response_before_the_end_of_the_request_ends_the_connection() {
    let mut connection = Connection::new(true);
    let mut out = Vec::new();
    connection.begin([], &mut out);
    connection.put_body(b"half", &mut out);
    receive(&mut connection, &[record(6, 1, b"\n"), end(0, 0)].concat(), 99).unwrap();
    assert_eq!((connection.is_idle(), connection.closed()), (false, None));
}

#[test]
fn types_that_the_protocol_does_not_define_are_skipped() {
    for (kind, id) in [(12, 0), (0, 0), (255, 0), (10, 0), (11, 0), (0, 1), (12, 1), (255, 1)] {
        let response =
            [padded(kind, id, b"anything", 4), record(6, 1, b"\nx"), record(kind, id, b""), end(0, 0)]
                .concat();
        let seen = answer(&response).unwrap();
        assert_eq!(seen, [Seen::Head(200, vec![]), Seen::Body("x".into()), Seen::End(0)], "{kind} of {id}");
    }
}

#[test]
fn records_of_a_web_server_are_faults() {
    for kind in [1, 2, 4, 5, 8, 9, 10, 11] {
        assert_eq!(answer(&record(kind, 1, b"")), Err(Fault::UnexpectedType(kind)));
    }
    for kind in [1, 3, 6, 7, 9] {
        assert_eq!(answer(&record(kind, 0, b"")), Err(Fault::UnexpectedType(kind)));
    }
}

#[test]
fn records_of_another_request_are_faults() {
    assert_eq!(answer(&record(6, 2, b"\n")), Err(Fault::UnknownRequest(2)));
    assert_eq!(answer(&record(3, 256, &[0; 8])), Err(Fault::UnknownRequest(256)));
    assert_eq!(answer(&record(77, 2, b"")), Err(Fault::UnknownRequest(2)));
}

#[test]
fn a_refusal_is_a_fault() {
    for (status, refusal) in [
        (1, Refusal::CannotMultiplex),
        (2, Refusal::Overloaded),
        (3, Refusal::UnknownRole),
        (4, Refusal::Other(4)),
    ] {
        assert_eq!(answer(&end(0, status)), Err(Fault::Refused(refusal)));
    }
}

#[test]
fn an_end_within_the_header_is_a_fault() {
    assert_eq!(answer(&end(0, 0)), Err(Fault::NoHead));
    assert_eq!(answer(&[record(6, 1, b"A: 1\r\n"), end(0, 0)].concat()), Err(Fault::NoHead));
}

#[test]
fn an_end_that_is_too_short_is_a_fault() {
    assert_eq!(answer(&[record(6, 1, b"\n"), record(3, 1, &[0; 7])].concat()), Err(Fault::EndTooShort(7)));
    assert_eq!(answer(&record(3, 1, b"")), Err(Fault::EndTooShort(0)));
}

#[test]
fn unexpected_bytes_are_a_fault_and_padding_is_not() {
    for stray in [&[1][..], b"HTTP", b"HTTP/1.1", &record(6, 1, b"x"), &record(11, 0, b"")] {
        for step in [1, 99] {
            let mut connection = asked(true);
            let response = [&record(6, 1, b"\n")[..], &padded(3, 1, &[0; 8], 9)].concat();
            receive(&mut connection, &response, step).unwrap();
            assert!(connection.is_idle());
            assert_eq!(receive(&mut connection, stray, step), Err(Fault::Unrequested), "{stray:?} {step}");
        }
    }
    assert_eq!(receive(&mut Connection::new(true), &[1], 1), Err(Fault::Unrequested));
}

#[test]
fn garbage_is_a_fault() {
    assert_eq!(answer(b"HTTP/1.1 400 Bad Request\r\n"), Err(Fault::UnknownVersion(b'H')));
    assert_eq!(answer(&[0; 8]), Err(Fault::UnknownVersion(0)));
}

#[test]
fn a_header_without_end_is_a_fault() {
    let piece = record(6, 1, &[b'a'; 60_000]);
    let mut connection = asked(true);
    let outcome = (0..10).try_for_each(|_| receive(&mut connection, &piece, 1000).map(drop));
    assert_eq!(outcome, Err(Fault::HeadTooLarge));
}
