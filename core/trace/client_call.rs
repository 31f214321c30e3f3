//! The spans of client calls to databases, key-value stores and HTTP servers.
//!
//! Names and attributes follow OpenTelemetry's stable conventions. Values of unprepared queries, arguments of commands
//! and passwords in URLs are never recorded. The caller of the client is not known here.

use std::borrow::Cow;

use svc_types::{AttributeValue, ClientCall, ClientEnd, ClientKind};

use crate::http::uri;

use super::data_source::{Pair, libpq_pairs, pdo_pairs};
use super::sql_tokens::SqlDialect;
use super::statement::{Statement, Statements};

/// Receives the name and the attributes of a span.
pub trait SpanRecorder {
    /// Sets the name.
    fn set_name(&mut self, name: String);
    /// Sets an attribute.
    fn set_attribute(&mut self, key: &'static str, value: AttributeValue);
}

/// Records the name and the attributes known at the start of the call. `redacted` lists the URL parameters whose
/// values are secret; `statements` is this thread's cache.
pub fn record_call(
    call: &ClientCall<'_>,
    redacted: &[String],
    statements: &mut Statements,
    recorder: &mut dyn SpanRecorder,
) {
    if call.kind == ClientKind::Http {
        record_url(call.text, redacted, recorder);
    } else {
        record_database(call, statements, recorder);
    }
}

fn record_database(call: &ClientCall<'_>, statements: &mut Statements, recorder: &mut dyn SpanRecorder) {
    let (system, mut dialect) = system_of(call.system);
    if !call.is_prepared && dialect == SqlDialect::Standard {
        dialect = SqlDialect::Loose;
    }
    if call.has_other_backslash {
        dialect = dialect.with_other_backslash();
    }
    let source = ServerPlace::of(call, system);
    let mut operation: Cow<'static, str> = Cow::Owned(text(call.operation).into_owned());
    let mut name = None;
    let mut collection = None;
    if !call.text.is_empty() {
        let Statement { text, summary } = statements.describe(call.text, dialect, call.is_prepared);
        recorder.set_attribute("db.query.text", text.clone().into());
        if operation.is_empty() {
            operation.clone_from(&summary.operation);
        }
        if let Some(table) = &summary.collection {
            recorder.set_attribute("db.collection.name", table.clone().into());
            collection = Some(&**table);
        }
        if !summary.text.is_empty() {
            recorder.set_attribute("db.query.summary", summary.text.clone().into());
            name = Some(summary.text.clone());
        }
    }
    let target = || collection.map(Cow::Borrowed).or_else(|| source.target());
    let name = name.unwrap_or_else(|| match (&*operation, target()) {
        ("", _) => system.to_owned(),
        (operation, Some(target)) => format!("{operation} {target}"),
        (operation, None) => operation.to_owned(),
    });
    recorder.set_name(name);
    recorder.set_attribute("db.system.name", system.into());
    if !operation.is_empty() {
        recorder.set_attribute("db.operation.name", operation.into());
    }
    source.record(recorder);
}

fn record_url(url: &[u8], redacted: &[String], recorder: &mut dyn SpanRecorder) {
    let url = Url::of(url);
    recorder.set_name("HTTP".to_owned());
    recorder.set_attribute("url.full", text(&url.without_secrets(redacted)).into_owned().into());
    if !url.host.is_empty() {
        recorder.set_attribute("server.address", text(url.host).into_owned().into());
        recorder.set_attribute("server.port", url.port.into());
    }
}

/// Records the attributes of a call that has ended; HTTP methods other than `known_methods` become `_OTHER`.
/// Returns whether it failed.
pub fn record_end(end: &ClientEnd<'_>, known_methods: &[String], recorder: &mut dyn SpanRecorder) -> bool {
    if end.kind == ClientKind::Http {
        record_response(end, known_methods, recorder);
    } else if !end.code.is_empty() {
        recorder.set_attribute("db.response.status_code", text(end.code).into_owned().into());
    }
    let is_refused = end.status >= 400;
    let is_failed = end.is_failed || is_refused;
    if is_failed {
        let what = if is_refused && !end.is_failed {
            end.status.to_string()
        } else if !end.code.is_empty() {
            text(end.code).into_owned()
        } else {
            text(end.error).into_owned()
        };
        recorder.set_attribute("error.type", if what.is_empty() { "_OTHER".into() } else { what.into() });
    }
    is_failed
}

fn record_response(end: &ClientEnd<'_>, known_methods: &[String], recorder: &mut dyn SpanRecorder) {
    if !end.method.is_empty() {
        let method = text(end.method).into_owned();
        if known_methods.contains(&method) {
            recorder.set_name(method.clone());
            recorder.set_attribute("http.request.method", method.into());
        } else {
            recorder.set_attribute("http.request.method", "_OTHER".into());
            recorder.set_attribute("http.request.method_original", method.into());
        }
    }
    if end.status != 0 {
        recorder.set_attribute("http.response.status_code", end.status.into());
    }
    if let Some(version) = protocol_version(end.version) {
        recorder.set_attribute("network.protocol.version", version.into());
    }
}

/// Returns the HTTP version as the conventions write it; `None` if it is unknown.
fn protocol_version(version: u16) -> Option<&'static str> {
    match version {
        10 => Some("1.0"),
        11 => Some("1.1"),
        20 => Some("2"),
        30 => Some("3"),
        _ => None,
    }
}

/// Returns the name of a database in the conventions, and its SQL dialect.
fn system_of(name: &[u8]) -> (&'static str, SqlDialect) {
    match name {
        b"mysql" => ("mysql", SqlDialect::MySql),
        b"pgsql" => ("postgresql", SqlDialect::PostgreSql),
        b"sqlite" => ("sqlite", SqlDialect::Standard),
        b"redis" => ("redis", SqlDialect::Standard),
        b"memcached" => ("memcached", SqlDialect::Standard),
        b"sqlsrv" | b"dblib" => ("microsoft.sql_server", SqlDialect::Standard),
        b"oci" => ("oracle.db", SqlDialect::Standard),
        b"firebird" => ("firebirdsql", SqlDialect::Standard),
        b"ibm" => ("ibm.db2", SqlDialect::Standard),
        // Drivers for more than one database.
        _ => ("other_sql", SqlDialect::Standard),
    }
}

/// Returns the file in a data source name of SQLite: a path, or a URI without its parameters, which may contain keys
/// (`file:x?key=…`).
fn sqlite_file(source: &[u8]) -> &[u8] {
    let is_end = |byte: &u8| matches!(byte, b'?' | b'#');
    let end = source.iter().position(is_end).filter(|_| source.starts_with(b"file:"));
    &source[..end.unwrap_or(source.len())]
}

/// The address of a database.
#[derive(Debug, Default)]
struct ServerPlace<'a> {
    host: Cow<'a, str>,
    port: u16,
    namespace: Cow<'a, str>,
}

impl<'a> ServerPlace<'a> {
    fn of(call: &ClientCall<'a>, system: &str) -> Self {
        let mut source = Self { host: text(call.host), port: call.port, namespace: text(call.database) };
        match system {
            "sqlite" => source.namespace = text(sqlite_file(call.source)),
            "postgresql" => source.read(libpq_pairs(call.source)),
            _ => source.read(pdo_pairs(call.source)),
        }
        if source.host.is_empty() && system == "mysql" && !call.source.is_empty() {
            source.host = "localhost".into();
        }
        if source.port == 0 && !source.host.is_empty() && !source.host.starts_with('/') {
            source.port = match system {
                "mysql" => 3306,
                "postgresql" => 5432,
                "redis" => 6379,
                "memcached" => 11211,
                _ => 0,
            };
        }
        source
    }

    /// Reads the connection parameters of a client.
    fn read(&mut self, pairs: impl Iterator<Item = Pair<'a>>) {
        let mut socket = None;
        for (key, value) in pairs {
            match key {
                b"host" => self.host = text_of(value),
                b"hostaddr" if self.host.is_empty() => self.host = text_of(value),
                b"unix_socket" => socket = Some(text_of(value)),
                b"port" => self.port = text_of(value).parse().unwrap_or(self.port),
                b"dbname" => self.namespace = text_of(value),
                _ => {}
            }
        }
        if let Some(socket) = socket {
            self.host = socket;
            self.port = 0;
        }
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        if !self.namespace.is_empty() {
            Some(Cow::Borrowed(&self.namespace))
        } else if self.host.is_empty() {
            None
        } else if self.port == 0 || self.host.starts_with('/') {
            Some(Cow::Borrowed(&self.host))
        } else {
            Some(format!("{}:{}", self.host, self.port).into())
        }
    }

    fn record(self, recorder: &mut dyn SpanRecorder) {
        if !self.namespace.is_empty() {
            recorder.set_attribute("db.namespace", self.namespace.into_owned().into());
        }
        if !self.host.is_empty() {
            let is_socket = self.host.starts_with('/');
            recorder.set_attribute("server.address", self.host.into_owned().into());
            if self.port != 0 && !is_socket {
                recorder.set_attribute("server.port", self.port.into());
            }
        }
    }
}

/// The parts of a URL that spans need.
#[derive(Debug)]
struct Url<'a> {
    before_user: &'a [u8],
    has_user: bool,
    /// The host and everything after it.
    rest: &'a [u8],
    host: &'a [u8],
    port: u16,
}

impl<'a> Url<'a> {
    /// Parses a URL. In doubt, takes too much for credentials rather than too little: clients differ in how they parse
    /// malformed URLs.
    fn of(url: &'a [u8]) -> Self {
        let (before_user, rest) = url.split_at(authority_start(url));
        let user_end = user_end(rest);
        let rest = &rest[user_end.map_or(0, |at| at + 1)..];
        let authority = authority_of(rest);
        let colon = authority.iter().rposition(|&byte| byte == b':');
        let port_at = colon.filter(|&at| authority[at + 1..].iter().all(u8::is_ascii_digit));
        let port = port_at.and_then(|at| text(&authority[at + 1..]).parse().ok());
        let host = &authority[..port_at.unwrap_or(authority.len())];
        let is_https = before_user.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"https:"));
        Self {
            before_user,
            has_user: user_end.is_some(),
            rest,
            host: host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]")).unwrap_or(host),
            port: port.unwrap_or(if is_https { 443 } else { 80 }),
        }
    }

    fn without_secrets(&self, redacted: &[String]) -> Vec<u8> {
        let mut url = self.before_user.to_vec();
        if self.has_user {
            url.extend_from_slice(b"REDACTED:REDACTED@");
        }
        let hash = self.rest.iter().position(|&byte| byte == b'#').unwrap_or(self.rest.len());
        let (rest, fragment) = self.rest.split_at(hash);
        match rest.iter().position(|&byte| byte == b'?') {
            Some(mark) => {
                url.extend_from_slice(&rest[..=mark]);
                url.extend_from_slice(&redact(&rest[mark + 1..], redacted));
            }
            None => url.extend_from_slice(rest),
        }
        url.extend_from_slice(fragment);
        url
    }
}

/// Returns the start of the authority: after the scheme and all slashes that follow. libcurl accepts one to three.
fn authority_start(url: &[u8]) -> usize {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let scheme_end = url.iter().position(|byte| matches!(byte, b':' | b'/' | b'\\' | b'?' | b'#' | b'@'));
    let is_scheme = |&end: &usize| url[end] == b':' && url.get(end + 1).is_some_and(is_slash);
    let start = scheme_end.filter(is_scheme).map_or(0, |end| end + 1);
    start + url[start..].iter().take_while(|byte| is_slash(byte)).count()
}

fn authority_of(rest: &[u8]) -> &[u8] {
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    &rest[..end.unwrap_or(rest.len())]
}

/// Returns the end of the user name and password.
fn user_end(rest: &[u8]) -> Option<usize> {
    let last_at = |text: &[u8]| text.iter().rposition(|&byte| byte == b'@');
    let authority = authority_of(rest);
    last_at(authority).or_else(|| {
        // The part after the colon is no port, so it is a password that contains a slash.
        let colon = authority.iter().rposition(|&byte| byte == b':')?;
        let is_host = authority.ends_with(b"]") || authority[colon + 1..].iter().all(u8::is_ascii_digit);
        if is_host { None } else { last_at(rest) }
    })
}

/// Replaces the values of these parameters in a query, including parameters with percent-encoded names.
pub fn redact<'a>(query: &'a [u8], parameters: &[String]) -> Cow<'a, [u8]> {
    let is_secret = |pair: &[u8]| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        pair.contains(&b'=') && parameters.iter().any(|secret| uri::is_spelled(name, secret.as_bytes()))
    };
    let pairs = || query.split(|&byte| byte == b'&');
    if !pairs().any(is_secret) {
        return Cow::Borrowed(query);
    }
    let mut redacted = Vec::with_capacity(query.len());
    for (index, pair) in pairs().enumerate() {
        if index > 0 {
            redacted.push(b'&');
        }
        if is_secret(pair) {
            redacted.extend(pair.iter().take_while(|&&byte| byte != b'='));
            redacted.extend_from_slice(b"=REDACTED");
        } else {
            redacted.extend_from_slice(pair);
        }
    }
    Cow::Owned(redacted)
}

/// Converts bytes to text. Nearly all input is UTF-8; validating it at once is faster than looking for invalid
/// sequences.
fn text_of(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => text(bytes),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

#[cfg(test)]
#[path = "client_call_tests.rs"]
mod tests;
