//! Calls of databases, stores and HTTP servers, with plain Rust types.
//!
//! Promises: what is not known is empty, or 0. Refuses: what is said about a call is the server's.

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalledKind {
    /// A database that understands SQL.
    Sql,
    /// A store that understands commands.
    Store,
    /// A server of HTTP.
    Http,
}

/// A call of a client. Texts are raw bytes; what is not known is empty, or 0.
#[derive(Clone, Copy, Debug)]
pub struct CalledClient<'a> {
    /// What is called.
    pub kind: CalledKind,
    /// The database, as PHP's extensions call it.
    pub system: &'a [u8],
    /// The command.
    pub operation: &'a [u8],
    /// The query, or the URL.
    pub text: &'a [u8],
    /// The text has placeholders for values.
    pub is_prepared: bool,
    /// The server takes a backslash in a value for what it is not by default.
    pub has_other_backslash: bool,
    /// The parameters of the connection.
    pub source: &'a [u8],
    /// The server, or its socket.
    pub host: &'a [u8],
    /// Its port.
    pub port: u16,
    /// The database there.
    pub database: &'a [u8],
}

/// How such a call ended.
#[derive(Clone, Copy, Debug)]
pub struct CalledEnd<'a> {
    /// What was called.
    pub kind: CalledKind,
    /// It failed.
    pub is_failed: bool,
    /// The script has left it in the middle.
    pub is_cut: bool,
    /// What failed.
    pub error: &'a [u8],
    /// The code that the database has answered with.
    pub code: &'a [u8],
    /// The status of a response.
    pub status: u16,
    /// The method of its request.
    pub method: &'a [u8],
    /// Their version of HTTP: 10, 11, 20 or 30.
    pub version: u16,
    /// Queries that have taken as many milliseconds are slow.
    pub slow_ms: u32,
}
