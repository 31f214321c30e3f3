//! Resolves the settings of tracing to a [`TraceConfig`].
//!
//! The variable for traces takes precedence over the general one; unsupported values count as unset, and are listed.
//! Files are not opened, only checked for readability.

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};

use super::super::files::readable_file;
use super::super::id::Id;
use super::super::problem::{Fault, Problem};
use super::super::raw::ValueSource;
use super::super::settings::Settings;
use super::super::value::Value;
use super::{
    BatchConfig, ExportConfig, ExportEndpoint, ExportProtocol, PemFile, RootSampler, Sampler, SpanLimits,
    TraceConfig,
};

impl TraceConfig {
    /// Resolves the settings, which were already parsed. Adds to the problems, and stores the effective values in the
    /// settings. `ignored` lists the values that were rejected by the parser.
    pub(in crate::config) fn resolve(
        settings: &mut Settings,
        problems: &mut Vec<Problem>,
        ignored: Vec<Problem>,
    ) -> Self {
        let mut resolver = TraceResolver { settings, problems, ignored };
        let export = resolver.export();
        let sampler = resolver.sampler();
        let resource = resolver.resource();
        let batch = resolver.batch();
        let exporters = resolver.supported(Id::TracesExporter, &["otlp", "none"]);
        let propagators = resolver.supported(Id::Propagators, &["tracecontext", "baggage", "none"]);
        let has = |list: &[String], word: &str| list.iter().any(|entry| entry == word);
        let has_trace_context = has(&propagators, "tracecontext") && !has(&propagators, "none")
            || resolver.settings.boolean(Id::TraceContext);
        resolver.settings.set(Id::TraceContext, Value::Boolean(has_trace_context));
        let is_disabled = resolver.settings.boolean(Id::OtelSdkDisabled);
        Self {
            is_disabled,
            sampler,
            limits: resolver.limits(),
            has_trace_context,
            known_methods: resolver.settings.list(Id::KnownMethods),
            redacted_parameters: match resolver.settings.list(Id::OtelRedactQuery) {
                none if none == ["none"] => Vec::new(),
                names => names,
            },
            resource,
            batch,
            export: export.filter(|_| has(&exporters, "otlp") && !is_disabled),
            ignored: resolver.ignored,
        }
    }
}

struct TraceResolver<'a> {
    settings: &'a mut Settings,
    problems: &'a mut Vec<Problem>,
    ignored: Vec<Problem>,
}

impl TraceResolver<'_> {
    /// Returns `None` if there is a problem.
    fn export(&mut self) -> Option<ExportConfig> {
        let protocol = match self.settings.text(self.prevailing(Id::OtlpProtocol, Id::TracesProtocol)) {
            Some("grpc") => ExportProtocol::Grpc,
            Some("http/json") => ExportProtocol::HttpJson,
            _ => ExportProtocol::HttpProtobuf,
        };
        let endpoint = self.endpoint(protocol);
        let headers = self.headers();
        let timeout = self.timeout(self.prevailing(Id::OtlpTimeout, Id::TracesTimeout));
        let compression = self.prevailing(Id::OtlpCompression, Id::TracesCompression);
        let has_gzip = self.settings.text(compression) == Some("gzip");
        let trusted = self.file(Id::OtlpCertificate, Id::TracesCertificate);
        let identity = self.identity();
        endpoint.map(|endpoint| ExportConfig {
            protocol,
            endpoint,
            headers,
            timeout,
            has_gzip,
            trusted,
            identity,
        })
    }

    fn endpoint(&mut self, protocol: ExportProtocol) -> Option<ExportEndpoint> {
        let insecure = self.prevailing(Id::OtlpInsecure, Id::TracesInsecure);
        let is_insecure = self.settings.boolean(insecure);
        let is_overridden = self.is_set(Id::TracesEndpoint);
        // With a separate endpoint for traces, the protocol of the general endpoint is unknown.
        let general_protocol = if is_overridden { ExportProtocol::Grpc } else { protocol };
        let general = self.url(Id::OtlpEndpoint, general_protocol, is_insecure);
        let traces = self.url(Id::TracesEndpoint, protocol, is_insecure);
        let appended = |base: ExportEndpoint| match protocol {
            ExportProtocol::Grpc => base,
            ExportProtocol::HttpJson | ExportProtocol::HttpProtobuf => base.for_traces(),
        };
        if is_overridden {
            traces
        } else if self.is_set(Id::OtlpEndpoint) {
            general.map(appended)
        } else {
            let initial = ExportEndpoint::initial(protocol);
            self.settings.set(Id::OtlpEndpoint, Value::Text(initial.to_string()));
            Some(appended(initial))
        }
    }

    /// Parses a URL, and redacts its text.
    fn url(&mut self, id: Id, protocol: ExportProtocol, is_insecure: bool) -> Option<ExportEndpoint> {
        let text = self.settings.text(id)?.to_owned();
        let url = ExportEndpoint::parse(&text, protocol, is_insecure);
        match &url {
            Some(url) => self.settings.set(id, Value::Text(url.to_string())),
            None => self.problems.push(Problem {
                setting: self.variable(id),
                value: Some(ExportEndpoint::without_credentials(&text)),
                fault: Fault::NotAUrl,
                accepted: "a URL such as http://localhost:4318".to_owned(),
            }),
        }
        url
    }

    /// Returns the configured fields, except for those that a request cannot have or that the exporter sets itself.
    fn headers(&mut self) -> Vec<(String, String)> {
        let id = self.prevailing(Id::OtlpHeaders, Id::TracesHeaders);
        let Value::Pairs(pairs) = self.settings.value(id).clone() else { return Vec::new() };
        let is_field = |(name, value): &(String, String)| {
            let is_reserved = RESERVED_FIELDS.iter().any(|reserved| name.eq_ignore_ascii_case(reserved));
            let is_grpc = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("grpc-"));
            HeaderName::from_bytes(name.as_bytes()).is_ok()
                && HeaderValue::from_str(value).is_ok()
                && !is_reserved
                && !is_grpc
        };
        let (fields, others): (Vec<_>, Vec<_>) = pairs.into_iter().partition(is_field);
        for (name, _) in others {
            // The value is secret.
            self.ignore(id, None, Fault::NotAField(name), "names and values of header fields");
        }
        fields
    }

    fn identity(&mut self) -> Option<(PemFile, PemFile)> {
        let cert = self.file(Id::OtlpClientCertificate, Id::TracesClientCertificate);
        let key = self.file(Id::OtlpClientKey, Id::TracesClientKey);
        let (half, missing) = match (cert, key) {
            (Some(cert), Some(key)) => return Some((cert, key)),
            (None, None) => return None,
            (Some(cert), None) => (cert, "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
            (None, Some(key)) => (key, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        };
        self.ignored.push(Problem {
            setting: half.setting,
            value: Some(half.path.display().to_string()),
            fault: Fault::Unused(missing),
            accepted: "both or neither".to_owned(),
        });
        None
    }

    fn file(&mut self, general: Id, traces: Id) -> Option<PemFile> {
        let id = self.prevailing(general, traces);
        let path = self.settings.path(id)?;
        let setting = self.variable(id);
        match readable_file(&path) {
            Ok(path) => {
                self.settings.set(id, Value::Path(path.clone()));
                Some(PemFile { setting, path })
            }
            Err(fault) => {
                self.problems.push(Problem {
                    setting,
                    value: Some(path.display().to_string()),
                    fault,
                    accepted: "the path of a readable PEM file".to_owned(),
                });
                None
            }
        }
    }

    fn sampler(&mut self) -> Sampler {
        let name = self.settings.text(Id::TracesSampler).unwrap_or_default().to_owned();
        let root = match name.strip_prefix("parentbased_").unwrap_or(&name) {
            "always_off" => RootSampler::AlwaysOff,
            "traceidratio" => RootSampler::Ratio(self.ratio().unwrap_or(1.0)),
            _ => RootSampler::AlwaysOn,
        };
        if !matches!(root, RootSampler::Ratio(_))
            && let Some(text) = self.settings.text(Id::TracesSamplerArg).map(str::to_owned)
        {
            let fault = Fault::Unused("a ratio in OTEL_TRACES_SAMPLER");
            self.ignore(Id::TracesSamplerArg, Some(text), fault, RATIO_SAMPLERS);
        }
        Sampler { root, is_parent_based: name.starts_with("parentbased_") }
    }

    fn ratio(&mut self) -> Option<f64> {
        let text = self.settings.text(Id::TracesSamplerArg)?.to_owned();
        let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
        if ratio.is_none() {
            let accepted = "a number from 0 to 1";
            self.ignore(Id::TracesSamplerArg, Some(text), Fault::NotARatio, accepted);
        }
        ratio
    }

    /// Returns `service.name`, and the other attributes of `OTEL_RESOURCE_ATTRIBUTES`.
    fn resource(&mut self) -> Vec<(String, String)> {
        let chosen = match self.settings.value(Id::ResourceAttributes) {
            Value::Pairs(pairs) => pairs.clone(),
            _ => Vec::new(),
        };
        let is_name = |pair: &(String, String)| pair.0 == SERVICE_NAME;
        let name = match self.settings.text(Id::ServiceName) {
            Some(name) => name.to_owned(),
            None => {
                chosen.iter().find(|pair| is_name(pair)).map_or_else(unknown_service, |pair| pair.1.clone())
            }
        };
        self.settings.set(Id::ServiceName, Value::Text(name.clone()));
        let others = chosen.into_iter().filter(|pair| !is_name(pair));
        std::iter::once((SERVICE_NAME.to_owned(), name)).chain(others).collect()
    }

    fn batch(&mut self) -> BatchConfig {
        let queue_spans_max = self.settings.count(Id::BspMaxQueueSize);
        let chosen = self.settings.count(Id::BspMaxExportBatchSize);
        if self.is_set(Id::BspMaxExportBatchSize) && chosen > queue_spans_max {
            let accepted = "at most OTEL_BSP_MAX_QUEUE_SIZE";
            self.ignore(Id::BspMaxExportBatchSize, Some(chosen.to_string()), Fault::TooLarge, accepted);
        }
        let batch_spans_max =
            if chosen > queue_spans_max { BATCH_SPANS.min(queue_spans_max) } else { chosen };
        self.settings.set(Id::BspMaxExportBatchSize, Value::Integer(batch_spans_max as u64));
        BatchConfig {
            schedule_delay: self.settings.duration(Id::BspScheduleDelay),
            export_timeout: self.timeout(Id::BspExportTimeout),
            queue_spans_max,
            batch_spans_max,
        }
    }

    fn limits(&self) -> SpanLimits {
        let count = |id: Id| match self.settings.value(id) {
            Value::Integer(number) => Some(usize::try_from(*number).unwrap_or(usize::MAX)),
            _ => None,
        };
        let attributes = self.settings.count(Id::AttributeCountLimit);
        SpanLimits {
            attributes: count(Id::SpanAttributeCountLimit).unwrap_or(attributes),
            value_chars: count(Id::SpanAttributeValueLengthLimit).or(count(Id::AttributeValueLengthLimit)),
            events: self.settings.count(Id::SpanEventCountLimit),
            attributes_per_event: count(Id::EventAttributeCountLimit).unwrap_or(attributes),
            links: self.settings.count(Id::SpanLinkCountLimit),
            attributes_per_link: count(Id::LinkAttributeCountLimit).unwrap_or(attributes),
        }
    }

    /// Returns the supported words of a list, or its default if there are none.
    fn supported(&mut self, id: Id, words: &[&str]) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        for entry in self.settings.list(id) {
            let word = entry.to_ascii_lowercase();
            if !words.contains(&word.as_str()) {
                let value = Some(self.settings.value(id).to_string());
                self.ignore(id, value, Fault::UnknownEntry(entry), &words.join(", "));
            } else if !kept.contains(&word) {
                kept.push(word);
            }
        }
        if kept.is_empty() {
            kept.extend(self.settings.initial(id));
        }
        self.settings.set(id, Value::List(kept.clone()));
        kept
    }

    /// Returns a timeout; 0 means no limit.
    fn timeout(&self, id: Id) -> Option<Duration> {
        Some(self.settings.duration(id)).filter(|timeout| !timeout.is_zero())
    }

    /// Returns the setting for traces if it is set, else the general one.
    fn prevailing(&self, general: Id, traces: Id) -> Id {
        if self.is_set(traces) { traces } else { general }
    }

    fn is_set(&self, id: Id) -> bool {
        *self.settings.source(id) != ValueSource::Default
    }

    fn variable(&self, id: Id) -> &'static str {
        self.settings.key(id).variable
    }

    fn ignore(&mut self, id: Id, value: Option<String>, fault: Fault, accepted: &str) {
        let setting = self.variable(id);
        let problem = Problem { setting, value, fault, accepted: accepted.to_owned() };
        // A value that only svc reads cannot be meant for an application's SDK.
        if self.settings.source(id).is_shared() { &mut self.ignored } else { &mut *self.problems }
            .push(problem);
    }
}

/// Returns the default service name of OpenTelemetry's specification.
fn unknown_service() -> String {
    "unknown_service:svc".to_owned()
}

const SERVICE_NAME: &str = "service.name";

/// The default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE`.
const BATCH_SPANS: usize = 512;

const RATIO_SAMPLERS: &str = "traceidratio or parentbased_traceidratio in OTEL_TRACES_SAMPLER";

/// Fields that describe the transport of a request.
const RESERVED_FIELDS: [&str; 11] = [
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
