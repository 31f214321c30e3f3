//! The benchmark's table: its calculation from recorded runs, and the files that it is written to.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use svc_testing::Svc;
use svc_testing::skip::skipped;
use svc_testing::tls::Certificates;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const MARKERS: [&str; 2] = ["<!-- peers.sh: start -->\n", "<!-- peers.sh: end -->\n"];

fn peers(arguments: &[&str]) -> Output {
    Command::new(Path::new(ROOT).join("scripts/peers.sh")).args(arguments).output().unwrap()
}

fn documentation() -> String {
    fs::read_to_string(Path::new(ROOT).join("docs/performance.md")).unwrap()
}

/// Creates a folder with runs of two servers: three rounds of `hello`, and one of `static` with an error.
fn record() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let run = |workload: &str, server: &str, requests: u32, errors: u32| {
        format!(
            "{workload}\t{server}\t{requests}\t1000000\t9999\t500\t2500\t0\t0\t0\t{errors}\t0\t50\t1\t20480\t0\n"
        )
    };
    let results = [
        run("static", "svc", 300, 7),
        run("hello", "svc", 5_000, 0),
        run("hello", "nginx + php-fpm", 1_000, 0),
        run("hello", "svc", 4_000, 0),
        run("hello", "nginx + php-fpm", 1_000, 0),
        run("hello", "svc", 4_500, 0),
        run("hello", "nginx + php-fpm", 1_000, 0),
    ];
    fs::write(folder.path().join("results"), results.concat()).unwrap();
    fs::write(folder.path().join("servers"), "svc\tsvc 1.0, PHP 8.4\n").unwrap();
    let runs = "hello\t2026-01-02\t3\t5\t32\t4\nstatic\t2026-01-03\t1\t5\t32\t4\n";
    fs::write(folder.path().join("runs"), runs).unwrap();
    fs::write(folder.path().join("figures"), "idle\thttp1\tsvc\t600\nupload\thttp2\tsvc\t0.52\n").unwrap();
    folder
}

#[test]
fn the_table_shows_medians_ratios_and_errors() {
    let record = record();
    let output = peers(&["--print", "--record", record.path().to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let row = |workload: &str| {
        text.lines().find(|line| line.starts_with(workload)).unwrap_or_else(|| panic!("{text}"))
    };
    let hello: Vec<&str> = row("hello ").split_whitespace().collect();
    assert_eq!(hello[..6], ["hello", "svc", "4500", "11.1", "%", "0.50"], "{text}");
    assert_eq!(hello.last(), Some(&"4.50"), "{text}");
    assert!(row("static ").contains("300 !"), "{text}");
    assert!(text.contains("! static, svc: 7 answers with a status above 399"), "{text}");
    assert!(text.find("hello ").unwrap() < text.find("static ").unwrap(), "{text}");
    assert!(row("HTTP/1.1").ends_with("600") && row("HTTP/2").ends_with("0.52"), "{text}");
}

#[test]
fn the_table_replaces_the_text_between_the_markers() {
    let record = record();
    let folder = record.path().to_str().unwrap();
    let page = record.path().join("page.md");
    fs::write(&page, format!("before\n{}old\n{}after\n", MARKERS[0], MARKERS[1])).unwrap();
    let mut written = Vec::new();
    for _ in 0..2 {
        let output = peers(&["--print", "--record", folder, "--write", page.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        written.push(fs::read_to_string(&page).unwrap());
    }
    assert_eq!(written[0], written[1]);
    let text = written[0].strip_prefix(&format!("before\n{}", MARKERS[0])).unwrap();
    let text = text.strip_suffix(&format!("{}after\n", MARKERS[1])).unwrap();
    assert!(text.contains("Measured on 2026-01-02, 2026-01-03.") && !text.contains("old"), "{text}");
    assert!(text.contains("| hello | svc | 4500 |") && text.contains("| HTTP/1.1 | 600 |"), "{text}");
    assert!(text.contains("| HTTP/2 | 0.52 |"), "{text}");

    fs::write(&page, "no markers\n").unwrap();
    let output = peers(&["--print", "--record", folder, "--write", page.to_str().unwrap()]);
    assert!(!output.status.success());
    assert_eq!(fs::read_to_string(&page).unwrap(), "no markers\n");
}

/// Returns the output of the handshake generator after a run of two clients: requests, microseconds, bytes, p50, p99, then
/// errors (connect, read, write, status, timeout).
fn handshakes(port: u16, path: &str, seconds: &str) -> Vec<u64> {
    let script = Path::new(ROOT).join("scripts/peers/handshake.py");
    let arguments = [&port.to_string(), path, "2", seconds];
    let output = Command::new("python3").arg(script).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.strip_prefix("peers ").unwrap_or_else(|| panic!("{output:?}"));
    figures.split_whitespace().map(|figure| figure.parse().unwrap()).collect()
}

#[test]
fn handshakes_of_the_benchmark_are_full() {
    let has_ssl =
        Command::new("python3").args(["-c", "import ssl"]).output().is_ok_and(|run| run.status.success());
    if !has_ssl {
        skipped("there is no python3 with ssl");
        return;
    }
    let certificates = Certificates::new(&[&["a.test"]]);
    let own = certificates.settings(1);
    let settings: Vec<_> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let page = "a page ".repeat(1_000);
    let svc = Svc::start(&[("page.txt", &page)], &settings);
    let figures = handshakes(svc.main().port(), "page.txt", "0.3");
    let [requests, duration, bytes, p50, p99, errors @ ..] = &figures[..] else { panic!("{figures:?}") };
    assert!(*requests > 0 && errors == [0; 5], "{figures:?}");
    assert!(*duration >= 300_000 && (1..=*p99).contains(p50), "{figures:?}");
    assert!(*bytes > requests * page.len() as u64, "{figures:?}");
    svc.assert_metric("svc_tls_handshakes_total{result=\"full\"}", *requests as f64);
    svc.assert_metric("svc_tls_handshakes_total{result=\"resumed\"}", 0.0);

    let missing = handshakes(svc.main().port(), "missing", "0.1");
    assert!(missing[0] > 0 && missing[5..] == [0, 0, 0, missing[0], 0], "{missing:?}");
    // The operations port has no TLS.
    let refused = handshakes(svc.ops().port(), "page.txt", "0.1");
    assert!(refused[0] == 0 && refused[5] > 0 && refused[6..] == [0; 4], "{refused:?}");
}

#[test]
fn every_workload_is_documented() {
    let help = peers(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, list) = help.split_once("--workloads LIST  only these:\n").unwrap();
    let workloads: Vec<&str> = list.lines().next().unwrap().trim().trim_end_matches('.').split(' ').collect();
    let page = documentation();
    let (_, method) = page.split_once("\n## Method\n").unwrap();
    let rows = method.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let known: BTreeSet<&str> = rows.flat_map(|names| names.split(", ")).collect();
    let unknown: Vec<_> = workloads.iter().filter(|workload| !known.contains(**workload)).collect();
    assert!(workloads.len() > 10 && unknown.is_empty(), "{unknown:?}");
    for marker in MARKERS {
        assert_eq!(page.matches(marker).count(), 1, "{marker}");
    }
    assert!(page.find(MARKERS[0]) < page.find(MARKERS[1]));
}
