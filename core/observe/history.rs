//! Rates and latencies of the last seconds, from samples taken once a second, and their trend over the last minutes.
//!
//! A few samples of fixed size, however many clients read them. The history reads no clock. The trend has one point for
//! each [`STATUS_WINDOW_SECONDS`], which covers them without a gap.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::families::Metrics;
use super::label::StatusClass;
use crate::admission::ShedReason;
use crate::limits::{STATUS_TREND_POINTS, STATUS_WINDOW_SECONDS};
use crate::sync::histogram::Snapshot;

/// The counts at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    requests: u64,
    responses: [u64; StatusClass::ALL.len()],
    overload_refusals: u64,
    refusals: u64,
    request_duration: Snapshot,
    served_duration: Snapshot,
    queue_wait: Snapshot,
    php_duration: Snapshot,
    cpu: Duration,
}

/// How much of the server is in use at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Busy workers.
    pub busy: u64,
    /// Requests that wait for a worker, in the queue or for a place in it.
    pub waiting: u64,
    /// Open connections.
    pub connections: u64,
}

/// The recent samples, and the trend.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
    trend: VecDeque<TrendPoint>,
    /// The largest values since the last point of the trend, and the number of samples since then.
    peak: Usage,
    since_point: usize,
}

/// One point of the trend: the activity of a few seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct TrendPoint {
    /// The activity of these seconds.
    pub window: Window,
    /// The largest values of each in these seconds.
    pub peak: Usage,
}

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
    /// Requests that were refused, for whatever reason.
    pub refusals: u64,
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
            refusals: ShedReason::ALL.into_iter().map(|reason| metrics.refused.value(reason)).sum(),
            requests: metrics.requests_by_method.total(),
            cpu,
        }
    }
}

impl Usage {
    fn max(self, other: Self) -> Self {
        Self {
            busy: self.busy.max(other.busy),
            waiting: self.waiting.max(other.waiting),
            connections: self.connections.max(other.connections),
        }
    }
}

impl History {
    /// Adds the sample of this second.
    pub fn note(&mut self, sample: Sample, usage: Usage) {
        if self.samples.len() > STATUS_WINDOW_SECONDS {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.peak = self.peak.max(usage);
        self.since_point += 1;
        // The first sample only begins a window.
        if self.samples.len() > STATUS_WINDOW_SECONDS && self.since_point >= STATUS_WINDOW_SECONDS {
            self.add_point();
        }
    }

    fn add_point(&mut self) {
        let Some(window) = self.window() else { return };
        if self.trend.len() == STATUS_TREND_POINTS {
            self.trend.pop_front();
        }
        self.trend.push_back(TrendPoint { window, peak: std::mem::take(&mut self.peak) });
        self.since_point = 0;
    }

    /// Returns the activity between the first sample and the last; `None` before the second one.
    pub fn window(&self) -> Option<Window> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        Window::between(first, last)
    }

    /// Returns the points of the last minutes, the oldest first.
    pub fn trend(&self) -> Vec<TrendPoint> {
        self.trend.iter().cloned().collect()
    }
}

impl Window {
    fn between(first: &Sample, last: &Sample) -> Option<Self> {
        let elapsed = last.at.saturating_duration_since(first.at);
        (!elapsed.is_zero()).then(|| Self {
            seconds: elapsed.as_secs_f64(),
            requests: last.requests.saturating_sub(first.requests),
            responses: std::array::from_fn(|one| last.responses[one].saturating_sub(first.responses[one])),
            overload_refusals: last.overload_refusals.saturating_sub(first.overload_refusals),
            refusals: last.refusals.saturating_sub(first.refusals),
            request_duration: Latency::between(&first.request_duration, &last.request_duration),
            served_duration: Latency::between(&first.served_duration, &last.served_duration),
            queue_wait: Latency::between(&first.queue_wait, &last.queue_wait),
            php_duration: Latency::between(&first.php_duration, &last.php_duration),
            cpu_seconds: last.cpu.saturating_sub(first.cpu).as_secs_f64(),
        })
    }

    /// Returns the number of requests that ended with 5xx without being refused.
    pub fn failures(&self) -> u64 {
        self.responses[StatusClass::ServerError as usize].saturating_sub(self.refusals)
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
    fn a_window_covers_the_last_seconds() {
        let (metrics, start) = (Metrics::new(), time::now());
        let mut history = History::default();
        assert_eq!(history.window(), None);
        for second in 0..30u64 {
            let at = start + Duration::from_secs(second);
            history.note(Sample::read(&metrics, Duration::from_millis(500 * second), at), Usage::default());
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
    fn the_trend_covers_each_second_once_and_is_bounded() {
        let (metrics, start) = (Metrics::new(), time::now());
        let mut history = History::default();
        let seconds = u64::try_from((STATUS_TREND_POINTS + 3) * STATUS_WINDOW_SECONDS).unwrap();
        for second in 0..=seconds {
            let usage =
                Usage { busy: second % 10, waiting: u64::from(second == seconds - 4), connections: 2 };
            history.note(Sample::read(&metrics, Duration::ZERO, start + Duration::from_secs(second)), usage);
            if second == 9 {
                assert_eq!(history.trend(), [], "ten samples are nine seconds");
            }
            // In each second, what comes after its sample is counted by the next one.
            metrics.answered(500, 1, Duration::from_micros(50));
        }
        let trend = history.trend();
        assert_eq!(trend.len(), STATUS_TREND_POINTS);
        for point in &trend {
            assert_eq!((point.window.seconds, point.window.failures(), point.peak.busy), (10.0, 10, 9));
            assert_eq!(point.peak.connections, 2);
        }
        let waited: Vec<_> = trend.iter().map(|point| point.peak.waiting).collect();
        assert_eq!((waited.iter().sum::<u64>(), waited.last()), (1, Some(&1)));
    }

    #[test]
    fn two_samples_of_one_moment_are_no_window() {
        let (metrics, now) = (Metrics::new(), time::now());
        let mut history = History::default();
        history.note(Sample::read(&metrics, Duration::ZERO, now), Usage::default());
        history.note(Sample::read(&metrics, Duration::ZERO, now), Usage::default());
        assert_eq!(history.window(), None);
    }
}
