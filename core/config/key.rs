//! What the table of settings says about one setting.
//!
//! Promises: plain constants that can be checked when the server is compiled. Refuses: no value lives here.

use std::net::Ipv4Addr;

use super::id::Id;

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// The environment variable.
    pub variable: &'static str,
    /// Which forms of value it takes.
    pub kind: Kind,
    /// What it is when the variable is unset.
    pub initial: Initial,
    /// Whether this version has its feature.
    pub availability: Availability,
    /// Where its value may be shown.
    pub exposure: Exposure,
    /// The chapter of the reference page.
    pub chapter: Chapter,
    /// One line about what it does.
    pub summary: &'static str,
    pub(super) id: Id,
    pub(super) field: Option<&'static str>,
    pub(super) json: Option<Json>,
}

/// Which forms of value a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `host:port`; `:port` binds to the address given here.
    Address {
        /// The host that a port alone means.
        port_alone: Ipv4Addr,
    },
    /// True or false.
    Boolean,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// Patterns over URL paths, separated by commas.
    Globs,
    /// A whole number.
    Integer {
        /// The smallest number.
        min: u64,
        /// The largest number.
        max: u64,
        /// What is counted.
        unit: Unit,
    },
    /// A whole number, or `auto` (the same as 0): the server decides.
    IntegerOrAuto {
        /// The largest number.
        max: u64,
        /// What is counted.
        unit: Unit,
    },
    /// Words, separated by commas.
    List,
    /// Network ranges and single addresses, separated by commas.
    Networks,
    /// A path in the file system.
    Path,
    /// Paths in the file system, separated by commas.
    Paths,
    /// Network ranges, single addresses and the word `private`, separated by commas.
    Proxies,
    /// Any text.
    Text,
    /// Variables with their values, as `NAME=value`, separated by commas.
    Variables,
    /// A number of threads, `auto` (the same as 0), or `MIN:MAX` for a pool whose size follows the load.
    Workers,
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; a suffix K, M or G multiplies by a power of 1024.
    Bytes,
    /// Things; the summary says which.
    Count,
    /// Mebibytes.
    Mebibytes,
    /// Milliseconds.
    Milliseconds,
    /// Seconds.
    Seconds,
}

/// What a setting is when its variable is unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// What the server works out, in the words given here.
    Computed(&'static str),
    /// This value, in the form an operator would write.
    Is(&'static str),
    /// Nothing.
    Unset,
}

/// Whether this version has the feature of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It has.
    Live,
    /// It has not: only the value given here (empty: unset) is accepted, and the report shows it.
    Reserved(&'static str),
}

/// Where the value of a setting may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// Everywhere.
    Open,
    /// On the operator's terminal, never in the configuration report.
    Local,
    /// Nowhere; `svc check` says only that it is set.
    Secret,
}

/// The type of a field in the configuration report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    /// A list of strings.
    Array,
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// An object with a field for each word of a list.
    Object,
    /// Text; empty when the setting is unset.
    String,
}

/// A chapter of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chapter {
    /// Addresses, files and threads.
    Serving,
    /// The PHP pool.
    Php,
    /// Connections, the queue and waiting.
    Admission,
    /// Request and reply bodies.
    Bodies,
    /// Time limits.
    Timeouts,
    /// Static files and compression.
    Files,
    /// TLS.
    Tls,
    /// Clients and what they may do.
    Policy,
    /// Logs and traces.
    Logs,
    /// Background tasks and plugins.
    Extras,
    /// The operations port.
    Operations,
}

impl Chapter {
    /// Every chapter, in the order of the page.
    pub const ALL: [Self; 11] = [
        Self::Serving,
        Self::Php,
        Self::Admission,
        Self::Bodies,
        Self::Timeouts,
        Self::Files,
        Self::Tls,
        Self::Policy,
        Self::Logs,
        Self::Extras,
        Self::Operations,
    ];

    /// The heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Serving => "Serving",
            Self::Php => "PHP",
            Self::Admission => "Connections and admission",
            Self::Bodies => "Bodies",
            Self::Timeouts => "Time limits",
            Self::Files => "Static files and compression",
            Self::Tls => "TLS",
            Self::Policy => "Clients",
            Self::Logs => "Logs and traces",
            Self::Extras => "Background tasks and plugins",
            Self::Operations => "Operations port",
        }
    }
}

impl Key {
    pub(super) const fn new(id: Id, variable: &'static str, kind: Kind, initial: Initial) -> Self {
        Self {
            variable,
            kind,
            initial,
            availability: Availability::Live,
            exposure: Exposure::Open,
            chapter: Chapter::Serving,
            summary: "",
            id,
            field: None,
            json: None,
        }
    }

    pub(super) const fn reserved(mut self, inactive: &'static str) -> Self {
        self.availability = Availability::Reserved(inactive);
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

    pub(super) const fn about(mut self, chapter: Chapter, summary: &'static str) -> Self {
        self.chapter = chapter;
        self.summary = summary;
        self
    }

    /// Names its field in the configuration report, and the field's type; `None` for what the report leaves out.
    pub fn report_field(&self) -> Option<(String, Json)> {
        if self.exposure != Exposure::Open {
            return None;
        }
        let name = self.field.map_or_else(|| self.variable.to_ascii_lowercase(), str::to_owned);
        Some((name, self.json.unwrap_or(self.kind.json())))
    }

    /// Says which values are accepted, for error messages and the reference page.
    pub fn accepted(&self) -> String {
        match self.availability {
            Availability::Live => self.kind.accepted(),
            Availability::Reserved("") => "unset".to_owned(),
            Availability::Reserved(inactive) => inactive.to_owned(),
        }
    }
}

impl Kind {
    fn json(self) -> Json {
        match self {
            Self::Boolean => Json::Boolean,
            Self::Integer { .. } | Self::IntegerOrAuto { .. } => Json::Integer,
            Self::Globs | Self::List | Self::Networks | Self::Paths | Self::Proxies | Self::Variables => {
                Json::Array
            }
            Self::Address { .. } | Self::Choice(_) | Self::Path | Self::Text | Self::Workers => Json::String,
        }
    }

    /// Says which values this kind accepts.
    pub fn accepted(self) -> String {
        match self {
            Self::Address { port_alone } => format!("host:port, or :port for {port_alone}:port"),
            Self::Boolean => "true or false".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Globs => "comma-separated URL path patterns".to_owned(),
            Self::Integer { min, max, unit } => {
                format!("{} from {min} to {max}{}", unit.noun(), unit.suffixes())
            }
            Self::IntegerOrAuto { max, unit } => {
                format!("auto, or {} from 1 to {max}{}", unit.noun(), unit.suffixes())
            }
            Self::List => "comma-separated names".to_owned(),
            Self::Networks => "comma-separated networks and addresses".to_owned(),
            Self::Path => "a path".to_owned(),
            Self::Paths => "comma-separated paths".to_owned(),
            Self::Proxies => "comma-separated networks, addresses and the word private".to_owned(),
            Self::Text => "text".to_owned(),
            Self::Variables => "comma-separated NAME=value pairs".to_owned(),
            Self::Workers => {
                let max = crate::limits::THREADS_MAX;
                format!("auto, an integer from 1 to {max}, or a range such as 2:8")
            }
        }
    }
}

impl Unit {
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
