//! The document root: which file or script a path names, and how a file is represented.
//!
//! Promises: whatever is served was checked as an open object, never by name, so replacing a link between check and use
//! gains nothing. A file whose name ends in `.php` is executed or not found, but its source is never sent. Refuses: it
//! uses no socket and no interpreter; [`resolve`] may wait for the disk and belongs on a file thread, the rest is pure.
//!
//! | file | in | out |
//! |---|---|---|
//! | [`route`](mod@route) | routing mode, normalised path | the candidates to look for, in order |
//! | [`resolve`] | candidates, the disk | open files, a script, a redirect, nothing |
//! | [`place`] | two real paths | the way from the root to what a link led to |
//! | [`file_version`] | a descriptor | the state of a file |
//! | [`media_type`] | a name, the table of `endings` | `Content-Type` |
//! | [`slice`](mod@slice) | something to read from | so many of its bytes |
//! | [`asset`] | open files | bytes, fields, coded variants: a file ready to be sent |
//! | [`cache`] | path, time | the asset that was ready a moment ago |
//! | [`conditions`] | a request, validators | send, not modified, failed |
//! | [`representation`] | an asset, a request | status, fields and pieces of the answer |
//! | [`route_cache`] | path, time | a script that was found a moment ago |

pub mod asset;
pub mod cache;
pub mod conditions;
mod endings;
pub mod file_version;
pub mod media_type;
pub mod place;
pub mod representation;
pub mod resolve;
pub mod route;
pub mod route_cache;
pub mod slice;

pub use self::asset::{Asset, Terms};
pub use self::cache::{Lookup, StaticCache};
pub use self::place::Place;
pub use self::representation::{Piece, Representation, represent};
pub use self::resolve::{DocumentRoot, FoundScript, Resolved, StaticFile};
pub use self::route::{Candidate, Mode, Route, route};
pub use self::route_cache::{EVERYTHING_ELSE, RouteCache};
