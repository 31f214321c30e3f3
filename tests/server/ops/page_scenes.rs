//! The page of the operations port at 3 a.m.: a stranger reads in its first lines what is wrong, in each of the states that
//! docs/operations.md has a picture of.
#![cfg(feature = "php")]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::page::{assert_fits_a_phone, barriers, opened, says};
use super::status::WAITING;
use svc_testing::Svc;
use svc_testing::chromium::Chromium;
use svc_testing::client::{Client, eventually};
use svc_testing::tls::Certificates;

/// A server in trouble.
struct Scene {
    name: &'static str,
    svc: Svc,
    /// The first lines of the page.
    says: &'static [&'static str],
    /// Whether requests for `/` keep the trouble going.
    has_visitors: bool,
    /// Requests that run.
    _held: Vec<Client>,
    _certificates: Option<Certificates>,
}

impl Scene {
    fn new(name: &'static str, svc: Svc, says: &'static [&'static str]) -> Self {
        Self { name, svc, says, has_visitors: false, _held: Vec::new(), _certificates: None }
    }

    /// Opens the page and waits for these lines.
    fn opened(&self) -> Option<Chromium> {
        let mut browser = opened(self.svc.ops())?;
        self.says.iter().for_each(|words| says(&mut browser, "state", words));
        Some(browser)
    }
}

/// Sends a request that runs until the server ends.
fn held(svc: &Svc, target: &str) -> Client {
    let mut client = svc.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
    eventually("the script runs", || svc.root().join("inside").exists());
    client
}

fn overload() -> Scene {
    let settings = [("PHP_WORKERS", "2"), ("QUEUE_CAPACITY", "1"), ("QUEUE_WAIT_TIMEOUT_MS", "0")];
    let svc = Svc::start(&[("index.php", WAITING)], &settings);
    let mut clients: Vec<_> =
        (0..2).map(|number| held(&svc, &format!("/index.php/report/{number}?secret=1"))).collect();
    eventually("no worker is left", || svc.metric("svc_busy_workers") == 2.0);
    clients.push(held(&svc, "/index.php/report/2"));
    eventually("the queue is full", || svc.metric("svc_queue_depth") == 1.0);
    clients.extend((0..5).map(|_| {
        let mut client = svc.client();
        assert_eq!(client.get("/").status, 529);
        client
    }));
    let says: &[_] = &["Overload", "2 of 2 workers are busy", "GET /index.php/report/"];
    Scene { has_visitors: true, _held: clients, ..Scene::new("overload", svc, says) }
}

#[cfg(feature = "worker")]
fn failed_deployment() -> Scene {
    const WORKER: &str =
        "<?php require __DIR__ . '/lib.php'; Svc\\Worker::serve(function () { echo 'served'; });";
    let settings = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php"), ("PHP_WORKERS", "2")];
    let svc = Svc::start(&[("worker.php", WORKER), ("lib.php", "<?php")], &settings);
    eventually("both workers have booted", || {
        svc.get("/").text() == "served" && svc.metric("svc_workers_idle") == 2.0
    });
    std::fs::write(
        svc.root().join("lib.php"),
        "<?php\nthrow new RuntimeException('no such setting: DATABASE_URL');",
    )
    .unwrap();
    svc.signal(rustix::process::Signal::HUP);
    eventually("it does not boot", || svc.metric("svc_worker_boot_failing") == 1.0);
    assert_eq!(svc.get("/").text(), "served");
    let says: &[_] = &[
        "Deployment failed",
        "no such setting: DATABASE_URL",
        "lib.php on line 2",
        "keep serving the former code",
        "Reload failed",
    ];
    Scene::new("deployment", svc, says)
}

/// The database of the script refuses connections.
fn database_down() -> Scene {
    const INDEX: &str = "<?php\nfunction orders() {\n    return new PDO('mysql:host=127.0.0.1;port=9', 'shop', 'secret');\n}\norders();";
    let svc = Svc::start(&[("index.php", INDEX)], &[("PHP_WORKERS", "2")]);
    for _ in 0..5 {
        assert_eq!(svc.get("/").status, 500);
    }
    let says: &[_] =
        &["Requests fail", "100 %", "PDOException", "Connection refused", "index.php:3", " times"];
    Scene { has_visitors: true, ..Scene::new("database", svc, says) }
}

/// `/dev/full` fails like a file on a full disk.
fn disk_full() -> Scene {
    const INDEX: &str = "<?php\nfile_put_contents('/dev/full', str_repeat('x', 5)); echo 'done';";
    let svc = Svc::start(&[("index.php", INDEX)], &[("PHP_WORKERS", "2")]);
    for _ in 0..3 {
        assert_eq!(svc.get("/").text(), "done");
    }
    let says: &[_] = &["Disk full", "index.php:2", " times"];
    Scene { has_visitors: true, ..Scene::new("disk", svc, says) }
}

fn certificate_near_its_end() -> Scene {
    let mut certificates = Certificates::new(&[&["localhost"]]);
    certificates.write_until(0, &["localhost"], Duration::from_secs(3 * 86_400 - 60));
    let [(cert, cert_file), (key, key_file)] = certificates.settings(1);
    let svc = Svc::start(
        &[("index.php", "<?php echo 1;")],
        &[(cert, &cert_file), (key, &key_file), ("PHP_WORKERS", "2")],
    );
    let says: &[_] = &["Certificate near its end", "expires in 2 d 23 h", "svc reload"];
    Scene { _certificates: Some(certificates), ..Scene::new("certificate", svc, says) }
}

/// A worker is stuck after a minute.
fn stuck_worker() -> Scene {
    let svc = Svc::start(&[("index.php", WAITING)], &[("PHP_WORKERS", "2")]);
    let clients = vec![held(&svc, "/index.php/export/orders?token=secret")];
    let says: &[_] = &["Worker stuck", "Worker 0 has run GET /index.php/export/orders for 1 min"];
    Scene { _held: clients, ..Scene::new("stuck", svc, says) }
}

/// The scenes that appear at once.
const SCENES: &[fn() -> Scene] = &[
    overload,
    #[cfg(feature = "worker")]
    failed_deployment,
    database_down,
    disk_full,
    certificate_near_its_end,
];

#[test]
fn the_first_lines_name_the_problem() {
    for scene in SCENES {
        let scene = scene();
        let Some(mut browser) = scene.opened() else { return };
        assert_eq!(barriers(&mut browser).unwrap_or_default(), [""; 0], "{}", scene.name);
        // The shape shows the level to readers who do not see colours.
        let shape = "getComputedStyle(document.querySelector('#state li'), '::before').content.slice(1, 2)";
        assert!(["✖", "▲"].map(serde_json::Value::from).contains(&browser.evaluate(shape)), "{}", scene.name);
        assert_fits_a_phone(&mut browser);
        let text = browser.evaluate("document.body.innerText");
        assert!(!text.as_str().unwrap().contains("secret=") && !text.as_str().unwrap().contains("token="));
        assert_eq!(browser.faults(), [""; 0], "{}", scene.name);
    }
}

#[test]
fn an_overload_without_further_refusals_names_when_it_ends() {
    let scene = overload();
    let Some(mut browser) = scene.opened() else { return };
    // The refusals are soon older than the seconds of which the page shows the rate.
    says(&mut browser, "state", "None in the last seconds; the condition ends after a minute without any.");
    says(&mut browser, "state", "Overload Requests are refused for overload (529).");
}

/// A worker is stuck after a minute, which is too long for a test: the report is changed in the browser.
#[test]
fn a_stuck_worker_is_named_with_its_request() {
    let svc = Svc::start(&[("index.php", WAITING)], &[("PHP_WORKERS", "1")]);
    let _held = held(&svc, "/index.php/export?token=secret");
    let Some(mut browser) = opened(svc.ops()) else { return };
    says(&mut browser, "worker-rows", "GET /index.php/export");
    let aged = "(() => { const ask = window.fetch; window.fetch = async (...words) => {
        const answer = await ask(...words), report = await answer.json();
        report.conditions = ['stuck'];
        Object.assign(report.workers[0], { state: 'stuck', request_age_seconds: 245, state_age_seconds: 245, request_id: 'its-id' });
        return { ok: true, json: async () => report };
    }; })()";
    browser.evaluate(aged);
    says(
        &mut browser,
        "state",
        "Worker stuck Worker 0 has run GET /index.php/export for 4 min 5 s (its-id).",
    );
    browser.eventually("document.querySelector('#worker-rows tr').dataset.level === 'bad'");
    assert_eq!(barriers(&mut browser).unwrap_or_default(), [""; 0]);
}

/// No deployment has failed: a php-fpm that does not run is named by its address.
#[test]
fn a_php_that_is_not_reachable_is_named() {
    let settings = [("EXECUTOR", "fastcgi"), ("FASTCGI_ADDR", "unix:/nowhere/php-fpm.sock")];
    let svc = Svc::start(&[("index.php", "")], &settings);
    assert_eq!(svc.get("/").status, 500);
    let Some(mut browser) = opened(svc.ops()) else { return };
    says(&mut browser, "state", "Workers do not boot PHP does not start, or is not reachable. Since ");
    says(&mut browser, "state", "unix:/nowhere/php-fpm.sock: No such file or directory");
    let text = browser.evaluate("document.getElementById('state').innerText");
    assert!(!text.as_str().unwrap().contains("code"), "{text}");
}

#[test]
fn errors_of_php_in_other_processes_are_in_the_log() {
    if !std::path::Path::new("/usr/bin/php-cgi").exists() {
        svc_testing::skip::skipped("php-cgi is not installed");
        return;
    }
    let settings = [("EXECUTOR", "fastcgi"), ("PATH", "/usr/bin:/bin"), ("PHP_WORKERS", "1")];
    let svc = Svc::start(&[("index.php", "<?php throw new LogicException('no');")], &settings);
    for _ in 0..5 {
        assert_eq!(svc.get("/").status, 500);
    }
    let Some(mut browser) = opened(svc.ops()) else { return };
    says(&mut browser, "state", "Errors of PHP are in the log.");
    says(&mut browser, "error-rows", "in the log");
}

#[test]
fn long_messages_leave_room_for_their_subject() {
    let svc = Svc::start(&[("index.php", "")], &[("PHP_WORKERS", "1")]);
    let Some(mut browser) = opened(svc.ops()) else { return };
    says(&mut browser, "deployment-list", "executor");
    let failed = "(() => { const ask = window.fetch; window.fetch = async (...words) => {
        const answer = await ask(...words), report = await answer.json();
        report.reload.successful = false;
        report.reload.error = 'cannot load ' + '/releases/current'.repeat(20);
        return { ok: true, json: async () => report };
    }; })()";
    browser.evaluate(failed);
    says(&mut browser, "deployment-list", "/releases/current/releases/current");
    for width in [1200, 1000, 360] {
        browser.resize(width, 800);
        let is_wide =
            "[...document.querySelectorAll('dt')].every((name) => name.getBoundingClientRect().width > 100)";
        browser.eventually(is_wide);
    }
    assert_fits_a_phone(&mut browser);
}

/// Writes a picture of the window to docs/images.
fn keep(browser: &mut Chromium, name: &str) {
    let file = format!("{}/docs/images/ops-{name}.png", env!("CARGO_MANIFEST_DIR"));
    let mut decoder = Command::new("base64");
    decoder.arg("-d").stdin(Stdio::piped()).stdout(std::fs::File::create(file).unwrap());
    let mut decoder = decoder.spawn().unwrap();
    decoder.stdin.take().unwrap().write_all(browser.picture().as_bytes()).unwrap();
    assert!(decoder.wait().unwrap().success());
}

/// Requests pages while `during` runs.
fn under_load(svc: &Svc, paths: &[&str], clients: usize, during: impl FnOnce()) {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    // A refusal may close the connection.
                    let mut client = svc.client();
                    for path in paths {
                        client.get(path);
                    }
                }
            });
        }
        during();
        ends.store(true, Ordering::Relaxed);
    });
}

#[test]
#[ignore = "writes the pictures of the documentation: make pictures"]
fn pictures_of_the_page() {
    for scene in SCENES.iter().chain(&[stuck_worker as fn() -> Scene]) {
        let scene = scene();
        // The trend has its first points, and the trouble goes on.
        let age = if scene.name == "stuck" { 62.0 } else { 22.0 };
        eventually_within(Duration::from_secs(90), || {
            if scene.has_visitors {
                scene.svc.get("/");
            }
            scene.svc.metric("svc_uptime_seconds") > age
        });
        let mut browser = scene.opened().unwrap();
        browser.resize(1120, 560);
        keep(&mut browser, scene.name);
    }
    const PAGE: &str = "<?php usleep(random_int(1000, 20000)); if (random_int(0, 200) === 0) { echo $nothing; } echo str_repeat('x', 4000);";
    let settings = [("PHP_WORKERS", "6"), ("QUEUE_CAPACITY", "4"), ("QUEUE_WAIT_TIMEOUT_MS", "20")];
    let svc = Svc::start(&[("index.php", PAGE), ("logo.svg", "<svg/>")], &settings);
    let mut browser = opened(svc.ops()).unwrap();
    browser.resize(1120, 900);
    under_load(&svc, &["/", "/logo.svg"], 14, || {
        let points =
            "document.querySelector('#served-line polyline').getAttribute('points').split(' ').length >= 9";
        eventually_within(Duration::from_secs(120), || browser.evaluate(points) == true);
        for scheme in ["light", "dark"] {
            browser.prefer(scheme);
            keep(&mut browser, scheme);
        }
        browser.prefer("light");
        browser.resize(390, 844);
        keep(&mut browser, "phone");
    });
}

/// Waits longer than tests do.
fn eventually_within(patience: Duration, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < until, "never came true");
        std::thread::sleep(Duration::from_millis(100));
    }
}
