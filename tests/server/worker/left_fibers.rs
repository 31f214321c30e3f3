//! Fibers that a request leaves suspended inside a call of PHP: they end with the request, however it ends, and each stack
//! uses its own copy of the engine's variables.

use rustix::process::Signal;

use svc_testing::client::eventually;
use svc_testing::tasks::{Mode, TaskServer, TaskSvc};

const CODE: &str =
    concat!(include_str!("../../php/ended_fibers.php"), include_str!("../../php/left_fibers.php"));

/// Where requests run: the mode, the boot script's code before it serves, and whether a task does the work.
const PLACES: [(Mode, &str, &str); 5] = [
    (Mode::Worker, "", ""),
    (Mode::Worker, "answer_all();", ""),
    (Mode::Worker, "", "&task"),
    (Mode::Classic, "", ""),
    (Mode::Classic, "", "&task"),
];

const LEFT: [&str; 5] = ["leave", "leave_resumed_once", "leave_garbage", "leave_exit", "leave_at_shutdown"];
const SAME: [&str; 4] = ["same_resume", "same_throw", "same_drop", "same_cycle"];
const NEXT: [&str; 5] = ["next_resume", "next_throw", "next_drop", "next_cycle", "none"];

/// The result of `usable()` in a healthy worker.
const USABLE: &str = r#"[[1,2,3],"ABCd","b","AB",true,"text",2,7,1,"{\"1\":2}","svc"]"#;

/// Fibers with only script code on their stack continue.
const GO_ON: [&str; 5] = ["array_map", "generator", "invoke", "plain", "reflection"];

fn server() -> TaskServer {
    TaskServer::new(CODE).set("PHP_WORKERS", "1").set("ASYNC_WORKERS", "1")
}

#[track_caller]
fn tell(server: &TaskSvc, place: &str, function: &str, kind: usize) -> (u16, String) {
    let response = server.svc.get(&format!("/?do={function}&n={kind}{place}"));
    (response.status, response.text())
}

#[track_caller]
fn is_usable(server: &TaskSvc, place: &str, after: &str) {
    assert_eq!(tell(server, place, "usable", 0), (200, USABLE.to_owned()), "after {after}");
}

fn kinds(server: &TaskSvc) -> Vec<String> {
    serde_json::from_str(&server.tell("names")).unwrap()
}

#[test]
fn they_end_with_their_request() {
    for (mode, boot, place) in PLACES {
        println!("{mode:?} {boot} {place}");
        let mut server = server().start_with(mode, boot);
        for (number, kind) in kinds(&server).iter().enumerate() {
            for same in SAME {
                tell(&server, place, same, number);
                is_usable(&server, place, &format!("{same} {kind}"));
            }
            for (way, left) in LEFT.into_iter().enumerate() {
                tell(&server, place, left, number);
                let next = NEXT[(number + way) % NEXT.len()];
                assert_eq!(tell(&server, place, next, 0).0, 200, "{left} {next} {kind}");
                tell(&server, place, "collect", 0);
                is_usable(&server, place, &format!("{left} {next} {kind}"));
            }
        }
        server.svc.signal(Signal::TERM);
        assert_eq!(server.svc.wait(), Some(0));
    }
}

#[test]
fn code_of_a_script_continues_in_a_later_request() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = server().start_with(Mode::Worker, boot);
        for (number, kind) in kinds(&server).iter().enumerate() {
            tell(&server, place, "leave", number);
            let goes_on = GO_ON.contains(&kind.as_str());
            assert_eq!(tell(&server, place, "still", 0), (200, goes_on.to_string()), "{kind}");
            tell(&server, place, "next_resume", 0);
            is_usable(&server, place, kind);
        }
    }
}

#[test]
fn they_end_with_a_request_that_fails() {
    let server = server().start(Mode::Worker);
    for (number, kind) in kinds(&server).iter().enumerate() {
        assert_eq!(tell(&server, "", "leave_fatal", number).0, 500, "{kind}");
        tell(&server, "", NEXT[number % NEXT.len()], 0);
        is_usable(&server, "", kind);
    }
    for (number, kind) in kinds(&server).iter().enumerate().filter(|(number, _)| number % 16 == 0) {
        assert_eq!(tell(&server, "", "leave_limit", number).0, 504, "{kind}");
        is_usable(&server, "", kind);
    }
}

#[test]
fn fibers_of_scripts_end_with_their_thread() {
    let mut server = server().start_with(Mode::Worker, "mark('booted');");
    for (number, _) in kinds(&server).iter().enumerate() {
        tell(&server, "", "leave", number);
        tell(&server, "", "leave_garbage", number);
    }
    let boots = server.lines("booted").len();
    server.svc.signal(Signal::HUP);
    eventually("another worker has booted", || server.lines("booted").len() > boots);
    is_usable(&server, "", "a reload");
    server.svc.signal(Signal::TERM);
    assert_eq!(server.svc.wait(), Some(0));
}

#[test]
fn the_client_gets_their_last_output() {
    for (mode, boot) in [(Mode::Classic, ""), (Mode::Worker, ""), (Mode::Worker, "answer_all();")] {
        let server = server().start_with(mode, boot);
        assert_eq!(server.tell("last_words"), r#""left"ended "#, "{mode:?} {boot}");
    }
}

#[test]
fn a_fiber_of_the_boot_script_continues_in_requests() {
    let boot = "Held::$fibers = [new Fiber(function () { return array_sum(calls()['usort']()); })]; Held::$fibers[0]->start();";
    let code = format!("{CODE}\nfunction end_it(): int {{ [$fiber] = take(); return to_the_end($fiber); }}");
    let server = TaskServer::new(
        &code
            .replace("function to_the_end(Fiber $fiber): string", "function to_the_end(Fiber $fiber): mixed"),
    )
    .set("PHP_WORKERS", "1")
    .start_with(Mode::Worker, boot);
    assert_eq!(server.tell("still"), "true");
    assert_eq!(tell(&server, "", "same_drop", 0).0, 200);
    assert_eq!(server.tell("still"), "true");
    assert_eq!(server.tell("end_it"), "13");
}

#[test]
fn fibers_side_by_side_do_not_mix_up_their_calls() {
    for (mode, boot, place) in PLACES {
        let server = server().start_with(mode, boot);
        for _ in 0..2 {
            assert_eq!(tell(&server, place, "crossed", 0), (200, "[]".to_owned()), "{mode:?} {boot} {place}");
        }
        is_usable(&server, place, "all");
    }
}

/// While an autoloader runs for a class, every other look-up of that class fails at once.
#[test]
fn a_class_that_a_fiber_was_loading_is_found_by_the_next_request() {
    for (boot, place) in [("", ""), ("answer_all();", ""), ("", "&task")] {
        let server = server().start_with(Mode::Worker, boot);
        assert_eq!(tell(&server, place, "leave_autoload", 0).0, 200);
        assert_eq!(tell(&server, place, "finds_class", 0), (200, "true".to_owned()), "{boot} {place}");
        tell(&server, place, "next_resume", 0);
        is_usable(&server, place, "loading");
    }
}

/// PHP frees the handler while the fiber is suspended in its callback.
#[test]
fn a_fiber_does_not_go_on_in_a_callback_of_a_freed_handler() {
    for (mode, boot, place) in PLACES {
        let server = server().start_with(mode, boot);
        assert_eq!(tell(&server, place, "without_output", 0).0, 500, "{mode:?} {boot} {place}");
        is_usable(&server, place, "a lack of memory");
    }
}
