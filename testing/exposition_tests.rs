//! The parser detects every error that its documentation lists.

use super::*;

const GOOD: &str = "\
# HELP a_total A counter.
# TYPE a_total counter
a_total{x=\"1\",y=\"q\\\"\\\\\\n\"} 1
a_total{x=\"2\",y=\"\"} 2
# HELP g A gauge.
# TYPE g gauge
g -1.5
# HELP h A histogram.
# TYPE h histogram
h_bucket{le=\"1\"} 1
h_bucket{le=\"10\"} 3
h_bucket{le=\"+Inf\"} 3
h_sum 12
h_count 3
# HELP b_info Versions.
# TYPE b_info gauge
b_info{version=\"1\"} 1
";

fn text(page: &str) -> Result<Exposition, String> {
    read(page.as_bytes(), Dialect::Text)
}

/// Asserts that the valid page with one part replaced is rejected for this reason.
fn refused(from: &str, to: &str, reason: &str) {
    assert!(GOOD.contains(from), "{from:?} is not in the page");
    let error = text(&GOOD.replacen(from, to, 1)).expect_err(reason);
    assert!(error.contains(reason), "expected {reason:?}, got {error:?}");
}

#[test]
fn a_good_page_is_read() {
    let page = text(GOOD).unwrap();
    assert_eq!(page.value("a_total", &[("x", "1"), ("y", "q\"\\\n")]), Some(1.0));
    assert_eq!(page.value("g", &[]), Some(-1.5));
    assert_eq!(page.value("h_count", &[]), Some(3.0));
    assert_eq!(page.families.len(), 4);
}

#[test]
fn faults_of_lines_are_caught() {
    refused("g -1.5\n", "g -1.5\r\n", "carriage return");
    refused("g -1.5\n", "g -1.5\n\n", "empty line");
    refused("g -1.5\n", "g -1.5\n# a remark\n", "unknown comment");
    refused("g -1.5", "g", "no value");
    refused("g -1.5", "g -1.5 1700000000", "a timestamp");
    refused("g -1.5", "g NaN", "not finite");
    refused("g -1.5", "g many", "not a number");
    refused("g -1.5", "G -1.5", "not a name");
    refused("g -1.5", "g\t-1.5", "no value");
    assert!(text(GOOD.trim_end()).unwrap_err().contains("does not end"));
    assert!(read(b"# HELP a_total \xff\n", Dialect::Text).unwrap_err().contains("not UTF-8"));
}

#[test]
fn faults_of_labels_are_caught() {
    refused("x=\"1\",", "x=\"1\",x=\"1\",", "a label twice");
    refused("q\\\"", "q\\t", "bad escape");
    refused("x=\"1\"", "X=\"1\"", "not a name");
    refused("x=\"1\"", "__x=\"1\"", "a reserved label");
    refused("{x=\"2\",y=\"\"}", "{x=2}", "a label without a value");
    refused("a_total{x=\"2\",y=\"\"} 2", "a_total{x=\"2\",y=\"\" 2", "labels do not end");
}

#[test]
fn faults_of_families_are_caught() {
    refused("# HELP g A gauge.\n", "", "before HELP");
    refused("# TYPE g gauge\n", "", "before TYPE");
    refused("# TYPE g gauge\n", "# TYPE g gauge\n# TYPE g gauge\n", "second TYPE");
    refused("# HELP g A gauge.\n", "# HELP g A gauge.\n# HELP g A gauge.\n", "second HELP");
    refused("g -1.5\n", "g -1.5\n# TYPE g gauge\n", "second TYPE");
    refused("g -1.5\n", "", "no samples");
    refused("gauge\ng -1.5", "untyped\ng -1.5", "unknown type");
    refused("g -1.5\n", "g -1.5\na_total 7\n", "another family");
    refused("b_info{version=\"1\"} 1", "b_info{version=\"1\"} 2", "not 1");
    let again = format!("{GOOD}# HELP g A gauge.\n# TYPE g gauge\ng{{x=\"1\"}} 1\n");
    assert!(text(&again).unwrap_err().contains("in two places"));
}

#[test]
fn names_that_do_not_fit_their_type_are_caught() {
    for (name, kind) in
        [("c", "counter"), ("g_total", "gauge"), ("g_count", "gauge"), ("h_bucket", "histogram")]
    {
        let page = format!("# HELP {name} Help.\n# TYPE {name} {kind}\n{name} 1\n");
        assert!(text(&page).unwrap_err().contains("does not fit"), "{name} {kind}");
    }
}

#[test]
fn duplicate_series_and_negative_counters_are_caught() {
    refused(
        "a_total{x=\"2\",y=\"\"} 2\n",
        "a_total{x=\"2\",y=\"\"} 2\na_total{y=\"\",x=\"2\"} 2\n",
        "duplicate series",
    );
    refused("a_total{x=\"2\",y=\"\"} 2", "a_total{x=\"2\",y=\"\"} -2", "negative");
}

#[test]
fn broken_histograms_are_caught() {
    refused("h_bucket{le=\"+Inf\"} 3\n", "", "no +Inf bucket");
    refused("h_bucket{le=\"1\"} 1", "h_bucket{le=\"1\"} 4", "do not cumulate");
    refused("h_bucket{le=\"1\"} 1", "h_bucket{le=\"11\"} 1", "do not ascend");
    refused("h_count 3", "h_count 4", "differ");
    refused("h_sum 12\n", "", "no sum");
    refused("h_count 3\n", "", "no count");
    refused("h_bucket{le=\"1\"} 1", "h_bucket 1", "le where");
    refused("g -1.5", "g{le=\"1\"} 1", "le where");
}

const GOOD_OPENMETRICS: &str = "\
# HELP a A counter.
# TYPE a counter
a_total 1
# HELP h A histogram.
# TYPE h histogram
h_bucket{le=\"1.0\"} 1
h_bucket{le=\"+Inf\"} 1
h_sum 1
h_count 1
# HELP b Versions.
# TYPE b info
b_info{version=\"1\"} 1
# EOF
";

#[test]
fn openmetrics_has_its_own_rules() {
    let read = |page: &str| read(page.as_bytes(), Dialect::OpenMetrics);
    assert_eq!(read(GOOD_OPENMETRICS).unwrap().value("a_total", &[]), Some(1.0));
    for (from, to, reason) in [
        ("# EOF\n", "", "no # EOF"),
        ("# EOF\n", "# EOF\n\n", "no # EOF"),
        ("h_bucket{le=\"1.0\"}", "h_bucket{le=\"1\"}", "canonical"),
        ("# TYPE a counter", "# TYPE a_total counter", "does not fit"),
        ("a_total 1", "a 1", "another family"),
        ("h_sum 1\n", "h_sum 1\n# EOF\n", "unknown comment"),
    ] {
        let error = read(&GOOD_OPENMETRICS.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(reason), "expected {reason:?}, got {error:?}");
    }
    assert!(text(GOOD_OPENMETRICS).is_err(), "it is no text format");
}

#[test]
fn samples_that_decrease_or_disappear_are_reported() {
    let before = text(GOOD).unwrap();
    let after = |from: &str, to: &str| text(&GOOD.replacen(from, to, 1)).unwrap().faults_after(&before);
    assert_eq!(after("", ""), [""; 0]);
    assert_eq!(after("g -1.5", "g -2"), [""; 0], "a gauge may go down");
    assert_eq!(after("y=\"\"} 2", "y=\"\"} 3"), [""; 0], "a counter may go up");
    assert!(after("y=\"\"} 2", "y=\"\"} 1")[0].contains("went down"));
    assert!(after("h_bucket{le=\"1\"} 1", "h_bucket{le=\"1\"} 0")[0].contains("went down"));
    assert!(after("a_total{x=\"2\",y=\"\"} 2\n", "")[0].contains("went away"));
    assert!(after("# HELP g A gauge.\n# TYPE g gauge\ng -1.5\n", "")[0].contains("g went away"));
}

#[test]
fn label_values_outside_the_closed_set_are_caught() {
    let page = text(GOOD).unwrap();
    assert_eq!(page.strangers("a", "x", &["1", "2"]), [""; 0]);
    assert_eq!(page.strangers("a", "x", &["1"]), ["2"]);
    assert_eq!(page.strangers("a", "z", &["1"]), ["", ""]);
}
