//! The laws of the metrics: what has to add up whatever was done to the server.

use super::Svc;
use super::client::eventually;

/// The laws of the books once everything is at rest.
pub(crate) fn check_books(svc: &Svc) {
    eventually("connections are gone", || svc.metric("svc_active_connections") == 0.0);
    let text = svc.ask("/metrics").text();
    let sum = |family: &str| -> f64 {
        let series = text.lines().filter(|line| line.starts_with(family));
        series.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    let total = sum("svc_requests_total");
    assert_eq!(sum("svc_responses_by_status_total"), total, "each request has one class");
    assert_eq!(sum("svc_request_duration_us_count"), total, "each request has one duration");
    let ended = sum("svc_admission_refused_total")
        + sum("svc_request_cancelled_total")
        + sum("svc_dropped_requests_total")
        + sum("svc_responses_by_status_total{status=\"2xx\"}");
    assert_eq!(ended, total, "refused, cancelled, dropped and served add up");
    let (slots, depth) = (sum("svc_admission_slots_available"), sum("svc_queue_depth"));
    assert_eq!((slots + depth, depth), (sum("svc_queue_capacity"), 0.0));
    assert!(
        !text.lines().any(|line| line.rsplit(' ').next().unwrap().starts_with('-')),
        "nothing is negative"
    );
}
