//! The page of the operations port in a browser: under load, while requests are refused, and while the server is stopped,
//! shuts down, and is gone. `page_scenes` opens it in other states, and `worker::wedge` while the pool is wedged.
#![cfg(feature = "php")]

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

/// Asserts that nothing has to be scrolled sideways on a telephone.
#[track_caller]
pub(crate) fn assert_fits_a_phone(browser: &mut Chromium) {
    browser.resize(360, 700);
    browser.eventually("document.documentElement.scrollWidth <= 360");
    let wide = "[...document.querySelectorAll('body *')].filter((one) => !one.closest('thead') && (one.getBoundingClientRect().right > 361
        || (one.scrollWidth > one.clientWidth && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(one).overflowX)))).map((one) => one.outerHTML.slice(0, 80)).join()";
    assert_eq!(browser.evaluate(wide), "");
}

/// Returns the findings of an accessibility checker, in both colour schemes and with forced colours.
pub(crate) fn barriers(browser: &mut Chromium) -> Option<Vec<String>> {
    let script = std::fs::read_to_string(format!("{}/axe.min.js", fetched("axe")?)).unwrap();
    browser.evaluate(&format!("{script}; 0"));
    let mut found = Vec::new();
    for scheme in ["dark", "light", "forced"] {
        if scheme == "forced" {
            browser.force_colors();
        } else {
            browser.prefer(scheme);
        }
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
        browser.evaluate("parseFloat(document.getElementById('served').innerText) > 0") == true
    });
    says(&mut browser, "latency", "s");
    says(&mut browser, "busy", "of 1");

    let mut clients = vec![svc.client(), svc.client()];
    clients[0].send("GET /wait.php HTTP/1.1\r\nHost: x\r\n\r\n");
    eventually("the script runs", || svc.root().join("inside").exists());
    clients[1].send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    says(&mut browser, "queue-more", "1 of 1 queued");
    assert_eq!(svc.get("/").status, 529);
    says(&mut browser, "state", "Overload Requests are refused for overload (529).");
    says(&mut browser, "state", "1 of 1 workers are busy, the longest for");
    says(&mut browser, "episode-rows", "Overload");
    says(&mut browser, "worker-rows", "busy");
    says(&mut browser, "worker-rows", "GET /wait.php");
    says(&mut browser, "served-scale", "0 to");
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
fn the_page_works_by_keyboard_and_can_be_paused() {
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
    assert_fits_a_phone(&mut browser);
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
