//! Invariants of the metrics: sums that hold after any load.

use crate::Svc;
use crate::client::eventually;

/// Reads one series of a page. A missing series is an error of the page or of the test, unless the family is present and
/// its series appear only with the first request of their kind: then the value is 0.
#[track_caller]
pub fn series(page: &str, series: &str) -> f64 {
    let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value.map_or_else(
        || {
            let family = series.split('{').next().unwrap_or_default();
            let is_late = [BY_METHOD, BY_STATUS].contains(&family) && series.contains('{');
            assert!(is_late, "there is no {series} in\n{page}");
            0.0
        },
        |value| value.parse().unwrap(),
    )
}

/// The families whose series appear with the first request of their kind.
const BY_METHOD: &str = "svc_requests_by_method_total";
const BY_STATUS: &str = "svc_responses_by_status_total";

/// Asserts the invariants once the server is idle.
pub fn check_books(svc: &Svc) {
    eventually("connections are gone", || svc.metric("svc_active_connections") == 0.0);
    let text = svc.ask("/metrics").text();
    let sum = |family: &str| -> f64 {
        let series = text.lines().filter_map(|line| line.strip_prefix(family));
        let values: Vec<f64> = series
            .filter(|rest| rest.starts_with([' ', '{']))
            .map(|rest| rest.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(!values.is_empty() || family == BY_STATUS, "there is no {family} in\n{text}");
        values.into_iter().sum()
    };
    let total = sum("svc_requests_total");
    assert_eq!(sum(BY_STATUS), total, "each request has one class");
    assert_eq!(sum("svc_request_duration_us_count"), total, "each request has one duration");
    let unserved = sum("svc_admission_refused_total")
        + sum("svc_rate_limited_total")
        + series(&text, "svc_request_cancelled_total{reason=\"client_abort\"}")
        + series(&text, "svc_request_cancelled_total{reason=\"shutdown\"}");
    assert_eq!(sum("svc_served_duration_us_count") + unserved, total, "each request was served or not");
    let ended = sum("svc_admission_refused_total")
        + sum("svc_request_cancelled_total")
        + sum("svc_dropped_requests_total")
        + series(&text, "svc_responses_by_status_total{status=\"2xx\"}");
    assert_eq!(ended, total, "refused, cancelled, dropped and served add up");
    let (busy, idle) = (sum("svc_busy_workers"), sum("svc_workers_idle"));
    assert_eq!(busy + idle, sum("svc_workers_current"), "each worker is busy or idle");
    let (taken, ran) = (sum("svc_queue_wait_us_count"), sum("svc_php_request_duration_seconds_count"));
    assert!(ran <= taken, "what was handled was taken: {ran} of {taken}");
    if text.contains("\nsvc_worker_mode_enabled 1\n") {
        let handled = sum("svc_worker_requests_handled_total");
        assert_eq!(
            sum("svc_worker_request_duration_us_count"),
            handled,
            "each that was handled took its time"
        );
        assert!(sum("svc_worker_soft_resets_total") <= handled);
    }
    let (slots, depth) = (sum("svc_admission_slots_available"), sum("svc_queue_depth"));
    assert_eq!((slots + depth, depth), (sum("svc_queue_capacity"), 0.0));
    assert!(
        !text.lines().any(|line| line.rsplit(' ').next().unwrap().starts_with('-')),
        "nothing is negative"
    );
}
