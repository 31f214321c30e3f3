//! The identity of clients, their rate limits and their traces, from outside.

use svc_testing::Svc;
use svc_testing::client::{Response, eventually};

const SHOW: &str = "<?php foreach (['REMOTE_ADDR', 'REMOTE_PORT', 'REQUEST_SCHEME', 'HTTPS', 'SERVER_NAME', \
                    'SERVER_PORT', 'HTTP_HOST'] as $n) echo $_SERVER[$n] ?? '-', ' ';";

/// Requests `path` with these fields.
fn ask(svc: &Svc, path: &str, fields: &[&str]) -> Response {
    let fields: String = fields.iter().map(|field| format!("\r\n{field}")).collect();
    svc.client().request(&format!("GET {path} HTTP/1.1\r\nHost: inner:8080{fields}"))
}

fn told(svc: &Svc, fields: &[&str]) -> String {
    ask(svc, "/show.php", fields).text().trim_end().to_owned()
}

#[test]
fn a_trusted_proxy_names_the_client_and_its_request() {
    let svc = Svc::start(
        &[("show.php", SHOW)],
        &[("TRUSTED_PROXIES", "private,203.0.113.0/24"), ("ACCESS_LOG", "all")],
    );
    let port = svc.main().port();
    for (fields, expected) in [
        (
            &["X-Forwarded-For: 6.6.6.6, 198.51.100.7, 203.0.113.5"][..],
            format!("198.51.100.7 0 http - inner {port} inner:8080"),
        ),
        (
            &[
                "X-Forwarded-For: 198.51.100.7:4711",
                "X-Forwarded-Proto: https",
                "X-Forwarded-Host: example.org",
            ],
            "198.51.100.7 4711 https on example.org 443 inner:8080".to_owned(),
        ),
        (
            &[
                "Forwarded: for=\"[2001:db8::7]:99\";proto=https;host=\"example.org:8443\"",
                "X-Forwarded-For: 6.6.6.6",
            ],
            "2001:db8::7 99 https on example.org 8443 inner:8080".to_owned(),
        ),
        // An unreadable entry ends the walk: a client cannot choose its own address.
        (
            &["X-Forwarded-For: 6.6.6.6, garbage, 203.0.113.5"],
            format!("203.0.113.5 0 http - inner {port} inner:8080"),
        ),
    ] {
        assert_eq!(told(&svc, fields), expected, "{fields:?}");
    }
    assert!(told(&svc, &["X-Forwarded-For: 6.6.6.6, garbage"]).starts_with("127.0.0.1 "));
    eventually("the client is in the log", || {
        svc.log().of("access").iter().any(|record| record["fields"]["client"] == "2001:db8::7")
    });
    let report: serde_json::Value = serde_json::from_str(&svc.ask("/config").text()).unwrap();
    assert_eq!(report["trusted_proxies"], true);
}

#[test]
fn only_fields_of_trusted_proxies_are_used() {
    for settings in [&[("TRUSTED_PROXIES", "203.0.113.0/24")][..], &[]] {
        let svc = Svc::start(&[("show.php", SHOW)], settings);
        let fields = [
            "X-Forwarded-For: 6.6.6.6",
            "X-Forwarded-Proto: https",
            "X-Forwarded-Host: evil",
            "Forwarded: for=6.6.6.6;proto=https;host=evil",
        ];
        let told = told(&svc, &fields);
        assert!(told.starts_with("127.0.0.1 ") && told.contains(" http - inner "), "{told}");
    }
}

#[test]
fn a_client_over_the_limit_gets_retry_after() {
    let svc = Svc::start(
        &[("show.php", "<?php echo 'ran';"), ("a.txt", "a")],
        &[("RATE_LIMIT", "4"), ("RATE_WINDOW_SECONDS", "3600"), ("TRUSTED_PROXIES", "127.0.0.1")],
    );
    let of = |client: &str, path: &str| ask(&svc, path, &[&format!("X-Forwarded-For: {client}")]);
    // Files, scripts and missing paths count alike, and every response has the rate limit's state.
    for (path, status, left) in
        [("/show.php", 200, 3), ("/a.txt", 200, 2), ("/none", 404, 1), ("/a.txt", 200, 0)]
    {
        let response = of("198.51.100.7", path);
        assert_eq!(response.status, status, "{path}");
        assert_eq!(response.field("ratelimit-policy"), Some("\"default\";q=4;w=3600"));
        assert!(
            response.field("ratelimit").unwrap().starts_with(&format!("\"default\";r={left};t=")),
            "{path}"
        );
        assert_eq!(response.field("retry-after"), None);
    }
    for path in ["/show.php", "/a.txt"] {
        let response = of("198.51.100.7", path);
        assert_eq!((response.status, response.text().as_str()), (429, "429 Too Many Requests\n"));
        let wait: u64 = response.field("retry-after").unwrap().parse().unwrap();
        assert!((890..=900).contains(&wait), "{wait}");
        assert_eq!(response.field("ratelimit"), Some(format!("\"default\";r=0;t={wait}").as_str()));
    }
    assert_eq!(of("198.51.100.8", "/a.txt").status, 200, "another client");
    // A /64 is one client.
    let statuses: Vec<u16> = (1..=5).map(|n| of(&format!("2001:db8::{n}"), "/a.txt").status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    svc.assert_metric("svc_rate_limited_total", 3.0);
}

#[test]
fn the_allowance_comes_back_with_the_time() {
    let svc = Svc::start(&[("a.txt", "a")], &[("RATE_LIMIT", "2"), ("RATE_WINDOW_SECONDS", "1")]);
    let mut client = svc.client();
    eventually("the limit is reached", || client.get("/a.txt").status == 429);
    eventually("there is room again", || client.get("/a.txt").status == 200);
}

#[test]
fn a_body_of_a_client_that_asked_too_often_is_not_waited_for() {
    let svc = Svc::start(&[("a.php", "<?php")], &[("RATE_LIMIT", "1"), ("MAX_BODY_BYTES", "10")]);
    let mut client = svc.client();
    assert_eq!(client.post("/a.php", b"x").status, 200);
    assert_eq!(client.post("/a.php", b"x").status, 429);
    assert_eq!(client.get("/a.php").status, 429, "the connection was lost");
    let response =
        client.request("POST /a.php HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 11");
    assert_eq!(response.status, 429);
    // An unreadable request gets the usual response, with the rate limit's fields.
    let response = svc.client().request("GET / HTTP/1.1\r\nHost: x\r\nHost: y");
    assert_eq!((response.status, response.field("ratelimit-policy")), (400, Some("\"default\";q=1;w=60")));
}

#[test]
fn without_a_limit_nothing_is_said_of_one() {
    let svc = Svc::start(&[("a.txt", "a")], &[]);
    let response = svc.get("/a.txt");
    assert_eq!((response.field("ratelimit"), response.field("ratelimit-policy")), (None, None));
    assert_eq!((response.field("traceparent"), response.field("tracestate")), (None, None));
}

const TRACE: &str = "<?php echo json_encode([$_SERVER['HTTP_TRACEPARENT'] ?? null, $_SERVER['HTTP_TRACESTATE'] ?? null, \
                     $_SERVER['SVC_TRACE_ID'] ?? null, array_change_key_case(getallheaders())['traceparent'] ?? null]);";

fn traced(svc: &Svc, fields: &[&str]) -> (Response, [Option<String>; 4]) {
    let response = ask(svc, "/trace.php", fields);
    let seen = serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("{}", response.text()));
    (response, seen)
}

#[test]
fn a_request_joins_the_trace_that_it_names() {
    let svc = Svc::start(
        &[("trace.php", TRACE), ("a.txt", "a")],
        &[("TRACE_CONTEXT", "true"), ("ACCESS_LOG", "all")],
    );
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let parent = format!("traceparent: 00-{trace}-{span}-01");
    let (response, seen) = traced(&svc, &[&parent, "tracestate: a=1", "tracestate: b=2"]);
    let ours = response.field("traceparent").unwrap().to_owned();
    assert!(
        ours.starts_with(&format!("00-{trace}-")) && ours.ends_with("-01") && !ours.contains(span),
        "{ours}"
    );
    assert_eq!(response.field("tracestate"), Some("a=1,b=2"));
    assert_eq!(seen, [Some(ours.clone()), Some("a=1,b=2".into()), Some(trace.into()), Some(ours.clone())]);
    eventually("the trace is in the log", || {
        svc.log().of("access").iter().any(|record| {
            record["fields"]["trace_id"] == trace && record["fields"]["span_id"] == ours[36..52]
        })
    });
    let file = ask(&svc, "/a.txt", &[&parent]);
    assert!(file.field("traceparent").unwrap().starts_with(&format!("00-{trace}-")));
}

#[test]
fn a_request_without_a_valid_trace_begins_one() {
    let svc = Svc::start(&[("trace.php", TRACE)], &[("TRACE_CONTEXT", "true")]);
    let mut traces = std::collections::HashSet::new();
    let valid = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for fields in [&[][..], &["traceparent: nonsense", "tracestate: a=1"], &[valid, valid]] {
        let (response, seen) = traced(&svc, fields);
        let ours = response.field("traceparent").unwrap();
        assert!(ours.len() == 55 && ours.ends_with("-00"), "{ours}");
        assert_eq!(seen, [Some(ours.into()), None, Some(ours[3..35].into()), Some(ours.into())]);
        assert!(traces.insert(ours[3..35].to_owned()));
    }
}

#[test]
fn without_trace_contexts_the_fields_are_like_any_others() {
    let svc = Svc::start(&[("trace.php", TRACE)], &[]);
    let (response, seen) = traced(&svc, &["traceparent: whatever", "tracestate: x"]);
    assert_eq!(seen, [Some("whatever".into()), Some("x".into()), None, Some("whatever".into())]);
    assert_eq!(response.field("traceparent"), None);
}
