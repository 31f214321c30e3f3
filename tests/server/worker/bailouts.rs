//! PHP's bailouts (fatal errors, memory limits) at any place: they cost only their own request.

use svc_testing::Svc;
use svc_testing::client::{Client, eventually};

/// The common functions of every worker in these tests.
const COMMON: &str = r#"
final class Seen { public static int $destructed = 0; public function __destruct() { self::$destructed++; } }
function fatal(): never { str_repeat('x', PHP_INT_MAX >> 4); exit; }
function whole(): void
{
    // The collector works, generators end, destructors run, no exception is pending, and the globals belong to the request.
    $cycle = new Seen(); $cycle->self = $cycle; unset($cycle);
    $before = Seen::$destructed;
    $collected = gc_collect_cycles() > 0 && Seen::$destructed > $before;
    $finally = false;
    (function () use (&$finally) {
        $generator = (function () use (&$finally) { try { yield 1; } finally { $finally = true; } })();
        $generator->current();
    })();
    $before = Seen::$destructed;
    (function () { new Seen(); })();
    echo json_encode([$collected, $finally, Seen::$destructed === $before + 1, Fiber::getCurrent() === null, $_GET]);
}
"#;

const WHOLE: &str = r#"[true,true,true,true,{"who":"me"}]"#;

/// Starts a worker that parks at `/park`, checks its state at `/whole`, and runs `case` otherwise.
fn start(boot: &str, case: &str, directives: &[&str]) -> Svc {
    let script = format!(
        "<?php {COMMON} {boot}
        Svc\\Worker::serve(function () {{
            switch (strtok($_SERVER['REQUEST_URI'], '?')) {{
                case '/park': while (!file_exists(__DIR__ . '/go')) {{ Svc\\sleep(0.01); }} whole(); return;
                case '/whole': whole(); return;
            }}
            {case}
        }});"
    );
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    Svc::start_with(&[("worker.php", &script)], &settings, directives)
}

fn send(svc: &Svc, path: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    client
}

/// Returns the number of requests in all workers: a new worker replaces a tainted one, and may have another number.
fn parked_requests(svc: &Svc) -> f64 {
    let page = svc.ask("/metrics").text();
    let carried = page.lines().filter_map(|line| line.strip_prefix("svc_worker_request_fibers_active{"));
    carried.filter_map(|rest| rest.split(' ').next_back()?.parse::<f64>().ok()).sum()
}

/// Parks a request and makes `request` beside it; the parked one and the following ones must find their state intact.
fn attack(svc: &Svc, request: impl FnOnce(&mut Client)) {
    let mut parked = send(svc, "/park?who=me");
    eventually("it is parked", || parked_requests(svc) >= 1.0);
    let mut client = svc.client();
    request(&mut client);
    std::fs::write(svc.root().join("go"), "").unwrap();
    assert_eq!(parked.response().text(), WHOLE, "the parked one is unharmed");
    eventually("a new worker serves", || svc.get("/whole?who=me").text() == WHOLE);
}

fn attack_with_get(svc: &Svc, status: u16) {
    attack(svc, |client| assert_eq!(client.get("/case?who=me").status, status));
}

#[test]
fn a_fatal_error_in_a_fiber_of_the_session_s_writing() {
    let case = "
        final class Written { public function __serialize(): array { (new Fiber(fatal(...)))->start(); return []; } }
        session_start();
        $_SESSION['x'] = new Written();
        echo 'written';";
    let svc = start("", case, &["session.use_cookies=0"]);
    attack_with_get(&svc, 500);
}

#[test]
fn a_fatal_error_in_a_session_handler_s_methods() {
    for method in ["open", "close", "read", "write", "destroy", "gc"] {
        let boot = "
            class Failing extends SessionHandler
            {
                public function open(string $path, string $name): bool { $this->at('open'); return parent::open($path, $name); }
                public function close(): bool { $this->at('close'); return parent::close(); }
                public function read(string $id): string|false { $this->at('read'); return parent::read($id); }
                public function write(string $id, string $data): bool { $this->at('write'); return parent::write($id, $data); }
                public function destroy(string $id): bool { $this->at('destroy'); return parent::destroy($id); }
                public function gc(int $max): int|false { $this->at('gc'); return parent::gc($max); }
                private function at(string $method): void { if ($_GET['at'] === $method) { (new Fiber(fatal(...)))->start(); } }
            }";
        let case = "
            session_set_save_handler(new Failing(), true);
            session_start();
            $_SESSION['x'] = 1;
            if ($_GET['at'] === 'destroy') { session_destroy(); }
            if ($_GET['at'] === 'gc') { session_gc(); }
            echo 'done';";
        let svc = start(boot, case, &["session.use_cookies=0"]);
        attack(&svc, |client| assert_eq!(client.get(&format!("/case?at={method}")).status, 500, "{method}"));
    }
}

#[test]
fn a_file_that_does_not_compile_is_only_reported() {
    let case = "
        file_put_contents(__DIR__ . '/broken.php', '<?php function twice() {} function twice() {}');
        touch(__DIR__ . '/broken.php', time() - 10);
        echo json_encode(@opcache_compile_file(__DIR__ . '/broken.php'));
        whole();";
    let svc = start("", case, &[]);
    attack(&svc, |client| {
        let response = client.get("/case?who=me");
        // 500, as in any PHP: PHP sets the status with the error, and the script continues.
        assert_eq!((response.status, response.text()), (500, format!("false{WHOLE}")));
    });
}

#[test]
fn requests_wait_outside_of_the_compiler_only() {
    // The compiler does not warn about 0 ?? 1, but about a deprecated signature.
    let boot = "
        $heard = 0;
        set_error_handler(function (int $level, string $text) { $GLOBALS['heard']++; Svc\\sleep(0.01); return true; });
        for ($i = 0; $i < 12; $i++) {
            file_put_contents(__DIR__ . \"/deprecated$i.php\", \"<?php function f$i(\\$a = 1, \\$b) { return \\$b; }\");
            // OPcache ignores such new files.
            touch(__DIR__ . \"/deprecated$i.php\", time() + 100);
        }";
    let case = "
        if (!isset($_GET['n'])) { echo $GLOBALS['heard']; return; }
        echo json_encode(opcache_compile_file(__DIR__ . \"/deprecated{$_GET['n']}.php\"));";
    let svc = start(boot, case, &[]);
    let mut clients: Vec<_> = (0..12).map(|n| send(&svc, &format!("/case?n={n}"))).collect();
    for client in &mut clients {
        assert_eq!(client.response().text(), "true");
    }
    assert_eq!(svc.get("/heard").text(), "12");
    assert_eq!(svc.get("/whole?who=me").text(), WHOLE);
}

#[test]
fn a_form_that_does_not_fit_in_memory() {
    let boot = "
        date_default_timezone_set('Asia/Tokyo');
        stream_context_set_default(['http' => ['header' => 'X-Boot: 1']]);
        libxml_set_external_entity_loader(fn () => null);
        final class Plain extends SessionHandler {}
        session_set_save_handler(new Plain(), false);";
    let case = "
        session_start();
        echo json_encode([date_default_timezone_get(), libxml_get_external_entity_loader() !== null, session_status()]);";
    let svc = start(boot, case, &["memory_limit=16M", "post_max_size=64M", "session.use_cookies=0"]);
    let form = [b"a=".as_slice(), &vec![b'x'; 9 << 20]].concat();
    for _ in 0..3 {
        let mut parked = send(&svc, "/park?who=me");
        eventually("it is parked", || parked_requests(&svc) >= 1.0);
        let mut client = svc.client();
        client.send(format!(
            "POST /case HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n",
            form.len()
        ));
        client.send(&form);
        assert_eq!(client.response().status, 500);
        std::fs::write(svc.root().join("go"), "").unwrap();
        assert_eq!(parked.response().text(), WHOLE);
        std::fs::remove_file(svc.root().join("go")).unwrap();
        eventually("the boot's own is whole", || svc.get("/case").text() == r#"["Asia\/Tokyo",true,2]"#);
    }
}

#[test]
fn memory_that_ends_while_a_request_waits() {
    // The script takes all bytes up to the limit, and then the request waits.
    let case = r"
        ini_set('precision', '5'); chdir(__DIR__); putenv('A=1'); setlocale(LC_ALL, 'C');
        $held = [];
        foreach ([1 << 20, 1 << 16, 1 << 12, 256, 64, 32] as $size) {
            while (memory_get_usage() + $size + (int) $_GET['left'] < 8 << 20) { $held = [$held, str_repeat('x', $size - 25)]; }
        }
        Svc\sleep(0.001);
        Svc\sleep(0.001);
        echo 'woke';";
    let svc = start("chdir('/');", case, &["memory_limit=8M"]);
    for left in (14_000..24_000).step_by(48) {
        let response = svc.get(&format!("/case?left={left}"));
        let is_told = response.status == 200 && response.text() == "woke" || response.status == 500;
        assert!(is_told, "{left}: {} {}", response.status, response.text());
    }
    eventually("all is whole", || svc.get("/whole?who=me").text() == WHOLE);
}

#[test]
fn endless_recursion_leaves_the_worker_its_memory() {
    // A neighbour may set a limit above the heap's size, so this shows that the error's memory was released.
    let case = r"
        if ($_GET['do'] === 'recurse') {
            register_shutdown_function(function () { file_put_contents(__DIR__ . '/frames', count(error_get_last()['trace'] ?? [])); });
            (function (Closure $self): void { $self($self); })(function (Closure $self): void { $self($self); });
        }
        while (!file_exists(__DIR__ . '/frames')) { Svc\sleep(0.01); }
        Svc\sleep(0.01);
        echo json_encode([ini_set('memory_limit', '80M'), memory_get_usage(true) < 64 << 20]);";
    let svc = start("", case, &["memory_limit=64M"]);
    let mut neighbour = send(&svc, "/case?do=wait");
    eventually("it is parked", || parked_requests(&svc) >= 1.0);
    assert_eq!(svc.get("/case?do=recurse").status, 500);
    assert_eq!(neighbour.response().text(), r#"["64M",true]"#);
    let frames = std::fs::read_to_string(svc.root().join("frames")).unwrap().parse::<u32>().unwrap();
    assert!(frames <= 1000, "{frames} are kept");
    eventually("all is whole", || svc.get("/whole?who=me").text() == WHOLE);
    let record =
        svc.log().of("php").into_iter().find(|record| record.to_string().contains("Allowed memory size"));
    let record = record.expect("the error is logged").to_string();
    assert!(record.len() < 1 << 20, "the record has {} bytes", record.len());
}

#[test]
fn a_fatal_error_in_an_event_loop_of_a_request() {
    // Each request has a separate event loop of a library, which is freed with it.
    let boot = "
        eval('namespace Revolt; final class EventLoop { public static mixed $driver = null; }');
        final class Failing { public function __destruct() { fatal(); } }
        final class Throwing { public function __destruct() { throw new Exception('late'); } }";
    let case = "
        Revolt\\EventLoop::$driver = $_GET['kind'] === 'fatal' ? new Failing() : new Throwing();
        echo 'answered';";
    let svc = start(boot, case, &[]);
    for kind in ["fatal", "exception"] {
        attack(&svc, |client| {
            let response = client.get(&format!("/case?kind={kind}"));
            assert_eq!((response.status, response.text()), (200, "answered".to_owned()), "{kind}");
        });
        std::fs::remove_file(svc.root().join("go")).unwrap();
    }
}

#[test]
fn a_fatal_error_in_a_fiber_leaves_its_request_outside_of_it() {
    let case = "
        register_shutdown_function(function () {
            file_put_contents(__DIR__ . '/seen', json_encode(Fiber::getCurrent()));
            Svc\\sleep(0.01);
        });
        (new Fiber(function () { (new Fiber(fatal(...)))->start(); }))->start();";
    let svc = start("", case, &[]);
    attack_with_get(&svc, 500);
    assert_eq!(std::fs::read_to_string(svc.root().join("seen")).unwrap(), "null");
}

#[test]
fn a_kept_request_object_uses_bounded_memory() {
    let case = "
        $request = Svc\\Request::current();
        $cycle = new stdClass(); $cycle->self = $cycle; $cycle->request = $request;
        $GLOBALS['kept'] = $request;
        echo 'good';";
    let late = "
        try { echo strlen($GLOBALS['kept']->body); } catch (Error $error) { echo $error->getMessage(); }";
    let case = format!("if ($_SERVER['REQUEST_METHOD'] === 'GET') {{ {late} return; }} {case}");
    let svc = start("", &case, &["memory_limit=16M", "enable_post_data_reading=0"]);
    let body = vec![b'x'; 30 << 20];
    let mut client = svc.client();
    client.send(format!("POST /case HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len()));
    client.send(&body);
    let response = client.response();
    assert_eq!((response.status, response.text()), (200, "good".to_owned()));
    let late = svc.get("/case").text();
    assert_eq!(
        late,
        "The body of a request that has ended is no longer available; read it while the request is active"
    );
    let mut client = svc.client();
    client.send("POST /case HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nsmall");
    assert_eq!(client.response().text(), "good");
    assert_eq!(svc.get("/case").text(), "5", "one that fits is kept");
}
