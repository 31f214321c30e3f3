//! The runtime hook `process`: programs and pipes to them.

use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, assert_like};

const CODE: &str = r#"
// Also ends with the test, which deletes the folder.
const WAIT = 'echo started >> started; until test -e go || ! test -e started; do sleep 0.01; done; echo done; exit 7';
function program(string $command): string { return 'cd ' . escapeshellarg(DIR) . '; ' . $command; }
function run_by_exec() { exec(program(WAIT), $lines, $status); return [$lines, $status]; }
function run_by_shell_exec() { return shell_exec(program(WAIT)); }
function run_by_system() { ob_start(); $last = system(program(WAIT), $status); return [ob_get_clean(), $last, $status]; }
function run_by_passthru() { ob_start(); $result = passthru(program(WAIT), $status); return [ob_get_clean(), $result, $status]; }
function run_by_popen() { $pipe = popen(program(WAIT), 'r'); return [fgets($pipe), feof($pipe), pclose($pipe)]; }
function run_by_popen_to() { $pipe = popen(program('(cat > /dev/null; ' . WAIT . ') > /dev/null'), 'w'); return [fwrite($pipe, 'x'), pclose($pipe)]; }
function run_by_proc_open()
{
    $program = proc_open(program(WAIT), [1 => ['pipe', 'w']], $pipes);
    return [stream_get_contents($pipes[1]), fclose($pipes[1]), proc_close($program)];
}
function run_by_proc_close() { return proc_close(proc_open(program('(' . WAIT . ') > /dev/null'), [], $pipes)); }
/** More than a pipe holds, to a program that reads it late. */
function write_much()
{
    $program = proc_open(program('echo started >> started; until test -e go || ! test -e started; do sleep 0.01; done; wc -c'), [['pipe', 'r'], ['pipe', 'w']], $pipes);
    $written = fwrite($pipes[0], str_repeat('x', 1 << 20));
    fclose($pipes[0]);
    return [$written, trim(stream_get_contents($pipes[1])), proc_close($program)];
}
/** mail() prints its message with stdio. */
function send_mail() { return mail('a@example.com', 'subject', str_repeat("line\n", 60000), '', DIR); }
function not_there() { return [@exec('exit 3', $lines, $status), $status, @proc_open(['/not/there'], [], $pipes)]; }
function over_in_exec() { set_time_limit(1); @exec(program(WAIT)); mark('went on'); }
function over_in_close() { set_time_limit(1); @proc_close(proc_open(program('(' . WAIT . ') > /dev/null'), [], $pipes)); mark('went on'); }
function start_and_leave() { $GLOBALS['left'] = proc_open(program('exec sleep 0.01'), [], $pipes); return is_resource($GLOBALS['left']); }
"#;

const WAYS: [(&str, &str); 9] = [
    ("run_by_exec", r#"[["done"],7]"#),
    ("run_by_shell_exec", r#""done\n""#),
    ("run_by_system", r#"["done\n","done",7]"#),
    ("run_by_passthru", r#"["done\n",null,7]"#),
    ("run_by_popen", r#"["done\n",false,7]"#),
    ("run_by_popen_to", "[1,7]"),
    ("run_by_proc_open", r#"["done\n",true,7]"#),
    ("run_by_proc_close", "7"),
    ("write_much", r#"[1048576,"1048576",0]"#),
];

fn server(hooks: &str) -> TaskServer {
    TaskServer::new(CODE).set("RUNTIME_HOOKS", hooks).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1")
}

#[test]
fn one_thread_waits_for_many_programs() {
    let server = server("process").start(Mode::Worker);
    let mut clients: Vec<_> = WAYS
        .iter()
        .flat_map(|way| [way, way])
        .map(|(way, answer)| (server.send(way, "1"), *answer))
        .collect();
    eventually("all programs run", || server.lines("started").len() == clients.len());
    assert_eq!(server.tell("strrev"), "\"1\"", "their thread serves others");
    server.mark("go");
    for (client, answer) in &mut clients {
        assert_eq!(client.response().text(), *answer);
    }
    let metrics = String::from_utf8(server.svc.ask("/metrics").body).unwrap();
    assert!(!metrics.contains("svc_hook_blocked_total{"), "{metrics}");
}

#[test]
fn programs_answer_as_without_the_hook() {
    for (hooks, mode) in [("none", Mode::Worker), ("process", Mode::Worker), ("process", Mode::Classic)] {
        let server = server(hooks).start(mode);
        server.mark("go");
        for (way, answer) in WAYS {
            assert_eq!(server.tell(way), answer, "{way} with {hooks}");
            assert_eq!(server.tell_in_task(way), answer, "{way} with {hooks} in a task");
        }
        assert_eq!(server.tell("not_there"), r#"["",3,false]"#);
    }
}

#[test]
fn a_message_is_taken_by_a_program_that_is_slow() {
    let program = "sendmail_path=sh -c 'cd $0; echo started >> started; until test -e go || ! test -e started; do sleep 0.01; done; cat > mail'";
    let server = server("process").directive(program).start(Mode::Worker);
    let mut clients: Vec<_> = (0..3).map(|_| server.send("send_mail", "1")).collect();
    eventually("three programs run", || server.lines("started").len() == clients.len());
    server.mark("go");
    for client in &mut clients {
        assert_eq!(client.response().text(), "true");
    }
}

#[test]
fn a_request_that_is_over_leaves_its_program() {
    let server = server("process").start(Mode::Worker);
    for (n, way) in ["over_in_exec", "over_in_close"].into_iter().enumerate() {
        assert_eq!(server.send(way, "1").response().status, 504, "{way}");
        eventually("the program runs", || server.lines("started").len() == n + 1);
        assert_like(&server.tell("strrev"), "\"*\"");
    }
    assert!(!server.marked("went on"));
    server.mark("go");
    // Starting the next program reaps those that have ended meanwhile.
    let ended = || {
        assert_eq!(server.tell("start_and_leave"), "true");
        let children = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|entry| {
            std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| {
                let fields: Vec<_> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
                fields.first() == Some(&"Z")
                    && fields.get(1) == Some(&server.svc.pid().as_raw_nonzero().to_string().as_str())
            })
        });
        children.count() <= 1
    };
    eventually("no program is left behind", ended);
}
