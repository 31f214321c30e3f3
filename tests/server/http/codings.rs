//! Output of scripts in the content codings that clients prefer.
#![cfg(feature = "php")]

use svc_testing::Svc;
use svc_testing::books::check_books;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::decoder::{decoded, decoded_so_far, judged};
use svc_testing::http2::{Http2Client, head};
use svc_testing::skip::skipped;

const CODINGS: [&str; 3] = ["br", "gzip", "zstd"];

/// Runs the PHP code in the request's body.
const RUN: &str = "<?php eval(file_get_contents('php://input'));";

/// A PHP function that returns this many bytes of text.
const TEXT: &str = "function text(int $bytes): string { $s = ''; for ($i = 0; strlen($s) < $bytes; $i++) \
    $s .= '<li class=\"item\">entry ' . md5((string) $i) . \"</li>\\n\"; return substr($s, 0, $bytes); } ";

fn start(settings: &[(&str, &str)]) -> Svc {
    Svc::start(&[("index.php", RUN)], settings)
}

/// Runs `code` for a client that accepts these codings.
fn run(client: &mut Client, accepts: &str, code: &str) -> Response {
    send(client, "", accepts, code);
    client.response()
}

fn send(client: &mut Client, fields: &str, accepts: &str, code: &str) {
    let length = TEXT.len() + code.len();
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accepts}\r\n{fields}Content-Length: {length}\r\n\r\n{TEXT}{code}"
    ));
}

fn body(coding: &str, response: &Response) -> String {
    let body = decoded(coding, &response.body).unwrap_or_else(|| panic!("{coding}: {response:?}"));
    String::from_utf8(body).unwrap()
}

#[test]
fn each_coding_decodes_to_the_output_of_the_script() {
    let svc = start(&[("PHP_WORKERS", "1")]);
    let mut client = svc.client();
    // Several times: a thread keeps its encoders.
    for bytes in [300, 30_000, 30_001, 1_000_000, 301] {
        let plain = run(&mut client, "", &format!("echo text({bytes});"));
        assert_eq!((plain.body.len(), plain.field("content-encoding")), (bytes, None));
        assert_eq!(plain.field("vary"), Some("Accept-Encoding"));
        for coding in CODINGS {
            let response = run(&mut client, coding, &format!("echo text({bytes});"));
            assert_eq!(response.field("content-encoding"), Some(coding));
            assert_eq!(response.field("vary"), Some("Accept-Encoding"));
            assert_eq!(response.field("content-type"), Some("text/html; charset=UTF-8"));
            assert!(response.is_whole && response.body.len() < bytes, "{coding} {bytes}");
            let is_in_one_piece = response.field("content-length").is_some();
            assert!(is_in_one_piece || bytes > 64 * 1024, "{coding} {bytes}");
            assert!(body(coding, &response).as_bytes() == plain.body, "{coding} {bytes}");
        }
    }
}

#[test]
fn common_programs_read_it_too() {
    let svc = start(&[]);
    let mut client = svc.client();
    for coding in CODINGS {
        for code in ["echo text(20000);", "for ($i = 0; $i < 40; $i++) { echo text(5000); flush(); }"] {
            let response = run(&mut client, coding, code);
            match judged(coding, &response.body) {
                Some(verdict) => assert!(verdict.unwrap() == body(coding, &response).as_bytes(), "{coding}"),
                None => skipped(&format!("the program for {coding} is not installed")),
            }
        }
    }
}

#[test]
fn the_best_coding_wins_and_a_level_of_0_withdraws_one() {
    let chosen = |svc: &Svc, accepts: &str| {
        let response = run(&mut svc.client(), accepts, "echo text(5000);");
        (
            response.field("content-encoding").unwrap_or("").to_owned(),
            response.field("vary").unwrap_or("").to_owned(),
        )
    };
    let both = |coding: &str| (coding.to_owned(), "Accept-Encoding".to_owned());
    let svc = start(&[]);
    assert_eq!(chosen(&svc, "gzip, deflate, br, zstd"), both("zstd"));
    assert_eq!(chosen(&svc, "gzip, deflate, br"), both("br"));
    assert_eq!(chosen(&svc, "gzip;q=1.0, br;q=0.5"), both("gzip"));
    assert_eq!(chosen(&svc, "br;q=0"), both(""));
    assert_eq!(chosen(&svc, "*;q=0"), both(""), "who refuses everything gets it as it is");
    let svc = start(&[("ZSTD_LEVEL", "0"), ("BROTLI_LEVEL", "11"), ("GZIP_LEVEL", "1")]);
    assert_eq!(chosen(&svc, "gzip, deflate, br, zstd"), both("br"));
    assert_eq!(chosen(&svc, "zstd"), both(""));
    let svc = start(&[("ZSTD_LEVEL", "0"), ("BROTLI_LEVEL", "0"), ("GZIP_LEVEL", "0")]);
    assert_eq!(chosen(&svc, "gzip, deflate, br, zstd"), (String::new(), String::new()));
}

#[test]
fn a_higher_level_makes_less_of_the_same() {
    for (coding, variable, low, high) in [
        ("br", "BROTLI_LEVEL", "1", "11"),
        ("gzip", "GZIP_LEVEL", "1", "9"),
        ("zstd", "ZSTD_LEVEL", "1", "19"),
    ] {
        let sizes = [low, high].map(|level| {
            let svc = start(&[(variable, level)]);
            run(&mut svc.client(), coding, "echo text(60000);").body.len()
        });
        assert!(sizes[1] < sizes[0], "{coding}: {sizes:?}");
    }
}

#[test]
fn flushed_output_arrives_before_the_script_ends() {
    let svc = start(&[]);
    for coding in CODINGS {
        let (mut client, steps) = (svc.client(), svc.root().join(coding));
        std::fs::create_dir(&steps).unwrap();
        let code = format!(
            "header('Content-Type: text/event-stream'); for ($i = 1; $i <= 3; $i++) {{ echo \"data: $i\\n\\n\";
            while (ob_get_level()) ob_end_flush(); flush();
            while (!file_exists('{}/' . $i)) {{ usleep(1000); clearstatcache(); }} }} echo 'end';",
            steps.display()
        );
        send(&mut client, "", coding, &code);
        let head = client.head_only();
        assert_eq!((head.field("content-encoding"), head.field("content-length")), (Some(coding), None));
        let (mut bytes, mut said) = (Vec::new(), String::new());
        for number in 1..=3 {
            said += &format!("data: {number}\n\n");
            while decoded_so_far(coding, &bytes) != said.as_bytes() {
                bytes.extend_from_slice(&client.chunk().unwrap());
            }
            std::fs::write(steps.join(number.to_string()), "").unwrap();
        }
        while let Some(chunk) = client.chunk().filter(|chunk| !chunk.is_empty()) {
            bytes.extend_from_slice(&chunk);
        }
        assert_eq!(decoded(coding, &bytes), Some((said + "end").into_bytes()), "{coding}");
    }
}

#[test]
fn output_that_waits_in_the_coding_is_flushed_too() {
    let svc = start(&[]);
    for coding in CODINGS {
        let (mut client, go) = (svc.client(), svc.root().join(coding));
        let code = format!(
            "while (ob_get_level()) ob_end_flush(); echo text(70000); flush();
            while (!file_exists('{}')) {{ usleep(1000); clearstatcache(); }}",
            go.display()
        );
        send(&mut client, "", coding, &code);
        client.head_only();
        let mut bytes = Vec::new();
        while decoded_so_far(coding, &bytes).len() < 70_000 {
            bytes.extend_from_slice(&client.chunk().unwrap());
        }
        std::fs::write(&go, "").unwrap();
        while client.chunk().is_some_and(|chunk| !chunk.is_empty()) {}
    }
}

#[test]
fn incompressible_responses_are_sent_unchanged() {
    let svc = start(&[]);
    let mut client = svc.client();
    for code in [
        "header('Content-Type: image/png'); echo text(5000);",
        "header('Content-Type: application/zip'); echo text(5000);",
        "header_remove('Content-Type'); ini_set('default_mimetype', ''); echo text(5000);",
        "header('Content-Encoding: identity'); echo text(5000);",
        "header('Cache-Control: public, no-transform'); echo text(5000);",
        "header('Content-Range: bytes 0-4999/9000'); http_response_code(206); echo text(5000);",
        "echo text(255);",
        "",
    ] {
        let response = run(&mut client, "br, gzip, zstd", code);
        let coding = response.field("content-encoding").filter(|coding| *coding != "identity");
        assert_eq!((coding, response.field("vary")), (None, None), "{code}");
        assert_eq!(
            response.field("content-length"),
            Some(response.body.len().to_string().as_str()),
            "{code}"
        );
    }
    let response = run(&mut client, "br", "header('Content-Encoding: gzip'); echo gzencode(text(5000));");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(body("gzip", &response).len(), 5000);
    for status in [204, 205, 304] {
        let response = run(&mut client, "br", &format!("http_response_code({status}); echo text(5000);"));
        assert_eq!((response.status, response.field("content-encoding")), (status, None));
    }
    assert_eq!(run(&mut client, "br", "echo 'in step';").text(), "in step");
    let svc = Svc::start_with(&[("index.php", RUN)], &[], &["zlib.output_compression=1"]);
    let response = run(&mut svc.client(), "gzip, br", "echo text(5000);");
    assert_eq!(response.field("content-encoding"), Some("gzip"));
    assert_eq!(body("gzip", &response).len(), 5000, "coded once");
}

#[test]
fn fields_describe_the_copy() {
    let svc = start(&[]);
    let mut client = svc.client();
    for (code, etag, vary) in [
        ("header('ETag: \"a\"');", Some("W/\"a\""), "Accept-Encoding"),
        ("header('ETag: W/\"a\"');", Some("W/\"a\""), "Accept-Encoding"),
        ("header('Vary: Cookie'); header('Vary: Accept', false);", None, "Cookie, Accept, Accept-Encoding"),
        ("header('Vary: accept-encoding');", None, "accept-encoding"),
        ("header('Vary: *');", None, "*"),
        ("header('Content-Length: 5000'); header('Accept-Ranges: bytes');", None, "Accept-Encoding"),
    ] {
        let response = run(&mut client, "gzip", &format!("{code} echo text(5000);"));
        assert_eq!((response.field("etag"), response.field("vary")), (etag, Some(vary)), "{code}");
        assert_eq!((response.field("accept-ranges"), body("gzip", &response).len()), (None, 5000), "{code}");
        let plain = run(&mut client, "", &format!("{code} echo text(5000);"));
        assert_eq!((plain.field("vary"), plain.body.len()), (Some(vary), 5000), "{code}");
        let strong = etag.map(|etag| if code.contains("W/") { etag } else { &etag[2..] });
        assert_eq!(plain.field("etag"), strong, "{code}");
    }
    let not_modified = |client: &mut Client, held: &str| {
        let code = "http_response_code(304); header('ETag: \"a\"');";
        send(client, &format!("If-None-Match: {held}\r\n"), "gzip", code);
        let response = client.response();
        assert_eq!((response.status, response.field("vary")), (304, Some("Accept-Encoding")));
        response.field("etag").map(str::to_owned)
    };
    assert_eq!(not_modified(&mut client, "W/\"a\"").as_deref(), Some("W/\"a\""));
    assert_eq!(not_modified(&mut client, "\"a\"").as_deref(), Some("\"a\""));
}

#[test]
fn head_is_answered_as_get_is() {
    let page = "<?php header('ETag: \"a\"'); echo str_repeat('All work and no play. ', 500);
        if (isset($_GET['flush'])) { while (ob_get_level()) ob_end_flush(); flush(); echo 'more'; }";
    let svc = Svc::start(&[("index.php", page)], &[]);
    let mut client = svc.client();
    let fields = |response: &Response| {
        let varying = ["date", "x-request-id", "content-length", "transfer-encoding"];
        let all = response.fields.iter().filter(|(name, _)| !varying.contains(&name.as_str()));
        all.cloned().collect::<Vec<_>>()
    };
    for path in ["/", "/?flush"] {
        for accepts in ["gzip", "identity"] {
            let rest = format!("{path} HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {accepts}");
            let (get, head) =
                (client.request(&format!("GET {rest}")), client.request(&format!("HEAD {rest}")));
            assert_eq!(fields(&get), fields(&head), "{rest}");
            assert_eq!(get.field("content-encoding").is_some(), accepts == "gzip");
            if accepts == "gzip" {
                assert_eq!(head.field("content-length"), None, "it is unknown");
            }
        }
    }
    eventually("bodies are counted, and nothing else", || {
        svc.metric("svc_compressed_responses_total") == 2.0
    });
}

#[test]
fn a_script_that_breaks_off_leaves_its_output_without_an_end() {
    let svc = start(&[]);
    for coding in CODINGS {
        let code =
            "while (ob_get_level()) ob_end_flush(); echo 'begun '; flush(); echo 'and left'; nothing();";
        let response = run(&mut svc.client(), coding, code);
        assert_eq!((response.status, response.is_whole), (200, false), "{coding}");
        assert_eq!(decoded_so_far(coding, &response.body), b"begun and left", "{coding}");
        assert_eq!(decoded(coding, &response.body), None, "{coding}");
    }
    let response = run(&mut svc.client(), "gzip", "echo text(5000); nothing();");
    assert_eq!((response.status, response.field("content-encoding")), (500, Some("gzip")));
    assert_eq!(body("gzip", &response).len(), 5000);
    let response = run(&mut svc.client(), "gzip", "nothing();");
    assert_eq!((response.status, response.field("content-encoding")), (500, None));
}

#[test]
fn a_script_is_held_to_the_length_that_it_announces() {
    let svc = start(&[]);
    let flushed = "while (ob_get_level()) ob_end_flush(); echo text(3000); flush(); echo text(3000);";
    for coding in CODINGS {
        let announced = |length: usize, code: &str| {
            run(&mut svc.client(), coding, &format!("header('Content-Length: {length}'); {code}"))
        };
        let exact = announced(6000, flushed);
        assert_eq!((exact.is_whole, body(coding, &exact).len()), (true, 6000), "{coding}");
        let long = announced(4000, flushed);
        assert_eq!((long.is_whole, body(coding, &long).len()), (true, 4000), "{coding}");
        let short = announced(9000, flushed);
        assert!(!short.is_whole && decoded(coding, &short.body).is_none(), "{coding}");
        let short = announced(9000, "echo text(3000);");
        assert_eq!((short.is_whole, short.field("content-encoding")), (false, None), "{coding}");
    }
}

#[test]
fn a_reply_that_is_finished_early_is_complete() {
    let svc = start(&[("PHP_WORKERS", "1")]);
    let mut client = svc.client();
    for coding in CODINGS {
        for begin in ["", "while (ob_get_level()) ob_end_flush(); echo 'a'; flush();"] {
            let code = format!("{begin} echo text(3000); svc_finish_request(); echo 'unheard'; flush();");
            let response = run(&mut client, coding, &code);
            assert_eq!(body(coding, &response).len(), 3000 + usize::from(!begin.is_empty()), "{coding}");
        }
        let empty = run(&mut client, coding, "while (ob_get_level()) ob_end_flush(); flush();");
        assert!(empty.is_whole);
        assert_eq!(decoded(coding, &empty.body), Some(Vec::new()), "{coding}: no output at all");
    }
}

#[test]
fn a_script_learns_through_the_coding_that_its_client_left() {
    let svc = start(&[("PHP_WORKERS", "1")]);
    for coding in CODINGS {
        let mut client = svc.client();
        let code = format!(
            "ignore_user_abort(true); while (ob_get_level()) ob_end_flush(); echo 'a'; flush();
            while (!connection_aborted()) {{ echo text(100); flush(); usleep(100); }} touch('{}/{coding}');",
            svc.root().display()
        );
        send(&mut client, "", coding, &code);
        client.head_only();
        drop(client);
        eventually("the script notices", || svc.root().join(coding).exists());
    }
    assert_eq!(run(&mut svc.client(), "gzip", "echo 'alive';").text(), "alive");
}

#[test]
fn http_1_0_gets_codings_that_it_asks_for() {
    let svc = start(&[]);
    for code in [
        "echo text(5000);",
        "while (ob_get_level()) ob_end_flush(); echo text(4000); flush(); echo text(1000);",
    ] {
        let mut client = svc.client();
        client.send(format!(
            "POST / HTTP/1.0\r\nAccept-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{TEXT}{code}",
            TEXT.len() + code.len()
        ));
        let response = client.response();
        assert_eq!((response.field("content-encoding"), body("gzip", &response).len()), (Some("gzip"), 5000));
    }
}

#[test]
fn http_2_gets_codings_of_many_streams_at_a_time() {
    let page = "<?php for ($i = 0; $i < 40; $i++) { echo str_repeat($_GET['n'] . ' little pages. ', 300);
        if (isset($_GET['flush'])) flush(); }";
    let svc = Svc::start_with(&[("page.php", page)], &[], &["output_buffering=0"]);
    let mut client = Http2Client::connect(svc.main());
    let asked: Vec<_> = (0..12)
        .map(|number| {
            let (path, coding) =
                (format!("/page.php?n={number}{}", ["", "&flush"][number % 2]), CODINGS[number % 3]);
            let mut fields = head("GET", &path);
            fields.push(("accept-encoding", coding));
            (client.open(&fields, true), coding, format!("{number} little pages. ").repeat(300 * 40))
        })
        .collect();
    for (id, coding, page) in asked {
        let response = client.response(id);
        assert_eq!((response.field("content-encoding"), response.is_whole), (Some(coding), true));
        assert!(body(coding, &response) == page, "{coding}");
    }
}

#[test]
fn files_are_in_the_books_too() {
    let text = "body { margin: 0 } ".repeat(1000);
    let svc = Svc::start(&[("a.css", &text)], &[]);
    let mut client = svc.client();
    let mut coded = Vec::new();
    eventually("a copy is made", || {
        let response = client.request("GET /a.css HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br");
        assert_eq!(response.field("vary"), Some("Accept-Encoding"));
        let is_coded = response.field("content-encoding") == Some("br");
        assert!(
            decoded(if is_coded { "br" } else { "identity" }, &response.body).unwrap() == text.as_bytes()
        );
        coded = response.body;
        is_coded
    });
    eventually("it is counted", || svc.metric("svc_compressed_responses_total") == 1.0);
    svc.assert_metric("svc_compression_bytes_saved_total", (text.len() - coded.len()) as f64);
}

#[test]
fn metrics_count_the_bytes_that_codings_saved() {
    let svc = start(&[]);
    let mut client = svc.client();
    let mut on_the_wire = 0;
    for (accepts, code) in [
        ("gzip", "echo text(20000);"),
        ("br", "while (ob_get_level()) ob_end_flush(); echo text(10000); flush(); echo text(10000);"),
        ("", "echo text(20000);"),
    ] {
        on_the_wire += run(&mut client, accepts, code).body.len();
    }
    // Two bytes that are flushed one by one become more when coded.
    on_the_wire +=
        run(&mut client, "gzip", "while (ob_get_level()) ob_end_flush(); echo 'a'; flush(); echo 'b';")
            .body
            .len();
    eventually("the books are closed", || svc.metric("svc_response_bytes_total") == on_the_wire as f64);
    eventually("the last one is counted", || svc.metric("svc_compressed_responses_total") == 3.0);
    // This response saved nothing: the bytes missing on the wire equal the savings of the others.
    let is_balanced = || {
        let grown = on_the_wire as f64 + svc.metric("svc_compression_bytes_saved_total") - 60_000.0;
        (2.0..60.0).contains(&grown)
    };
    eventually("what was saved is counted", is_balanced);
    drop(client);
    check_books(&svc);
}

#[test]
fn uncompressed_responses_are_not_counted() {
    let pages = tempfile::tempdir().unwrap();
    std::fs::write(pages.path().join("5xx.html"), "<p>ours").unwrap();
    let svc = start(&[("ERROR_PAGES_DIR", pages.path().to_str().unwrap())]);
    let mut client = svc.client();
    // The operator's error page replaces the script's output.
    let response = run(&mut client, "gzip", "echo text(20000); undefined_function();");
    assert_eq!((response.status, response.text().as_str()), (500, "<p>ours"));
    assert_eq!(response.field("content-encoding"), None);
    // The client leaves before the head is sent.
    let root = svc.root().display();
    let code = format!(
        "ignore_user_abort(true); touch('{root}/inside');
        while (!file_exists('{root}/go')) {{ usleep(1000); clearstatcache(); }}
        while (ob_get_level()) ob_end_flush(); echo text(20000); flush(); echo text(20000); touch('{root}/over');"
    );
    send(&mut client, "", "gzip", &code);
    eventually("it runs", || svc.root().join("inside").exists());
    drop(client);
    eventually("its client has left", || {
        svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}") == 1.0
    });
    std::fs::write(svc.root().join("go"), "").unwrap();
    eventually("it has ended", || svc.root().join("over").exists() && svc.metric("svc_busy_workers") == 0.0);
    let books = || {
        ["svc_compressed_responses_total", "svc_compression_bytes_saved_total"]
            .map(|series| svc.metric(series))
    };
    assert_eq!(books(), [0.0, 0.0]);
    // A coded response is counted, with all bytes that it saved.
    let response = run(&mut svc.client(), "gzip", "echo text(20000);");
    let saved = (20_000 - response.body.len()) as f64;
    eventually("both books have it", || books() == [1.0, saved]);
}
