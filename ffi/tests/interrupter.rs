//! Which code answers a probe: a loop in PHP does; a function that computes, or a read that blocks, does not.
//!
//! One test, because PHP starts once in a process and ends on the thread that started it.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use svc_ffi::{Interrupter, Php, PhpOutcome, StartOptions};

use support::{NoRuntime, Scripts, request, run};

mod support;

fn start() -> Php {
    Php::start::<NoRuntime>(StartOptions {
        ini_defaults: &[("display_errors", "0"), ("opcache.jit", "disable")],
        ini_overrides: &[],
        environment: &[],
        command_line: None,
        superglobals: true,
        boots: false,
        hooks: &[],
        traces: false,
        reports_failures: false,
        clients: None,
        log: Box::new(|_| {}),
        errors: Box::new(|_| {}),
        restarts: Box::new(|_| {}),
    })
    .unwrap()
}

#[test]
fn only_instructions_of_a_script_answer() {
    let scripts = Scripts::new("interrupter");
    let php = start();
    let (go, socket) = (scripts.path("go"), scripts.path("socket"));
    let here = |path: &Path| format!("file_put_contents('{}', '');", path.display());
    let loops =
        format!("{} while (!file_exists('{}')); echo 'a';", here(&scripts.path("loops")), go.display());
    // One call that takes about a second.
    let computes =
        format!("{} hash_pbkdf2('sha256', 'a', 'b', 1500000); echo 'b';", here(&scripts.path("computes")));
    let reads = format!(
        "$s = stream_socket_client('unix://{}'); {} echo fgets($s);",
        socket.display(),
        here(&scripts.path("reads"))
    );
    let listener = UnixListener::bind(&socket).unwrap();
    let (hand_over, interrupter) = std::sync::mpsc::channel::<Interrupter>();
    std::thread::scope(|scope| {
        let threads = php.threads();
        let (scripts, codes) =
            (&scripts, [("loop.php", loops), ("compute.php", computes), ("read.php", reads)]);
        let worker = scope.spawn(move || {
            let mut php = threads.enter();
            hand_over.send(php.interrupter()).unwrap();
            codes.map(|(name, code)| {
                let (outcome, said) = run(&mut php, &request(&scripts.write(name, &code)));
                assert_eq!(outcome, PhpOutcome::Complete, "{:?}", said.logs);
                String::from_utf8(said.output).unwrap()
            })
        });
        let interrupter = interrupter.recv().unwrap();
        let answers_within = |limit: Duration| {
            let begin = Instant::now();
            while !interrupter.is_answered() && begin.elapsed() < limit {
                std::thread::yield_now();
            }
            interrupter.is_answered()
        };
        scripts.until_exists("loops");
        for _ in 0..3 {
            interrupter.ask();
            assert!(answers_within(Duration::from_secs(10)), "a loop answers");
        }
        std::fs::write(&go, "").unwrap();
        scripts.until_exists("computes");
        // The end of the call that writes the file answers as well, but the next call does not.
        interrupter.ask();
        answers_within(Duration::from_millis(50));
        interrupter.ask();
        assert!(!answers_within(Duration::from_millis(200)), "a function does not answer");
        scripts.until_exists("reads");
        let (mut client, _) = listener.accept().unwrap();
        interrupter.ask();
        answers_within(Duration::from_millis(50));
        interrupter.ask();
        assert!(!answers_within(Duration::from_millis(200)), "a read that waits does not answer");
        client.write_all(b"c\n").unwrap();
        assert_eq!(worker.join().unwrap(), ["a", "b", "c\n"]);
        interrupter.ask();
        assert!(!answers_within(Duration::from_millis(50)), "the thread is gone");
    });
}
