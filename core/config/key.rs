//! The description of one setting in the table of settings.
//!
//! All descriptions are plain constants, checked at compile time. Values are stored elsewhere.

use std::net::Ipv4Addr;

use svc_types::RuntimeHook;

use super::id::Id;

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The environment variable.
    pub variable: &'static str,
    /// The type of its value.
    pub kind: ValueKind,
    /// Its value if the variable is unset.
    pub initial: Initial,
    /// Where its value may be shown.
    pub exposure: Exposure,
    /// Whether an invalid value without the `SVC_` prefix is ignored with a warning, instead of stopping the start,
    /// because it may be meant for another program.
    pub is_lenient: bool,
    /// The section of the reference page.
    pub section: Section,
    /// A description of its effect.
    pub summary: &'static str,
    pub(super) id: Id,
    pub(super) field: Option<&'static str>,
    pub(super) json: Option<Json>,
}

/// The type of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// `host:port`; `:port` binds to the given address.
    Address {
        /// The address that a port without a host binds to.
        port_alone: Ipv4Addr,
    },
    /// True or false.
    Boolean,
    /// One of a set of words.
    Choice(&'static [&'static str]),
    /// Comma-separated patterns of URL paths.
    Globs,
    /// Comma-separated runtime hooks, or `none` or `all`.
    Hooks,
    /// The value of `Strict-Transport-Security`, or its `max-age`.
    Hsts,
    /// An integer.
    Integer {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
        /// The unit.
        unit: ValueUnit,
    },
    /// An integer, or `auto` (the same as 0), which lets the server decide.
    IntegerOrAuto {
        /// The maximum.
        max: u64,
        /// The unit.
        unit: ValueUnit,
    },
    /// Comma-separated words.
    List,
    /// Comma-separated addresses and `unix:PATH`.
    Listeners {
        /// The address that a port without a host binds to.
        port_alone: Ipv4Addr,
    },
    /// The permissions of a file.
    Mode,
    /// Comma-separated patterns of names, or `none`.
    NamePatterns,
    /// Comma-separated networks and addresses.
    Networks,
    /// A path in the file system.
    Path,
    /// Comma-separated paths in the file system.
    Paths,
    /// Comma-separated pairs, as `key=value`, percent-encoded.
    Pairs,
    /// Comma-separated names and absolute paths of plugins.
    Plugins,
    /// Comma-separated networks, addresses and the word `private`.
    Proxies,
    /// Comma-separated addresses to connect to: `host:port` and `unix:PATH`.
    Responders,
    /// `true` or `false`; no other word is accepted.
    StrictBoolean,
    /// Any text.
    Text,
    /// Comma-separated variables, as `NAME=value`.
    Variables,
    /// A number of threads, `auto` (the same as 0), or `MIN:MAX` for a pool whose size follows the load.
    Workers,
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueUnit {
    /// Bytes. The suffixes K, M and G multiply by powers of 1024.
    Bytes,
    /// A count; the summary names the counted things.
    Count,
    /// Mebibytes.
    Mebibytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// The value of a setting if its variable is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// A value that the server computes, with a description.
    Computed(&'static str),
    /// This value, as an operator would write it.
    Is(&'static str),
    /// No value.
    Unset,
}

/// Where the value of a setting may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Everywhere.
    Open,
    /// On the operator's terminal, but not in the configuration report.
    Local,
    /// Nowhere; `svc check` shows only that it is set.
    Secret,
}

/// The type of a field in the configuration report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    /// A list of strings.
    Array,
    /// True or false.
    Boolean,
    /// An integer.
    Integer,
    /// An object with a field for each word in a list.
    Object,
    /// Text; empty if the setting is unset.
    String,
}

/// A section of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Addresses, files and threads.
    Serving,
    /// The PHP pool.
    Php,
    /// Connections, the queue and waiting.
    Admission,
    /// Request and response bodies.
    Bodies,
    /// Time limits.
    Timeouts,
    /// Static files and compression.
    Files,
    /// The response cache.
    ResponseCache,
    /// TLS.
    Tls,
    /// Clients and access.
    Clients,
    /// Logs and trace context.
    Logs,
    /// Background tasks and plugins.
    Background,
    /// The operations port.
    Operations,
    /// Tracing.
    Tracing,
    /// Exported metrics and logs.
    Telemetry,
}

impl Section {
    /// Every section, in the order of the page.
    pub const ALL: [Self; 14] = [
        Self::Serving,
        Self::Php,
        Self::Admission,
        Self::Bodies,
        Self::Timeouts,
        Self::Files,
        Self::ResponseCache,
        Self::Tls,
        Self::Clients,
        Self::Logs,
        Self::Background,
        Self::Operations,
        Self::Tracing,
        Self::Telemetry,
    ];

    /// Returns whether the variables of the section are OpenTelemetry's, which an application may read as well.
    pub fn is_of_opentelemetry(self) -> bool {
        matches!(self, Self::Tracing | Self::Telemetry)
    }

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Serving => "Serving",
            Self::Php => "PHP",
            Self::Admission => "Connections and admission",
            Self::Bodies => "Bodies",
            Self::Timeouts => "Time limits",
            Self::Files => "Static files and compression",
            Self::ResponseCache => "Response cache",
            Self::Tls => "TLS",
            Self::Clients => "Clients",
            Self::Logs => "Logs and traces",
            Self::Background => "Background tasks and plugins",
            Self::Operations => "Operations port",
            Self::Tracing => "Tracing",
            Self::Telemetry => "Exported metrics and logs",
        }
    }
}

impl Key {
    pub(super) const fn new(id: Id, variable: &'static str, kind: ValueKind, initial: Initial) -> Self {
        Self {
            variable,
            kind,
            initial,
            exposure: Exposure::Open,
            is_lenient: false,
            section: Section::Serving,
            summary: "",
            id,
            field: None,
            json: None,
        }
    }

    pub(super) const fn lenient(mut self) -> Self {
        self.is_lenient = true;
        self
    }

    pub(super) const fn exposed(mut self, exposure: Exposure) -> Self {
        self.exposure = exposure;
        self
    }

    pub(super) const fn reported_as(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    pub(super) const fn json(mut self, json: Json) -> Self {
        self.json = Some(json);
        self
    }

    pub(super) const fn about(mut self, section: Section, summary: &'static str) -> Self {
        self.section = section;
        self.summary = summary;
        self
    }

    /// Returns the name and type of its field in the configuration report, or `None` if the report omits it.
    pub fn report_field(&self) -> Option<(String, Json)> {
        if self.exposure != Exposure::Open {
            return None;
        }
        let name = self.field.map_or_else(|| self.variable.to_ascii_lowercase(), str::to_owned);
        Some((name, self.json.unwrap_or(self.kind.json())))
    }

    /// Describes the accepted values, for error messages and the reference page.
    pub fn accepted(&self) -> String {
        self.kind.accepted()
    }
}

impl ValueKind {
    fn json(self) -> Json {
        match self {
            Self::Boolean | Self::StrictBoolean => Json::Boolean,
            Self::Integer { .. } | Self::IntegerOrAuto { .. } => Json::Integer,
            Self::Globs
            | Self::Hooks
            | Self::List
            | Self::NamePatterns
            | Self::Networks
            | Self::Pairs
            | Self::Paths
            | Self::Plugins
            | Self::Proxies
            | Self::Variables => Json::Array,
            Self::Address { .. }
            | Self::Choice(_)
            | Self::Hsts
            | Self::Listeners { .. }
            | Self::Mode
            | Self::Path
            | Self::Responders
            | Self::Text
            | Self::Workers => Json::String,
        }
    }

    /// Describes the values that this kind accepts.
    pub fn accepted(self) -> String {
        match self {
            Self::Address { port_alone } => format!("host:port, or :port for {port_alone}:port"),
            Self::Boolean | Self::StrictBoolean => "true or false".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Globs => "comma-separated URL path patterns".to_owned(),
            Self::Hooks => format!("none, all, or comma-separated {}", RuntimeHook::ALL.map(RuntimeHook::as_str).join(", ")),
            Self::Hsts => "a number of seconds, or max-age=SECONDS, includeSubDomains and preload with semicolons between them".to_owned(),
            Self::Integer { min, max, unit } => {
                format!("{} from {min} to {max}{}", unit.noun(), unit.suffixes())
            }
            Self::IntegerOrAuto { max, unit } => {
                format!("auto, or {} from 1 to {max}{}", unit.noun(), unit.suffixes())
            }
            Self::List => "comma-separated names".to_owned(),
            Self::Listeners { port_alone } => {
                format!("host:port, or :port for {port_alone}:port; several with commas, unix:PATH included")
            }
            Self::Mode => "octal digits from 0 to 777".to_owned(),
            Self::NamePatterns => "none, or comma-separated names in which * and ? are wildcards".to_owned(),
            Self::Networks => "comma-separated networks and addresses".to_owned(),
            Self::Pairs => "comma-separated key=value pairs".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Paths => "comma-separated paths".to_owned(),
            Self::Plugins => "comma-separated names and absolute paths".to_owned(),
            Self::Proxies => "comma-separated networks, addresses and the word private".to_owned(),
            Self::Responders => "host:port or unix:PATH; several with commas".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Variables => "comma-separated NAME=value pairs; a value with a comma is in double quotes".to_owned(),
            Self::Workers => {
                let max = crate::limits::THREADS_MAX;
                format!("auto, an integer from 1 to {max}, or a range such as 2:8")
            }
        }
    }
}

impl ValueUnit {
    fn noun(self) -> &'static str {
        match self {
            Self::Bytes => "a size in bytes",
            Self::Count => "an integer",
            Self::Mebibytes => "a size in MiB",
            Self::Milliseconds => "a number of milliseconds",
            Self::Seconds => "a number of seconds",
        }
    }

    fn suffixes(self) -> &'static str {
        if matches!(self, Self::Bytes) { "; suffixes K, M and G are allowed" } else { "" }
    }
}
