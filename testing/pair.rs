//! Two servers that differ only in the plugin `apm`, and the comparison of a program on both.
//!
//! A program is a PHP file with a function `cases()`, which returns closures by name. The return value or exception, the
//! output and the messages of a case must be equal on both servers; a test then checks the spans of the server with the
//! plugin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::Svc;
use crate::backend::Backend;
use crate::databases::{Database, PASSWORD, USER};
use crate::spans::{ExportedSpan, Spans};

/// PHP functions for all programs.
const WHAT: &str = include_str!("../tests/php/apm_what.php");

/// Two servers that differ only in the plugin.
#[derive(Debug)]
pub struct Pair {
    pub spans: Spans,
    pub with: Svc,
    pub without: Svc,
    asked: AtomicU64,
}

impl Pair {
    pub fn start(program: &str, constants: &Value, settings: &[(&str, &str)], is_worker: bool) -> Self {
        Self::start_with(program, constants, settings, is_worker, &[])
    }

    pub fn start_with(
        program: &str,
        constants: &Value,
        settings: &[(&str, &str)],
        is_worker: bool,
        directives: &[&str],
    ) -> Self {
        let define = format!("<?php foreach (json_decode('{constants}', true) as $n => $v) define($n, $v);");
        let load = "require __DIR__ . '/what.php'; require __DIR__ . '/cases.php';";
        let run = "echo json_encode(cases()[$_GET['case']](), JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR);";
        let index = if is_worker {
            format!("{define} {load} Svc\\Worker::serve(function () {{ {run} }});")
        } else {
            format!("{define} {load} {run}")
        };
        let files = [("index.php", index.as_str()), ("what.php", WHAT), ("cases.php", program)];
        let worker = [
            ("WORKER_MODE_ENABLED", "true"),
            ("ENTRY_FILE", "index.php"),
            ("PHP_WORKERS", "1"),
            ("RUNTIME_HOOKS", "all"),
        ];
        let settings = if is_worker { [&worker[..], settings].concat() } else { settings.to_vec() };
        let spans = Spans::collect();
        // No call counts as slow on a busy machine unless a test sets the limit.
        let own = [("PLUGIN_APM_SLOW_QUERY_MS", "3600000"), ("PLUGINS", "apm")];
        let with = spans.svc_with(&files, &[&own[..], &settings[..]].concat(), directives);
        let without = spans.svc_with(&files, &settings, directives);
        Self { spans, with, without, asked: AtomicU64::new(0) }
    }

    /// Runs a case on both servers; returns the request's span and the spans of its calls.
    #[track_caller]
    pub fn same(&self, case: &str) -> Calls {
        let number = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
        let query = format!("case={case}&n={number}");
        let target = format!("/?{query}");
        let seen = |svc: &Svc| {
            let response = svc.get(&target);
            (response.status, String::from_utf8_lossy(&response.body).into_owned())
        };
        let plain = seen(&self.without);
        let other = self.spans.request(&query);
        let observed = seen(&self.with);
        assert!(observed == plain, "{case}: {}", difference(&observed, &plain));
        assert!(!plain.1.is_empty() || plain.0 >= 500, "{case}");
        let request = self.spans.find("the second request", |span| {
            span.is_server() && span.says("url.query") == query && span.trace() != other.trace()
        });
        assert!(self.calls_of(&other).is_empty(), "{case}");
        Calls { calls: self.calls_of(&request), answer: plain.1, request }
    }

    /// Returns the calls of a request, in the order in which they ended.
    #[track_caller]
    pub fn calls_of(&self, request: &ExportedSpan) -> Vec<ExportedSpan> {
        self.spans.beside(request, "PHP run");
        let all = self.spans.all().into_iter();
        all.filter(|span| span.trace() == request.trace() && span.kind() == 3).collect()
    }
}

/// Returns where two answers differ.
fn difference(one: &(u16, String), other: &(u16, String)) -> String {
    let bytes = one.1.bytes().zip(other.1.bytes());
    let at = bytes.take_while(|(one, other)| one == other).count();
    let part = |(status, text): &(u16, String)| {
        let text = text.as_bytes();
        let (from, to) = (at.saturating_sub(200).min(text.len()), (at + 300).min(text.len()));
        format!("{status} …{}…", String::from_utf8_lossy(&text[from..to]))
    };
    format!("with the plugin\n{}\nwithout\n{}", part(one), part(other))
}

/// The outcome of a case.
#[derive(Debug)]
pub struct Calls {
    pub request: ExportedSpan,
    pub calls: Vec<ExportedSpan>,
    /// The answer of both servers.
    pub answer: String,
}

impl Calls {
    #[track_caller]
    pub fn named(&self, name: &str) -> &ExportedSpan {
        let names: Vec<_> = self.calls.iter().map(ExportedSpan::name).collect();
        self.calls.iter().find(|span| span.name() == name).unwrap_or_else(|| panic!("no {name} in {names:?}"))
    }

    pub fn count(&self, name: &str) -> usize {
        self.calls.iter().filter(|span| span.name() == name).count()
    }

    /// Returns the calls of URLs that end with this path.
    pub fn to(&self, path: &str) -> Vec<&ExportedSpan> {
        let is_meant =
            |span: &&ExportedSpan| span.says("url.full").as_str().is_some_and(|url| url.ends_with(path));
        self.calls.iter().filter(is_meant).collect()
    }

    /// Returns how many requests with this path were sent; each carries the span of a separate call. A handle that leaves a
    /// multi handle before anything was sent is a call without a request.
    #[track_caller]
    pub fn carried(&self, backend: &Backend, path: &str) -> usize {
        let trace = self.request.trace();
        let mut calls: Vec<_> =
            self.to(path).iter().map(|span| format!("00-{trace}-{}-01", span.id())).collect();
        let requests = backend.requests();
        let ours =
            requests.iter().filter(|request| request.lines().next().unwrap().contains(&format!("{path} ")));
        let lines = ours.flat_map(|request| request.lines());
        let fields = lines.filter_map(|line| line.strip_prefix("traceparent: "));
        let mut sent: Vec<_> = fields.filter(|field| field.contains(trace)).collect();
        calls.retain(|call| sent.contains(&call.as_str()));
        calls.sort_unstable();
        sent.sort_unstable();
        assert_eq!(sent, calls, "{path}");
        sent.len()
    }

    /// Asserts that no exported span contains this text.
    #[track_caller]
    pub fn keeps(&self, secret: &str) {
        for span in &self.calls {
            let told = format!("{} {:?} {:?}", span.name(), span.attributes(), span.status());
            assert!(!told.contains(secret), "{told}");
        }
    }
}

/// Asserts that a span has exactly these attributes.
#[track_caller]
pub fn says(span: &ExportedSpan, expected: &Value) {
    let expected: BTreeMap<String, Value> =
        expected.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(span.attributes(), expected);
}

/// Returns the constants of a program that uses this database.
pub fn constants_of(database: &Database) -> Value {
    let dsn = database.dsn_on(database.address().port());
    json!({"DSN": dsn, "USER": USER, "PASSWORD": PASSWORD, "NAME": database.name(), "PORT": database.address().port()})
}
