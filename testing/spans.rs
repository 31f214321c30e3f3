//! A collector that receives the server's spans for tests.
//!
//! It accepts OTLP's JSON over HTTP, and answers each export with success.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::Svc;
use crate::backend::Backend;
use crate::client::eventually;

/// The collector. Dropping it ends it.
#[derive(Debug)]
pub struct Spans(Backend);

/// An exported span.
#[derive(Clone, Debug)]
pub struct ExportedSpan(Value);

/// An event of a span: name and attributes.
pub type ExportedEvent = (String, BTreeMap<String, Value>);

impl Spans {
    pub fn collect() -> Self {
        Self(Backend::tcp(|visit| {
            loop {
                visit.request()?;
                visit.answer("{}")?;
            }
        }))
    }

    /// Starts a server that exports to this collector, with additional settings; the last value of a setting counts.
    pub fn svc(&self, files: &[(&str, &str)], settings: &[(&str, &str)]) -> Svc {
        self.svc_with(files, settings, &[])
    }

    /// Starts a server that exports to this collector, with settings and PHP directives.
    pub fn svc_with(&self, files: &[(&str, &str)], settings: &[(&str, &str)], directives: &[&str]) -> Svc {
        let endpoint = format!("http://{}", self.0.address());
        Svc::start_with(files, &[&own(&endpoint)[..], settings].concat(), directives)
    }

    /// Starts a server of this folder that exports to this collector.
    pub fn svc_in(&self, root: tempfile::TempDir, settings: &[(&str, &str)]) -> Svc {
        let endpoint = format!("http://{}", self.0.address());
        Svc::start_in(root, &[&own(&endpoint)[..], settings].concat())
    }

    /// Runs a case of the server's program; returns its JSON answer (or its status if the answer is not JSON) and the span
    /// of the request.
    #[track_caller]
    pub fn case(&self, svc: &Svc, case: &str) -> (Value, ExportedSpan) {
        let response = svc.get(&format!("/?case={case}"));
        let answer = serde_json::from_slice(&response.body).unwrap_or(json!(response.status));
        (answer, self.request(&format!("case={case}")))
    }

    /// Returns all spans so far.
    pub fn all(&self) -> Vec<ExportedSpan> {
        let mut spans = Vec::new();
        for request in self.0.requests() {
            let (_, body) = request.split_once("\r\n\r\n").unwrap();
            let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
            for resource in list(&body["resourceSpans"]) {
                for scope in list(&resource["scopeSpans"]) {
                    spans.extend(list(&scope["spans"]).iter().cloned().map(ExportedSpan));
                }
            }
        }
        spans
    }

    /// Waits for a span of this kind.
    #[track_caller]
    pub fn find(&self, what: &str, mut is_meant: impl FnMut(&ExportedSpan) -> bool) -> ExportedSpan {
        let mut found = None;
        eventually(what, || {
            found = self.all().into_iter().find(|span| is_meant(span));
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits for the span of the first request with this query.
    #[track_caller]
    pub fn request(&self, query: &str) -> ExportedSpan {
        self.find(&format!("the request {query} is a span"), |span| {
            span.is_server() && span.says("url.query") == query
        })
    }

    /// Waits for a span with this name in the same trace.
    #[track_caller]
    pub fn beside(&self, span: &ExportedSpan, name: &str) -> ExportedSpan {
        let what = format!("{name} is a span");
        self.find(&what, |other| other.name() == name && other.trace() == span.trace())
    }
}

/// The settings of a server that exports to this endpoint.
fn own(endpoint: &str) -> [(&str, &str); 4] {
    [
        ("OTEL_ENABLED", "true"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
    ]
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl ExportedSpan {
    fn text(&self, member: &str) -> &str {
        self.0[member].as_str().unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text("name")
    }

    pub fn trace(&self) -> &str {
        self.text("traceId")
    }

    pub fn id(&self) -> &str {
        self.text("spanId")
    }

    /// Returns the ID of its parent; empty if it has none.
    pub fn parent(&self) -> &str {
        self.text("parentSpanId")
    }

    pub fn state(&self) -> &str {
        self.text("traceState")
    }

    /// Returns OTLP's number for its kind.
    pub fn kind(&self) -> u64 {
        self.0["kind"].as_u64().unwrap()
    }

    pub fn is_server(&self) -> bool {
        self.kind() == 2
    }

    pub fn is_error(&self) -> bool {
        self.0["status"]["code"] == 2
    }

    /// Returns its status as an OTLP object.
    pub fn status(&self) -> &Value {
        &self.0["status"]
    }

    /// Returns its start and end times in nanoseconds.
    pub fn times(&self) -> [u64; 2] {
        ["startTimeUnixNano", "endTimeUnixNano"].map(|member| self.text(member).parse().unwrap())
    }

    /// Returns the value of an attribute; null if it is absent.
    pub fn says(&self, key: &str) -> Value {
        self.attributes().remove(key).unwrap_or_default()
    }

    pub fn attributes(&self) -> BTreeMap<String, Value> {
        attributes(&self.0["attributes"])
    }

    /// Returns how many attributes were dropped.
    pub fn attributes_dropped(&self) -> u64 {
        self.0["droppedAttributesCount"].as_u64().unwrap_or_default()
    }

    pub fn events(&self) -> Vec<ExportedEvent> {
        let event =
            |event: &Value| (event["name"].as_str().unwrap().to_owned(), attributes(&event["attributes"]));
        list(&self.0["events"]).iter().map(event).collect()
    }

    /// Returns the exceptions among its events: class, message and place.
    pub fn exceptions(&self) -> Vec<[String; 3]> {
        let of = |(_, mut said): ExportedEvent| {
            ["type", "message", "stacktrace"].map(|part| {
                let text = said.remove(&format!("exception.{part}")).unwrap_or_default();
                text.as_str().unwrap_or_default().to_owned()
            })
        };
        self.events().into_iter().filter(|(name, _)| name == "exception").map(of).collect()
    }
}

fn attributes(entries: &Value) -> BTreeMap<String, Value> {
    let entry = |entry: &Value| (entry["key"].as_str().unwrap().to_owned(), plain(&entry["value"]));
    let all: Vec<_> = list(entries).iter().map(entry).collect();
    let count = all.len();
    let unique: BTreeMap<_, _> = all.into_iter().collect();
    assert_eq!(unique.len(), count, "a key twice: {entries}");
    unique
}

/// Converts an OTLP value to a plain JSON value.
fn plain(value: &Value) -> Value {
    let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "intValue" => value.as_str().unwrap().parse::<i64>().unwrap().into(),
        "arrayValue" => list(&value["values"]).iter().map(plain).collect(),
        _ => value.clone(),
    }
}
