//! Bad ends of the reception of a response: whatever ends it, and at whatever step, each request that waits for the
//! response is answered with a whole one, and no part of a response is stored. All cases run in classic mode, in
//! worker mode and with PHP in other processes, and over both protocols.

use rustix::process::Signal;

use svc_testing::client::eventually;
use svc_testing::{Svc, daemon};

use super::case::{APP, Case, End, Mode, PAGE, PURGE, Protocol, Role, Step, run_of};

/// Acts on a server in each mode of this build.
fn in_each_mode(settings: &[(&str, &str)], directives: &[&str], act: impl Fn(&mut Svc, Mode)) {
    let modes: &[_] = if cfg!(feature = "worker") {
        &[Mode::Classic, Mode::Worker, Mode::Fastcgi]
    } else {
        &[Mode::Classic, Mode::Fastcgi]
    };
    for &mode in modes {
        let of_mode: &[(&str, &str)] = match mode {
            Mode::Classic => &[("EXECUTOR", "sapi")],
            Mode::Worker => {
                &[("EXECUTOR", "sapi"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php")]
            }
            Mode::Fastcgi if daemon::find("php-cgi").is_some() => &[("EXECUTOR", "fastcgi")],
            Mode::Fastcgi => return,
        };
        let own = [
            ("RESPONSE_CACHE_BYTES", "16M"),
            ("RESPONSE_CACHE_MAX_OBJECT_BYTES", "200K"),
            ("QUEUE_WAIT_TIMEOUT_MS", "30000"),
        ];
        let settings = [&own[..], settings, of_mode].concat();
        let directives = [directives, &["memory_limit=32M"]].concat();
        act(&mut Svc::start_with(&[PAGE, PURGE, APP], &settings, &directives), mode);
    }
}

/// Runs all cases that are possible; returns how many there are.
fn run_cases(svc: &Svc, mode: Mode, steps: &[Step], roles: &[Role]) -> usize {
    let mut count = 0;
    for &step in steps {
        let ends = End::PROMPT.into_iter();
        for end in ends.filter(|end| end.is_possible_at(step) && end.is_possible_in(mode)) {
            for &role in roles {
                for protocol in [Protocol::Http1, Protocol::Http2] {
                    Case { svc, mode, protocol, role, step, end }.run();
                    count += 1;
                }
            }
        }
    }
    count
}

#[test]
fn at_each_step_of_the_script() {
    in_each_mode(&[("PHP_WORKERS", "4")], &[], |svc, mode| {
        // Only functions of svc end a response before its script.
        let (steps, expected): (&[Step], _) = match mode {
            Mode::Fastcgi => (&[Step::Running, Step::Sending], 12 + 11),
            Mode::Classic | Mode::Worker => (&[Step::Running, Step::Sending, Step::Finished], 12 + 11 + 9),
        };
        let count = run_cases(svc, mode, steps, &[Role::FirstClient, Role::Refresh]);
        assert_eq!(count, expected * 4, "{mode:?}");
        svc.assert_metric("svc_pending_requests", 0.0);
        svc.assert_metric("svc_busy_workers", 0.0);
    });
}

#[test]
fn before_the_script_runs() {
    in_each_mode(&[("PHP_WORKERS", "1")], &[], |svc, mode| {
        let count = run_cases(svc, mode, &[Step::Queued], &[Role::FirstClient]);
        assert_eq!(count, if mode == Mode::Fastcgi { 10 } else { 12 });
        svc.assert_metric("svc_pending_requests", 0.0);
    });
}

#[test]
fn at_the_time_limit() {
    in_each_mode(&[("PHP_WORKERS", "20")], &["max_execution_time=10"], |svc, mode| {
        let svc = &*svc;
        std::thread::scope(|scope| {
            for end in [End::Limit, End::LimitInCall] {
                for step in [Step::Running, Step::Sending] {
                    for role in [Role::FirstClient, Role::Refresh] {
                        for protocol in [Protocol::Http1, Protocol::Http2] {
                            scope.spawn(move || Case { svc, mode, protocol, role, step, end }.run());
                        }
                    }
                }
            }
        });
        svc.assert_metric("svc_busy_workers", 0.0);
    });
}

#[test]
fn at_the_drain_deadline() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        in_each_mode(&[("PHP_WORKERS", "3"), ("DRAIN_TIMEOUT_SECONDS", "1")], &[], |svc, mode| {
            let case = |role, step| Case { svc, mode, protocol, role, step, end: End::Good };
            let refresh = case(Role::Refresh, Step::Running);
            refresh.ask(protocol).response();
            assert_eq!(run_of(&refresh.ask(protocol).response(), &refresh), 1);
            eventually("the refresh is stored", || refresh.file("here").exists());
            let mut visitors = Vec::new();
            for step in [Step::Running, Step::Sending, Step::Queued] {
                let case = case(Role::FirstClient, step);
                let before = case.received();
                let mut leader = case.ask(protocol);
                match step {
                    Step::Queued => case.until_received(before, 1),
                    _ => eventually("the script runs", || case.file("here").exists()),
                }
                if step == Step::Sending {
                    leader.until_begun();
                }
                visitors.push((step, true, leader));
                visitors.push((step, false, case.ask(Protocol::Http1)));
                visitors.push((step, false, case.ask(Protocol::Http2)));
                case.until_received(before, 3);
            }
            svc.signal(Signal::TERM);
            for (step, is_first, visitor) in &mut visitors {
                let response = visitor.response();
                let is_broken = *is_first && *step == Step::Sending;
                assert_eq!(response.status, if is_broken { 200 } else { 503 }, "{step:?}, {protocol:?}");
                assert_eq!(response.is_whole, !is_broken, "{step:?}, {protocol:?}");
            }
            std::fs::write(refresh.file("go"), "").unwrap();
            svc.wait();
        });
    }
}

#[test]
fn a_drain_gives_the_response_to_waiting_requests() {
    in_each_mode(&[("PHP_WORKERS", "2"), ("DRAIN_TIMEOUT_SECONDS", "20")], &[], |svc, mode| {
        let (role, step, end) = (Role::FirstClient, Step::Running, End::Good);
        let case = Case { svc, mode, protocol: Protocol::Http2, role, step, end };
        let mut leader = case.ask(Protocol::Http2);
        eventually("the script runs", || case.file("here").exists());
        let mut followers = [Protocol::Http1, Protocol::Http2].map(|protocol| case.ask(protocol));
        case.until_received(0.0, 3);
        svc.signal(Signal::TERM);
        svc.log().expect("svc is draining");
        std::fs::write(case.file("go"), "").unwrap();
        assert_eq!(run_of(&leader.response(), &case), 1);
        followers.iter_mut().for_each(|follower| assert_eq!(run_of(&follower.response(), &case), 1));
        drop((leader, followers));
        assert_eq!(svc.wait(), Some(0));
    });
}

#[test]
fn an_error_in_another_process_is_not_stored_even_if_it_is_displayed() {
    if daemon::find("php-cgi").is_none() {
        return;
    }
    let script = "<?php header('Cache-Control: max-age=600'); echo 'run'; FLUSH undefined_function();";
    let displayed = ["display_errors=1", "log_errors=1"];
    for (flush, directives) in
        [("", displayed), ("ob_flush(); flush();", displayed), ("", ["display_errors=0", "log_errors=0"])]
    {
        let settings = [("EXECUTOR", "fastcgi"), ("RESPONSE_CACHE_BYTES", "16M")];
        let svc = Svc::start_with(&[("page.php", &script.replace("FLUSH", flush))], &settings, &directives);
        for _ in 0..2 {
            let response = svc.get("/page.php");
            assert_eq!(response.field("cache-status"), Some("svc; fwd=miss"), "{flush}, {directives:?}");
            assert_eq!(response.status, if directives == displayed { 200 } else { 500 });
        }
    }
}
