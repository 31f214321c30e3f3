//! OPcache: enabled, hit, and correct in every answer while it restarts under load.

use std::fmt::Write as _;
use std::fs::File;
use std::thread;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use svc_testing::Svc;
use svc_testing::client::eventually;

/// Without this directive, OPcache ignores scripts that were written in the last two seconds.
const AT_ONCE: &str = "opcache.file_update_protection=0";

const STATUS: &str = "<?php echo json_encode(opcache_get_status(false));";

fn status(svc: &Svc) -> Value {
    let response = svc.get("/status.php");
    serde_json::from_slice(&response.body)
        .unwrap_or_else(|_| panic!("{}: {}", response.status, response.text()))
}

#[test]
fn scripts_are_compiled_once() {
    let files = [("status.php", STATUS), ("index.php", "<?php echo 'hello';")];
    let svc = Svc::start_with(&files, &[], &[AT_ONCE]);
    let mut client = svc.client();
    for _ in 0..50 {
        assert_eq!(client.get("/").text(), "hello");
    }
    let status = status(&svc);
    assert_eq!(status["opcache_enabled"], true);
    let statistics = &status["opcache_statistics"];
    assert!(statistics["hits"].as_u64().unwrap() >= 48, "{statistics}");
    assert_eq!(statistics["num_cached_scripts"], 2);
    let config: Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    assert_eq!(config["php"]["opcache_enabled"], true);
}

#[test]
fn each_thread_knows_how_large_the_cache_is() {
    const SIZE: &str = "<?php echo json_encode([opcache_get_configuration()['directives']['opcache.memory_consumption'], \
                        opcache_get_status(false)['memory_usage']]);";
    let directives = [AT_ONCE, "opcache.memory_consumption=16"];
    let svc = Svc::start_with(&[("index.php", SIZE)], &[("PHP_WORKERS", "1")], &directives);
    let answer: Value = serde_json::from_slice(&svc.get("/").body).unwrap();
    assert_eq!(answer[0], 16 << 20);
    let of = |what: &str| answer[1][what].as_u64().unwrap();
    assert_eq!(of("used_memory") + of("free_memory") + of("wasted_memory"), 16 << 20, "{answer}");
}

#[test]
fn a_changed_script_is_seen() {
    let svc =
        Svc::start_with(&[("index.php", "<?php echo 'old';")], &[], &[AT_ONCE, "opcache.revalidate_freq=0"]);
    let mut client = svc.client();
    assert_eq!(client.get("/").text(), "old");
    let script = svc.root().join("index.php");
    std::fs::write(&script, "<?php echo 'new';").unwrap();
    // OPcache compares whole seconds.
    let later = std::fs::metadata(&script).unwrap().modified().unwrap() + Duration::from_secs(10);
    File::options().write(true).open(&script).unwrap().set_modified(later).unwrap();
    assert_eq!(client.get("/").text(), "new");
}

/// Returns a script that prints its number and is large enough to matter to a small cache.
fn script(number: usize) -> String {
    let mut text = format!("<?php\nnamespace N{number};\n");
    for function in 0..40 {
        write!(
            text,
            "function f{function}(array $a): string {{ return implode(',', array_map(fn ($x) => $x . 'literal {number} {function}', $a)); }}\n\
             class C{function} {{ const K = ['{number}' => {function}]; public string $p = 'value {number}/{function}'; function m() {{ return self::K; }} }}\n"
        )
        .unwrap();
    }
    text + &format!(
        "echo '{number}:', strlen(f39(['a'])), ':', (new C7)->p, ':', (new C39)->m()['{number}'];\n"
    )
}

fn expected(number: usize) -> String {
    format!("{number}:{}:value {number}/7:39", format!("aliteral {number} 39").len())
}

/// Requests scripts from several clients at once, and asserts that each answer is right.
fn hammer(svc: &Svc, scripts: usize, rounds: usize) {
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            scope.spawn(move || {
                let mut client = svc.client();
                let mut state = seed * 7919 + 1;
                for _ in 0..rounds {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    let number = (state % scripts as u64) as usize;
                    let response = client.get(&format!("/s{number}.php"));
                    assert_eq!((response.status, response.text()), (200, expected(number)));
                }
            });
        }
    });
}

fn start(scripts: usize, directives: &[&str]) -> Svc {
    let texts: Vec<_> = (0..scripts).map(|number| (format!("s{number}.php"), script(number))).collect();
    let mut files: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.extend([("status.php", STATUS), ("reset.php", "<?php echo (int) opcache_reset();")]);
    let directives: Vec<_> = [AT_ONCE].iter().chain(directives).copied().collect();
    Svc::start_with(&files, &[("PHP_WORKERS", "4")], &directives)
}

/// Gives every script a new time: the cached version is waste from the next request on.
fn age(svc: &Svc, scripts: usize, round: u64) {
    for number in 0..scripts {
        let script = svc.root().join(format!("s{number}.php"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + round);
        File::options().write(true).open(script).unwrap().set_modified(time).unwrap();
    }
}

#[test]
fn a_cache_that_overflows_restarts_and_every_answer_is_right() {
    let svc = start(
        300,
        &[
            "opcache.memory_consumption=8",
            "opcache.interned_strings_buffer=1",
            "opcache.max_accelerated_files=200",
            "opcache.max_wasted_percentage=1",
            "opcache.revalidate_freq=0",
        ],
    );
    thread::scope(|scope| {
        let load = scope.spawn(|| hammer(&svc, 300, 600));
        for round in 1.. {
            if load.is_finished() {
                break;
            }
            age(&svc, 300, round);
        }
    });
    let statistics = status(&svc)["opcache_statistics"].clone();
    let restarts =
        statistics["oom_restarts"].as_u64().unwrap() + statistics["hash_restarts"].as_u64().unwrap();
    assert!(restarts > 1, "it hardly ever restarted: {statistics}");
    svc.assert_metric("svc_workers_current", 4.0);
    svc.assert_metric("svc_responses_by_status_total{status=\"5xx\"}", 0.0);
}

#[test]
fn the_cache_can_be_reset_under_load() {
    let svc = start(20, &[]);
    thread::scope(|scope| {
        let load = scope.spawn(|| hammer(&svc, 20, 600));
        let mut client = svc.client();
        while !load.is_finished() {
            // 0: the cache is off for this request, because the restart requested before is still to come.
            assert!(["0", "1"].contains(&client.get("/reset.php").text().as_str()));
        }
    });
    let statistics = status(&svc)["opcache_statistics"].clone();
    assert!(statistics["manual_restarts"].as_u64().unwrap() > 0, "{statistics}");
    assert_eq!(status(&svc)["restart_in_progress"], false);
}

/// Like a deployment on a server where OPcache does not check files.
#[test]
fn a_hang_up_makes_changed_code_seen_where_the_cache_does_not_look() {
    let files = [("status.php", STATUS), ("index.php", "<?php echo 'old';")];
    let svc = Svc::start_with(&files, &[], &[AT_ONCE, "opcache.validate_timestamps=0"]);
    assert_eq!(svc.get("/").text(), "old");
    std::fs::write(svc.root().join("index.php"), "<?php echo 'new';").unwrap();
    assert_eq!(svc.get("/").text(), "old");
    svc.signal(Signal::HUP);
    eventually("the change is seen", || svc.get("/").text() == "new");
    eventually("it is on again", || {
        let status = status(&svc);
        status["opcache_enabled"] == true && status["restart_pending"] == false
    });
    assert_eq!(svc.metric("svc_opcache_restarts_total") as u64, 1);
    svc.log().expect("reload finished");
}

/// Like releases that are deployed by switching a link: the scripts of the old ones fill the cache, and none is replaced.
#[test]
fn a_cache_that_is_full_of_old_releases_is_reported_until_a_reload() {
    // Equal texts would share their memory.
    let text = |name: &str| format!("<?php $text = '{name}{}';", "x".repeat(200_000));
    let parts: Vec<_> = (0..60).map(|number| format!("old/{number}.php")).collect();
    let parts: Vec<_> = parts.into_iter().map(|name| (text(&name), name)).collect();
    let mut files: Vec<_> = parts.iter().map(|(text, name)| (name.as_str(), text.as_str())).collect();
    files.push((
        "all.php",
        "<?php foreach (glob(__DIR__ . '/old/*') as $part) { require $part; } echo 'all';",
    ));
    let large = text("large") + " echo (int) opcache_is_script_cached(__FILE__);";
    files.push(("large.php", &large));
    let small = [AT_ONCE, "opcache.memory_consumption=8", "opcache.interned_strings_buffer=1"];
    let svc = Svc::start_with(&files, &[], &small);
    assert!(svc.metric("svc_opcache_full") < 0.5);
    // Less is free than one script needs, but more than what makes OPcache report that it is full.
    eventually("it is full", || {
        assert_eq!(svc.get("/all.php").text(), "all");
        svc.metric("svc_opcache_full") == 1.0
    });
    let record = svc.log().expect(
        "OPcache is full: scripts that it does not hold are compiled on every request; reload svc after a deployment, \
         or raise opcache.memory_consumption or opcache.max_accelerated_files",
    );
    assert_eq!(record["level"], "WARN");
    assert!(record["fields"]["scripts"].as_u64() > Some(0), "{record}");
    assert_eq!(svc.get("/large.php").text(), "0");
    svc.signal(Signal::HUP);
    eventually("new code is in the cache", || svc.get("/large.php").text() == "1");
    eventually("it is not full", || svc.metric("svc_opcache_full") < 0.5);
}
