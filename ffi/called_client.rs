//! Calls of databases, key-value stores and HTTP servers, with plain Rust types.
//!
//! Unknown values are empty or 0. The server chooses the attributes of a call.

/// The kind of server that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalledKind {
    /// An SQL database.
    Sql,
    /// A key-value store.
    Store,
    /// An HTTP server.
    Http,
}

/// A call of a client. Texts are raw bytes; unknown values are empty or 0.
#[derive(Clone, Copy, Debug)]
pub struct CalledClient<'a> {
    /// The kind of server.
    pub kind: CalledKind,
    /// The name of the database system in PHP's extensions.
    pub system: &'a [u8],
    /// The command.
    pub operation: &'a [u8],
    /// The query, or the URL.
    pub text: &'a [u8],
    /// The text contains placeholders for values.
    pub is_prepared: bool,
    /// The server treats a backslash in a value differently from its default.
    pub has_other_backslash: bool,
    /// The connection parameters.
    pub source: &'a [u8],
    /// The host, or the path of its socket.
    pub host: &'a [u8],
    /// Its port.
    pub port: u16,
    /// The name of the database.
    pub database: &'a [u8],
}

/// The outcome of a call.
#[derive(Clone, Copy, Debug)]
pub struct CalledEnd<'a> {
    /// The kind of server.
    pub kind: CalledKind,
    /// The call has failed.
    pub is_failed: bool,
    /// The script has abandoned the call.
    pub is_cut: bool,
    /// The error: a code of the client, or the class of an exception.
    pub error: &'a [u8],
    /// The error code of the database.
    pub code: &'a [u8],
    /// The status of the HTTP response.
    pub status: u16,
    /// The method of the HTTP request.
    pub method: &'a [u8],
    /// The HTTP version: 10, 11, 20 or 30.
    pub version: u16,
    /// The minimum duration of a slow query, in milliseconds.
    pub slow_ms: u32,
}
