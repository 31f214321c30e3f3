//! Programs that requests start while other requests of the thread wait inside their drivers.

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::eventually;
use svc_testing::hooked::{assert_serves, forget, one_thread};
use svc_testing::proxy::Direction;
use svc_testing::tasks::{Mode, TaskServer};
use svc_testing::waits::Stores;

const CODE: &str = r#"
class Held { public static $program; }
function asks($way) { $ask = $way(); mark('connected'); until('asks'); return $ask('whole'); }
/** Counts the sockets that a program inherits. */
const LOOK = 'ls -l /proc/self/fd | grep -c socket:; true';
function by_exec() { exec(LOOK, $lines, $status); return [$lines[0], $status]; }
function by_shell_exec() { return [trim(shell_exec(LOOK)), 0]; }
function by_popen() { $pipe = popen(LOOK, 'r'); return [trim(stream_get_contents($pipe)), pclose($pipe)]; }
function by_proc_open()
{
    $program = proc_open(['sh', '-c', LOOK], [1 => ['pipe', 'w']], $pipes);
    return [trim(stream_get_contents($pipes[1])), proc_close($program)];
}
function by_mail()
{
    $result = mail('a@example.com', 'subject', 'text', '', DIR);
    return [trim(file_get_contents(DIR . '/mailed')), $result ? 0 : 1];
}
function starts_long() { Held::$program = proc_open(['sh', '-c', 'while test -e tasks.php && ! test -e go; do sleep 0.05; done; exit 7'], [], $pipes, DIR); mark('started'); return 1; }
function closes() { mark('closes'); return proc_close(Held::$program); }
function looks() { return proc_get_status(Held::$program)['running']; }
function polls() { while (proc_get_status(Held::$program)['running']) { Svc\sleep(0.002); } return 'ended'; }
function hangs() { $stream = stream_socket_client('tcp://' . PEER); mark('hangs'); until('leaves'); }
"#;

#[test]
fn a_program_does_not_affect_sockets_of_waiting_requests() {
    let stores = Stores::new();
    let mail =
        "sendmail_path=sh -c 'cd $0; cat > /dev/null; ls -l /proc/self/fd | grep -c socket: > mailed; true'";
    let server = one_thread(stores.server(CODE), "all").directive(mail).start(Mode::Worker);
    for (way, proxy) in stores.drivers() {
        for program in ["by_exec", "by_shell_exec", "by_popen", "by_proc_open", "by_mail"] {
            println!("{way} {program}");
            forget(&server, &["connected", "asks"]);
            let mut waits = server.send("asks", way);
            server.until("connected");
            proxy.gate(Direction::ToClient).close();
            server.mark("asks");
            proxy.gate(Direction::ToClient).wait_until_held(1);
            assert_eq!(server.tell(program), "[\"0\",0]", "beside {way}");
            proxy.gate(Direction::ToClient).open();
            assert_eq!(waits.response().text(), "\"whole\"", "beside {program}");
        }
    }
}

#[test]
fn a_program_does_not_keep_a_connection_open() {
    let peer = Backend::tcp(Visit::hang);
    let code = format!("const PEER = '{}';\n{CODE}", peer.address());
    let server = one_thread(TaskServer::new(&code), "all").start(Mode::Worker);
    let mut client = server.send("hangs", "");
    server.until("hangs");
    assert_eq!(server.tell("starts_long"), "1");
    server.mark("leaves");
    assert_eq!(client.response().text(), "null");
    eventually("the other side knows", || peer.connected() == 0);
    server.mark("go");
    assert_eq!(server.tell("closes"), "7");
}

#[test]
fn a_program_may_be_waited_for_and_inspected() {
    let server = one_thread(TaskServer::new(CODE), "process").start(Mode::Worker);
    assert_eq!(server.tell("starts_long"), "1");
    let mut polls = server.send("polls", "");
    assert_eq!(server.tell("looks"), "true");
    let mut closes = server.send("closes", "");
    server.until("closes");
    assert_serves(&server);
    server.mark("go");
    // Only one of the two requests gets the exit status.
    let status = closes.response().text();
    assert!(["7", "-1"].contains(&status.as_str()), "{status}");
    let seen = polls.response().text();
    assert!(seen == "\"ended\"" || seen.starts_with("TypeError"), "{seen}");
    assert_serves(&server);
}
