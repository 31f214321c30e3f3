//! A strict parser of metrics pages: the text format 0.0.4 and OpenMetrics 1.0.
//!
//! Anything that a collector could reject or silently misinterpret is an error: duplicates, split families, inconsistent
//! histograms, timestamps, unknown comments. There is no lenient mode; parsing stops at the first error.

use std::collections::{BTreeMap, BTreeSet};

/// The format of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The text format, version 0.0.4.
    Text,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

/// One series: its labels in the order of their names, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The suffix after the name of the family: empty, `_total`, `_bucket` and so on.
    pub suffix: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// One family. Its name has no `_total` or `_info` suffix in either dialect.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

/// A valid page.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposition {
    pub families: BTreeMap<String, Family>,
}

/// Parses a page.
pub fn read(page: &[u8], dialect: Dialect) -> Result<Exposition, String> {
    let text = std::str::from_utf8(page).map_err(|error| format!("not UTF-8: {error}"))?;
    let mut body = text.strip_suffix('\n').ok_or("the last line does not end")?;
    if dialect == Dialect::OpenMetrics {
        body = body.strip_suffix("\n# EOF").ok_or("no # EOF at the end")?;
    }
    let mut reader = Reader { dialect, families: BTreeMap::new(), open: None };
    for (index, line) in body.split('\n').enumerate() {
        reader.line(line).map_err(|fault| format!("line {}: {fault}: {line:?}", index + 1))?;
    }
    reader.close()?;
    Ok(Exposition { families: reader.families })
}

struct Reader {
    dialect: Dialect,
    families: BTreeMap<String, Family>,
    open: Option<Open>,
}

/// The family that is being parsed.
struct Open {
    /// Its name in the HELP and TYPE lines, suffix included.
    written: String,
    has_help: bool,
    kind: Option<Kind>,
    samples: Vec<Sample>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.contains('\r') {
            return Err("carriage return".into());
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').ok_or("no help text")?;
            check_help(help)?;
            let open = self.open(name)?;
            ensure(!open.has_help, "second HELP")?;
            ensure(open.samples.is_empty(), "HELP after samples")?;
            open.has_help = true;
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').ok_or("no type")?;
            let kind = kind_of(kind, name, self.dialect)?;
            let open = self.open(name)?;
            ensure(open.kind.is_none(), "second TYPE")?;
            ensure(open.samples.is_empty(), "TYPE after samples")?;
            open.kind = Some(kind);
            return Ok(());
        }
        ensure(!line.is_empty(), "empty line")?;
        ensure(!line.starts_with('#'), "unknown comment")?;
        self.sample(line)
    }

    /// Returns the family `name`, which is the current family or a new one.
    fn open(&mut self, name: &str) -> Result<&mut Open, String> {
        check_name(name)?;
        if self.open.as_ref().is_none_or(|open| open.written != name) {
            self.close()?;
            self.open = Some(Open { written: name.into(), has_help: false, kind: None, samples: Vec::new() });
        }
        self.open.as_mut().ok_or_else(|| "no family".into())
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let (name, rest) = line.split_at(line.find(['{', ' ']).ok_or("no value")?);
        check_name(name)?;
        let (labels, rest) = labels(rest)?;
        let value = value(rest)?;
        let dialect = self.dialect;
        let open = self.open.as_mut().ok_or("sample before its family")?;
        let kind = open.kind.ok_or("sample before TYPE")?;
        ensure(open.has_help, "sample before HELP")?;
        let suffix = name.strip_prefix(base(&open.written, kind)).ok_or("sample of another family")?;
        let allowed: &[&str] = match kind {
            Kind::Counter => &["_total"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_sum", "_count"],
            Kind::Info => &["_info"],
        };
        ensure(allowed.contains(&suffix), "sample of another family")?;
        ensure(kind == Kind::Gauge || value >= 0.0, "negative")?;
        ensure(kind != Kind::Info || value == 1.0, "an info is not 1")?;
        ensure(labels.contains_key("le") == (suffix == "_bucket"), "le where it does not belong, or none")?;
        if let Some(bound) = labels.get("le") {
            check_bound(bound, dialect)?;
        }
        let sample = Sample { suffix: suffix.into(), labels, value };
        let is_new =
            open.samples.iter().all(|one| (&one.suffix, &one.labels) != (&sample.suffix, &sample.labels));
        ensure(is_new, "duplicate series")?;
        open.samples.push(sample);
        Ok(())
    }

    /// Completes the current family.
    fn close(&mut self) -> Result<(), String> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let fault = |fault: &str| format!("{}: {fault}", open.written);
        let kind = open.kind.ok_or_else(|| fault("no TYPE"))?;
        ensure(open.has_help, &fault("no HELP"))?;
        ensure(!open.samples.is_empty(), &fault("no samples"))?;
        if kind == Kind::Histogram {
            check_histogram(&open.samples).map_err(|broken| fault(&broken))?;
        }
        let name = base(&open.written, kind).to_owned();
        let before = self.families.insert(name, Family { kind, samples: open.samples });
        ensure(before.is_none(), &format!("{}: in two places", open.written))
    }
}

/// Returns the name of the family without the suffix of its type.
fn base(written: &str, kind: Kind) -> &str {
    let suffix = match kind {
        Kind::Counter => "_total",
        Kind::Info => "_info",
        Kind::Gauge | Kind::Histogram => "",
    };
    written.strip_suffix(suffix).unwrap_or(written)
}

fn kind_of(kind: &str, name: &str, dialect: Dialect) -> Result<Kind, String> {
    let kind = match (kind, dialect) {
        ("counter", _) => Kind::Counter,
        ("histogram", _) => Kind::Histogram,
        ("info", Dialect::OpenMetrics) => Kind::Info,
        ("gauge", Dialect::Text) if name.ends_with("_info") => Kind::Info,
        ("gauge", _) => Kind::Gauge,
        _ => return Err("unknown type".into()),
    };
    let reserved = ["_total", "_count", "_sum", "_bucket", "_info"];
    let suffix = reserved.into_iter().find(|suffix| name.ends_with(suffix));
    let expected = match (kind, dialect) {
        (Kind::Counter, Dialect::Text) => Some("_total"),
        (Kind::Info, Dialect::Text) => Some("_info"),
        _ => None,
    };
    // This name breaks the rule, but no other family could be confused with it.
    let is_exempt = name == "svc_worker_requests_count" && kind == Kind::Gauge;
    ensure(suffix == expected || is_exempt, "a name that does not fit its type")?;
    Ok(kind)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_legal = |(index, byte): (usize, u8)| {
        byte.is_ascii_lowercase() || byte == b'_' || (index > 0 && byte.is_ascii_digit())
    };
    ensure(!name.is_empty() && name.bytes().enumerate().all(is_legal), "not a name")
}

fn check_help(help: &str) -> Result<(), String> {
    ensure(!help.trim().is_empty(), "empty help")?;
    let mut characters = help.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            ensure(matches!(characters.next(), Some('\\' | 'n' | '"')), "bad escape")?;
        }
    }
    Ok(())
}

/// Parses `{a="b",c="d"}` if present; returns the rest.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    let Some(mut rest) = text.strip_prefix('{') else { return Ok((labels, text)) };
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        check_name(name)?;
        ensure(!name.starts_with("__"), "a reserved label")?;
        let (value, after) = quoted(after)?;
        ensure(labels.insert(name.to_owned(), value).is_none(), "a label twice")?;
        rest = match after.strip_prefix(',') {
            Some(next) => next,
            None => return Ok((labels, after.strip_prefix('}').ok_or("labels do not end")?)),
        };
    }
}

/// Parses up to the closing quote.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match characters.next() {
                Some((_, '\\')) => '\\',
                Some((_, '"')) => '"',
                Some((_, 'n')) => '\n',
                _ => return Err("bad escape".into()),
            }),
            plain => value.push(plain),
        }
    }
    Err("a label value does not end".into())
}

/// Parses ` 12.5`: one space and one number.
fn value(text: &str) -> Result<f64, String> {
    let text = text.strip_prefix(' ').ok_or("no space before the value")?;
    ensure(!text.contains(' '), "a timestamp")?;
    let value: f64 = text.parse().map_err(|_| "not a number")?;
    ensure(value.is_finite(), "not finite")?;
    Ok(value)
}

fn check_bound(bound: &str, dialect: Dialect) -> Result<(), String> {
    let is_canonical = bound == "+Inf" || bound.contains(['.', 'e']);
    ensure(dialect == Dialect::Text || is_canonical, "a bound that is not a canonical float")
}

/// Checks that buckets ascend, are cumulative and end at +Inf with the count, and that sum and count are present.
fn check_histogram(samples: &[Sample]) -> Result<(), String> {
    let plain = |sample: &Sample| {
        let mut labels = sample.labels.clone();
        labels.remove("le");
        labels
    };
    let sets: BTreeSet<_> = samples.iter().map(plain).collect();
    for set in sets {
        let of =
            |suffix: &str| samples.iter().filter(|one| one.suffix == suffix && plain(one) == set).collect();
        let (buckets, sums, counts): (Vec<&Sample>, Vec<&Sample>, Vec<&Sample>) =
            (of("_bucket"), of("_sum"), of("_count"));
        let bound = |bucket: &&Sample| match bucket.labels["le"].as_str() {
            "+Inf" => Ok(f64::INFINITY),
            number => number.parse::<f64>().map_err(|_| "a bound that is no number".to_owned()),
        };
        let bounds: Vec<f64> = buckets.iter().map(bound).collect::<Result<_, _>>()?;
        ensure(bounds.is_sorted_by(|low, high| low < high), "bounds do not ascend")?;
        ensure(bounds.last() == Some(&f64::INFINITY), "no +Inf bucket")?;
        ensure(buckets.is_sorted_by(|low, high| low.value <= high.value), "buckets do not cumulate")?;
        ensure(sums.len() == 1 && counts.len() == 1, "no sum or no count")?;
        ensure(buckets.last().map(|last| last.value) == Some(counts[0].value), "+Inf and count differ")?;
    }
    Ok(())
}

fn ensure(holds: bool, fault: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(fault.to_owned()) }
}

impl Exposition {
    /// Returns the value of a series by its name in the text format.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        self.families.iter().find_map(|(family, entry)| {
            let suffix = name.strip_prefix(family.as_str())?;
            entry.samples.iter().find(|one| one.suffix == suffix && one.labels == labels).map(|one| one.value)
        })
    }

    /// Returns what is wrong with this page as the successor of `before`: a counter that decreased or disappeared.
    pub fn faults_after(&self, before: &Self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, family) in &before.families {
            let Some(now) = self.families.get(name) else {
                faults.push(format!("{name} went away"));
                continue;
            };
            for old in &family.samples {
                let same =
                    now.samples.iter().find(|one| (&one.suffix, &one.labels) == (&old.suffix, &old.labels));
                match same {
                    None => faults.push(format!("{name}{}{:?} went away", old.suffix, old.labels)),
                    Some(new) if family.kind != Kind::Gauge && new.value < old.value => {
                        faults.push(format!("{name}{}{:?} went down", old.suffix, old.labels));
                    }
                    Some(_) => {}
                }
            }
        }
        faults
    }

    /// Returns the label values of a family that are not in the closed set.
    pub fn strangers(&self, family: &str, label: &str, closed: &[&str]) -> Vec<String> {
        let samples = self.families.get(family).map(|family| family.samples.as_slice()).unwrap_or_default();
        let values = samples.iter().map(|sample| sample.labels.get(label).cloned().unwrap_or_default());
        values.filter(|value| !closed.contains(&value.as_str())).collect()
    }
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;
