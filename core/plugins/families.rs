//! The metrics of a plugin, reduced to those that make a valid page.
//!
//! Whatever a plugin adds, and in whichever order, the families kept have names under the plugin's prefix that collide
//! with no other family in any exposition format, one-line help texts, valid labels, finite values and no duplicate
//! series. Nothing is kept between two scrapes, so a counter that goes down is not noticed.

use std::collections::BTreeSet;
use std::fmt;

use svc_types::{MetricSink, PluginMetricKind, RefusalCode};

use crate::limits::{PLUGIN_LABELS_MAX, PLUGIN_METRICS_BYTES_MAX};

/// A family of a plugin with its series.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginFamily {
    /// The full name.
    pub name: String,
    /// The type.
    pub kind: PluginMetricKind,
    /// The help text, one line.
    pub help: String,
    /// The series.
    pub samples: Vec<PluginSample>,
}

/// A series of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginSample {
    /// The labels.
    pub labels: Vec<(String, String)>,
    /// The value.
    pub value: f64,
}

/// Why a family or a series was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricRefusal {
    /// It exists already, under this name or under one that is equal in another format.
    Duplicate,
    /// The help text is not a single line.
    Help,
    /// A label has a name or a value that is not valid, or two labels have the same name.
    Label,
    /// The name is not valid, or does not fit the kind.
    Name,
    /// There is no family to add a series to.
    NoFamily,
    /// The name belongs to another plugin.
    NotOwn,
    /// The texts are too long in total, or there are too many labels.
    TooLarge,
    /// The value is not finite, or a counter is negative.
    Value,
}

/// The metrics of a plugin during one collection.
#[derive(Debug)]
pub struct PluginMetrics {
    prefix: String,
    /// The prefixes of plugins whose names begin with this plugin's name.
    foreign: Vec<String>,
    families: Vec<PluginFamily>,
    /// The names of the families and of their series in every format.
    names: BTreeSet<String>,
    /// The series of the latest family.
    series: BTreeSet<Vec<(String, String)>>,
    has_family: bool,
    bytes: usize,
    refused: Option<(String, MetricRefusal)>,
}

impl PluginMetrics {
    /// Creates an empty list for the plugin `name`; `names` are the names of all plugins.
    pub(super) fn new(name: &str, names: &[String]) -> Self {
        let prefix = |name: &str| format!("svc_plugin_{name}_");
        let own = prefix(name);
        let others = names.iter().filter(|other| *other != name).map(|other| prefix(other));
        Self {
            foreign: others.filter(|other| other.starts_with(&own)).collect(),
            prefix: own,
            families: Vec::new(),
            names: BTreeSet::new(),
            series: BTreeSet::new(),
            has_family: false,
            bytes: 0,
            refused: None,
        }
    }

    /// Begins a family; `name` follows the plugin's prefix.
    ///
    /// # Errors
    ///
    /// If the family is not valid. Series added before the next family are then refused.
    pub fn add_family(
        &mut self,
        kind: PluginMetricKind,
        name: &[u8],
        help: &[u8],
    ) -> Result<(), MetricRefusal> {
        self.has_family = false;
        let family = self.checked_family(kind, name, help).inspect_err(|refusal| {
            self.note_refusal(name, *refusal);
        })?;
        self.bytes += family.name.len() + family.help.len();
        self.families.push(family);
        self.series.clear();
        self.has_family = true;
        Ok(())
    }

    /// Adds a series to the family begun last.
    ///
    /// # Errors
    ///
    /// If the labels or the value are not valid, there is no family, the series exists already, or the page gets too
    /// large.
    pub fn add_sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), MetricRefusal> {
        let name = self.families.last().map(|family| family.name.clone()).unwrap_or_default();
        let result = self.try_sample(labels, value);
        if let Err(refusal) = result {
            self.note_refusal(name.as_bytes(), refusal);
        }
        result
    }

    /// Returns the families that have series, and the first refusal.
    pub(super) fn finish(mut self) -> (Vec<PluginFamily>, Option<String>) {
        self.families.retain(|family| !family.samples.is_empty());
        let refused = self.refused.map(|(name, refusal)| format!("metric {name:?} was refused: {refusal}"));
        (self.families, refused)
    }

    fn note_refusal(&mut self, name: &[u8], refusal: MetricRefusal) {
        if self.refused.is_none() {
            let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]).into_owned();
            self.refused = Some((name, refusal));
        }
    }

    fn checked_family(
        &mut self,
        kind: PluginMetricKind,
        name: &[u8],
        help: &[u8],
    ) -> Result<PluginFamily, MetricRefusal> {
        let own = std::str::from_utf8(name).ok().filter(|name| is_name(name)).ok_or(MetricRefusal::Name)?;
        let is_reserved = RESERVED_SUFFIXES.iter().any(|suffix| own.ends_with(suffix));
        let fits = match kind {
            PluginMetricKind::Counter => own.len() > TOTAL.len() && own.ends_with(TOTAL),
            PluginMetricKind::Gauge => !is_reserved,
        };
        if !fits {
            return Err(MetricRefusal::Name);
        }
        let help = std::str::from_utf8(help).ok().filter(|help| is_help(help)).ok_or(MetricRefusal::Help)?;
        let name = format!("{}{own}", self.prefix);
        if self.foreign.iter().any(|prefix| name.starts_with(prefix)) {
            return Err(MetricRefusal::NotOwn);
        }
        if self.bytes + name.len() + help.len() > PLUGIN_METRICS_BYTES_MAX {
            return Err(MetricRefusal::TooLarge);
        }
        let names = names_of(&name, kind);
        if names.iter().any(|name| self.names.contains(name)) {
            return Err(MetricRefusal::Duplicate);
        }
        self.names.extend(names);
        Ok(PluginFamily { name, kind, help: help.to_owned(), samples: Vec::new() })
    }

    fn try_sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), MetricRefusal> {
        let Some(family) = self.families.last_mut().filter(|_| self.has_family) else {
            return Err(MetricRefusal::NoFamily);
        };
        if !value.is_finite() || (family.kind == PluginMetricKind::Counter && value < 0.0) {
            return Err(MetricRefusal::Value);
        }
        if labels.len() > PLUGIN_LABELS_MAX {
            return Err(MetricRefusal::TooLarge);
        }
        let labels: Vec<(String, String)> =
            labels.iter().map(checked_label).collect::<Option<_>>().ok_or(MetricRefusal::Label)?;
        let mut sorted = labels.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|two| two[0].0 == two[1].0) {
            return Err(MetricRefusal::Label);
        }
        // Consumers treat an empty label value like an absent label.
        sorted.retain(|(_, value)| !value.is_empty());
        let texts: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let bytes = self.bytes + family.name.len() + texts + NUMBER_BYTES;
        if bytes > PLUGIN_METRICS_BYTES_MAX {
            return Err(MetricRefusal::TooLarge);
        }
        if !self.series.insert(sorted) {
            return Err(MetricRefusal::Duplicate);
        }
        self.bytes = bytes;
        // Turns -0.0 into 0.0.
        family.samples.push(PluginSample { labels, value: value + 0.0 });
        Ok(())
    }
}

impl MetricSink for PluginMetrics {
    fn add_family(&mut self, kind: PluginMetricKind, name: &[u8], help: &[u8]) -> Result<(), RefusalCode> {
        self.add_family(kind, name, help).map_err(MetricRefusal::code)
    }

    fn add_sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), RefusalCode> {
        self.add_sample(labels, value).map_err(MetricRefusal::code)
    }
}

impl MetricRefusal {
    /// Returns the code for the plugin.
    fn code(self) -> RefusalCode {
        match self {
            Self::Duplicate => RefusalCode::Duplicate,
            Self::NoFamily => RefusalCode::NotNow,
            Self::TooLarge => RefusalCode::TooLarge,
            Self::Help | Self::Label | Self::Name | Self::NotOwn | Self::Value => RefusalCode::Invalid,
        }
    }
}

impl fmt::Display for MetricRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate => "it is there already",
            Self::Help => "its help is not one line of text without quotes and backslashes",
            Self::Label => "a label is not valid",
            Self::Name => "its name is not valid",
            Self::NoFamily => "it has no family",
            Self::NotOwn => "its name belongs to another plugin",
            Self::TooLarge => "all metrics together are too large",
            Self::Value => "its number is not finite, or a counter is negative",
        })
    }
}

/// The suffix of a counter's series.
const TOTAL: &str = "_total";

/// The suffix of the creation time of a counter in OpenMetrics.
const CREATED: &str = "_created";

/// The suffixes that the formats append to family names.
const RESERVED_SUFFIXES: [&str; 6] = [TOTAL, "_bucket", "_count", CREATED, "_info", "_sum"];

/// The labels that the formats use for histograms and summaries.
const RESERVED_LABELS: [&str; 2] = ["le", "quantile"];

/// The maximum length of the name of a family or a label.
const NAME_BYTES_MAX: usize = 100;

/// The maximum length of a label value and of a help text.
const VALUE_BYTES_MAX: usize = 1024;

/// The bytes budgeted for a value.
const NUMBER_BYTES: usize = 24;

fn is_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX
        && !name.ends_with('_')
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns all names taken by the family `name`. In OpenMetrics, a counter's family name lacks the suffix; its series
/// carry `_total` or `_created`.
fn names_of(name: &str, kind: PluginMetricKind) -> Vec<String> {
    match (kind, name.strip_suffix(TOTAL)) {
        (PluginMetricKind::Counter, Some(base)) => {
            ["", TOTAL, CREATED].map(|suffix| format!("{base}{suffix}")).into()
        }
        _ => vec![name.to_owned()],
    }
}

fn is_help(help: &str) -> bool {
    (1..=VALUE_BYTES_MAX).contains(&help.len())
        && !help.contains(|c: char| c.is_control() || c == '\\' || c == '"')
        && help.trim() == help
}

fn checked_label((name, value): &(&[u8], &[u8])) -> Option<(String, String)> {
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    let value = std::str::from_utf8(value).ok()?;
    let is_fine = !RESERVED_LABELS.contains(&name)
        && value.len() <= VALUE_BYTES_MAX
        && !value.contains(|c: char| c.is_control());
    is_fine.then(|| (name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use PluginMetricKind::{Counter, Gauge};

    fn metrics() -> PluginMetrics {
        PluginMetrics::new("disk", &["disk".to_owned(), "disk_rust".to_owned(), "other".to_owned()])
    }

    #[test]
    fn names_are_the_plugins_own_and_fit_their_kind() {
        let mut metrics = metrics();
        assert_eq!(metrics.add_family(Gauge, b"free_bytes", b"Free space."), Ok(()));
        assert_eq!(metrics.add_sample(&[(b"path", b"/a \"b\\")], 1.5), Ok(()));
        let long = [b'x'; 101];
        for (kind, name) in [
            (Gauge, &b""[..]),
            (Gauge, b"Free"),
            (Gauge, b"1x"),
            (Gauge, b"_x"),
            (Gauge, b"x_"),
            (Gauge, b"x-y"),
            (Gauge, b"x y"),
            (Gauge, b"x\ny 1"),
            (Gauge, b"x{a=\"b\"} 1\n"),
            (Gauge, b"\xff"),
            (Gauge, &long),
            (Gauge, b"x_total"),
            (Gauge, b"x_bucket"),
            (Gauge, b"x_sum"),
            (Gauge, b"x_count"),
            (Gauge, b"x_created"),
            (Gauge, b"x_info"),
            (Counter, b"x"),
            (Counter, b"_total"),
        ] {
            assert_eq!(metrics.add_family(kind, name, b"Help."), Err(MetricRefusal::Name), "{name:?}");
        }
        assert_eq!(metrics.add_family(Gauge, b"rust_bytes", b"Help."), Err(MetricRefusal::NotOwn));
        let (families, refused) = metrics.finish();
        assert_eq!((families.len(), families[0].name.as_str()), (1, "svc_plugin_disk_free_bytes"));
        assert_eq!(refused.unwrap(), "metric \"\" was refused: its name is not valid");
    }

    #[test]
    fn a_name_is_there_once_in_every_format() {
        let mut metrics = metrics();
        assert_eq!(metrics.add_family(Counter, b"reads_total", b"Help."), Ok(()));
        assert_eq!(metrics.add_family(Counter, b"reads_total", b"Help."), Err(MetricRefusal::Duplicate));
        assert_eq!(metrics.add_family(Gauge, b"reads", b"Help."), Err(MetricRefusal::Duplicate));
        assert_eq!(metrics.add_family(Gauge, b"reads_now", b"Help."), Ok(()));
        // OpenMetrics series names of a counter `reads`.
        for name in [&b"reads_total_total"[..], b"reads_created_total"] {
            assert_eq!(
                metrics.add_family(Counter, name, b"Help."),
                Err(MetricRefusal::Duplicate),
                "{name:?}"
            );
        }
        assert_eq!(metrics.add_family(Counter, b"writes_total_total", b"Help."), Ok(()));
        assert_eq!(metrics.add_family(Counter, b"writes_total", b"Help."), Err(MetricRefusal::Duplicate));
        assert_eq!(metrics.add_family(Counter, b"writes_now_total", b"Help."), Ok(()));
    }

    #[test]
    fn helps_are_one_line() {
        let mut metrics = metrics();
        for help in [&b""[..], b"a\nb", b"a\\n", b"say \"a\"", b" a", b"\xc3", &[b'x'; 1025]] {
            assert_eq!(metrics.add_family(Gauge, b"x", help), Err(MetricRefusal::Help), "{help:?}");
        }
    }

    #[test]
    fn series_have_valid_labels_and_are_there_once() {
        let mut metrics = metrics();
        assert_eq!(metrics.add_sample(&[], 1.0), Err(MetricRefusal::NoFamily));
        metrics.add_family(Gauge, b"x", b"Help.").unwrap();
        let [a, b]: [(&[u8], &[u8]); 2] = [(b"a", b"1"), (b"b", b"2")];
        assert_eq!(metrics.add_sample(&[a, b], 1.0), Ok(()));
        assert_eq!(metrics.add_sample(&[b, a], 2.0), Err(MetricRefusal::Duplicate), "in another order");
        assert_eq!(metrics.add_sample(&[a], 2.0), Ok(()));
        assert_eq!(metrics.add_sample(&[], 2.0), Ok(()));
        let empty: (&[u8], &[u8]) = (b"a", b"");
        assert_eq!(metrics.add_sample(&[empty], 2.0), Err(MetricRefusal::Duplicate), "as without the label");
        assert_eq!(metrics.add_sample(&[b, empty], 2.0), Ok(()));
        assert_eq!(metrics.add_sample(&[b], 2.0), Err(MetricRefusal::Duplicate));
        assert_eq!(metrics.add_sample(&[a, (b"a", b"2")], 2.0), Err(MetricRefusal::Label));
        assert_eq!(metrics.add_sample(&[empty, empty], 2.0), Err(MetricRefusal::Label));
        for label in [
            (&b""[..], &b"x"[..]),
            (b"A", b"x"),
            (b"a b", b"x"),
            (b"le", b"x"),
            (b"quantile", b"x"),
            (b"a_", b"x"),
            (b"__name__", b"x"),
            (b"a", b"x\ny"),
            (b"a", b"\xff"),
            (b"a", &[b'x'; 1025]),
        ] {
            assert_eq!(metrics.add_sample(&[label], 1.0), Err(MetricRefusal::Label), "{label:?}");
        }
        let names: Vec<String> = (0..=PLUGIN_LABELS_MAX).map(|number| format!("a{number}")).collect();
        let labels: Vec<(&[u8], &[u8])> = names.iter().map(|name| (name.as_bytes(), &b"x"[..])).collect();
        assert_eq!(metrics.add_sample(&labels, 1.0), Err(MetricRefusal::TooLarge));
        assert_eq!(metrics.add_sample(&labels[1..], 1.0), Ok(()));
        let (families, _) = metrics.finish();
        assert_eq!(families[0].samples.len(), 5);
    }

    #[test]
    fn numbers_are_finite_and_counters_not_negative() {
        let mut metrics = metrics();
        metrics.add_family(Counter, b"x_total", b"Help.").unwrap();
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert_eq!(metrics.add_sample(&[], wrong), Err(MetricRefusal::Value), "{wrong}");
        }
        assert_eq!(metrics.add_sample(&[], -0.0), Ok(()));
        let (families, _) = metrics.finish();
        assert_eq!(families[0].samples[0].value.to_string(), "0");
    }

    #[test]
    fn series_do_not_go_to_the_family_before_a_refused_one() {
        let mut metrics = metrics();
        metrics.add_family(Gauge, b"x", b"Help.").unwrap();
        assert!(metrics.add_family(Gauge, b"x x", b"Help.").is_err());
        assert_eq!(metrics.add_sample(&[], 1.0), Err(MetricRefusal::NoFamily));
        assert!(metrics.finish().0.is_empty(), "families without series are left out");
    }

    #[test]
    fn everything_together_is_bounded() {
        let mut metrics = metrics();
        metrics.add_family(Gauge, b"x", b"Help.").unwrap();
        let value = "v".repeat(1000);
        let mut count = 0_usize;
        let last = loop {
            let labels = [(&b"a"[..], value.as_bytes()), (b"n", &count.to_string().into_bytes()[..])]
                .map(|(name, value)| (name, value.to_vec()));
            let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, value.as_slice())).collect();
            match metrics.add_sample(&labels, 1.0) {
                Ok(()) => count += 1,
                Err(refusal) => break refusal,
            }
        };
        assert_eq!(last, MetricRefusal::TooLarge);
        assert!((200..PLUGIN_METRICS_BYTES_MAX / 1000).contains(&count), "{count}");
    }
}
