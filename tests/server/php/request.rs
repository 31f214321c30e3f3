//! The request as a script sees it: superglobals, CGI variables, bodies, uploads, cookies, authorization, sessions.

use serde_json::{Value, json};

use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::Http2Client;
use svc_testing::{IS_WORKER, Svc};

/// Prints as JSON the expression that the query's `show` selects.
const SHOW: &str = r#"<?php
header('Content-Type: application/json');
echo json_encode(match ($_GET['show'] ?? 'server') {
    'server' => $_SERVER,
    'input' => ['get' => $_GET, 'post' => $_POST, 'request' => $_REQUEST, 'cookie' => $_COOKIE, 'files' => $_FILES,
        'env' => $_ENV, 'raw' => file_get_contents('php://input'), 'stdin' => stream_get_contents(fopen('php://input', 'r'))],
    'headers' => [getallheaders(), apache_request_headers()],
}, JSON_THROW_ON_ERROR | JSON_FORCE_OBJECT);
"#;

fn parsed(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_slice(&response.body).unwrap_or_else(|_| panic!("no JSON: {}", response.text()))
}

fn ask(client: &mut Client, head: &str) -> Value {
    parsed(&client.request(head))
}

/// Sends a form of type `kind`; returns the script's view of it.
fn send(client: &mut Client, target: &str, kind: &str, body: &str) -> Value {
    let length = body.len();
    client.send(format!(
        "POST {target} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    parsed(&client.response())
}

#[test]
fn the_variables_are_those_of_cgi() {
    let svc = Svc::start(&[("dir/show.php", SHOW)], &[]);
    let mut client = svc.client();
    let seen = ask(
        &mut client,
        "GET /dir/show.php/more%20path/?show=server&q=%41+b HTTP/1.1\r\nHost: Example.org.:81\r\nX-Own: a\r\nX-Own: b",
    );
    let root = svc.root().canonicalize().unwrap().to_str().unwrap().to_owned();
    for (name, value) in [
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("SERVER_NAME", "example.org"),
        ("SERVER_ADDR", "127.0.0.1"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_SCHEME", "http"),
        ("REQUEST_URI", "/dir/show.php/more%20path/?show=server&q=%41+b"),
        ("QUERY_STRING", "show=server&q=%41+b"),
        ("SCRIPT_NAME", "/dir/show.php"),
        ("PATH_INFO", "/more path/"),
        ("PHP_SELF", "/dir/show.php/more path/"),
        ("DOCUMENT_URI", "/dir/show.php/more path/"),
        ("HTTP_HOST", "Example.org.:81"),
        ("HTTP_X_OWN", "a, b"),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
    assert_eq!(seen["DOCUMENT_ROOT"], root.as_str());
    assert_eq!(seen["SCRIPT_FILENAME"], format!("{root}/dir/show.php"));
    assert_eq!(seen["PATH_TRANSLATED"], format!("{root}/more path/"));
    assert_eq!(seen["SERVER_PORT"], svc.main().port().to_string());
    assert_eq!(seen["REMOTE_PORT"], client.socket().local_addr().unwrap().port().to_string());
    assert!(seen["SERVER_SOFTWARE"].as_str().unwrap().starts_with("svc/"));
    let (whole, precise) =
        (seen["REQUEST_TIME"].as_u64().unwrap(), seen["REQUEST_TIME_FLOAT"].as_f64().unwrap());
    assert_eq!(whole, precise as u64);
    // The variables that nginx with Debian's configuration passes with every request.
    for (name, value) in [("REDIRECT_STATUS", "200"), ("CONTENT_LENGTH", ""), ("CONTENT_TYPE", "")] {
        assert_eq!(seen[name], value, "{name}");
    }
    for absent in ["HTTPS", "PHP_AUTH_USER", "argv"] {
        assert_eq!(seen[absent], Value::Null, "{absent}");
    }
}

#[test]
fn fields_cannot_pose_as_others() {
    let svc = Svc::start(&[("index.php", SHOW)], &[]);
    let seen = ask(
        &mut svc.client(),
        "GET / HTTP/1.0\r\nHost: x\r\nProxy: http://evil\r\nX_Real_IP: evil\r\nX-Real-IP: good\r\nEmpty:\r\nBytes: \u{e9}<&'\"",
    );
    assert_eq!(seen["HTTP_X_REAL_IP"], "good");
    assert_eq!(seen["HTTP_PROXY"], Value::Null);
    assert_eq!(seen["HTTP_EMPTY"], "");
    assert_eq!(seen["HTTP_BYTES"], "\u{e9}<&'\"");
    assert_eq!((&seen["SERVER_PROTOCOL"], &seen["QUERY_STRING"]), (&json!("HTTP/1.0"), &json!("")));
    let seen = ask(
        &mut svc.client(),
        "GET /?show=headers HTTP/1.0\r\nHost: x\r\nProxy: http://evil\r\nX_Real_IP: evil\r\nX.Real.IP: evil\r\nX-Real-IP: good",
    );
    assert_eq!(seen["0"]["X-Real-Ip"], "good");
    for absent in ["Proxy", "X_Real_IP", "X_real_ip", "X.Real.IP", "X.real.ip"] {
        assert_eq!(seen["0"][absent], Value::Null, "{absent}");
    }
}

#[test]
fn forms_and_cookies_fill_the_superglobals() {
    let svc = Svc::start(&[("index.php", SHOW)], &[]);
    let mut client = svc.client();
    client.send(
        "POST /?show=input&a%5B%5D=1&a[]=2&same=get HTTP/1.1\r\nHost: x\r\nCookie: c=%31; same=cookie\r\n\
         Cookie: d=2; odd\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 20\r\n\r\nb[k]=v&same=post&e=%",
    );
    let seen = parsed(&client.response());
    assert_eq!(seen["get"], json!({"show": "input", "a": {"0": "1", "1": "2"}, "same": "get"}));
    assert_eq!(seen["post"], json!({"b": {"k": "v"}, "same": "post", "e": "%"}));
    assert_eq!(seen["cookie"], json!({"c": "1", "same": "cookie", "d": "2", "odd": ""}));
    assert_eq!(seen["request"]["same"], "post");
    assert_eq!(
        (&seen["raw"], &seen["stdin"]),
        (&json!("b[k]=v&same=post&e=%"), &json!("b[k]=v&same=post&e=%"))
    );
    assert_eq!(seen["env"], json!({}), "variables_order is that of php.ini-production");
}

#[test]
fn bodies_of_any_kind_and_method_are_in_php_input() {
    let svc = Svc::start(&[("index.php", SHOW)], &[]);
    let mut client = svc.client();
    let seen = send(&mut client, "/?show=input", "application/json", r#"{"a": 1}"#);
    assert_eq!((&seen["raw"], &seen["post"]), (&json!(r#"{"a": 1}"#), &json!({})));
    for method in ["PUT", "PATCH", "DELETE", "QUERY", "PROPFIND"] {
        client.send(format!("{method} /?show=input HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"));
        assert_eq!(parsed(&client.response())["raw"], "abcde", "{method}");
    }
    client.send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: text/x; a=b\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let seen = parsed(&client.response());
    assert_eq!((&seen["CONTENT_LENGTH"], &seen["CONTENT_TYPE"]), (&json!("3"), &json!("text/x; a=b")));
}

#[test]
fn large_forms_are_complete() {
    let script = "<?php echo count($_POST), ' ', strlen($_POST['big']), ' ', md5($_POST['big']) === md5(str_repeat('0123456789', 30000));";
    let svc = Svc::start(&[("index.php", script)], &[]);
    let mut client = svc.client();
    let body = format!("a=1&big={}", "0123456789".repeat(30_000));
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    assert_eq!(client.response().text(), "2 300000 1");
}

/// Keeps the third upload, prints the paths of the others, and lets the test inspect it while it runs.
const UPLOAD: &str = r#"<?php
$kept = move_uploaded_file($_FILES['list']['tmp_name'][1], __DIR__ . '/kept');
$paths = [$_FILES['one']['tmp_name'], $_FILES['list']['tmp_name'][0]];
echo json_encode(['files' => $_FILES, 'post' => $_POST, 'kept' => $kept, 'there' => array_map('is_uploaded_file', $paths),
    'content' => array_map('file_get_contents', $paths), 'raw' => file_get_contents('php://input')]);
"#;

fn part(name: &str, file: Option<&str>, content: &str) -> String {
    let file = file.map_or(String::new(), |name| format!("; filename=\"{name}\"\r\nContent-Type: text/x"));
    format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n")
}

#[test]
fn uploads_are_files_for_as_long_as_the_request() {
    let uploads = tempfile::tempdir().unwrap();
    let directive = format!("upload_tmp_dir={}", uploads.path().display());
    let svc = Svc::start_with(&[("index.php", UPLOAD)], &[], &[&directive, "upload_max_filesize=100"]);
    let body = [
        part("text", None, "a \"field\""),
        part("one", Some("a b.txt"), "first\r\n--edg"),
        part("list[]", Some("x"), ""),
        part("list[]", Some("../../y"), "kept \0 bytes"),
        part("large", Some("z"), &"z".repeat(101)),
        part("none", Some(""), ""),
        "--edge--\r\n".into(),
    ]
    .concat();
    let seen = send(&mut svc.client(), "/", "multipart/form-data; boundary=edge", &body);
    assert_eq!(seen["post"], json!({"text": "a \"field\""}));
    assert_eq!((&seen["kept"], &seen["there"]), (&json!(true), &json!([true, true])));
    assert_eq!(seen["content"], json!(["first\r\n--edg", ""]));
    assert_eq!(seen["raw"], "", "a form with files is not kept a second time");
    let files = &seen["files"];
    assert_eq!(
        (&files["one"]["name"], &files["one"]["type"], &files["one"]["size"]),
        (&json!("a b.txt"), &json!("text/x"), &json!(12))
    );
    assert_eq!(files["list"]["name"], json!(["x", "y"]));
    assert_eq!((&files["large"]["error"], &files["none"]["error"]), (&json!(1), &json!(4)));
    assert!(files["one"]["tmp_name"].as_str().unwrap().starts_with(uploads.path().to_str().unwrap()));
    assert_eq!(std::fs::read(svc.root().join("kept")).unwrap(), b"kept \0 bytes");
    eventually("the temporary files are gone", || {
        std::fs::read_dir(uploads.path()).unwrap().next().is_none()
    });
}

/// Otherwise the message would begin the response, which the script then cannot set up.
#[test]
fn messages_about_the_form_are_those_of_the_request_s_startup() {
    let code = "http_response_code(418); header('X-Own: 1'); echo count($_POST), ' ', error_get_last()['message'] ?? '-';";
    let modes = [
        ("false", code.to_owned()),
        ("true", format!("Svc\\Worker::serve(function () {{ {code} }});")),
        ("true", format!("while (frankenphp_handle_request(function () {{ {code} }})) {{ }}")),
    ];
    for (is_worker, code) in &modes[..if cfg!(feature = "worker") { 3 } else { 1 }] {
        for shows in ["0", "1"] {
            let directives = [
                "post_max_size=100",
                "display_errors=1",
                &format!("display_startup_errors={shows}"),
                "html_errors=0",
            ];
            let settings = [("WORKER_MODE_ENABLED", *is_worker), ("ENTRY_FILE", "index.php")];
            let script = format!("<?php {code}");
            let svc = Svc::start_with(&[("index.php", &script)], &settings, &directives);
            let body = "a=1&".repeat(50);
            let mut client = svc.client();
            client.send(format!(
                "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 200\r\n\r\n{body}"
            ));
            let response = client.response();
            let text = response.text();
            let message =
                "PHP Request Startup: POST Content-Length of 200 bytes exceeds the limit of 100 bytes";
            if shows == "0" {
                assert_eq!(text, format!("0 {message}"), "{code}");
                assert_eq!((response.status, response.field("x-own")), (418, Some("1")), "{code}");
            } else {
                assert!(text.contains(&format!("Warning: {message}")), "{code}: {text}");
            }
        }
    }
}

#[test]
fn a_body_beyond_post_max_size_leaves_an_empty_form_and_a_warning() {
    let svc = Svc::start_with(&[("index.php", "<?php echo count($_POST);")], &[], &["post_max_size=10"]);
    let mut client = svc.client();
    client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\r\na=1&b=2&c=33");
    assert_eq!(client.response().text(), "0");
    eventually("it is logged", || {
        svc.log()
            .of("php")
            .iter()
            .any(|record| record["fields"]["message"].as_str().unwrap().contains("exceeds the limit"))
    });
}

#[test]
fn authorization_is_taken_apart() {
    let svc = Svc::start(&[("index.php", SHOW)], &[]);
    let mut client = svc.client();
    let seen = ask(&mut client, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Basic QWRhOnA6dw==");
    assert_eq!((&seen["PHP_AUTH_USER"], &seen["PHP_AUTH_PW"]), (&json!("Ada"), &json!("p:w")));
    assert_eq!(seen["HTTP_AUTHORIZATION"], "Basic QWRhOnA6dw==");
    let seen = ask(&mut client, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Digest username=\"Ada\"");
    assert_eq!(seen["PHP_AUTH_DIGEST"], "username=\"Ada\"");
    let seen = ask(&mut client, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token");
    assert_eq!((&seen["PHP_AUTH_USER"], &seen["HTTP_AUTHORIZATION"]), (&Value::Null, &json!("Bearer token")));
    let seen = ask(&mut client, "GET / HTTP/1.1\r\nHost: x");
    assert_eq!((&seen["PHP_AUTH_USER"], &seen["PHP_AUTH_PW"]), (&Value::Null, &Value::Null));
}

#[test]
fn field_names_are_written_as_by_php_fpm_in_each_protocol() {
    let svc = Svc::start(&[("index.php", SHOW)], &[]);
    let expected = json!({"Host": "x", "X-Mixed-Case": "v", "Authorization": "Bearer A-b", "1": "digit"});
    for lines in [
        "Host: x\r\nX-Mixed-CASE: v\r\nAuthorization: Bearer A-b",
        "host: x\r\nx-mixed-case: v\r\nauthorization: Bearer A-b",
        "HOST: x\r\nX-MIXED-CASE: v\r\nAUTHORIZATION: Bearer A-b",
    ] {
        let seen = ask(&mut svc.client(), &format!("GET /?show=headers HTTP/1.1\r\n{lines}\r\n1: digit"));
        assert_eq!((&seen["0"], &seen["1"]), (&expected, &expected), "{lines}");
    }
    let without_field = ask(&mut svc.client(), "GET http://x/?show=headers HTTP/1.0");
    assert_eq!(without_field["0"], json!({"Host": "x"}));
    let mut client = Http2Client::connect(svc.main());
    let id = client.open(
        &[
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "x"),
            (":path", "/?show=headers"),
            ("x-mixed-case", "v"),
            ("authorization", "Bearer A-b"),
            ("1", "digit"),
        ],
        true,
    );
    let seen = parsed(&client.response(id));
    assert_eq!((&seen["0"], &seen["1"]), (&expected, &expected), "HTTP/2");
}

#[test]
fn a_front_controller_gets_every_path_that_no_file_answers() {
    let script = "<?php echo $_SERVER['REQUEST_URI'], ' ', $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['PHP_SELF'], ' ', $_SERVER['PATH_INFO'] ?? '-';";
    let svc = Svc::start(&[("index.php", script), ("a.txt", "text")], &[("ENTRY_FILE", "index.php")]);
    let mut client = svc.client();
    assert_eq!(client.get("/a.txt").text(), "text");
    assert!(client.get("/blog/post.html?x").text().starts_with("/blog/post.html?x /index.php /index.php"));
    assert!(client.get("/").text().starts_with("/ /index.php /index.php"));
}

#[test]
fn sessions_live_in_their_cookie_and_their_files() {
    let sessions = tempfile::tempdir().unwrap();
    let directive = format!("session.save_path={}", sessions.path().display());
    let script = "<?php session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1; echo $_SESSION['n'];";
    let svc = Svc::start_with(&[("index.php", script)], &[], &[&directive]);
    let mut client = svc.client();
    let first = client.get("/");
    assert_eq!(first.text(), "1");
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with("PHPSESSID="), "{cookie}");
    for count in 2..6 {
        // Each request may run on another thread.
        let response = svc.client().request(&format!("GET / HTTP/1.1\r\nHost: x\r\nCookie: {cookie}"));
        assert_eq!((response.text(), response.field("set-cookie")), (count.to_string(), None));
    }
    assert_eq!(client.get("/").text(), "1", "a client without the cookie is another visitor");
    assert_eq!(std::fs::read_dir(sessions.path()).unwrap().count(), 2);
}

#[test]
fn a_session_is_closed_after_a_fatal_error() {
    let sessions = tempfile::tempdir().unwrap();
    let directive = format!("session.save_path={}", sessions.path().display());
    let script = "<?php session_id('same'); session_start(); $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        if (isset($_GET['die'])) { nothing(); } echo $_SESSION['n'];";
    let svc = Svc::start_with(
        &[("index.php", script)],
        &[("PHP_WORKERS", "2")],
        &[&directive, "session.use_strict_mode=0"],
    );
    let mut client = svc.client();
    assert_eq!(client.get("/").text(), "1");
    for _ in 0..4 {
        assert_eq!(client.get("/?die").status, 500);
        // This would block forever if the lock of the session's file were still held.
        assert_eq!(svc.client().get("/").status, 200);
    }
}

#[test]
fn filters_see_the_variables_as_they_came() {
    const FILTERED: &str =
        "<?php echo json_encode([$_SERVER['HTTP_X'], filter_input(INPUT_SERVER, 'HTTP_X', FILTER_UNSAFE_RAW),
        $_SERVER['REQUEST_TIME'] > 0, filter_input(INPUT_SERVER, 'REQUEST_TIME')], JSON_UNESCAPED_SLASHES);";
    for (directives, of_script) in [(&[][..], "<b>"), (&["filter.default=special_chars"][..], "&#60;b&#62;")]
    {
        let svc = Svc::start_with(&[("a.php", FILTERED)], &[], directives);
        // PHP adds the time itself, after the filter.
        let expected = json!([of_script, "<b>", true, null]);
        assert_eq!(
            ask(&mut svc.client(), "GET /a.php HTTP/1.1\r\nHost: x\r\nX: <b>"),
            expected,
            "{directives:?}"
        );
    }
}

/// The values in `$_SERVER` and `getenv()` of variables of the process, of the request, and of the setting.
const ENVIRONMENT: &str = r#"
    function seen() {
        $all = getenv();
        $names = ['APP_ENV', 'EMPTY', 'SERVER_NAME', 'REMOTE_PORT', 'PATH_INFO', 'ADDED', 'HTTP_PROXY', 'HTTP_X', '7', 'WITH.DOT', 'OWN', 'DOCUMENT_ROOT'];
        $seen = [];
        foreach ($names as $name) {
            $seen[$name] = [$_SERVER[$name] ?? null, getenv($name) === ($all[$name] ?? false)];
        }
        $seen['children'] = array_key_exists('APP_ENV', array_intersect_key($all, $_SERVER));
        return $seen;
    }
    function answer() {
        if (isset($_GET['own'])) { putenv('OWN=set'); $_SERVER['APP_ENV'] = 'changed'; }
        echo json_encode(seen());
    }
"#;

#[test]
fn the_environment_of_the_process_is_below_the_request_in_every_mode() {
    let classic = format!("<?php {ENVIRONMENT} answer();");
    let serve = format!("<?php {ENVIRONMENT} Svc\\Worker::serve(answer(...));");
    let franken = format!("<?php {ENVIRONMENT} while (frankenphp_handle_request(answer(...))) {{ }}");
    let modes = [("classic", classic, false), ("serve", serve, true), ("loop", franken, true)];
    for (mode, code, is_worker) in modes.into_iter().filter(|(.., is_worker)| IS_WORKER.contains(is_worker)) {
        let settings = [
            ("APP_ENV", "prod"),
            ("EMPTY_VARIABLE", ""),
            ("REMOTE_PORT", "of the process"),
            ("PATH_INFO", "of the process"),
            ("HTTP_PROXY", "http://evil.example"),
            ("HTTP_X", "of the process"),
            ("WITH.DOT", "x"),
            ("ENTRY_FILE", "index.php"),
            ("WORKER_MODE_ENABLED", if is_worker { "true" } else { "false" }),
            ("PHP_WORKERS", "1"),
            ("SERVER_VARIABLES", "ADDED=by the setting"),
        ];
        let svc = Svc::start(&[("index.php", &code)], &settings);
        let seen = |target: &str, fields: &str| {
            let response = svc.client().request(&format!("GET {target} HTTP/1.1\r\nHost: name{fields}"));
            serde_json::from_str::<serde_json::Value>(&response.text())
                .unwrap_or_else(|_| panic!("{}", response.text()))
        };
        for round in 0..4 {
            let own = seen("/index.php/info?own=1", "\r\nX: of the client");
            assert_eq!(own["PATH_INFO"], serde_json::json!(["/info", true]), "{mode} {round}");
            assert_eq!(own["HTTP_X"], serde_json::json!(["of the client", true]), "{mode}");
            let plain = seen("/", "");
            // PHP does not list names with a dot.
            let expected = serde_json::json!({
                "APP_ENV": ["prod", true],
                "EMPTY": [null, true],
                "SERVER_NAME": ["name", true],
                "PATH_INFO": ["of the process", true],
                "ADDED": ["by the setting", true],
                "HTTP_PROXY": [null, true],
                "HTTP_X": [null, true],
                "WITH.DOT": [null, false],
                "OWN": [null, true],
                "children": true,
            });
            for (name, value) in expected.as_object().unwrap() {
                assert_eq!(&plain[name], value, "{mode} {round}: {name}");
            }
            assert_ne!(plain["REMOTE_PORT"][0], "of the process", "{mode}");
            assert_eq!(plain["DOCUMENT_ROOT"][0], svc.root().canonicalize().unwrap().to_str().unwrap());
        }
    }
}
