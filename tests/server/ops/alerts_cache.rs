//! The alerts about the response cache: stale responses that hide errors, and a cache that is too small.
#![cfg(feature = "php")]

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::scraper::Collector;
use svc_testing::skip::skipped;

use super::alerts::{all_raised, impatient_rules};

const PAGE: &str = r"<?php
header('Cache-Control: max-age=' . ($_GET['age'] ?? 0));
if (file_exists(__DIR__ . '/fail')) http_response_code(503);
echo str_repeat('.', 20000);";

#[test]
fn stale_responses_and_a_small_cache_raise_their_alerts() {
    let files = [("page.php", PAGE)];
    let start = |bytes, stale| {
        Svc::start(&files, &[("RESPONSE_CACHE_BYTES", bytes), ("RESPONSE_CACHE_STALE_SECONDS", stale)])
    };
    let (healthy, failing, small) = (start("16M", "0"), start("16M", "600"), start("256K", "0"));
    let all = [&healthy, &failing, &small].map(Svc::ops);
    let Some(collector) = Collector::watch(&all, &impatient_rules()) else {
        return skipped("prometheus is not installed");
    };
    eventually("all have been scraped", || collector.query("count(svc_requests_total)") == Some(3.0));
    assert_eq!(failing.get("/page.php").status, 200);
    std::fs::write(failing.root().join("fail"), "").unwrap();
    let mut number = 0;
    let expected: [(_, &[&str]); 2] =
        [(failing.ops(), &["SvcStaleResponses"]), (small.ops(), &["SvcResponseCacheTooSmall"])];
    let firing = all_raised(&collector, &expected, || {
        assert_eq!(failing.get("/page.php").status, 200, "the stale response");
        for _ in 0..5 {
            number += 1;
            assert_eq!(small.get(&format!("/page.php?age=600&{number}")).status, 200);
            assert_eq!(healthy.get("/page.php?age=600").status, 200);
        }
    });
    let of_healthy: Vec<_> =
        firing.iter().filter(|(_, instance)| *instance == healthy.ops().to_string()).collect();
    assert!(of_healthy.is_empty(), "{of_healthy:?}");
}
