//! The caches as operators see them: OPcache's memory and the static files, in `/status`, in the metrics and on the page.
#![cfg(feature = "php")]

use serde_json::{Value, json};

use crate::ops::page::{opened, says};
use crate::ops::status::status;
use svc_testing::Svc;
use svc_testing::client::eventually;

const PAGE: (&str, &str) = ("index.php", "<?php echo 'hello';");

fn caches(svc: &Svc) -> Value {
    status(svc)["caches"].clone()
}

/// Scripts cannot hide the figures.
#[test]
fn the_memory_of_opcache_is_seen_whatever_scripts_may_do() {
    let directives = [
        "opcache.memory_consumption=16",
        "opcache.restrict_api=/nowhere",
        "disable_functions=opcache_get_status",
        // Otherwise OPcache checks a new file twice.
        "opcache.file_update_protection=0",
    ];
    let svc = Svc::start_with(&[PAGE], &[], &directives);
    assert_eq!(svc.get("/").text(), "hello");
    eventually("the script is in the cache", || svc.metric("svc_opcache_scripts") >= 1.0);
    let memory = |state: &str| svc.metric(&format!("svc_opcache_memory_bytes{{state=\"{state}\"}}"));
    eventually("the memory is accounted for", || {
        memory("used") > 0.0 && memory("used") + memory("free") + memory("wasted") == f64::from(16 << 20)
    });
    let before = svc.metric("svc_opcache_hits_total");
    assert_eq!(svc.get("/").text(), "hello");
    eventually("it was found there", || svc.metric("svc_opcache_hits_total") > before);
    assert!(svc.metric("svc_opcache_misses_total") >= 1.0);
    eventually("the status says the same", || {
        let opcache = &caches(&svc)["opcache"];
        opcache["scripts"].as_u64() >= Some(1)
            && opcache["hits"].as_u64() >= Some(1)
            && opcache["used_bytes"].as_u64() == Some(memory("used") as u64)
    });
}

#[test]
fn without_opcache_there_are_no_families() {
    let svc = Svc::start_with(&[PAGE], &[], &["opcache.enable=0"]);
    assert_eq!(svc.get("/").text(), "hello");
    let opcache = &caches(&svc)["opcache"];
    let expected = [("enabled", json!(false)), ("used_bytes", Value::Null), ("scripts", Value::Null)];
    for (field, value) in expected {
        assert_eq!(opcache[field], value, "{field}: {opcache}");
    }
    assert!(!svc.ask("/metrics").text().contains("\nsvc_opcache_memory_bytes"));
}

#[test]
fn the_size_of_the_static_cache_is_seen() {
    let text = "x".repeat(10_000);
    let settings = [("STATIC_CACHE_BYTES", "4M")];
    let svc = Svc::start(&[PAGE, ("a.txt", &text)], &settings);
    assert_eq!(svc.get("/a.txt").text(), text);
    eventually("the file is in the cache", || svc.metric("svc_static_cache_bytes") >= 10_000.0);
    assert_eq!(svc.metric("svc_static_cache_limit_bytes"), f64::from(4 << 20));
    eventually("the status says so", || {
        let files = &caches(&svc)["static"];
        files["files"] == 1 && files["bytes"].as_u64() >= Some(10_000) && files["bytes_max"] == 4 << 20
    });
    let Some(mut browser) = opened(svc.ops()) else { return };
    for text in ["OPcache memory", "scripts in OPcache", "memory of static files", "of 4.0 MiB"] {
        says(&mut browser, "cache-list", text);
    }
    assert_eq!(browser.faults(), [""; 0]);
}
