//! The effects of header(), output functions and svc's functions on a script's response.

use svc_testing::Svc;
use svc_testing::client::{Response, eventually};
use svc_testing::http2::Http2Client;

/// Runs the PHP code in the request's body.
const RUN: &str = "<?php eval(file_get_contents('php://input'));";

fn start(directives: &[&str]) -> Svc {
    Svc::start_with(&[("index.php", RUN)], &[], directives)
}

fn run(svc: &Svc, code: &str) -> Response {
    svc.client().post("/", code.as_bytes())
}

fn values<'a>(response: &'a Response, name: &str) -> Vec<&'a str> {
    response.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
}

#[test]
fn fields_are_replaced_appended_and_removed() {
    let svc = start(&[]);
    let response = run(
        &svc,
        "header('X-A: 1'); header('x-a: 2'); header('X-B: 1'); header('X-B: 2', false); header('X-C: 1'); header_remove('X-C');
        header('X-Empty:'); header('X-Space:   v  '); setcookie('a', 'b c', ['httponly' => true]); setrawcookie('d', 'e');
        header('no colon'); echo json_encode(headers_list());",
    );
    assert_eq!(values(&response, "x-a"), ["2"]);
    assert_eq!(values(&response, "x-b"), ["1", "2"]);
    assert_eq!(values(&response, "x-c"), [""; 0]);
    assert_eq!(values(&response, "x-space"), ["v"]);
    assert_eq!(values(&response, "set-cookie"), ["a=b%20c; HttpOnly", "d=e"]);
    assert!(response.fields.iter().all(|(name, _)| !name.contains("colon")), "{:?}", response.fields);
    assert!(response.text().contains("\"X-B: 1\",\"X-B: 2\""), "{}", response.text());
    assert_eq!(values(&run(&svc, "header_remove();"), "x-powered-by"), [""; 0]);
}

#[test]
fn a_status_can_be_said_in_each_way() {
    let svc = start(&[]);
    for (code, status, reason) in [
        ("http_response_code(404);", 404, "Not Found"),
        ("header('X-A: b', true, 503);", 503, "Service Unavailable"),
        ("header('HTTP/1.1 418 Short and stout');", 418, "Short and stout"),
        ("header('HTTP/1.0 410 Gone');", 410, "Gone"),
        ("header('HTTP/1.1 404');", 404, "Not Found"),
        ("header('HTTP/1.1 200 OK'); http_response_code(201);", 201, "Created"),
        ("header('Location: /there');", 302, "Found"),
        ("header('Location: /there', true, 308);", 308, "Permanent Redirect"),
        ("http_response_code(201); header('Location: /there');", 201, "Created"),
        ("header('WWW-Authenticate: Basic realm=\"a\"');", 401, "Unauthorized"),
        ("http_response_code(599);", 599, ""),
        ("echo http_response_code();", 200, "OK"),
    ] {
        let response = run(&svc, code);
        assert_eq!(response.status, status, "{code}");
        assert!(reason.is_empty() || response.reason == reason, "{code}: {}", response.reason);
    }
    for code in ["http_response_code(99);", "http_response_code(1000);", "http_response_code(101);"] {
        assert_eq!(run(&svc, code).status, 500, "{code}: no client can understand it");
    }
}

#[test]
fn odd_status_lines_do_no_harm() {
    let svc = start(&[]);
    for line in ["HTTP/", "HTTP/1", "HTTP/1.1", "HTTP/1.1 ", "HTTP/9.9 204", "HTTP/1.1 abc def", ""] {
        let response = run(&svc, &format!("header('{line}');"));
        assert!([200, 204, 500].contains(&response.status), "{line:?}: {}", response.status);
    }
    assert_eq!(run(&svc, "echo 'alive';").text(), "alive");
}

#[test]
fn nothing_can_be_smuggled_into_a_head() {
    let svc = start(&[]);
    let response = run(
        &svc,
        r#"header("X-A: 1\r\nX-Evil: 1"); header("X-B: 1\nX-Evil: 1"); header("X-C: a\0b"); 
        header("HTTP/1.1 200 OK\r\nX-Evil: 1"); header("Location: /\r\n\r\n<script>"); http_response_code(200); echo "body";"#,
    );
    assert_eq!(values(&response, "x-evil"), [""; 0], "{:?}", response.fields);
    assert_eq!(response.text(), "body");
}

#[test]
fn a_response_that_is_flushed_is_chunked_however_soon_it_ends() {
    let svc = start(&["output_buffering=4096"]);
    let codes = [
        "echo 'a'; ob_flush(); flush();",
        "flush();",
        "echo 'a'; ob_flush(); flush(); echo 'b';",
        "echo str_repeat('a', 70_000);",
    ];
    for code in codes {
        for _ in 0..20 {
            let response = run(&svc, code);
            let fields = (response.field("transfer-encoding"), response.field("content-length"));
            assert_eq!(fields, (Some("chunked"), None), "{code}");
        }
        let mut client = Http2Client::connect(svc.main());
        let response = client.post("/", code.as_bytes());
        assert_eq!((response.status, response.field("content-length")), (200, None), "{code}");
    }
    let length = run(&svc, "header('Content-Length: 2'); echo 'a'; ob_flush(); flush(); echo 'b';");
    assert_eq!((length.field("content-length"), length.text().as_str()), (Some("2"), "ab"));
    let mut old = svc.client();
    let response = old.request("POST / HTTP/1.0\r\nContent-Length: 18\r\n\r\necho 'a'; flush();");
    assert_eq!((response.field("transfer-encoding"), response.text().as_str()), (None, "a"));
}

#[test]
fn fields_of_the_connection_are_the_server_s() {
    let svc = start(&[]);
    let mut client = svc.client();
    let code =
        "header('Connection: close'); header('Transfer-Encoding: chunked'); header('Keep-Alive: timeout=1');
        header('Upgrade: h2c'); header('Date: Mon, 25 Mar 1985 00:20:00 GMT'); echo 'body';";
    let response = client.post("/", code.as_bytes());
    assert_eq!((response.text().as_str(), response.field("content-length")), ("body", Some("4")));
    for name in ["transfer-encoding", "keep-alive", "upgrade"] {
        assert_eq!(values(&response, name), [""; 0], "{name}");
    }
    assert_eq!(values(&response, "date").len(), 1);
    assert_eq!(client.post("/", b"echo 'again';").text(), "again");
}

#[test]
fn the_content_type_has_its_default_and_its_charset() {
    let svc = start(&[]);
    let kind = |code: &str| run(&svc, code).field("content-type").map(str::to_owned);
    assert_eq!(kind("echo 1;").unwrap(), "text/html; charset=UTF-8");
    assert_eq!(kind("header('Content-Type: text/plain');").unwrap(), "text/plain;charset=UTF-8");
    assert_eq!(kind("header('Content-Type: image/png');").unwrap(), "image/png");
    assert_eq!(
        kind("ini_set('default_mimetype', 'text/x'); ini_set('default_charset', ''); echo 1;").unwrap(),
        "text/x"
    );
}

#[test]
fn callbacks_and_questions_about_the_head_work() {
    let svc = start(&[]);
    let response = run(
        &svc,
        "header_register_callback(function () { header('X-Late: 1'); header_remove('X-Early'); }); header('X-Early: 1'); echo 'a';",
    );
    assert_eq!((response.field("x-late"), response.field("x-early")), (Some("1"), None));
    let text = run(&svc, "$a = headers_sent();\necho 'x';\nwhile (ob_get_level()) ob_end_flush(); flush();\n$b = headers_sent($file, $line); @header('X-No: 1'); echo (int) $a, (int) $b, ' ', $line > 0;").text();
    assert_eq!(text, "x01 1");
    let response =
        run(&svc, "header('X-A: v'); setcookie('c', '1'); echo json_encode(apache_response_headers());");
    assert!(
        response.text().contains("\"X-A\":\"v\"") && response.text().contains("\"Set-Cookie\":\"c=1\""),
        "{}",
        response.text()
    );
}

#[test]
fn early_hints_go_ahead_of_the_response() {
    let svc = start(&[]);
    let mut client = svc.client();
    let code = "header('Link: </a.css>; rel=preload'); var_dump(headers_send(103)); header('X-Final: 1'); echo 'body';";
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{code}", code.len()));
    let hints = client.head_only();
    assert_eq!((hints.status, hints.reason.as_str()), (103, "Early Hints"));
    assert_eq!(
        (hints.field("link"), hints.field("x-final"), hints.field("content-length")),
        (Some("</a.css>; rel=preload"), None, None)
    );
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, "bool(true)\nbody"));
    assert_eq!(
        (response.field("link"), response.field("x-final")),
        (Some("</a.css>; rel=preload"), Some("1"))
    );
    client.send(format!("POST / HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n{code}", code.len()));
    assert_eq!(client.head_only().status, 200, "HTTP/1.0 knows no informational responses");
}

#[test]
fn a_head_can_be_sent_before_its_body() {
    let svc = start(&[]);
    let response =
        run(&svc, "header('X-A: 1'); var_dump(headers_send(203), headers_sent(), headers_send(103));");
    assert_eq!((response.status, response.field("x-a")), (203, Some("1")));
    assert_eq!(response.text(), "bool(true)\nbool(true)\nbool(false)\n");
    assert!(
        run(&svc, "try { headers_send(101); } catch (ValueError) { echo 'refused'; }")
            .text()
            .contains("refused")
    );
}

#[test]
fn output_buffers_nest_and_are_flushed_at_the_end() {
    let svc = start(&[]);
    let text = |code: &str| run(&svc, code).text();
    assert_eq!(text("ob_start(); echo 'gone'; ob_end_clean(); echo 'kept';"), "kept");
    assert_eq!(
        text("ob_start(fn ($s) => strtoupper($s)); echo 'a'; ob_start(fn ($s) => \"<$s>\"); echo 'b';"),
        "A<B>"
    );
    assert_eq!(text("ob_start(); echo 'a'; $x = ob_get_clean(); echo strrev($x . 'b');"), "ba");
    assert_eq!(text("echo 'a'; ob_start(); echo 'b'; exit('c');"), "abc");
    assert_eq!(text("ob_start(fn () => 'swallowed'); echo 'x'; nothing();"), "swallowed");
    let svc = start(&["output_buffering=0", "implicit_flush=0"]);
    assert_eq!(run(&svc, "echo 'a'; echo 'b';").text(), "ab");
    let svc = start(&["output_handler=ob_gzhandler"]);
    let mut client = svc.client();
    let code = "echo 'body';";
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{code}",
        code.len()
    ));
    let response = client.response();
    assert_eq!((response.field("content-encoding"), &response.body[..2]), (Some("gzip"), &[0x1f, 0x8b][..]));
}

#[test]
fn a_head_request_gets_the_head_of_the_same_get() {
    let files = [(
        "index.php",
        "<?php header('X-A: 1'); echo 'body'; file_put_contents(__DIR__ . '/end', $_SERVER['REQUEST_METHOD']);",
    )];
    let svc = Svc::start(&files, &[]);
    let mut client = svc.client();
    let head = client.request("HEAD / HTTP/1.1\r\nHost: x");
    assert_eq!((head.status, head.field("x-a"), head.field("content-length")), (200, Some("1"), Some("4")));
    assert_eq!(std::fs::read(svc.root().join("end")).unwrap(), b"HEAD", "the script ran to its end");
    assert_eq!(client.get("/").text(), "body", "the connection is in step");
}

#[test]
fn statuses_without_a_body_have_none() {
    let svc = start(&[]);
    let mut client = svc.client();
    for status in [204, 304] {
        let response = client.post("/", format!("http_response_code({status}); echo 'body';").as_bytes());
        assert_eq!((response.status, response.field("transfer-encoding")), (status, None));
        assert_eq!(response.field("content-type").is_some(), status == 204);
    }
    assert_eq!(client.post("/", b"echo 'in step';").text(), "in step");
}

#[test]
fn long_output_arrives_whole() {
    let svc = start(&[]);
    let mut client = svc.client();
    let response = client.post("/", b"for ($i = 0; $i < 3000; $i++) echo str_pad((string) $i, 1000, '-');");
    assert!(response.is_whole);
    assert_eq!(response.body.len(), 3_000_000);
    assert!(
        response
            .body
            .chunks(1000)
            .enumerate()
            .all(|(number, line)| line.starts_with(number.to_string().as_bytes()))
    );
    assert_eq!(client.post("/", b"echo 'again';").text(), "again");
}

#[test]
fn after_finish_request_the_script_runs_on_unheard() {
    let svc = Svc::start(&[("index.php", RUN)], &[("PHP_WORKERS", "1")]);
    let root = svc.root().display();
    let code = format!(
        "ob_start(); echo 'said'; header('X-A: 1'); $ok = fastcgi_finish_request(); echo 'unheard'; header('X-B: 1'); flush();
        $again = svc_finish_request(); touch('{root}/inside'); while (!file_exists('{root}/go')) {{ usleep(1000); clearstatcache(); }}
        file_put_contents('{root}/end.tmp', json_encode([$ok, $again, connection_status(), connection_aborted()])); rename('{root}/end.tmp', '{root}/end');"
    );
    let response = run(&svc, &code);
    assert_eq!(
        (response.text().as_str(), response.field("x-a"), response.field("x-b")),
        ("said", Some("1"), None)
    );
    eventually("the script runs on", || svc.root().join("inside").exists());
    svc.assert_metric("svc_busy_workers", 1.0);
    svc.assert_metric("svc_pending_requests", 0.0);
    std::fs::write(svc.root().join("go"), "").unwrap();
    eventually("the script ends", || svc.root().join("end").exists());
    assert_eq!(std::fs::read_to_string(svc.root().join("end")).unwrap(), "[true,false,0,0]");
    assert_eq!(run(&svc, "echo 'next';").text(), "next");
    eventually("the worker is idle", || svc.metric("svc_busy_workers") == 0.0);
    svc.assert_metric("svc_abandoned_work_total", 0.0);
}

#[test]
fn the_sapi_has_its_own_name() {
    let svc = start(&[]);
    assert_eq!(run(&svc, "echo PHP_SAPI, ' ', php_sapi_name();").text(), "svc svc");
    let info = run(&svc, "phpinfo();").text();
    assert!(info.contains("Server API") && info.len() > 10_000);
}

#[test]
fn a_callback_for_headers_is_called_before_extensions_end() {
    let svc = start(&[]);
    let set = "putenv('CHANGED=1'); header_register_callback(function () { header('X-Seen: ' . getenv('CHANGED')); putenv('CHANGED'); });";
    for code in ["echo 'a';", "", "exit;"] {
        let response = run(&svc, &format!("{set}{code}"));
        assert_eq!((response.status, response.field("x-seen")), (200, Some("1")), "{code}");
        assert!(response.field("content-type").is_some(), "{code}");
    }
    let jumps = "header_register_callback(function () { str_repeat('x', PHP_INT_MAX >> 4); });";
    assert_eq!(run(&svc, jumps).status, 500);
    assert_eq!(run(&svc, "echo 'alive';").text(), "alive");
}
