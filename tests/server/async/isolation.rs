//! Changes made by a task reach neither later nor concurrent tasks of its thread, nor its requester.

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskServer, assert_laws, assert_like, everywhere};

const CODE: &str = r"
function dirty(string $n): void
{
    $GLOBALS['left'] = $n;
    $_GET['left'] = $_POST['left'] = $_COOKIE['left'] = $_SERVER['left'] = $_ENV['left'] = $_REQUEST['left'] = $n;
    ini_set('precision', '5');
    error_reporting(0);
    set_time_limit(1234);
    putenv('LEFT=1');
    chdir('/');
    umask(0);
    setlocale(LC_ALL, 'C.UTF-8');
    date_default_timezone_set('Asia/Tokyo');
    mb_internal_encoding('SJIS');
    libxml_use_internal_errors(true);
    set_error_handler(fn () => true);
    set_exception_handler(fn () => null);
    stream_context_set_default(['http' => ['user_agent' => 'left']]);
    stream_wrapper_register('left', 'stdClass');
    @json_decode('{');
    @trigger_error('left');
    @preg_match('/(?:\D+|<\d+>)*[!?]/', str_repeat('foobar ', 10));
    mt_srand(7);
    strtok('a b', ' ');
    header('X-Left: 1');
    http_response_code(418);
    setcookie('left', '1');
    ob_start(fn ($text) => 'left');
}
function look(): array
{
    $seen = [
        $GLOBALS['left'] ?? null, $_GET['left'] ?? null, $_POST['left'] ?? null, $_COOKIE['left'] ?? null, $_SERVER['left'] ?? null,
        $_ENV['left'] ?? null, $_REQUEST['left'] ?? null, ini_get('precision'), error_reporting(), ini_get('max_execution_time'), getenv('LEFT'),
        getcwd(), umask(), setlocale(LC_ALL, 0), date_default_timezone_get(), mb_internal_encoding(), libxml_use_internal_errors(),
        set_error_handler(null), set_exception_handler(null), stream_context_get_options(stream_context_get_default()),
        in_array('left', stream_get_wrappers()), json_last_error(), error_get_last(), headers_list(), http_response_code(), ob_get_level(),
        @strtok(' '),
    ];
    error_clear_last();
    return $seen;
}
";

#[test]
fn the_next_task_and_the_requester_see_nothing_of_it() {
    let cases = [
        (
            r"$before = Svc\async(look(...))->await(); Svc\async(dirty(...), $n)->await();
           foreach (Svc\async(look(...))->await() as $i => $seen) { if ($seen !== $before[$i]) { $differs[$i] = [$before[$i], $seen]; } } return $differs ?? 'same';",
            r#""same""#,
        ),
        (
            r"$before = look(); Svc\async(dirty(...), $n)->await(); $after = look();
           foreach ($after as $i => $seen) { if ($seen !== $before[$i]) { $differs[$i] = [$before[$i], $seen]; } } return $differs ?? 'same';",
            r#""same""#,
        ),
        // Nor does a task see any changes of its requester.
        (
            r"$before = Svc\async(look(...))->await(); dirty($n); $seen = Svc\async(look(...))->await(); ob_end_clean(); http_response_code(200);
           return $seen === $before ? 'same' : [$before, $seen];",
            r#""same""#,
        ),
        // After a task that failed, was cancelled, or exited.
        (
            r"$before = Svc\async(look(...))->await();
           tried(fn () => Svc\async(fn ($n) => [dirty($n), throw new Exception()], $n)->await());
           tried(fn () => Svc\async(fn ($n) => [dirty($n), exit], $n)->await());
           tried(fn () => Svc\async(fn ($n) => [dirty($n), never()], $n)->await(0.05));
           return Svc\async(look(...))->await() === $before;",
            "true",
        ),
    ];
    // With one thread, the next task follows on it. The case itself may run there too, which is the harder test.
    everywhere(&TaskServer::new(CODE).set("ASYNC_WORKERS", "1"), &cases);
}

#[test]
fn tasks_beside_each_other_keep_their_own() {
    let cases = [(
        r"$own = function (string $n, string $i) {
              $GLOBALS['own'] = $i; $_GET['own'] = $i; ini_set('precision', $i); putenv('OWN=' . $i); chdir($i % 2 ? '/' : '/tmp'); ob_start(); echo $i;
              mark($n . '-' . $i);
              until($n);
              return [$GLOBALS['own'], $_GET['own'], ini_get('precision'), getenv('OWN'), getcwd(), ob_get_clean()];
          };
          $tasks = [3 => Svc\async($own, $n, '3'), 4 => Svc\async($own, $n, '4')];
          until($n . '-3'); until($n . '-4'); mark($n);
          return [Svc\await_all($tasks), isset($GLOBALS['own']), isset($_GET['own'])];",
        r#"[{"3":["3","3","3","3","/","3"],"4":["4","4","4","4","/tmp","4"]},false,false]"#,
    )];
    everywhere(&TaskServer::new(CODE).set("ASYNC_WORKERS", "1"), &cases);
}

/// As in a request, but there is no request to come before it.
#[test]
fn a_task_has_the_environment_of_the_process() {
    let cases = [(
        r"return Svc\async(fn () => [$_SERVER['APP_ENV'] ?? null, getenv('APP_ENV'), isset($_SERVER['HTTP_PROXY']), getenv('HTTP_PROXY') === (getenv()['HTTP_PROXY'] ?? false), $_SERVER['ADDED'] ?? null])->await();",
        r#"["prod","prod",false,true,"by the setting"]"#,
    )];
    let server = TaskServer::new(CODE).set("APP_ENV", "prod").set("HTTP_PROXY", "http://evil.example");
    everywhere(&server.set("SERVER_VARIABLES", "ADDED=by the setting").set("ASYNC_WORKERS", "1"), &cases);
}

#[test]
fn a_task_is_outside_of_a_fiber() {
    let cases = [
        (r"return Svc\async(fn () => [Svc\sleep(0.001), Fiber::getCurrent()])->await();", "[null,null]"),
        (
            r"return Svc\async(fn () => Fiber::suspend())->await();",
            r"Svc\Async\TaskException: Cannot suspend outside of*",
        ),
    ];
    everywhere(&TaskServer::new(CODE).set("ASYNC_WORKERS", "1"), &cases);
}

#[test]
fn shutdown_functions_and_destructors_of_a_task_are_its_own() {
    let code = CODE.to_owned()
        + r"
        final class Ends { public function __construct(private string $n) { } public function __destruct() { mark('log-' . $this->n, 'destructor'); } }
        function ends(string $n) {
            $result = Svc\async(function ($n) {
                register_shutdown_function(fn () => mark('log-' . $n, 'shutdown'));
                $_SERVER['ends'] = new Ends($n);
                return 'result';
            }, $n)->await();
            while (count(@file(DIR . '/log-' . $n) ?: []) < 2) { Svc\sleep(0.001); }
            register_shutdown_function(fn () => mark('log-' . $n, 'requester'));
            return $result;
        }";
    TaskServer::new(&code).set("ASYNC_WORKERS", "1").in_each_mode(|server| {
        let n = server.another().to_string();
        assert_eq!(server.send("ends", &n).response().text(), r#""result""#);
        eventually("the requester ends", || server.lines(&format!("log-{n}")).len() > 2);
        assert_eq!(server.lines(&format!("log-{n}")), ["shutdown", "destructor", "requester"]);
    });
}

#[test]
fn a_session_of_a_task_is_its_own() {
    let code = r"
        function sessions(string $n) {
            session_save_path(DIR); session_id('requester' . $n); session_start(); $_SESSION['who'] = 'requester';
            $task = Svc\async(function ($n) { session_save_path(DIR); $before = [session_id(), isset($_SESSION)]; session_id('task' . $n); session_start(); $_SESSION['who'] = 'task'; return $before; }, $n);
            $seen = [$task->await(), $_SESSION['who'], session_id() === 'requester' . $n];
            until('sess_task' . $n);
            return $seen;
        }";
    TaskServer::new(code).directive("session.use_strict_mode=0").in_each_mode(|server| {
        let n = server.another().to_string();
        assert_eq!(server.send("sessions", &n).response().text(), r#"[["",false],"requester",true]"#);
        eventually("each has written its own", || {
            server.lines(&format!("sess_task{n}")) == [r#"who|s:4:"task";"#]
                && server.lines(&format!("sess_requester{n}")) == [r#"who|s:9:"requester";"#]
        });
    });
}

#[test]
fn a_task_has_no_request_but_the_id_of_its_requester_s() {
    let cases = [
        (r"return Svc\async(fn () => Svc\Request::current())->await();", r"Svc\Async\TaskException: *"),
        (
            r"return [svc_request_id() !== '', Svc\async(svc_request_id(...))->await() === svc_request_id(), Svc\async(fn () => Svc\async(svc_request_id(...))->await())->await() === svc_request_id()];",
            "[true,true,true]",
        ),
        (
            r"return Svc\async(fn () => [$_GET, $_POST, $_COOKIE, $_FILES, getallheaders()])->await();",
            "[[],[],[],[],[]]",
        ),
        (
            r"return Svc\async(fn () => Svc\Worker::serve(fn () => 1))->await();",
            r"Svc\Async\TaskException: *",
        ),
        (
            r"return Svc\async(fn () => frankenphp_handle_request(fn () => 1))->await();",
            r"Svc\Async\TaskException: *",
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn records_of_a_task_have_the_id_of_its_requester_s() {
    let code = r"function notes(string $n) { Svc\async(fn ($n) => error_log('note ' . $n), $n)->await(); mark('id', svc_request_id()); return 1; }";
    for mode in MODES {
        let server = TaskServer::new(code).start(mode);
        server.send("notes", "one").response();
        eventually("the record", || server.svc.log().find("note one").is_some());
        let record = server.svc.log().find("note one").unwrap();
        assert_eq!(record["fields"]["request_id"].as_str().unwrap(), server.lines("id")[0], "{record}");
        assert_laws(&server.svc);
    }
}

#[test]
fn output_goes_nowhere_and_is_counted() {
    const DISCARDED: &str = "svc_async_output_discarded_bytes_total";
    let code = r"
        function quiet() { return Svc\async(fn () => 'result')->await(); }
        function prints() { return Svc\async(function () { echo 'hello'; print ' '; printf('%s', 'world'); return 'result'; })->await(); }
        function flushes() { return Svc\async(function () { echo 'hello'; ob_flush(); flush(); ob_start(); echo 'more'; return 'result'; })->await(); }
        function keeps() { return Svc\async(function () { ob_start(); echo 'kept'; return ob_get_clean(); })->await(); }";
    TaskServer::new(code).directive("output_buffering=4096").in_each_mode(|server| {
        assert_eq!(server.tell("quiet"), r#""result""#);
        assert_eq!(server.tell("keeps"), r#""kept""#);
        svc_testing::tasks::TaskAccounting::at_rest(&server.svc);
        assert!(!server.svc.ask("/metrics").text().contains(DISCARDED), "nothing was discarded");
        assert_eq!(server.tell("prints"), r#""result""#);
        server.svc.assert_metric(DISCARDED, 11.0);
        assert_eq!(server.tell("flushes"), r#""result""#);
        server.svc.assert_metric(DISCARDED, 20.0);
        assert_eq!(server.tell_in_task("prints"), r#""result""#);
        server.svc.assert_metric(DISCARDED, 31.0);
        let response = server.svc.get("/?do=prints");
        assert_like(&response.text(), r#""result""#);
        assert_eq!(response.status, 200);
    });
}
