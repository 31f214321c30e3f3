//! libcurl transfers whose request is over: libcurl gets errors, and its loops end soon, whatever they wait for.

use svc_testing::backend::{Backend, Unaccepting, Visit, head_of};
use svc_testing::client::eventually;
use svc_testing::counted_calls::CountedCalls;
use svc_testing::hooked::{assert_serves, one_thread};
use svc_testing::skip::skipped;
use svc_testing::socket::Listener;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};

/// Many ways of a transfer that outlasts every time limit.
const CODE: &str = r#"
function transfer(string $url, array $options = []): CurlHandle
{
    $curl = curl_init($url);
    curl_setopt_array($curl, $options + [CURLOPT_RETURNTRANSFER => true]);
    return $curl;
}
function by_multi(CurlHandle ...$handles): void
{
    $many = curl_multi_init();
    foreach ($handles as $curl) { curl_multi_add_handle($many, $curl); }
    do { curl_multi_exec($many, $running); } while ($running && curl_multi_select($many, 3600) >= 0);
}
$transfers = [
    'waits' => fn () => transfer('http://' . HANGS),
    'connects' => fn () => transfer('http://' . FULL),
    'shakes hands' => fn () => transfer('https://' . HANGS),
    'is slowed down' => fn () => transfer('http://' . LONG, [CURLOPT_MAX_RECV_SPEED_LARGE => 1000]),
    'is slow to send' => fn () => transfer('http://' . HANGS, [CURLOPT_POSTFIELDS => str_repeat('x', 1 << 20), CURLOPT_MAX_SEND_SPEED_LARGE => 1000]),
    'expects' => fn () => transfer('http://' . HANGS, [CURLOPT_POSTFIELDS => str_repeat('x', 1 << 21), CURLOPT_HTTPHEADER => ['Expect: 100-continue'], CURLOPT_EXPECT_100_TIMEOUT_MS => 3600000]),
    'is paused' => fn () => transfer('http://' . LONG, [CURLOPT_WRITEFUNCTION => fn () => CURL_WRITEFUNC_PAUSE]),
    'pauses sending' => fn () => transfer('http://' . HANGS, [CURLOPT_UPLOAD => true, CURLOPT_INFILESIZE => 100, CURLOPT_READFUNCTION => fn () => CURL_READFUNC_PAUSE]),
];
function names() { return array_keys($GLOBALS['transfers']); }
function limited($n)
{
    [$way, $n] = explode(':', $n);
    $curl = array_values($GLOBALS['transfers'])[$n]();
    set_time_limit(1);
    register_shutdown_function(fn () => mark('shut'));
    $way === 'easy' ? curl_exec($curl) : by_multi($curl, transfer('http://' . HANGS));
    mark('went on');
}
function cancelled($n)
{
    $task = Svc\async(function () use ($n) {
        $curl = array_values($GLOBALS['transfers'])[$n]();
        mark('waits');
        try { curl_exec($curl); mark('went on'); } finally { mark('finally'); }
    })->detach();
    until('waits');
    Svc\sleep(0.1);
    $task->cancel();
    settled($task);
    until('finally');
}
"#;

struct Peers {
    hangs: Backend,
    long: Backend,
    full: Unaccepting,
    counted: CountedCalls,
}

impl Peers {
    fn new() -> Self {
        let long = |visit: &mut Visit| {
            visit.request()?;
            visit.send(head_of(1 << 24))?;
            visit.send("x".repeat(1 << 20))?;
            visit.hang()
        };
        Self {
            hangs: Backend::tcp(Visit::hang),
            long: Backend::tcp(long),
            full: Unaccepting::new(Listener::tcp()),
            counted: CountedCalls::of_poll(),
        }
    }

    /// Returns a server whose calls of poll() are counted.
    fn server(&self) -> TaskSvc {
        let constants: String =
            [("HANGS", self.hangs.address()), ("LONG", self.long.address()), ("FULL", self.full.address())]
                .map(|(name, address)| format!("const {name} = '{address}';\n"))
                .concat();
        let server = one_thread(TaskServer::new(&format!("{constants}{CODE}")), "net");
        server.set("LD_PRELOAD", &self.counted.preload()).start(Mode::Worker)
    }

    /// Returns the number of calls of poll().
    fn polls(&self) -> u64 {
        self.counted.count()
    }
}

/// Some calls for the transfer itself, a hundred per second while it is paused, and some until libcurl gives up. A spinning
/// loop quickly makes tens of thousands.
const POLLS_MAX: u64 = 1000;

fn is_sanitized() -> bool {
    let is_sanitized = std::env::var_os("SVC_SANITIZE").is_some();
    if is_sanitized {
        skipped("a sanitizer wants to be the first library");
    }
    is_sanitized
}

#[test]
fn a_time_limit_ends_each_transfer_soon() {
    if is_sanitized() {
        return;
    }
    let peers = Peers::new();
    let server = peers.server();
    let names: Vec<String> = serde_json::from_str(&server.tell("names")).unwrap();
    for way in ["easy", "multi"] {
        for (n, name) in names.iter().enumerate() {
            println!("{way} {name}");
            let (before, ended) = (peers.polls(), server.lines("shut").len());
            assert_eq!(server.send("limited", &format!("{way}:{n}")).response().status, 504);
            eventually("it has ended", || server.lines("shut").len() > ended);
            let polls = peers.polls() - before;
            assert!(0 < polls && polls < POLLS_MAX, "{polls} polls");
            assert_serves(&server);
        }
    }
    assert_eq!(server.lines("went on"), [""; 0]);
}

#[test]
fn a_cancelled_task_ends_each_transfer_soon() {
    if is_sanitized() {
        return;
    }
    let peers = Peers::new();
    let server = peers.server();
    let names: Vec<String> = serde_json::from_str(&server.tell("names")).unwrap();
    for (n, name) in names.iter().enumerate() {
        println!("{name}");
        svc_testing::hooked::forget(&server, &["waits", "finally"]);
        let before = peers.polls();
        assert_eq!(server.send("cancelled", &n.to_string()).response().text(), "null");
        let polls = peers.polls() - before;
        assert!(0 < polls && polls < POLLS_MAX, "{polls} polls");
    }
    assert_eq!(server.lines("went on"), [""; 0]);
}
