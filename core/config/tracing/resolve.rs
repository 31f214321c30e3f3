//! Resolves OpenTelemetry's settings to a [`TraceConfig`].
//!
//! The variable for one signal takes precedence over the general one; unsupported values count as unset, and are listed.
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
    BatchConfig, ExportConfig, ExportEndpoint, ExportProtocol, ExportSignal, LogExportConfig,
    MetricExportConfig, PemFile, RootSampler, Sampler, SpanLimits, TemporalityPreference, TraceConfig,
};

impl TraceConfig {
    /// Resolves the settings, which were already parsed. Adds to the problems, and stores the effective values in the
    /// settings. `ignored` lists the values that were rejected by the parser.
    pub(in crate::config) fn resolve(
        settings: &mut Settings,
        problems: &mut Vec<Problem>,
        ignored: Vec<Problem>,
    ) -> Self {
        let general_url = settings.text(Id::OtlpEndpoint).map(str::to_owned);
        let mut resolver = TraceResolver { settings, problems, ignored, general_url };
        let export = resolver.export(&TRACES);
        let metrics = resolver.metrics();
        let logs = resolver.logs();
        let sampler = resolver.sampler();
        let resource = resolver.resource();
        let batch = resolver.batch(&BSP);
        let has_exporter = resolver.has_exporter(Id::TracesExporter);
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
            export: export.filter(|_| has_exporter && !is_disabled),
            metrics: metrics.filter(|_| !is_disabled),
            logs: logs.filter(|_| !is_disabled),
            ignored: resolver.ignored,
        }
    }
}

struct TraceResolver<'a> {
    settings: &'a mut Settings,
    problems: &'a mut Vec<Problem>,
    ignored: Vec<Problem>,
    /// The general endpoint as it was written; the settings show it without credentials.
    general_url: Option<String>,
}

/// The variables for the transport of one signal. Each takes precedence over the general one.
struct SignalSettings {
    signal: ExportSignal,
    endpoint: Id,
    protocol: Id,
    headers: Id,
    timeout: Id,
    compression: Id,
    certificate: Id,
    client_certificate: Id,
    client_key: Id,
    insecure: Id,
}

/// The variables for the batches of one signal.
struct BatchSettings {
    delay: Id,
    timeout: Id,
    queue: Id,
    batch: Id,
    /// The variable of the queue.
    queue_variable: &'static str,
}

impl TraceResolver<'_> {
    /// Returns `None` if there is a problem.
    fn export(&mut self, own: &SignalSettings) -> Option<ExportConfig> {
        let protocol = match self.settings.text(self.prevailing(Id::OtlpProtocol, own.protocol)) {
            Some("grpc") => ExportProtocol::Grpc,
            Some("http/json") => ExportProtocol::HttpJson,
            _ => ExportProtocol::HttpProtobuf,
        };
        let endpoint = self.endpoint(protocol, own);
        let headers = self.headers(own.headers);
        let timeout = self.timeout(self.prevailing(Id::OtlpTimeout, own.timeout));
        let compression = self.prevailing(Id::OtlpCompression, own.compression);
        let has_gzip = self.settings.text(compression) == Some("gzip");
        let trusted = self.file(Id::OtlpCertificate, own.certificate);
        let identity = self.identity(own);
        endpoint.map(|endpoint| ExportConfig {
            signal: own.signal,
            protocol,
            endpoint,
            headers,
            timeout,
            has_gzip,
            trusted,
            identity,
        })
    }

    /// Returns `None` if metrics are not exported.
    fn metrics(&mut self) -> Option<MetricExportConfig> {
        if !self.settings.boolean(Id::OtelMetricsEnabled) {
            return None;
        }
        let export = self.export(&METRICS);
        let temporality = match self.settings.text(Id::MetricsTemporality) {
            Some("delta") => TemporalityPreference::Delta,
            Some("lowmemory") => TemporalityPreference::LowMemory,
            _ => TemporalityPreference::Cumulative,
        };
        let (interval, timeout) =
            (self.settings.duration(Id::MetricExportInterval), self.timeout(Id::MetricExportTimeout));
        let export = export.filter(|_| self.has_exporter(Id::MetricsExporter))?;
        Some(MetricExportConfig { export, interval, timeout, temporality })
    }

    /// Returns `None` if log records are not exported.
    fn logs(&mut self) -> Option<LogExportConfig> {
        if !self.settings.boolean(Id::OtelLogsEnabled) {
            return None;
        }
        let export = self.export(&LOGS);
        let batch = self.batch(&BLRP);
        let export = export.filter(|_| self.has_exporter(Id::LogsExporter))?;
        Some(LogExportConfig { export, batch })
    }

    /// Returns whether the exporters of a signal include the collector.
    fn has_exporter(&mut self, id: Id) -> bool {
        self.supported(id, &["otlp", "none"]).iter().any(|exporter| exporter == "otlp")
    }

    fn endpoint(&mut self, protocol: ExportProtocol, own: &SignalSettings) -> Option<ExportEndpoint> {
        let insecure = self.prevailing(Id::OtlpInsecure, own.insecure);
        let is_insecure = self.settings.boolean(insecure);
        let is_overridden = self.is_set(own.endpoint);
        // With a separate endpoint for the signal, the protocol of the general endpoint is unknown.
        let general_protocol = if is_overridden { ExportProtocol::Grpc } else { protocol };
        let general_url = self.general_url.clone().filter(|_| self.is_set(Id::OtlpEndpoint));
        let general = general_url
            .as_deref()
            .and_then(|text| self.url(Id::OtlpEndpoint, text, general_protocol, is_insecure));
        let separate = self.settings.text(own.endpoint).map(str::to_owned);
        let separate = separate.and_then(|text| self.url(own.endpoint, &text, protocol, is_insecure));
        let appended = |base: ExportEndpoint| match protocol {
            ExportProtocol::Grpc => base,
            ExportProtocol::HttpJson | ExportProtocol::HttpProtobuf => base.for_signal(own.signal),
        };
        if is_overridden {
            separate
        } else if self.is_set(Id::OtlpEndpoint) {
            general.map(appended)
        } else {
            let initial = ExportEndpoint::initial(protocol);
            if own.signal == ExportSignal::Traces {
                self.settings.set(Id::OtlpEndpoint, Value::Text(initial.to_string()));
            }
            Some(appended(initial))
        }
    }

    /// Parses a URL, and redacts its text.
    fn url(
        &mut self,
        id: Id,
        text: &str,
        protocol: ExportProtocol,
        is_insecure: bool,
    ) -> Option<ExportEndpoint> {
        let url = ExportEndpoint::parse(text, protocol, is_insecure);
        match &url {
            Some(url) => self.settings.set(id, Value::Text(url.to_string())),
            None => self.refuse(Problem {
                setting: self.variable(id),
                value: Some(ExportEndpoint::without_credentials(text)),
                fault: Fault::NotAUrl,
                accepted: "a URL such as http://localhost:4318".to_owned(),
            }),
        }
        url
    }

    /// Returns the configured fields, except for those that a request cannot have or that the exporter sets itself.
    fn headers(&mut self, own: Id) -> Vec<(String, String)> {
        let id = self.prevailing(Id::OtlpHeaders, own);
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

    fn identity(&mut self, own: &SignalSettings) -> Option<(PemFile, PemFile)> {
        let cert = self.file(Id::OtlpClientCertificate, own.client_certificate);
        let key = self.file(Id::OtlpClientKey, own.client_key);
        let (half, missing) = match (cert, key) {
            (Some(cert), Some(key)) => return Some((cert, key)),
            (None, None) => return None,
            (Some(cert), None) => (cert, "OTEL_EXPORTER_OTLP_CLIENT_KEY"),
            (None, Some(key)) => (key, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        };
        let problem = Problem {
            setting: half.setting,
            value: Some(half.path.display().to_string()),
            fault: Fault::Unused(missing),
            accepted: "both or neither".to_owned(),
        };
        push_once(&mut self.ignored, problem);
        None
    }

    fn file(&mut self, general: Id, own: Id) -> Option<PemFile> {
        let id = self.prevailing(general, own);
        let path = self.settings.path(id)?;
        let setting = self.variable(id);
        match readable_file(&path) {
            Ok(path) => {
                self.settings.set(id, Value::Path(path.clone()));
                Some(PemFile { setting, path })
            }
            Err(fault) => {
                self.refuse(Problem {
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

    fn batch(&mut self, own: &BatchSettings) -> BatchConfig {
        let queue_items_max = self.settings.count(own.queue);
        let chosen = self.settings.count(own.batch);
        if self.is_set(own.batch) && chosen > queue_items_max {
            let accepted = format!("at most {}", own.queue_variable);
            self.ignore(own.batch, Some(chosen.to_string()), Fault::TooLarge, &accepted);
        }
        let batch_items_max =
            if chosen > queue_items_max { BATCH_ITEMS.min(queue_items_max) } else { chosen };
        self.settings.set(own.batch, Value::Integer(batch_items_max as u64));
        BatchConfig {
            schedule_delay: self.settings.duration(own.delay),
            export_timeout: self.timeout(own.timeout),
            queue_items_max,
            batch_items_max,
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

    /// Returns the setting of the signal if it is set, else the general one.
    fn prevailing(&self, general: Id, own: Id) -> Id {
        if self.is_set(own) { own } else { general }
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
        let list = if self.settings.source(id).is_shared() { &mut self.ignored } else { &mut *self.problems };
        push_once(list, problem);
    }

    fn refuse(&mut self, problem: Problem) {
        push_once(self.problems, problem);
    }
}

/// Adds a problem unless it is known: a general variable is resolved for each signal.
fn push_once(problems: &mut Vec<Problem>, problem: Problem) {
    if !problems.contains(&problem) {
        problems.push(problem);
    }
}

/// Returns the default service name of OpenTelemetry's specification.
fn unknown_service() -> String {
    "unknown_service:svc".to_owned()
}

const SERVICE_NAME: &str = "service.name";

/// The default of `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` and `OTEL_BLRP_MAX_EXPORT_BATCH_SIZE`.
const BATCH_ITEMS: usize = 512;

const TRACES: SignalSettings = SignalSettings {
    signal: ExportSignal::Traces,
    endpoint: Id::TracesEndpoint,
    protocol: Id::TracesProtocol,
    headers: Id::TracesHeaders,
    timeout: Id::TracesTimeout,
    compression: Id::TracesCompression,
    certificate: Id::TracesCertificate,
    client_certificate: Id::TracesClientCertificate,
    client_key: Id::TracesClientKey,
    insecure: Id::TracesInsecure,
};

const METRICS: SignalSettings = SignalSettings {
    signal: ExportSignal::Metrics,
    endpoint: Id::MetricsEndpoint,
    protocol: Id::MetricsProtocol,
    headers: Id::MetricsHeaders,
    timeout: Id::MetricsTimeout,
    compression: Id::MetricsCompression,
    certificate: Id::MetricsCertificate,
    client_certificate: Id::MetricsClientCertificate,
    client_key: Id::MetricsClientKey,
    insecure: Id::MetricsInsecure,
};

const LOGS: SignalSettings = SignalSettings {
    signal: ExportSignal::Logs,
    endpoint: Id::LogsEndpoint,
    protocol: Id::LogsProtocol,
    headers: Id::LogsHeaders,
    timeout: Id::LogsTimeout,
    compression: Id::LogsCompression,
    certificate: Id::LogsCertificate,
    client_certificate: Id::LogsClientCertificate,
    client_key: Id::LogsClientKey,
    insecure: Id::LogsInsecure,
};

const BSP: BatchSettings = BatchSettings {
    delay: Id::BspScheduleDelay,
    timeout: Id::BspExportTimeout,
    queue: Id::BspMaxQueueSize,
    batch: Id::BspMaxExportBatchSize,
    queue_variable: "OTEL_BSP_MAX_QUEUE_SIZE",
};

const BLRP: BatchSettings = BatchSettings {
    delay: Id::BlrpScheduleDelay,
    timeout: Id::BlrpExportTimeout,
    queue: Id::BlrpMaxQueueSize,
    batch: Id::BlrpMaxExportBatchSize,
    queue_variable: "OTEL_BLRP_MAX_QUEUE_SIZE",
};

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
