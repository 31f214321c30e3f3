//! Rates and latencies of the last seconds, from samples taken once a second.
//!
//! A few samples of fixed size, however many clients read them. The history reads no clock, and covers counters and
//! processor time only.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::families::Metrics;
use super::label::StatusClass;
use crate::limits::STATUS_WINDOW_SECONDS;
use crate::sync::histogram::Snapshot;

/// The counts at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    requests: u64,
    responses: [u64; StatusClass::ALL.len()],
    overload_refusals: u64,
    request_duration: Snapshot,
    served_duration: Snapshot,
    queue_wait: Snapshot,
    php_duration: Snapshot,
    cpu: Duration,
}

/// The recent samples.
#[derive(Debug, Default)]
pub struct History(VecDeque<Sample>);

/// The activity between two samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// The time between them.
    pub seconds: f64,
    /// Requests received.
    pub requests: u64,
    /// Requests that ended, by the class of their status.
    pub responses: [u64; StatusClass::ALL.len()],
    /// Requests that were refused under overload.
    pub overload_refusals: u64,
    /// The time from the first byte of a request to the last byte of its response.
    pub request_duration: Latency,
    /// The same, of the requests that were answered and not refused.
    pub served_duration: Latency,
    /// How long requests waited for a worker.
    pub queue_wait: Latency,
    /// How long PHP ran.
    pub php_duration: Latency,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
}

/// A distribution of durations, in microseconds. The quantiles are estimates: the values are assumed to be evenly
/// distributed within a bucket, and values above the last bound to equal that bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// The number of values.
    pub count: u64,
    /// Their mean.
    pub mean_us: u64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
}

impl Sample {
    /// Reads the metrics.
    pub fn read(metrics: &Metrics, cpu: Duration, at: Instant) -> Self {
        // The ends of requests are read before their beginnings, so that no more requests end than begin.
        Self {
            at,
            responses: StatusClass::ALL.map(|class| metrics.responses.value(class)),
            request_duration: metrics.request_duration.snapshot(),
            served_duration: metrics.served_duration.snapshot(),
            php_duration: metrics.php_duration.snapshot(),
            queue_wait: metrics.queue_wait.snapshot(),
            overload_refusals: metrics.overload_refusals().sum(),
            requests: metrics.requests_by_method.total(),
            cpu,
        }
    }
}

impl History {
    /// Adds the sample of this second.
    pub fn note(&mut self, sample: Sample) {
        if self.0.len() > STATUS_WINDOW_SECONDS {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    /// Returns the activity between the first sample and the last; `None` before the second one.
    pub fn window(&self) -> Option<Window> {
        let (first, last) = (self.0.front()?, self.0.back()?);
        let elapsed = last.at.saturating_duration_since(first.at);
        (!elapsed.is_zero()).then(|| Window {
            seconds: elapsed.as_secs_f64(),
            requests: last.requests.saturating_sub(first.requests),
            responses: std::array::from_fn(|one| last.responses[one].saturating_sub(first.responses[one])),
            overload_refusals: last.overload_refusals.saturating_sub(first.overload_refusals),
            request_duration: Latency::between(&first.request_duration, &last.request_duration),
            served_duration: Latency::between(&first.served_duration, &last.served_duration),
            queue_wait: Latency::between(&first.queue_wait, &last.queue_wait),
            php_duration: Latency::between(&first.php_duration, &last.php_duration),
            cpu_seconds: last.cpu.saturating_sub(first.cpu).as_secs_f64(),
        })
    }
}

impl Latency {
    fn between(first: &Snapshot, last: &Snapshot) -> Self {
        let counts: Vec<u64> = last
            .buckets()
            .iter()
            .zip(first.buckets())
            .map(|(last, first)| last.saturating_sub(*first))
            .collect();
        let count: u64 = counts.iter().sum();
        let quantile = |percent| quantile(last.bounds, &counts, count, percent);
        Self {
            count,
            mean_us: last.sum.wrapping_sub(first.sum).checked_div(count).unwrap_or(0),
            p50_us: quantile(50),
            p90_us: quantile(90),
            p99_us: quantile(99),
        }
    }
}

/// Estimates a quantile; 0 if there are no values.
fn quantile(bounds: &[u64], counts: &[u64], count: u64, percent: u64) -> u64 {
    // In hundredths of a value.
    let rank = count * percent;
    let (mut below, mut lower) = (0, 0);
    for (in_bucket, upper) in counts.iter().zip(bounds) {
        let until = below + in_bucket * 100;
        if *in_bucket > 0 && rank <= until {
            return lower + (upper - lower) * (rank - below) / (in_bucket * 100);
        }
        (below, lower) = (until, *upper);
    }
    if count == 0 { 0 } else { lower }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    #[test]
    fn quantiles_lie_within_their_buckets() {
        let bounds = [100, 200, 400];
        assert_eq!(quantile(&bounds, &[0, 0, 0, 0], 0, 99), 0);
        assert_eq!(quantile(&bounds, &[10, 0, 0, 0], 10, 50), 50);
        assert_eq!(quantile(&bounds, &[5, 5, 0, 0], 10, 50), 100);
        assert_eq!(quantile(&bounds, &[0, 0, 10, 0], 10, 90), 380);
        assert_eq!(quantile(&bounds, &[0, 0, 0, 7], 7, 50), 400, "no more is known");
        assert_eq!(quantile(&bounds, &[98, 0, 0, 2], 100, 99), 400);
    }

    #[test]
    fn a_window_is_what_the_last_seconds_had() {
        let (metrics, start) = (Metrics::new(), time::now());
        let mut history = History::default();
        assert_eq!(history.window(), None);
        for second in 0..30u64 {
            let at = start + Duration::from_secs(second);
            history.note(Sample::read(&metrics, Duration::from_millis(500 * second), at));
            for _ in 0..second {
                metrics.answered(200, 1, Duration::from_micros(300));
                metrics.answered(529, 1, Duration::from_micros(20));
                metrics.served(Duration::from_micros(300));
            }
        }
        let window = history.window().unwrap();
        assert_eq!((window.seconds, window.cpu_seconds), (10.0, 5.0));
        // The samples of the seconds 19 to 28.
        assert_eq!((window.responses, window.request_duration.count), ([0, 235, 0, 0, 235], 470));
        assert_eq!((window.request_duration.mean_us, window.served_duration.mean_us), (160, 300));
        assert_eq!(window.served_duration.count, 235);
        assert_eq!(window.queue_wait, Latency::default());
    }

    #[test]
    fn two_samples_of_one_moment_are_no_window() {
        let (metrics, now) = (Metrics::new(), time::now());
        let mut history = History::default();
        history.note(Sample::read(&metrics, Duration::ZERO, now));
        history.note(Sample::read(&metrics, Duration::ZERO, now));
        assert_eq!(history.window(), None);
    }
}
