//! The objects and functions of worker mode, and scripts that were written for other servers.

use rustix::process::Signal;
use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

const LOOP: &str = r#"<?php
if (!($_SERVER['FRANKENPHP_WORKER'] ?? false) || !function_exists('frankenphp_handle_request')) {
    exit('this is no worker');
}
ignore_user_abort(true);
file_put_contents(__DIR__ . '/boots', 'x', FILE_APPEND);
$boot = $_SERVER;
$handler = static function () use ($boot, &$served) {
    $served++;
    if (isset($_GET['exception'])) {
        throw new Exception('as the test wants it');
    }
    if (isset($_GET['exit'])) {
        exit('left early');
    }
    if (isset($_GET['memory'])) {
        str_repeat('x', PHP_INT_MAX >> 4);
    }
    header('X-Served: ' . $served);
    echo json_encode([$_GET, $_POST, $_COOKIE, file_get_contents('php://input'), $_SERVER['REQUEST_METHOD'],
        $_SERVER['SCRIPT_FILENAME'] === $boot['SCRIPT_FILENAME'], filesize(__DIR__ . '/boots')]);
};
for ($count = 0; $count < 4; $count++) {
    $more = frankenphp_handle_request($handler);
    gc_collect_cycles();
    if (!$more) {
        break;
    }
}"#;

const OBJECTS: &str = r#"<?php
$kept = null;
Svc\Worker::serve(function () use (&$kept) {
    $request = Svc\Request::current();
    switch ($request->path) {
        case '/request':
            if ($request->query['wait'] ?? false) {
                touch(__DIR__ . '/inside');
                while (!file_exists(__DIR__ . '/go')) {
                    Svc\sleep(0.002);
                    clearstatcache();
                }
            }
            echo json_encode(['same' => Svc\Request::current() === $request, 'method' => $request->method, 'uri' => $request->uri(),
                'path' => $request->path(), 'query' => $request->query(), 'header' => $request->headers['x-test'] ?? null,
                'cookies' => $request->cookies, 'payload' => $request->payload(), 'files' => array_map(fn ($file) => $file['name'], $request->files),
                'body' => $request->body, 'again' => $request->body(), 'client' => $request->client,
                'globals' => [$_GET, $_POST, $_COOKIE, $_FILES === [], $_REQUEST, isset($_SERVER['REQUEST_METHOD']), isset($_SERVER['DOCUMENT_ROOT'])]]);
            return;
        case '/keep':
            $kept = $request;
            return;
        case '/kept':
            echo json_encode([$kept->path, $kept->body, $kept->query, isset($kept->method), isset($kept->other)]);
            return;
        case '/write':
            try {
                $request->method = 'PUT';
            } catch (Error $error) {
                echo $error->getMessage();
            }
            return;
        case '/worker':
            $worker = Svc\Worker::current();
            $before = $worker->exitReason();
            if (isset($_GET['exit'])) {
                Svc\Worker::scheduleExit();
            }
            echo json_encode([$worker->id(), $worker->requestCount(), abs(microtime(true) - $worker->startTime()) < 60,
                $worker->memoryUsage() > 100000, $before, $worker->exitReason()]);
            return;
        case '/upload':
            $file = $_FILES['file'];
            echo json_encode([$file['name'], is_uploaded_file($file['tmp_name']), file_get_contents($file['tmp_name']), $_POST]);
            return;
        case '/finish':
            echo 'early';
            svc_finish_request();
            echo 'late';
            Svc\sleep(0.05);
            touch(__DIR__ . '/finished');
            return;
        case '/status':
            echo json_encode([headers_sent(), http_response_code(), headers_list(), error_get_last()]);
            return;
    }
});"#;

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\nX-Test: 1\r\nCookie: c=3\r\n\r\na=1&b=2";

fn start(script: &str, settings: &[(&str, &str)]) -> Svc {
    let base = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", script)], &[&base, settings].concat())
}

fn send(svc: &Svc, message: &str) -> Client {
    let mut client = svc.client();
    client.send(message);
    client
}

#[test]
fn a_loop_of_the_script_s_own_serves_one_by_one() {
    let svc = start(LOOP, &[]);
    assert_eq!(svc.get("/?a=1").text(), r#"[{"a":"1"},[],[],"","GET",true,1]"#);
    let mut client = send(&svc, &format!("POST /x?q=1 HTTP/1.1\r\nHost: x\r\n{FORM}"));
    let response = client.response();
    assert_eq!(response.text(), r#"[{"q":"1"},{"a":"1","b":"2"},{"c":"3"},"a=1&b=2","POST",true,1]"#);
    assert_eq!(response.field("x-served"), Some("2"));
    assert_eq!(svc.get("/?exit").text(), "left early");
    assert_eq!(svc.get("/?exception").status, 500);
    // After four requests its loop ends, and the worker boots again.
    assert_eq!(svc.get("/").text(), r#"[[],[],[],"","GET",true,2]"#);
    assert_eq!(svc.get("/?memory").status, 500);
    assert_eq!(svc.get("/").text(), r#"[[],[],[],"","GET",true,3]"#);
}

#[test]
fn an_application_may_boot_inside_of_its_first_request() {
    const BOOT: &str =
        "set_error_handler(static fn ($level, $message) => throw new ErrorException($message));
        set_exception_handler(static function (Throwable $e) { echo 'handled: ', $e->getMessage(); });
        date_default_timezone_set('Asia/Tokyo');";
    const LOOP: &str = "$handler = static function () use (&$booted) {
            if (!$booted) {
                $booted = true;
                INSIDE
            }
            if (isset($_GET['own'])) {
                set_error_handler(static fn () => true);
                date_default_timezone_set('Europe/Oslo');
                ini_set('precision', 3);
            }
            echo date_default_timezone_get(), ' ', ini_get('precision'), ' ';
            echo [][1];
        };
        while (frankenphp_handle_request($handler)) {
        }";
    let (usual, own) = ("Asia/Tokyo 14 handled: Undefined array key 1", "Europe/Oslo 3 ");
    let svc = start(&format!("<?php {}", LOOP.replace("INSIDE", BOOT)), &[]);
    for (target, text) in [("/", usual), ("/?own", own), ("/", usual), ("/?own", own), ("/", usual)] {
        assert_eq!(svc.get(target).text(), text);
    }
    // Requests begin with the state of the boot, the second one too.
    let svc = start(&format!("<?php {BOOT} {}", LOOP.replace("INSIDE", "")), &[]);
    for (target, text) in [("/?own", own), ("/", usual), ("/?own", own), ("/", usual)] {
        assert_eq!(svc.get(target).text(), text);
    }
}

#[test]
fn the_boot_script_and_requests_have_the_environment() {
    const TOLD: &str = r#"<?php
        $most = $_SERVER['MAX_REQUESTS'];
        $boot = [$most, $_SERVER['FRANKENPHP_WORKER'], filter_input(INPUT_SERVER, 'MAX_REQUESTS')];
        $handler = static function () use ($boot) {
            echo json_encode([$boot, $_SERVER['MAX_REQUESTS'] ?? null, getenv('MAX_REQUESTS')]);
        };
        while ($most-- > 0 && frankenphp_handle_request($handler)) {
        }"#;
    let svc = start(TOLD, &[("MAX_REQUESTS", "2")]);
    for _ in 0..4 {
        assert_eq!(svc.get("/").text(), r#"[["2","1","2"],"2","2"]"#);
    }
    let recycles = "svc_worker_recycles_by_reason_total{reason=\"scheduled\"}";
    eventually("both loops have ended", || svc.metric(recycles) == 2.0);
}

/// State that an application may read while it boots, in every way of serving.
const BOOTS: &str = r#"<?php
    $boot = [];
    foreach (['REQUEST_METHOD', 'REQUEST_URI', 'SERVER_PROTOCOL', 'QUERY_STRING', 'HTTP_HOST', 'SERVER_NAME', 'SERVER_PORT', 'REMOTE_ADDR', 'REQUEST_SCHEME', 'SCRIPT_NAME', 'CONTENT_TYPE'] as $name) {
        $boot[$name] = $_SERVER[$name];
    }
    $boot['filter'] = filter_input(INPUT_SERVER, 'REQUEST_METHOD');
    $boot['time'] = $_SERVER['REQUEST_TIME'] > 0;
    function booted() { echo json_encode([$GLOBALS['boot'], $_SERVER['REQUEST_METHOD'], $_SERVER['REQUEST_URI'], $_SERVER['HTTP_X_OWN'] ?? null]); }
"#;

#[test]
fn a_script_boots_as_if_it_were_asked_for_the_root() {
    let boot = |name: &str| {
        format!(
            concat!(
                r#"{{"REQUEST_METHOD":"GET","REQUEST_URI":"\/","SERVER_PROTOCOL":"HTTP\/1.1","QUERY_STRING":"","#,
                r#""HTTP_HOST":"localhost","SERVER_NAME":"localhost","SERVER_PORT":"80","REMOTE_ADDR":"127.0.0.1","#,
                r#""REQUEST_SCHEME":"http","SCRIPT_NAME":"\/{}","CONTENT_TYPE":"","filter":"GET","time":true}}"#
            ),
            name
        )
    };
    for serve in ["Svc\\Worker::serve(booted(...));", "while (frankenphp_handle_request(booted(...))) { }"] {
        let svc = start(&format!("{BOOTS}{serve}"), &[]);
        for _ in 0..2 {
            let response =
                svc.client().request("PUT /a?b HTTP/1.1\r\nHost: x\r\nX-Own: y\r\nContent-Length: 0");
            let expected = format!(r#"[{},"PUT","\/a?b","y"]"#, boot("worker.php"));
            assert_eq!(response.text(), expected, "{serve}");
        }
    }
}

#[test]
fn a_loop_without_an_end_ends_with_its_worker() {
    for call in ["Svc\\Worker::serve", "frankenphp_handle_request"] {
        let script = format!("<?php while (true) {{ {call}(function () {{ echo 'served'; }}); }}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
        let mut svc = Svc::start_with(&[("worker.php", &script)], &settings, &["max_execution_time=0"]);
        assert_eq!(svc.get("/").text(), "served");
        svc.signal(Signal::HUP);
        eventually("it is replaced", || svc.log().find("rolling restart of PHP workers finished").is_some());
        eventually("the old one ends", || svc.metric("svc_workers_current") < 1.5);
        assert_eq!(svc.get("/").text(), "served", "{call}");
        svc.stop();
    }
}

#[test]
fn the_request_is_an_object() {
    let svc = start(OBJECTS, &[]);
    let mut waits = send(&svc, &format!("POST /request?wait=1&q[]=%C3%A4 HTTP/1.1\r\nHost: x\r\n{FORM}"));
    eventually("it is inside", || svc.root().join("inside").exists());
    let other = svc.get("/request?other").text();
    assert!(other.contains(r#""same":true,"method":"GET","uri":"\/request?other""#), "{other}");
    std::fs::write(svc.root().join("go"), "").unwrap();
    let expected = concat!(
        r#"{"same":true,"method":"POST","uri":"\/request?wait=1&q[]=%C3%A4","path":"\/request","#,
        r#""query":{"wait":"1","q":["\u00e4"]},"header":"1","cookies":{"c":"3"},"payload":{"a":"1","b":"2"},"files":[],"#,
        r#""body":"a=1&b=2","again":"a=1&b=2","client":"127.0.0.1","#,
        r#""globals":[{"wait":"1","q":["\u00e4"]},{"a":"1","b":"2"},{"c":"3"},true,{"wait":"1","q":["\u00e4"],"a":"1","b":"2"},true,true]}"#,
    );
    assert_eq!(waits.response().text(), expected);
    assert_eq!(svc.get("/write").text(), "Cannot modify readonly property Svc\\Request::$method");
}

#[test]
fn a_request_object_stays_bound_to_its_request() {
    let svc = start(OBJECTS, &[]);
    let mut client = send(&svc, &format!("POST /keep?k=1 HTTP/1.1\r\nHost: x\r\n{FORM}"));
    assert_eq!(client.response().status, 200);
    assert_eq!(svc.get("/kept").text(), r#"["\/keep","a=1&b=2",{"k":"1"},true,false]"#);
}

#[test]
fn without_superglobals_the_object_has_everything() {
    for mode in ["true", "false"] {
        let script = if mode == "true" {
            OBJECTS.to_owned()
        } else {
            OBJECTS.replace("Svc\\Worker::serve(", "(fn ($f) => $f())(")
        };
        let svc = start(&script, &[("SUPERGLOBALS_ENABLED", "false"), ("WORKER_MODE_ENABLED", mode)]);
        let mut client = send(&svc, &format!("POST /request?q=1 HTTP/1.1\r\nHost: x\r\n{FORM}"));
        let text = client.response().text();
        let expected = concat!(
            r#""query":{"q":"1"},"header":"1","cookies":{"c":"3"},"payload":{"a":"1","b":"2"},"files":[],"#,
            r#""body":"a=1&b=2","again":"a=1&b=2","client":"127.0.0.1","globals":[[],[],[],true,[],false,true]}"#
        );
        assert!(text.ends_with(expected), "worker mode {mode}: {text}");
    }
}

#[test]
fn a_worker_tells_of_itself() {
    let svc = start(OBJECTS, &[]);
    assert_eq!(svc.get("/worker").text(), "[0,1,true,true,null,null]");
    assert_eq!(svc.get("/worker?exit").text(), r#"[0,2,true,true,null,"scheduled"]"#);
    assert_eq!(svc.get("/worker").text(), "[0,1,true,true,null,null]", "a new boot");
}

#[test]
fn uploads_and_late_work_are_each_request_s_own() {
    let svc = start(OBJECTS, &[]);
    let body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\ncontents\r\n--b\r\n\
                Content-Disposition: form-data; name=\"x\"\r\n\r\n1\r\n--b--\r\n";
    let head = format!(
        "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for _ in 0..3 {
        let mut client = send(&svc, &format!("POST /upload HTTP/1.1\r\nHost: x\r\n{head}"));
        assert_eq!(client.response().text(), r#"["a.txt",true,"contents",{"x":"1"}]"#);
        assert_eq!(svc.get("/finish").text(), "early");
        assert_eq!(
            svc.get("/status").text(),
            r#"[false,200,["X-Powered-By: PHP\/8.4.24"],null]"#.replace("8.4.24", &svc.php_version())
        );
        eventually("the work continues", || std::fs::remove_file(svc.root().join("finished")).is_ok());
    }
}
