//! OPcache restarts while other threads run scripts: all scripts return the right output, and the restarts happen.
//!
//! A separate process, because PHP starts once in a process and this one has a tiny cache.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, UNIX_EPOCH};

use svc_ffi::{Interpreter, Php, PhpOutcome, PhpRequest, StartOptions};

use support::{NoRuntime, Scripts, request, run};

#[expect(dead_code, reason = "each test file uses its part of the support")]
mod support;

const SCRIPTS: usize = 300;
const ROUNDS: usize = 1200;

#[test]
fn a_cache_that_is_full_or_reset_restarts_without_harm() {
    let scripts = Scripts::new("restart");
    let paths = write_scripts(&scripts);
    let reset = scripts.write("reset.php", "echo json_encode(opcache_reset());");
    let status = scripts.write(
        "status.php",
        "$s = opcache_get_status(false); echo json_encode([$s['opcache_statistics']['oom_restarts'],
        $s['opcache_statistics']['hash_restarts'], $s['opcache_statistics']['manual_restarts']]);",
    );

    let php = Php::start::<NoRuntime>(StartOptions {
        ini_defaults: &[("display_errors", "0"), ("log_errors", "1")],
        ini_overrides: &small_cache(),
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
    .unwrap();
    let threads = php.threads();
    let at_work = &|seed: usize| {
        let mut php = threads.enter();
        for round in 0..ROUNDS {
            let n = (seed * 7919 + round * 31) % SCRIPTS;
            // A changed script wastes its old entry: a full cache restarts only if memory is wasted.
            let changed = UNIX_EPOCH + Duration::from_secs(1_000_000 + round as u64);
            File::options().write(true).open(&paths[n]).unwrap().set_modified(changed).unwrap();
            let (outcome, said) = run(&mut php, &at(&paths[n], round));
            let text = String::from_utf8_lossy(&said.output).into_owned();
            assert_eq!(
                (outcome, text.as_str()),
                (PhpOutcome::Complete, format!("{n}:40000:7").as_str()),
                "{:?}",
                said.logs
            );
        }
    };
    // First the cache fills up repeatedly; then a script resets it as fast as it can.
    for resets in [false, true] {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|seed| spawn(scope, move || at_work(seed))).collect();
            let resetter = resets.then(|| {
                spawn(scope, || {
                    let mut php = threads.enter();
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(run(&mut php, &request(&reset)).0, PhpOutcome::Complete);
                    }
                })
            });
            let results: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
            stop.store(true, Ordering::Relaxed);
            for result in results.into_iter().chain(resetter.map(ScopedJoinHandle::join)) {
                result.unwrap();
            }
        });
    }
    let counts =
        std::thread::scope(|scope| spawn(scope, || restarts(&mut threads.enter(), &status)).join().unwrap());
    let [out_of_memory, hash_full, by_script] = counts;
    println!("restarts: {out_of_memory} for memory, {hash_full} for the table, {by_script} by a script");
    assert!(by_script > 0, "no restart by opcache_reset()");
    assert!(out_of_memory + hash_full > 0, "no restart because the cache was full");
}

fn small_cache() -> [(String, String); 6] {
    [
        ("opcache.memory_consumption", "8"),
        ("opcache.interned_strings_buffer", "1"),
        ("opcache.max_accelerated_files", "200"),
        ("opcache.max_wasted_percentage", "1"),
        ("opcache.revalidate_freq", "0"),
        ("opcache.file_update_protection", "0"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// Writes scripts that are too large for the cache to hold many of them, and that use the kinds of data in shared
/// memory: interned strings, classes, constant arrays, compiled patterns.
fn write_scripts(scripts: &Scripts) -> Vec<PathBuf> {
    let fat = "'".to_owned() + &"x".repeat(40_000) + "'";
    (0..SCRIPTS)
        .map(|n| {
            scripts.write(
                &format!("s{n}.php"),
                &format!(
                    "class C{n} {{ const A = ['k{n}' => {n}, 'fat' => {fat}]; static function f() {{ return self::A['k{n}']; }} }}
                    preg_match('/n(\\d+){n}/', 'n7{n}', $m);
                    echo C{n}::f(), ':', strlen(C{n}::A['fat']), ':', $m[1];"
                ),
            )
        })
        .collect()
}

/// Describes a request with a new time, so that OPcache revalidates the script.
fn at(script: &Path, second: usize) -> PhpRequest<'_> {
    PhpRequest { time: 2_000_000.0 + second as f64, ..request(script) }
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    std::thread::Builder::new().stack_size(8 << 20).spawn_scoped(scope, work).unwrap()
}

fn restarts(php: &mut Interpreter, status: &Path) -> [u64; 3] {
    let text = String::from_utf8(run(php, &request(status)).1.output).unwrap();
    let numbers: Vec<u64> =
        text.trim_matches(['[', ']']).split(',').map(|number| number.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}
