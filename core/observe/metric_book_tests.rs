use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::sync::histogram::Histogram;

const COUNTER: FamilyHead<'_> =
    FamilyHead { name: "svc_things_bytes_total", kind: MetricKind::Counter, help: "Things." };
const GAUGE: FamilyHead<'_> = FamilyHead { name: "svc_things_us", kind: MetricKind::Gauge, help: "Things." };
const HISTOGRAM: FamilyHead<'_> =
    FamilyHead { name: "svc_wait_seconds", kind: MetricKind::Histogram, help: "Waits." };

fn at(seconds: u64) -> UnixNanos {
    UnixNanos::of(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn book(preference: TemporalityPreference) -> MetricBook {
    MetricBook::new(preference, at(100))
}

/// Reads a counter; returns the start and the value of each of its points.
fn count(book: &mut MetricBook, time: u64, series: &[(&str, Number)]) -> Vec<(u64, PointValue)> {
    let metrics = book.read(at(time), |exporter| {
        exporter.family(COUNTER);
        for (label, value) in series {
            exporter.number(&[("kind", label)], *value);
        }
    });
    let [Metric { name, description, unit, data: MetricData::Sum(_, points) }] = &metrics[..] else {
        panic!("{metrics:?}")
    };
    assert_eq!((name.as_str(), description.as_str(), *unit), ("svc_things_bytes_total", "Things.", "By"));
    let mut shown = Vec::new();
    for (point, (label, _)) in points.iter().zip(series) {
        assert_eq!(point.attributes, [("kind".to_owned(), (*label).to_owned())]);
        assert_eq!(point.time, at(time));
        shown.push((point.start.unwrap().get() / 1_000_000_000, point.value));
    }
    shown
}

fn whole(value: u64) -> Number {
    Number::Whole(value)
}

const fn int(value: i64) -> PointValue {
    PointValue::Int(value)
}

#[test]
fn totals_begin_with_the_process() {
    let mut book = book(TemporalityPreference::Cumulative);
    assert_eq!(count(&mut book, 160, &[("a", whole(5))]), [(100, int(5))]);
    book.accepted();
    let both = [("a", whole(7)), ("b", whole(1))];
    assert_eq!(count(&mut book, 220, &both), [(100, int(7)), (100, int(1))]);
    assert_eq!(
        count(&mut book, 280, &both),
        [(100, int(7)), (100, int(1))],
        "whether it was accepted or not"
    );
}

#[test]
fn differences_are_from_the_last_export_that_was_accepted() {
    let mut book = book(TemporalityPreference::Delta);
    assert_eq!(count(&mut book, 160, &[("a", whole(5))]), [(100, int(5))]);
    assert_eq!(count(&mut book, 220, &[("a", whole(8))]), [(100, int(8))], "the first export was lost");
    book.accepted();
    assert_eq!(count(&mut book, 280, &[("a", whole(8))]), [(220, int(0))]);
    book.accepted();
    let both = [("a", whole(9)), ("b", whole(3))];
    assert_eq!(count(&mut book, 340, &both), [(280, int(1)), (280, int(3))], "a new series was 0 before");
    assert_eq!(count(&mut book, 400, &both), [(280, int(1)), (280, int(3))]);
}

/// Whatever is lost, the accepted differences add up to the total, and their times are without gap and overlap.
#[test]
fn accepted_differences_add_up() {
    for seed in 0..200_u64 {
        let mut dice = svc_testing::dice::Dice::new(seed);
        let mut book = book(TemporalityPreference::Delta);
        let (mut total, mut sum, mut end, mut time) = (0, 0, 100, 100);
        for _ in 0..50 {
            time += 1 + dice.below(60);
            total += dice.below(1000);
            let shown = count(&mut book, time, &[("a", whole(total))]);
            let [(start, PointValue::Int(value))] = shown[..] else { panic!("{shown:?}") };
            assert_eq!(start, end, "seed {seed}");
            if dice.one_in(2) {
                book.accepted();
                (sum, end) = (sum + value.cast_unsigned(), time);
                assert_eq!(sum, total, "seed {seed}");
            }
        }
    }
}

#[test]
fn a_total_that_decreases_begins_anew() {
    let mut delta = book(TemporalityPreference::Delta);
    let mut total = book(TemporalityPreference::Cumulative);
    for book in [&mut delta, &mut total] {
        count(book, 160, &[("a", Number::Decimal(5.5))]);
        book.accepted();
    }
    for book in [&mut delta, &mut total] {
        assert_eq!(count(book, 220, &[("a", Number::Decimal(2.0))]), [(160, PointValue::Double(2.0))]);
        book.accepted();
    }
    assert_eq!(count(&mut delta, 280, &[("a", Number::Decimal(3.5))]), [(220, PointValue::Double(1.5))]);
    assert_eq!(count(&mut total, 280, &[("a", Number::Decimal(3.5))]), [(160, PointValue::Double(3.5))]);
}

#[test]
fn histograms_have_explicit_bounds_and_their_own_temporality() {
    for (preference, counter, expected) in [
        (TemporalityPreference::Cumulative, 7, ([1, 1, 1], 100, 0.000_033)),
        (TemporalityPreference::Delta, 2, ([0, 1, 0], 160, 0.000_012)),
        (TemporalityPreference::LowMemory, 7, ([0, 1, 0], 160, 0.000_012)),
    ] {
        let histogram = Histogram::new(&[10, 20]);
        let mut book = book(preference);
        let read = |book: &mut MetricBook, time, total| {
            let snapshot = histogram.snapshot();
            book.read(at(time), |exporter| {
                exporter.family(HISTOGRAM);
                exporter.histogram(&[], &Distribution::in_seconds(&snapshot));
                exporter.family(COUNTER);
                exporter.number(&[], whole(total));
            })
        };
        histogram.record(0);
        histogram.record(21);
        read(&mut book, 160, 5);
        book.accepted();
        histogram.record(12);
        let metrics = read(&mut book, 220, 7);
        let MetricData::Histogram(_, points) = &metrics[0].data else { panic!("{metrics:?}") };
        let HistogramPoint { counts, bounds, sum, start, time, .. } = &points[0];
        assert_eq!(
            (&counts[..], *start, *time),
            (&expected.0[..], at(expected.1), at(220)),
            "{preference:?}"
        );
        assert!((sum - expected.2).abs() < 1e-12, "{preference:?}: {sum}");
        assert_eq!((&bounds[..], metrics[0].unit), (&[0.000_01, 0.000_02][..], "s"));
        let MetricData::Sum(_, points) = &metrics[1].data else { panic!("{metrics:?}") };
        assert_eq!(points[0].value, int(counter), "{preference:?}");
    }
}

#[test]
fn readings_have_no_start_and_microseconds_are_in_the_name() {
    let mut book = book(TemporalityPreference::Delta);
    let info = FamilyHead { name: "svc_build_info", kind: MetricKind::Info, help: "Versions." };
    let metrics = book.read(at(160), |exporter| {
        exporter.family(GAUGE);
        exporter.number(&[], Number::Decimal(0.5));
        exporter.number(&[], whole(u64::MAX));
        exporter.family(info);
        exporter.number(&[("version", "1")], whole(1));
    });
    let point = |attributes, value| NumberPoint { attributes, start: None, time: at(160), value };
    let version = vec![("version".to_owned(), "1".to_owned())];
    assert_eq!(
        metrics.iter().map(|metric| (metric.unit, &metric.data)).collect::<Vec<_>>(),
        [
            (
                "",
                &MetricData::Gauge(vec![
                    point(Vec::new(), PointValue::Double(0.5)),
                    point(Vec::new(), int(i64::MAX))
                ])
            ),
            ("", &MetricData::Gauge(vec![point(version, int(1))])),
        ]
    );
}
