//! Automatic spans: calls of databases, stores and HTTP servers, recorded without a change of the script.

mod absent;
mod calls;
mod ends;
mod shapes;
mod shared;
mod tasks;
