//! Calls of databases, key-value stores and HTTP servers.
//!
//! Texts are raw bytes; unknown values are empty or 0.

/// The kind of server that is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientKind {
    /// An SQL database.
    #[default]
    Sql,
    /// A key-value store.
    Store,
    /// An HTTP server.
    Http,
}

/// A client call that has started.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientCall<'a> {
    /// The kind of server.
    pub kind: ClientKind,
    /// The database system by the name of its PHP extension: `mysql`, `pgsql`, `redis`.
    pub system: &'a [u8],
    /// The command; empty if it has to be read from `text`.
    pub operation: &'a [u8],
    /// The query, or the URL.
    pub text: &'a [u8],
    /// Whether the text has placeholders for values.
    pub is_prepared: bool,
    /// Whether the server's handling of a backslash in a value differs from the default: `NO_BACKSLASH_ESCAPES` of
    /// MySQL, `standard_conforming_strings = off` of PostgreSQL.
    pub has_other_backslash: bool,
    /// PDO's data source name without the driver prefix, or libpq's connection parameters.
    pub source: &'a [u8],
    /// The host name, or the path of the socket; empty if unknown or given by `source`.
    pub host: &'a [u8],
    /// The port; 0 if unknown.
    pub port: u16,
    /// The database on the server; empty if unknown or given by `source`.
    pub database: &'a [u8],
}

/// The end of a client call.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientEnd<'a> {
    /// The kind of server.
    pub kind: ClientKind,
    /// Whether the call failed.
    pub is_failed: bool,
    /// Whether the script abandoned the call.
    pub is_cut: bool,
    /// The error: a code of the client, or the class of an exception.
    pub error: &'a [u8],
    /// The database's error code; empty if there is none.
    pub code: &'a [u8],
    /// The status of a response; 0 if there is none.
    pub status: u16,
    /// The method of a request; empty if unknown.
    pub method: &'a [u8],
    /// The HTTP version: 10, 11, 20 or 30; another number if unknown.
    pub version: u16,
    /// The minimum duration of a slow query, in milliseconds.
    pub slow_ms: u32,
}
