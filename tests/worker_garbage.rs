//! Garbage that requests leave: a worker that has nothing to do collects it, so that no later request does.
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
            eventually("it is destructed between requests", || {
                server.tell(&format!("strrev{place}"));
                server.lines("destructed").len() == n
            });
            assert_eq!(server.tell(&format!("collect{place}")), r#"[0,"",[]]"#, "{boot}{place}");
        }
    }
}
