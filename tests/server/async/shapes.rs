//! Many thousand tasks of all kinds: the code and the values of `php/task_shapes.php`, with OPcache, without it, while it
//! restarts, and while a file changes. A debug build of PHP also detects leaks and failed assertions
//! (`scripts/sanitize.sh`).
//!
//! `TASKS` sets the number of tasks; `make tasks` runs many.

use std::fs;

use svc_core::sync::counter::{Counter, Flag};

use svc_testing::client::eventually;
use svc_testing::tasks::{MODES, TaskAccounting, TaskServer, TaskSvc, assert_laws};

/// The number of tasks on all servers together, unless `TASKS` is set.
const TASKS: u64 = 6000;
/// The number of concurrent requests.
const CLIENTS: u64 = 3;
/// How much a server may grow after its first quarter: by then the heaps have their size.
const GROWTH_MAX: f64 = 24.0 * 1024.0 * 1024.0;

/// The activity beside the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Nothing,
    Restarts,
    Changes,
}

const YOUNG_TOO: &str = "opcache.file_update_protection=0";
const OFF: &str = "opcache.enable=0";
const FRESH: &str = "opcache.revalidate_freq=0";

const SCENES: [(&[&str], Beside); 6] = [
    (&[YOUNG_TOO], Beside::Nothing),
    // The files are too new for the cache.
    (&[], Beside::Nothing),
    (&[OFF], Beside::Nothing),
    (&[YOUNG_TOO], Beside::Restarts),
    (&[YOUNG_TOO, FRESH], Beside::Changes),
    (&[OFF], Beside::Changes),
];

#[test]
fn tasks_of_all_shapes_leave_nothing_behind() {
    let count = std::env::var("TASKS").ok().filter(|count| !count.is_empty());
    let count = count.map_or(TASKS, |count| count.parse().unwrap()) / (2 * SCENES.len() as u64);
    for (directives, beside) in SCENES {
        let mut server = TaskServer::new("require_once __DIR__ . '/task_shapes.php';")
            .file("task_shapes.php", include_str!("../../php/task_shapes.php"))
            .file("changing.php", &version(0));
        for directive in directives {
            server = server.directive(directive);
        }
        for mode in MODES {
            let mut running = server.start(mode);
            let said = run(&running, count, beside);
            println!("{mode:?}, {directives:?}, {beside:?}: {said}");
            assert_laws(&running.svc);
            // PHP reports leaks when it shuts down.
            running.svc.stop();
        }
    }
}

/// Has requests dispatch `count` tasks; returns their outcome and the growth of memory.
fn run(server: &TaskSvc, count: u64, beside: Beside) -> String {
    let (done, turns) = (Flag::new(), Counter::new());
    let dispatched = || TaskAccounting::read(&server.svc).dispatched;
    let resident = || server.svc.metric("process_resident_memory_bytes");
    let mut at_quarter = 0.0;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let _alarm = Alarm(&done);
                while !done.is_set() {
                    let text = server.tell("shapes");
                    assert!(text.parse::<u32>().is_ok(), "{beside:?}: {text}");
                    turns.incr();
                }
            });
        }
        match beside {
            Beside::Nothing => {}
            Beside::Restarts => drop(scope.spawn(|| {
                let _alarm = Alarm(&done);
                restart(server, &done, &turns);
            })),
            Beside::Changes => drop(scope.spawn(|| {
                let _alarm = Alarm(&done);
                change(server, &done, &turns);
            })),
        }
        let share = count as f64;
        let waits = |until: f64| while_it_goes_on(&turns, || done.is_set() || dispatched() >= until);
        waits(share / 4.0);
        at_quarter = resident();
        waits(share);
        done.set();
    });
    let books = TaskAccounting::at_rest(&server.svc);
    let grown = resident() - at_quarter;
    let said = format!(
        "{books:?}, {} MiB and {} KiB more",
        (at_quarter / 1048576.0) as u64,
        (grown / 1024.0) as i64
    );
    assert!(grown < GROWTH_MAX, "{said}");
    said
}

/// Notifies the other threads if its thread fails.
struct Alarm<'a>(&'a Flag);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set();
        }
    }
}

/// Waits for a condition without a time limit while there is progress.
fn while_it_goes_on(turns: &Counter, is_there: impl Fn() -> bool) {
    loop {
        let so_far = turns.value();
        if is_there() {
            return;
        }
        eventually("it continues", || turns.value() > so_far || is_there());
    }
}

/// Restarts OPcache repeatedly.
fn restart(server: &TaskSvc, done: &Flag, turns: &Counter) {
    let restarts = || server.svc.metric("svc_opcache_restarts_total");
    while !done.is_set() {
        let (before, so_far) = (restarts(), turns.value());
        assert_eq!(server.tell("reset_cache"), "true");
        eventually("the cache restarts, and tasks continue", || {
            done.is_set() || restarts() > before && turns.value() > so_far
        });
    }
}

/// Changes a file while its closures are dispatched as tasks.
fn change(server: &TaskSvc, done: &Flag, turns: &Counter) {
    for number in 1.. {
        if done.is_set() {
            return;
        }
        let so_far = turns.value();
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(server.tell("changing"), r#""done""#));
            fs::write(server.path("changing.new"), version(number)).unwrap();
            fs::rename(server.path("changing.new"), server.path("changing.php")).unwrap();
            assert_eq!(server.tell("changing"), r#""done""#);
        });
        eventually("others continue", || done.is_set() || turns.value() > so_far);
    }
}

/// Returns a file of closures with different texts for each number, at the same or at other places.
fn version(number: u64) -> String {
    let space = "\n".repeat((number / 3 % 7) as usize);
    format!(
        "<?php {space} return [{number}, [static fn (int $at) => [{number}, $at],
         static function (int $at) {{ static $list = [{number}, 'x']; $first = static fn () => $list[0]; return [$first(), $at]; }},
         fn (int $at) => [match (true) {{ default => {number} }}, $at]]]; // {}",
        "x".repeat((number % 5) as usize)
    )
}
