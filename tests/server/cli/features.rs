//! The cargo features of the build: which reports name them, and what a build without one has not.

use crate::cli::settings::accepted;

const FEATURES: [(&str, bool); 4] = [
    ("php", cfg!(feature = "php")),
    ("worker", cfg!(feature = "worker")),
    ("async", cfg!(feature = "async")),
    ("trace", cfg!(feature = "trace")),
];

#[test]
fn reports_name_the_features_of_the_build() {
    let names: Vec<_> = FEATURES.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    let line = format!("features: {}\n", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    let other = ("EXECUTOR", "stub");
    for (words, environment) in
        [(&["version"][..], &[][..]), (&["help"], &[]), (&["check", "/tmp"], &[other])]
    {
        let (page, _) = accepted(words, environment);
        assert!(page.ends_with(&line), "{words:?}: {page}");
    }
    let (page, _) = accepted(&["check", "/tmp", "--json"], &[other]);
    let report: serde_json::Value = serde_json::from_str(&page).unwrap();
    assert_eq!(report["features"], serde_json::json!(names));
}

#[cfg(not(all(feature = "async", feature = "trace")))]
#[cfg(feature = "php")]
#[test]
fn a_setting_that_needs_a_feature_stops_the_start_and_the_check() {
    use crate::cli::settings::refusal;

    /// The options, the variables, and the expected error.
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], String);

    let root = svc_testing::written(&[("app.php", "<?php")]);
    let root = root.path().to_str().unwrap();
    let lacks = |name: &str, value: &str, feature: &str, accepted: &str| {
        format!(
            "svc: error: {name}: {value:?} needs a build with the cargo feature {feature:?}; accepted: {accepted}\n"
        )
    };
    let cases: &[Case<'_>] = &[
        #[cfg(not(feature = "worker"))]
        (
            &[],
            &[("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "app.php")],
            lacks("WORKER_MODE_ENABLED", "true", "worker", "false"),
        ),
        #[cfg(not(feature = "worker"))]
        (&["--worker", "app.php"], &[], lacks("--worker", "true", "worker", "false")),
        #[cfg(not(feature = "worker"))]
        (&[], &[("SVC_RUNTIME_HOOKS", "net")], lacks("SVC_RUNTIME_HOOKS", "net", "worker", "none")),
        #[cfg(not(feature = "async"))]
        (&[], &[("ASYNC_WORKERS", "4")], lacks("ASYNC_WORKERS", "4", "async", "0")),
        #[cfg(not(feature = "trace"))]
        (
            &[],
            &[("OTEL_ENABLED", "true")],
            lacks("OTEL_ENABLED", "true", "trace", "false, or true with OTEL_TRACES_EXPORTER=none"),
        ),
    ];
    for (words, settings, expected) in cases {
        for word in ["check", "serve"] {
            let listen = ("LISTEN_ADDR", "127.0.0.1:0");
            let said = refusal(&[&[word, root], *words].concat(), &[*settings, &[listen]].concat());
            assert!(said.ends_with(expected), "{word} {words:?} {settings:?}: {said}");
        }
    }
}

#[cfg(feature = "php")]
#[test]
fn scripts_have_the_functions_and_classes_of_the_build() {
    let script = r"<?php
        $functions = ['svc_request_id', 'Svc\Cache\clear', 'frankenphp_log', 'Svc\sleep', 'frankenphp_handle_request',
            'Svc\async', 'Svc\await_all', 'Svc\Trace\span', 'Svc\Trace\route'];
        $classes = ['Svc\Request', 'Svc\Worker', 'Svc\Task', 'Svc\Async\TaskException', 'Svc\Trace\Span'];
        $seen = [...array_filter($functions, function_exists(...)), ...array_filter($classes, class_exists(...))];
        echo implode(' ', $seen);";
    let svc = svc_testing::Svc::start(&[("index.php", script)], &[("EXECUTOR", "sapi")]);
    let of_feature = |feature: &str, names: &'static [&'static str]| {
        FEATURES.iter().find(|(name, is_there)| *name == feature && *is_there).map_or(&[][..], |_| names)
    };
    let expected = [
        &["svc_request_id", r"Svc\Cache\clear", "frankenphp_log"][..],
        of_feature("worker", &[r"Svc\sleep", "frankenphp_handle_request"]),
        of_feature("async", &[r"Svc\async", r"Svc\await_all"]),
        of_feature("trace", &[r"Svc\Trace\span", r"Svc\Trace\route"]),
        &[r"Svc\Request"],
        of_feature("worker", &[r"Svc\Worker"]),
        of_feature("async", &[r"Svc\Task", r"Svc\Async\TaskException"]),
        of_feature("trace", &[r"Svc\Trace\Span"]),
    ];
    assert_eq!(svc.get("/").text(), expected.concat().join(" "));
}
