//! The page of the operations port in a browser: under load, while requests are refused, and while the server is stopped,
//! shuts down, and is gone. `worker::wedge` opens it while the pool is wedged.
#![cfg(feature = "php")]

use std::io::Write as _;

use rustix::process::Signal;
use serde_json::Value;

use crate::ops::status::WAITING;
use svc_testing::Svc;
use svc_testing::chromium::Chromium;
use svc_testing::client::{Client, eventually};
use svc_testing::fetched::fetched;

/// Opens the page of a server.
pub(crate) fn opened(ops: std::net::SocketAddr) -> Option<Chromium> {
    let mut browser = Chromium::start()?;
    browser.open(&format!("http://{ops}/"));
    browser.eventually("document.getElementById('state').innerText.includes('Waiting for') === false");
    Some(browser)
}

/// Asserts that the region with this ID has this text.
#[track_caller]
pub(crate) fn says(browser: &mut Chromium, id: &str, text: &str) {
    browser.eventually(&format!("document.getElementById('{id}').innerText.includes('{text}')"));
}

/// Returns the findings of an accessibility checker, in both colour schemes.
pub(crate) fn barriers(browser: &mut Chromium) -> Option<Vec<String>> {
    let script = std::fs::read_to_string(format!("{}/axe.min.js", fetched("axe")?)).unwrap();
    browser.evaluate(&format!("{script}; 0"));
    let mut found = Vec::new();
    for scheme in ["dark", "light"] {
        browser.prefer(scheme);
        let run = "axe.run({ resultTypes: ['violations', 'incomplete'] }).then((result) => JSON.stringify(
            [result.passes.length, [...result.violations, ...result.incomplete].map((one) =>
                one.id + ': ' + one.nodes.map((node) => node.html + ' ' + (node.any[0] || {}).message).join(' | '))]))";
        let answer: Value = serde_json::from_str(browser.evaluate(run).as_str().unwrap()).unwrap();
        assert!(answer[0].as_u64() > Some(20), "it has looked: {answer}");
        let these = answer[1].as_array().unwrap().iter();
        found.extend(these.map(|one| format!("{scheme}: {}", one.as_str().unwrap())));
    }
    Some(found)
}

#[test]
fn the_page_is_live_under_load_and_sees_the_server_shed_stop_drain_and_go() {
    let settings = [
        ("DRAIN_DELAY_SECONDS", "600"),
        ("PHP_WORKERS", "1"),
        ("QUEUE_CAPACITY", "1"),
        ("QUEUE_WAIT_TIMEOUT_MS", "0"),
    ];
    let mut svc = Svc::start(&[("index.php", "<?php echo 'hello';"), ("wait.php", WAITING)], &settings);
    let Some(mut browser) = opened(svc.ops()) else { return };
    says(&mut browser, "state", "Serving. Nothing is out of the ordinary.");
    eventually("it shows the load", || {
        assert_eq!(svc.get("/").text(), "hello");
        browser.evaluate("parseFloat(document.getElementById('rate').innerText) > 0") == true
    });
    says(&mut browser, "latency", "s");
    says(&mut browser, "busy", "of 1");

    let mut clients = vec![svc.client(), svc.client()];
    clients[0].send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    clients[1].send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    says(&mut browser, "queue", "1 of 1");
    assert_eq!(svc.get("/").status, 529);
    says(&mut browser, "state", "refused for overload");
    says(&mut browser, "episode-rows", "Overload");
    says(&mut browser, "worker-rows", "busy");
    says(&mut browser, "refusal-list", "queue full");
    browser.eventually("document.title === 'svc: shedding'");
    assert_eq!(browser.faults(), [""; 0]);
    assert_eq!(barriers(&mut browser).unwrap_or_default(), [""; 0]);

    // A stopped process accepts connections and answers none, like an overloaded server.
    svc.signal(Signal::STOP);
    says(&mut browser, "lost", "does not answer in time");
    browser.eventually("document.body.classList.contains('stale')");
    svc.signal(Signal::CONT);
    browser
        .eventually("document.getElementById('lost').hidden && !document.body.classList.contains('stale')");

    std::fs::write(svc.root().join("go"), "").unwrap();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    svc.signal(Signal::TERM);
    says(&mut browser, "state", "shutting down");
    says(&mut browser, "episode-rows", "Shutdown");
    let origin = format!("http://{}/", svc.ops());
    let others: Vec<_> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with(&origin) && !url.starts_with("data:"))
        .collect();
    assert_eq!(others, [""; 0]);
    svc.signal(Signal::TERM);
    assert_eq!(svc.wait(), Some(1));
    says(&mut browser, "lost", "has probably ended");
    let faults = browser.faults();
    let others: Vec<_> = faults.iter().filter(|fault| !fault.contains("net::ERR_")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn the_page_is_worked_by_keyboard_and_stands_still_when_told() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    let Some(mut browser) = opened(svc.ops()) else { return };
    browser.press("Tab");
    browser.eventually("document.activeElement.className === 'skip'");
    browser.press("Tab");
    browser.eventually("document.activeElement.id === 'pause'");
    browser.press("Enter");
    browser.eventually("document.getElementById('pause').getAttribute('aria-pressed') === 'true'");
    let total = "document.getElementById('request-list').innerText";
    let before = browser.evaluate(total);
    for _ in 0..3 {
        assert_eq!(svc.get("/").status, 200);
    }
    browser.press("Enter");
    browser.eventually(&format!("{total} !== {before}"));
    // A narrow window scrolls its tables, but not the page.
    browser.resize(360, 700);
    browser.eventually("document.documentElement.scrollWidth <= 360");
}

#[test]
fn the_policy_runs_nothing_that_finds_its_way_into_the_page() {
    let svc = Svc::start(&[("index.php", "<?php echo 'hello';")], &[]);
    let Some(mut browser) = opened(svc.ops()) else { return };
    browser.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\"><p style=\"color:red\">')");
    eventually("the policy has stopped it", || !browser.faults().is_empty());
    assert_ne!(browser.evaluate("document.title"), "1");
    let answer = Client::connect(svc.ops()).request("GET / HTTP/1.1\r\nHost: evil.example");
    assert_eq!(answer.status, 403);
}

#[test]
#[ignore = "writes the pictures of the documentation: make pictures"]
fn pictures_of_the_page() {
    const PAGE: &str = "<?php usleep(random_int(1000, 20000)); echo str_repeat('x', 4000);";
    let settings = [("PHP_WORKERS", "6"), ("QUEUE_CAPACITY", "4"), ("QUEUE_WAIT_TIMEOUT_MS", "20")];
    let svc = Svc::start(&[("index.php", PAGE), ("logo.svg", "<svg/>")], &settings);
    let mut browser = opened(svc.ops()).unwrap();
    browser.resize(1120, 900);
    let (main, ends) = (svc.main(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..14 {
            let load = || {
                let mut client = Client::connect(main);
                while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                    client.get("/");
                    client.get("/logo.svg");
                }
            };
            scope.spawn(load);
        }
        browser.eventually(
            "document.querySelector('#rate-line polyline').getAttribute('points').split(' ').length >= 40",
        );
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            let file = format!("{}/docs/images/ops-{scheme}.png", env!("CARGO_MANIFEST_DIR"));
            let mut decoder = std::process::Command::new("base64");
            decoder
                .arg("-d")
                .stdin(std::process::Stdio::piped())
                .stdout(std::fs::File::create(file).unwrap());
            let mut decoder = decoder.spawn().unwrap();
            decoder.stdin.take().unwrap().write_all(browser.picture().as_bytes()).unwrap();
            assert!(decoder.wait().unwrap().success());
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
