//! Garbage that requests leave: an idle worker collects it, so that no later request has to.
#![cfg(feature = "php")]

use crate::support::client::eventually;
use crate::tasks::{Mode, TaskServer};

const CODE: &str = r#"
class Litter
{
    public $self;
    public function __construct(public string $name) { $this->self = $this; }
    public function __destruct() { echo 'printed'; $_SESSION['left'] = 1; mark('destructed', $this->name); }
}
function litter(string $n): bool { new Litter($n); return true; }
function collect(): array { $_SESSION = []; ob_start(); $count = gc_collect_cycles(); return [$count, ob_get_clean(), $_SESSION]; }
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }
"#;

#[test]
fn an_idle_worker_collects_what_requests_leave() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = TaskServer::new(CODE).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.start_with(Mode::Worker, boot);
        for n in 1..=3 {
            assert_eq!(server.tell(&format!("litter{place}")), "true");
            eventually("it is destructed without another request", || server.lines("destructed").len() == n);
            assert_eq!(server.tell(&format!("collect{place}")), r#"[0,"",[]]"#, "{boot}{place}");
        }
    }
}

const HEADERS: &str = r#"
class Sends
{
    public $self;
    public function __construct(public string $how) { $this->self = $this; }
    public function __destruct()
    {
        if ($this->how === 'session') {
            session_start();
            $_SESSION['left'] = 1;
        } else {
            foreach (['X-A: 1', 'X-A: 2', 'Content-Type: text/left', 'Location: /left'] as $line) { header($line); }
            setcookie('left', '1');
        }
        headers_list();
        mark('destructed');
    }
}
function sends(string $how): bool { new Sends($how); return true; }
function sent(): array { return [headers_list(), session_status()]; }
function answer_all(): void { while (frankenphp_handle_request(answer(...))) { } exit; }
"#;

#[test]
fn what_destructors_send_between_requests_is_for_no_response() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = TaskServer::new(HEADERS).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1");
        let server = server.directive("session.use_cookies=1").start_with(Mode::Worker, boot);
        let before = server.tell(&format!("sent{place}"));
        for (n, how) in (1..).zip(["headers", "session", "headers", "session"]) {
            assert_eq!(server.tell(&format!("sends&n={how}{place}")), "true");
            eventually("it is destructed between requests", || {
                server.tell(&format!("strrev{place}"));
                server.lines("destructed").len() == n
            });
            assert_eq!(server.tell(&format!("sent{place}")), before, "{boot}{place} {how}");
        }
    }
}
