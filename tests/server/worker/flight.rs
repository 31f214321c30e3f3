//! The state in progress when a worker switches requests: exceptions, identities, garbage, dumps.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

fn start(boot: &str, handler: &str, settings: &[(&str, &str)]) -> Svc {
    let script = format!("<?php {boot} Svc\\Worker::serve(function () {{ {handler} }});");
    let own = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start(&[("worker.php", &script)], &[&own, settings].concat())
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

#[test]
fn an_exception_in_flight_stays_its_request_s() {
    let handler = r"
        if (isset($_GET['slow'])) {
            ob_start(function (string $text) { throw new Exception('out of the buffer'); });
            echo str_repeat('x', 60 << 20);
            return;
        }
        echo json_encode([Svc\sleep(0.001), $_GET]);";
    let svc = start("", handler, &[("SPOOL_MAX_BYTES", "0")]);
    let slow = send(&svc, "/?slow=1");
    eventually("it waits for its reader", || {
        svc.metric("svc_worker_request_fibers_active{worker=\"0\"}") >= 1.0
    });
    for n in 0..5 {
        assert_eq!(svc.get(&format!("/?n={n}")).text(), format!(r#"[null,{{"n":"{n}"}}]"#));
    }
    drop(slow);
    assert_eq!(svc.get("/?n=5").text(), r#"[null,{"n":"5"}]"#);
}

#[test]
fn a_throwing_header_callback_ends_its_own_request() {
    let handler = r"
        if (isset($_GET['throw'])) {
            header_register_callback(function () { Svc\sleep(0.001); throw new Exception('at the head'); });
        }
        echo 'n', $_GET['n'] ?? '';";
    let svc = start("", handler, &[]);
    for n in 0..5 {
        let mut throwing = send(&svc, "/?throw=1");
        assert_eq!(svc.get(&format!("/?n={n}")).text(), format!("n{n}"));
        let _ = throwing.response();
        assert_eq!(svc.get(&format!("/?n={n}")).text(), format!("n{n}"));
    }
}

#[test]
fn data_keyed_by_a_request_never_belongs_to_another_one() {
    let handler = r"
        $own = Svc\Request::current();
        $had = isset($GLOBALS['map'][$own]);
        $GLOBALS['map'][$own] = $_GET['n'];
        if (isset($_GET['keep'])) { $GLOBALS['kept'][] = $own; }
        Svc\sleep(0.001);
        echo json_encode([$had, $GLOBALS['map'][$own], count($GLOBALS['map'])]);";
    let svc = start("$map = new WeakMap(); $kept = [];", handler, &[]);
    for n in 0..5 {
        assert_eq!(svc.get(&format!("/?n={n}")).text(), format!(r#"[false,"{n}",1]"#));
    }
    for n in 0..3 {
        assert_eq!(svc.get(&format!("/?n={n}&keep=1")).text(), format!(r#"[false,"{n}",{}]"#, n + 1));
    }
}

#[test]
fn scripts_cannot_call_the_root_frame() {
    let handler = r"
        try {
            (new ReflectionMethod('Svc\Worker', 'request'))->invoke(null);
            echo 'called';
        } catch (ReflectionException $error) {
            echo 'there is none';
        }";
    let svc = start("", handler, &[]);
    assert_eq!(svc.get("/").text(), "there is none");
    assert_eq!(svc.get("/").text(), "there is none");
}

#[test]
fn garbage_is_collected_between_requests() {
    let boot = r"
        final class Garbage
        {
            public mixed $self;
            public function __construct(private string $of) { $this->self = $this; }
            public function __destruct()
            {
                echo 'garbage of ', $this->of;
                $GLOBALS['by'][$_GET['n'] ?? 'nobody'] = ($GLOBALS['by'][$_GET['n'] ?? 'nobody'] ?? 0) + 1;
            }
        }
        $by = [];";
    let handler = r"
        $before = $GLOBALS['by'];
        for ($i = 0; $i < 2500; $i++) { new Garbage($_GET['n']); }
        echo json_encode([$_GET['n'], isset($GLOBALS['by'][$_GET['n']])]);
        if (isset($_GET['look'])) { echo json_encode(array_keys($GLOBALS['by'])); }";
    let svc = start(boot, handler, &[]);
    for n in 0..12 {
        assert_eq!(svc.get(&format!("/?n={n}")).text(), format!(r#"["{n}",false]"#));
    }
    let looked = svc.get("/?n=last&look=1").text();
    assert_eq!(looked, r#"["last",false]["nobody"]"#, "all of it was freed between requests");
}

#[test]
fn a_request_that_fills_the_collector_alone_has_it_run() {
    let handler = r"
        for ($i = 0; $i < 400000; $i++) { $a = new stdClass(); $a->self = $a; $a->bulk = str_repeat('x', 500); }
        echo memory_get_peak_usage() < 100 << 20 ? 'bounded' : 'unbounded';";
    let svc = start("", handler, &[]);
    assert_eq!(svc.get("/").text(), "bounded");
}

#[test]
fn no_request_waits_while_a_collection_runs() {
    let boot = r"
        final class Waiting
        {
            public mixed $self;
            public function __construct() { $this->self = $this; }
            public function __destruct() { Svc\sleep(0.01); $GLOBALS['waited']++; }
        }
        $waited = 0;";
    let handler = r"
        if (isset($_GET['n'])) { echo $_GET['n']; return; }
        for ($i = 0; $i < 10; $i++) { new Waiting(); }
        gc_collect_cycles();
        echo $GLOBALS['waited'];";
    let svc = start(boot, handler, &[]);
    let mut collecting = send(&svc, "/");
    for n in 0..5 {
        assert_eq!(svc.get(&format!("/?n={n}")).text(), n.to_string());
    }
    assert_eq!(collecting.response().text(), "10");
}

#[test]
fn a_script_that_ends_itself_without_a_word_lets_the_worker_s_objects_speak() {
    let boot = r"
        final class Dumper
        {
            private ?string $text = null;
            public function dump(string $text): void { http_response_code(500); $this->text = $text; }
            public function __destruct() { echo $this->text; }
        }
        $dumper = new Dumper();";
    let dump = r"
        if (isset($_GET['dump'])) { $dumper->dump($_GET['dump']); exit(1); }
        if (isset($_GET['die'])) { $dumper->dump('not to be seen'); echo 'a word'; exit(1); }
        echo 'served';";
    let fibers = format!("Svc\\Worker::serve(function () use ($dumper) {{ {dump} }});");
    let looped = format!("while (frankenphp_handle_request(function () use ($dumper) {{ {dump} }})) {{}}");
    for serve in [fibers, looped] {
        let script = format!("<?php {boot} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", &script)], &settings);
        for n in 0..3 {
            let response = svc.get(&format!("/?dump=seen{n}"));
            assert_eq!((response.status, response.text()), (500, format!("seen{n}")), "{serve}");
            assert_eq!(svc.get("/").text(), "served");
        }
        let response = svc.get("/?die=1");
        assert_eq!((response.status, response.text()), (500, "a word".to_owned()));
    }
}

#[test]
fn a_script_can_ask_whether_its_client_is_connected() {
    let handler = r"
        if (isset($_GET['look'])) { echo json_encode($GLOBALS['seen']); return; }
        ignore_user_abort(true);
        $GLOBALS['seen'] = 'waiting';
        while (!connection_aborted()) { Svc\sleep(0.005); }
        $GLOBALS['seen'] = connection_status();";
    let svc = start("$seen = null;", handler, &[]);
    let leaving = send(&svc, "/");
    eventually("it waits", || svc.get("/?look=1").text() == "\"waiting\"");
    drop(leaving);
    eventually("it sees that its client has left", || svc.get("/?look=1").text() == "1");
}

#[test]
fn a_destructor_behind_the_answer_has_a_time_limit() {
    let boot = r"
        final class Endless { public function __destruct() { for (;;) { } } }
        $boots = file_put_contents(__DIR__ . '/boots', 'x', FILE_APPEND);";
    let handler = r"
        if (isset($_GET['handler'])) { set_exception_handler([new Endless(), '__destruct']); }
        if (isset($_GET['map'])) { $map = $GLOBALS['map'] ??= new WeakMap(); $map[Svc\Request::current()] = new Endless(); }
        echo 'answered';";
    let script = format!("<?php {boot} Svc\\Worker::serve(function () {{ {handler} }});");
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let svc = Svc::start_with(&[("worker.php", &script)], &settings, &["max_execution_time=1"]);
    for left_in in ["handler", "map"] {
        assert_eq!(svc.get(&format!("/?{left_in}=1")).text(), "answered");
        eventually("the worker continues", || svc.get("/").text() == "answered");
    }
}

#[test]
fn nothing_that_a_script_prints_goes_to_the_server_s_own_output() {
    const HANDLER: &str = r"
        register_shutdown_function(function () { echo 'stray'; ob_start(); echo 'stray'; });
        if (isset($_GET['fail'])) { ob_start(function () { str_repeat('x', PHP_INT_MAX >> 4); }); }
        echo 'own';";
    for mode in ["true", "false"] {
        let serve = if mode == "true" { "Svc\\Worker::serve(handle(...));" } else { "handle();" };
        let script = format!("<?php function handle(): void {{ {HANDLER} }} {serve}");
        let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
        let svc = Svc::start(&[("worker.php", &script)], &settings);
        assert_eq!(svc.get("/?fail=1").status, 500);
        eventually("the worker continues", || svc.get("/").text() == "ownstraystray");
        // The log was read up to here, and its reader rejects lines that are not records.
        eventually("the error is logged", || {
            svc.log().of("php").iter().any(|record| record["fields"]["php_level"] == "error")
        });
        assert!(svc.log().find("stray").is_none());
    }
}

#[test]
fn a_collection_does_not_affect_a_sort() {
    let handler = r"
        if (isset($_GET['leave'])) {
            // A fiber that waits inside a sort, and is garbage.
            $list = [2, 1];
            $fiber = new Fiber(function () use (&$list, &$fiber) { usort($list, function ($a, $b) { Fiber::suspend(); return $a <=> $b; }); });
            $fiber->start();
            echo 'left';
            return;
        }
        $list = [3, 1, 2];
        usort($list, function ($a, $b) { gc_collect_cycles(); return $a <=> $b; });
        echo implode($list);";
    let svc = start("", handler, &[]);
    for _ in 0..3 {
        assert_eq!(svc.get("/?leave=1").text(), "left");
        assert_eq!(svc.get("/").text(), "123");
    }
}
