//! The value of a setting: parsing, display, and its form in the report.
//!
//! A value accepted by [`ValueKind::parse`] has the form that the kind describes. Values are not checked against other
//! settings, which `resolve` does.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net};

use super::WorkerRange;
use super::entries::entries;
use super::fastcgi_addr;
use super::glob;
use super::hooks;
use super::key::{Json, ValueKind, ValueUnit};
use super::listen_addr::{ListenAddr, address};
use super::plugins;
use super::problem::Fault;
use super::tracing::pairs;
use crate::limits::THREADS_MAX;

/// The value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An address to listen on.
    Address(SocketAddr),
    /// True or false.
    Boolean(bool),
    /// An integer; `auto` is 0.
    Integer(u64),
    /// Words.
    List(Vec<String>),
    /// Addresses and paths to listen on.
    Listeners(Vec<ListenAddr>),
    /// Permissions of a file.
    Mode(u32),
    /// Networks.
    Networks(Vec<IpNet>),
    /// Keys and values.
    Pairs(Vec<(String, String)>),
    /// A path.
    Path(PathBuf),
    /// Paths.
    Paths(Vec<PathBuf>),
    /// Text.
    Text(String),
    /// The setting is unset.
    Unset,
    /// Numbers of threads; `auto` is 0.
    Workers(WorkerRange),
}

impl ValueKind {
    /// Parses a value of this kind.
    ///
    /// # Errors
    ///
    /// Returns the fault of the text.
    pub fn parse(self, text: &OsStr) -> Result<Value, Fault> {
        // File names need not be UTF-8.
        match self {
            Self::Path => return Ok(Value::Path(PathBuf::from(text))),
            Self::Paths => return paths(text).map(Value::Paths),
            _ => {}
        }
        let text = text.to_str().ok_or(Fault::NotUtf8)?.trim();
        match self {
            Self::Address { port_alone } => address(text, port_alone.into()).map(Value::Address),
            Self::Boolean => boolean(text).map(Value::Boolean),
            Self::Choice(words) => match words.iter().find(|word| word.eq_ignore_ascii_case(text)) {
                Some(word) => Ok(Value::Text((*word).to_owned())),
                None => Err(Fault::UnknownWord),
            },
            Self::Globs => globs(text).map(Value::List),
            Self::Hooks => hooks::words(text).map(Value::List),
            Self::Hsts => hsts(text).map(Value::Text),
            Self::Integer { min, max, unit } => integer(text, min, max, unit).map(Value::Integer),
            Self::IntegerOrAuto { .. } if text.eq_ignore_ascii_case("auto") => Ok(Value::Integer(0)),
            Self::IntegerOrAuto { max, unit } => integer(text, 1, max, unit).map(Value::Integer),
            Self::List => entries(text).map(|words| Value::List(words.map(str::to_owned).collect())),
            Self::Listeners { port_alone } => ListenAddr::list(text, port_alone.into()).map(Value::Listeners),
            Self::Mode => mode(text).map(Value::Mode),
            Self::NamePatterns if text.eq_ignore_ascii_case("none") => Ok(Value::List(Vec::new())),
            Self::NamePatterns => entries(text).map(|words| Value::List(words.map(str::to_owned).collect())),
            Self::Networks => entries(text)?.map(network).collect::<Result<_, _>>().map(Value::Networks),
            Self::Plugins => plugins::words(text).map(Value::List),
            Self::Proxies => proxies(text).map(Value::Networks),
            Self::Pairs => pairs(text).map(Value::Pairs).ok_or(Fault::NotPairs),
            Self::Path | Self::Paths | Self::Text => Ok(Value::Text(text.to_owned())),
            Self::Responders => fastcgi_addr::addresses(text).map(Value::List),
            Self::StrictBoolean => strict_boolean(text).map(Value::Boolean),
            Self::Variables => variables(text).map(Value::List),
            Self::Workers => workers(text).map(Value::Workers),
        }
    }
}

impl Value {
    /// Returns the value as a field of the configuration report.
    pub fn to_json(&self, json: Json) -> serde_json::Value {
        match (self, json) {
            (Self::Boolean(yes), _) => (*yes).into(),
            (Self::Integer(number), Json::Integer) => (*number).into(),
            (Self::Unset, Json::Array) => serde_json::Value::Array(Vec::new()),
            (Self::Unset, Json::Integer) => serde_json::Value::Null,
            (Self::Pairs(pairs), Json::Array) => {
                pairs.iter().map(|(key, value)| format!("{key}={value}")).collect()
            }
            (Self::List(words), Json::Array) => words.iter().map(String::as_str).collect(),
            (Self::Paths(paths), Json::Array) => {
                paths.iter().map(|path| path.to_string_lossy().into_owned()).collect()
            }
            (Self::Networks(networks), Json::Array) => networks.iter().map(ToString::to_string).collect(),
            (Self::List(words), Json::Object) => words
                .iter()
                .map(|word| (word.clone(), serde_json::Value::Object(serde_json::Map::new())))
                .collect(),
            (_, Json::Object) => serde_json::Value::Object(serde_json::Map::new()),
            (value, Json::Boolean) => (*value != Self::Unset).into(),
            (Self::Unset, _) => "".into(),
            (value, _) => value.to_string().into(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Boolean(yes) => yes.fmt(f),
            Self::Integer(number) => number.fmt(f),
            Self::List(words) if words.is_empty() => f.write_str("none"),
            Self::List(words) => f.write_str(&words.join(",")),
            Self::Listeners(places) => {
                for (n, place) in places.iter().enumerate() {
                    write!(f, "{}{place}", if n > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Self::Mode(mode) => write!(f, "{mode:04o}"),
            Self::Networks(networks) => {
                for (n, network) in networks.iter().enumerate() {
                    write!(f, "{}{network}", if n > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Self::Pairs(pairs) => {
                for (n, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}={value}", if n > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Self::Path(path) => path.display().fmt(f),
            Self::Paths(paths) => {
                for (n, path) in paths.iter().enumerate() {
                    write!(f, "{}{}", if n > 0 { "," } else { "" }, path.display())?;
                }
                Ok(())
            }
            Self::Text(text) => f.write_str(text),
            Self::Unset => f.write_str("unset"),
            Self::Workers(WorkerRange { min, max }) if min == max => max.fmt(f),
            Self::Workers(WorkerRange { min, max }) => write!(f, "{min}:{max}"),
        }
    }
}

fn boolean(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "on" | "yes" => Ok(true),
        "false" | "0" | "off" | "no" => Ok(false),
        _ => Err(Fault::NotABoolean),
    }
}

/// Parses a boolean. Only `true` means true, as in OpenTelemetry's SDKs.
fn strict_boolean(text: &str) -> Result<bool, Fault> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Fault::NotABoolean),
    }
}

fn integer(text: &str, min: u64, max: u64, unit: ValueUnit) -> Result<u64, Fault> {
    let (digits, shift) = match (unit, text.as_bytes().last()) {
        (ValueUnit::Bytes, Some(b'K' | b'k')) => (&text[..text.len() - 1], 10),
        (ValueUnit::Bytes, Some(b'M' | b'm')) => (&text[..text.len() - 1], 20),
        (ValueUnit::Bytes, Some(b'G' | b'g')) => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |rest| (true, rest));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::NotANumber);
    }
    // Only digits are left, so a failure means that the number is too large.
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match number {
        _ if negative => Err(Fault::TooSmall),
        Some(number) if number < min => Err(Fault::TooSmall),
        Some(number) if number <= max => Ok(number),
        _ => Err(Fault::TooLarge),
    }
}

/// Parses the value of `Strict-Transport-Security`; a number is its `max-age`.
fn hsts(text: &str) -> Result<String, Fault> {
    let is_number = |text: &str| text.parse::<u32>().is_ok() && !text.starts_with('+');
    if is_number(text) {
        return Ok(format!("max-age={text}"));
    }
    let mut names = Vec::new();
    for directive in text.split(';').map(str::trim) {
        let (name, value) =
            directive.split_once('=').map_or((directive, None), |(name, value)| (name, Some(value)));
        let name = name.to_ascii_lowercase();
        let is_known = match name.as_str() {
            "max-age" => value.is_some_and(is_number),
            "includesubdomains" | "preload" => value.is_none(),
            _ => false,
        };
        if !is_known || names.contains(&name) {
            return Err(Fault::UnknownWord);
        }
        names.push(name);
    }
    if names.iter().any(|name| name == "max-age") { Ok(text.to_owned()) } else { Err(Fault::UnknownWord) }
}

/// Parses file permissions in octal digits.
fn mode(text: &str) -> Result<u32, Fault> {
    if text.is_empty() || !text.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        return Err(Fault::NotAMode);
    }
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777).ok_or(Fault::NotAMode)
}

fn workers(text: &str) -> Result<WorkerRange, Fault> {
    let threads =
        |text: &str| integer(text, 1, THREADS_MAX as u64, ValueUnit::Count).map(|number| number as usize);
    if text.eq_ignore_ascii_case("auto") {
        return Ok(WorkerRange { min: 0, max: 0 });
    }
    let Some((min, max)) = text.split_once(':') else {
        return threads(text).map(|number| WorkerRange { min: number, max: number });
    };
    let (min, max) = (threads(min)?, threads(max)?);
    if min > max { Err(Fault::MinAboveMax) } else { Ok(WorkerRange { min, max }) }
}

/// Parses a list of paths; ignores white space around an entry.
fn paths(text: &OsStr) -> Result<Vec<PathBuf>, Fault> {
    let entries = text.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let paths: Vec<PathBuf> =
        entries.filter(|entry| !entry.is_empty()).map(|entry| OsStr::from_bytes(entry).into()).collect();
    if paths.is_empty() { Err(Fault::EmptyList) } else { Ok(paths) }
}

fn globs(text: &str) -> Result<Vec<String>, Fault> {
    let patterns = glob::patterns(text);
    if patterns.is_empty() {
        return Err(Fault::EmptyList);
    }
    for pattern in &patterns {
        glob::url_path_glob(pattern).map_err(|why| Fault::NotAPattern((*pattern).to_owned(), why))?;
    }
    Ok(patterns.into_iter().map(str::to_owned).collect())
}

fn variables(text: &str) -> Result<Vec<String>, Fault> {
    let is_name = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && name.starts_with(|first: char| !first.is_ascii_digit())
    };
    let entries = assignments(text)?.into_iter().map(|entry| match entry.split_once('=') {
        Some((name, _)) if is_name(name) && !entry.contains('\0') => Ok(entry),
        _ => Err(Fault::NotAVariable(entry)),
    });
    entries.collect()
}

/// Splits `NAME=value` pairs at commas. A value that begins with a double quote ends with one, and may contain commas;
/// within it, a backslash precedes a quote or a backslash.
fn assignments(text: &str) -> Result<Vec<String>, Fault> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let comma = rest.find(',').unwrap_or(rest.len());
        let quote = rest[..comma].find('=').filter(|equals| rest[equals + 1..].starts_with('"'));
        let (pair, end) = match quote {
            Some(equals) => unquoted(rest, equals + 1).ok_or_else(|| Fault::NotAVariable(rest.to_owned()))?,
            None => (rest[..comma].trim().to_owned(), comma),
        };
        found.extend(Some(pair).filter(|pair| !pair.is_empty()));
        rest = rest[end..].strip_prefix(',').unwrap_or_default().trim_start();
    }
    if found.is_empty() { Err(Fault::EmptyList) } else { Ok(found) }
}

/// Returns the first pair of `text` without the quotes around its value, which begin at `quote`, and where it ends;
/// `None` if its closing quote is missing or followed by something other than a comma.
fn unquoted(text: &str, quote: usize) -> Option<(String, usize)> {
    let mut pair = text[..quote].to_owned();
    let mut chars = text[quote + 1..].char_indices();
    loop {
        match chars.next()? {
            (_, '\\') => pair.push(chars.next()?.1),
            (at, '"') => {
                let behind = &text[quote + 1 + at + 1..];
                let end = text.len() - behind.trim_start().len();
                return (end == text.len() || text[end..].starts_with(',')).then_some((pair, end));
            }
            (_, plain) => pair.push(plain),
        }
    }
}

fn proxies(text: &str) -> Result<Vec<IpNet>, Fault> {
    let mut networks = Vec::new();
    for entry in entries(text)? {
        if entry.eq_ignore_ascii_case("private") {
            networks.extend(PRIVATE.iter().filter_map(|range| range.parse::<IpNet>().ok()));
        } else {
            networks.push(network(entry)?);
        }
    }
    Ok(networks)
}

/// Loopback, private and link-local addresses, where an operator's proxies usually are.
const PRIVATE: [&str; 8] = [
    "127.0.0.0/8",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "169.254.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
];

fn network(entry: &str) -> Result<IpNet, Fault> {
    let single = entry.parse::<IpAddr>().map(IpNet::from);
    let network =
        single.or_else(|_| entry.parse::<IpNet>()).map_err(|_| Fault::NotANetwork(entry.to_owned()))?;
    Ok(unmapped(network).trunc())
}

/// Converts a range of IPv4-mapped IPv6 addresses to the IPv4 range.
fn unmapped(network: IpNet) -> IpNet {
    let IpNet::V6(wide) = network else { return network };
    let (Some(address), Some(prefix)) = (wide.addr().to_ipv4_mapped(), wide.prefix_len().checked_sub(96))
    else {
        return network;
    };
    Ipv4Net::new(address, prefix).map_or(network, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LOCAL: ValueKind = ValueKind::Address { port_alone: Ipv4Addr::LOCALHOST };
    const SIZE: ValueKind = ValueKind::Integer { min: 1, max: 1 << 40, unit: ValueUnit::Bytes };
    const COUNT: ValueKind = ValueKind::Integer { min: 2, max: 9, unit: ValueUnit::Count };

    fn parse(kind: ValueKind, text: &str) -> Result<Value, Fault> {
        kind.parse(OsStr::new(text))
    }

    fn socket(text: &str) -> Value {
        Value::Address(text.parse().unwrap())
    }

    #[test]
    fn addresses_have_a_host_and_a_port() {
        assert_eq!(parse(LOCAL, ":9090"), Ok(socket("127.0.0.1:9090")));
        assert_eq!(parse(LOCAL, "0.0.0.0:9090"), Ok(socket("0.0.0.0:9090")));
        assert_eq!(parse(LOCAL, "[::1]:9090"), Ok(socket("[::1]:9090")));
        assert_eq!(parse(LOCAL, "localhost:80"), Ok(socket("127.0.0.1:80")));
        for wrong in
            ["9090", "127.0.0.1", "127.0.0.1:", ":", ":x", ":65536", ":-1", ":+1", "::1:80", "[::1]", "[a]:1"]
        {
            assert_eq!(parse(LOCAL, wrong), Err(Fault::NotAnAddress), "{wrong}");
        }
    }

    #[test]
    fn numbers_stay_in_their_range() {
        assert_eq!(parse(COUNT, " 2 "), Ok(Value::Integer(2)));
        assert_eq!(parse(COUNT, "1"), Err(Fault::TooSmall));
        assert_eq!(parse(COUNT, "-5"), Err(Fault::TooSmall));
        assert_eq!(parse(COUNT, "10"), Err(Fault::TooLarge));
        assert_eq!(parse(COUNT, "99999999999999999999999"), Err(Fault::TooLarge));
        for wrong in ["five", "1.5", "+2", "0x2", "2K", "--2", "-", "auto"] {
            assert_eq!(parse(COUNT, wrong), Err(Fault::NotANumber), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_suffixes() {
        assert_eq!(parse(SIZE, "64M"), Ok(Value::Integer(64 << 20)));
        assert_eq!(parse(SIZE, "512k"), Ok(Value::Integer(512 << 10)));
        assert_eq!(parse(SIZE, "1G"), Ok(Value::Integer(1 << 30)));
        assert_eq!(parse(SIZE, "18446744073709551615G"), Err(Fault::TooLarge));
        assert_eq!(parse(SIZE, "M"), Err(Fault::NotANumber));
        assert_eq!(parse(SIZE, "1MB"), Err(Fault::NotANumber));
    }

    #[test]
    fn workers_are_a_number_a_range_or_auto() {
        let workers = |min, max| Ok(Value::Workers(WorkerRange { min, max }));
        assert_eq!(parse(ValueKind::Workers, "4"), workers(4, 4));
        assert_eq!(parse(ValueKind::Workers, "2:8"), workers(2, 8));
        assert_eq!(parse(ValueKind::Workers, "auto"), workers(0, 0));
        assert_eq!(parse(ValueKind::Workers, "8:2"), Err(Fault::MinAboveMax));
        assert_eq!(parse(ValueKind::Workers, "0:2"), Err(Fault::TooSmall));
        assert_eq!(parse(ValueKind::Workers, "2:"), Err(Fault::NotANumber));
        assert_eq!(parse(ValueKind::Workers, "100000"), Err(Fault::TooLarge));
    }

    #[test]
    fn networks_include_single_addresses_and_mapped_ones() {
        let Ok(Value::Networks(found)) =
            parse(ValueKind::Networks, "10.1.2.3/8, 127.0.0.1,::1,::ffff:10.0.0.0/104,")
        else {
            panic!("refused");
        };
        let written: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(written, ["10.0.0.0/8", "127.0.0.1/32", "::1/128", "10.0.0.0/8"]);
        assert_eq!(
            parse(ValueKind::Networks, "10.0.0.0/33"),
            Err(Fault::NotANetwork("10.0.0.0/33".to_owned()))
        );
        assert_eq!(parse(ValueKind::Networks, " , "), Err(Fault::EmptyList));
    }

    #[test]
    fn proxies_are_networks_and_the_private_ones() {
        let Ok(Value::Networks(networks)) = parse(ValueKind::Proxies, "203.0.113.7, private") else {
            panic!()
        };
        assert_eq!(networks.len(), 1 + PRIVATE.len());
        for inside in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.1.1",
            "::1",
            "fd00::1",
            "fe80::1",
            "203.0.113.7",
        ] {
            assert!(
                networks.iter().any(|range| range.contains(&inside.parse::<IpAddr>().unwrap())),
                "{inside}"
            );
        }
        for outside in ["172.32.0.1", "100.64.0.1", "2001:db8::1", "203.0.113.8"] {
            assert!(
                !networks.iter().any(|range| range.contains(&outside.parse::<IpAddr>().unwrap())),
                "{outside}"
            );
        }
        assert_eq!(parse(ValueKind::Proxies, "private,x"), Err(Fault::NotANetwork("x".to_owned())));
        assert_eq!(parse(ValueKind::Networks, "private"), Err(Fault::NotANetwork("private".to_owned())));
    }

    #[test]
    fn a_pattern_that_is_none_is_named() {
        let patterns = parse(ValueKind::Globs, "/uploads/**, *.{php,phtml}");
        assert_eq!(patterns, Ok(Value::List(vec!["/uploads/**".to_owned(), "*.{php,phtml}".to_owned()])));
        let Err(Fault::NotAPattern(pattern, _)) = parse(ValueKind::Globs, "ok,a[") else { panic!() };
        assert_eq!(pattern, "a[");
        assert_eq!(parse(ValueKind::Globs, ","), Err(Fault::EmptyList));
    }

    #[test]
    fn variables_have_names_that_php_leaves_as_they_are() {
        let set = parse(ValueKind::Variables, "SERVER_SOFTWARE=nginx, A=, _b2=c=d");
        assert_eq!(set.unwrap().to_string(), "SERVER_SOFTWARE=nginx,A=,_b2=c=d");
        let set = parse(ValueKind::Variables, r#"A=1, B="x, \"y\" \\", C=a"b, D="",E=2 ,"#);
        let expected = ["A=1", r#"B=x, "y" \"#, r#"C=a"b"#, "D=", "E=2"].map(str::to_owned);
        assert_eq!(set, Ok(Value::List(expected.to_vec())));
        for wrong in [r#"A="b"#, r#"A="b"c"#, r#"A="b\"#, r#"A="b" c,D=1"#] {
            assert_eq!(
                parse(ValueKind::Variables, wrong),
                Err(Fault::NotAVariable(wrong.to_owned())),
                "{wrong}"
            );
        }
        for wrong in ["A", "=a", "1A=b", "A.B=c", "A B=c", "A[]=b"] {
            assert_eq!(
                parse(ValueKind::Variables, wrong),
                Err(Fault::NotAVariable(wrong.to_owned())),
                "{wrong}"
            );
        }
    }

    #[test]
    fn booleans_have_four_spellings() {
        for (text, yes) in
            [("true", true), ("1", true), ("On", true), ("YES", true), ("false", false), ("0", false)]
        {
            assert_eq!(parse(ValueKind::Boolean, text), Ok(Value::Boolean(yes)));
        }
        assert_eq!(parse(ValueKind::Boolean, "maybe"), Err(Fault::NotABoolean));
        assert_eq!(parse(ValueKind::StrictBoolean, "True"), Ok(Value::Boolean(true)));
        assert_eq!(parse(ValueKind::StrictBoolean, "1"), Err(Fault::NotABoolean));
    }

    #[test]
    fn text_that_is_not_utf8_is_refused_but_paths_are_bytes() {
        let odd = OsStr::from_bytes(b"/tmp/\xff");
        assert_eq!(ValueKind::Text.parse(odd), Err(Fault::NotUtf8));
        assert_eq!(ValueKind::Path.parse(odd), Ok(Value::Path(PathBuf::from(odd))));
        let list = OsStr::from_bytes(b" /tmp/\xff,, b c ,");
        assert_eq!(ValueKind::Paths.parse(list), Ok(Value::Paths(vec![PathBuf::from(odd), "b c".into()])));
        assert_eq!(parse(ValueKind::Paths, " , "), Err(Fault::EmptyList));
        assert_eq!(parse(ValueKind::Paths, "a , b").unwrap().to_string(), "a,b");
    }
}
