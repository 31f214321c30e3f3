//! The examples, built as their readers would build them, and tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::exposition::{self, Dialect};
use svc_testing::plugins::{Plugins, built};
use svc_testing::skip::skipped;

/// Builds the C example in a copy of its folder, with its own Makefile.
fn disk_in_c(plugins: &Plugins) -> PathBuf {
    let folder = plugins.path("example");
    std::fs::create_dir(&folder).unwrap();
    for name in ["disk.c", "Makefile"] {
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/plugin-c").join(name);
        std::fs::copy(source, folder.join(name)).unwrap();
    }
    let include = concat!("SVC_INCLUDE=", env!("CARGO_MANIFEST_DIR"), "/include");
    let make = Command::new("make").args([include, "CFLAGS=-Werror"]).current_dir(&folder).output().unwrap();
    assert!(make.status.success(), "{}", String::from_utf8_lossy(&make.stderr));
    folder.join("disk.so")
}

#[test]
fn both_watch_a_disk_side_by_side() {
    let plugins = Plugins::none();
    let in_c = disk_in_c(&plugins);
    let plugins = plugins
        .add(&in_c, &[("PLUGIN_DISK_DEGRADED_PERCENT", "0"), ("PLUGIN_DISK_FAILED_PERCENT", "0")])
        .add(
            &built("svc-plugin-disk-rust", "disk_rust"),
            // No disk has this much free space.
            &[
                ("PLUGIN_DISK_RUST_PATH", "/proc"),
                ("PLUGIN_DISK_RUST_DEGRADED_PERCENT", "101"),
                ("PLUGIN_DISK_RUST_FAILED_PERCENT", "0"),
            ],
        );
    let mut svc = plugins.start(&[], &[]);
    let json = |path: &str| -> Value { serde_json::from_slice(&svc.ask(path).body).unwrap() };
    let health = json!({ "disk": "ok", "disk_rust": "degraded" });
    eventually("both have looked", || json("/health")["plugins"] == health);
    assert_eq!(svc.ask("/readyz").status, 200);
    eventually("both are configured", || {
        let report = &json("/config")["plugins"];
        report["disk"]["degraded_percent"] == 0 && report["disk_rust"]["watches"] == "/proc"
    });
    for (plugin, path) in [("disk", "/"), ("disk_rust", "/proc")] {
        let page = svc.ask(&format!("/plugins/{plugin}/"));
        assert_eq!((page.status, page.field("content-type")), (200, Some("text/plain; charset=utf-8")));
        assert!(page.text().starts_with(&format!("{path}: ")) && page.text().ends_with("bytes are free\n"));
        assert_eq!(svc.ask(&format!("/plugins/{plugin}/else")).status, 404);
        eventually("it has metrics", || {
            let page = exposition::read(&svc.ask("/metrics").body, Dialect::Text);
            let page = page.unwrap_or_else(|fault| panic!("{fault}"));
            let free = page.value(&format!("svc_plugin_{plugin}_free_bytes"), &[("path", path)]);
            let checks = page.value(&format!("svc_plugin_{plugin}_checks_total"), &[]);
            free.is_some() && checks.is_some_and(|count| count >= 1.0)
        });
    }
    assert!(svc.log().find("watching /").is_some() && svc.log().find("watching /proc").is_some());
    svc.stop();
}

/// Returns the page's first example in this language.
fn of_the_page(language: &str) -> &'static str {
    let page = include_str!("../../../docs/plugins.md");
    let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_first_example_of_the_page_works() {
    let source = of_the_page("c");
    let plugins = Plugins::none();
    let path = plugins.path("hello.so");
    c::plugin(source, &path, &[]);
    let svc = plugins.add(&path, &[("PLUGIN_HELLO_GREETING", "good morning")]).start(&[], &[]);
    eventually("it is well", || svc.ask("/health").text().contains(r#""plugins":{"hello":"ok"}"#));
    assert_eq!(svc.ask("/plugins/hello/").text(), "good morning");
}

#[test]
fn the_package_in_rust_of_the_page_works() {
    let plugins = Plugins::none();
    let folder = plugins.path("hello");
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = of_the_page("toml").replace("/usr/share/svc", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/lib.rs"), of_the_page("rust")).unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--offline", "--quiet", "--release", "--target-dir", "target"]);
    let build = build.current_dir(&folder).output().unwrap();
    assert!(build.status.success(), "{}", String::from_utf8_lossy(&build.stderr));
    let svc = plugins.add(&folder.join("target/release/libhello.so"), &[]).start(&[], &[]);
    eventually("it is well", || svc.ask("/health").text().contains(r#""plugins":{"hello":"ok"}"#));
    assert_eq!(svc.ask("/plugins/hello/").text(), "hello");
}

#[test]
fn a_disk_without_space_is_not_ready() {
    let plugins = Plugins::none();
    let in_c = disk_in_c(&plugins);
    let plugins =
        plugins.add(&in_c, &[("PLUGIN_DISK_PATH", "/proc"), ("PLUGIN_DISK_DEGRADED_PERCENT", "100")]);
    let svc = plugins.start(&[], &[]);
    // A file system without blocks has no space to run out of.
    eventually("it has looked", || svc.ask("/health").text().contains(r#""disk":"ok""#));
    let plugins = Plugins::none()
        .add(&built("svc-plugin-disk-rust", "disk_rust"), &[("PLUGIN_DISK_RUST_FAILED_PERCENT", "101")]);
    let svc = plugins.start(&[], &[]);
    eventually("it is full", || svc.ask("/readyz").status == 503);
    assert_eq!((svc.ask("/health").status, svc.ask("/healthz").status), (503, 200));
}

#[test]
fn mistakes_in_their_settings_stop_the_start() {
    let plugins = Plugins::none();
    let in_c = disk_in_c(&plugins);
    let expected = "svc: error: plugin disk: init failed: FAILED_PERCENT: not a number from 0 to 100\n";
    for value in ["two", "nan", "101"] {
        let plugins = Plugins::none().add(&in_c, &[("PLUGIN_DISK_FAILED_PERCENT", value)]);
        assert_eq!(plugins.refused(None, &[]), (1, expected.to_owned()), "{value}");
    }
    let rust = built("svc-plugin-disk-rust", "disk_rust");
    let refused = |name: &str, value: &str| {
        let (code, errors) = Plugins::none().add(&rust, &[(name, value)]).refused(None, &[]);
        assert_eq!(code, 1);
        errors
    };
    assert!(refused("PLUGIN_DISK_RUST_FAILED_PERCENT", "two").contains("FAILED_PERCENT is \"two\""));
    for value in ["nan", "inf"] {
        let errors = refused("PLUGIN_DISK_RUST_FAILED_PERCENT", value);
        assert!(errors.contains("not a finite number"), "{errors}");
    }
    assert!(refused("PLUGIN_DISK_RUST_PATH", "/none").contains("/none: No such file"));
}

#[test]
fn the_example_in_c_makes_no_mistake_with_memory() {
    let valgrind = Path::new("/usr/bin/valgrind");
    if !valgrind.exists() {
        return skipped("there is no valgrind");
    }
    let plugins = Plugins::none();
    let in_c = disk_in_c(&plugins);
    let report = plugins.path("report");
    // Memory of threads that run until the end of the process is not a leak.
    let options =
        format!("--leak-check=full --errors-for-leak-kinds=definite --log-file={}", report.display());
    let plugins = plugins.add(&in_c, &[("VALGRIND_OPTS", &options)]);
    let mut svc = plugins.start_under(valgrind, &[("MAX_CONNECTIONS", "10")]);
    eventually("it is well, or not", || svc.ask("/health").text().contains(r#""disk":"#));
    eventually("it is configured", || svc.ask("/config").text().contains("degraded_percent"));
    for _ in 0..3 {
        assert_eq!(svc.ask("/plugins/disk/").status, 200);
        assert_eq!(svc.ask("/plugins/disk/else").status, 404);
        svc.get("/");
    }
    svc.stop();
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains("ERROR SUMMARY: 0 errors from 0 contexts"), "{report}");
}
