//! The document root: the file or script of a path, and the representation of a file.
//!
//! Everything served was checked as an open object, never by name, so replacing a link between check and use has no
//! effect. A file whose name ends in `.php` is executed or not found, but its source is never sent. There is no socket
//! and no interpreter; [`DocumentRoot::resolve`] may wait for the disk and belongs on a file thread, the rest is pure.
//!
//! | file | in | out |
//! |---|---|---|
//! | `routing` | the entry files of the settings | the routing mode of each part of the site |
//! | `route` | routing mode, normalised path | the candidates to look for, in order |
//! | `resolve` | candidates, the disk | open files, a script, a redirect, nothing |
//! | `relative_path` | two real paths | the path from the root to the target of a link |
//! | [`file_version`] | a descriptor | the state of a file |
//! | [`media_type`], `extensions` | a name | `Content-Type` |
//! | [`slice`](mod@slice) | a source of bytes | an exact range of them |
//! | `asset` | open files | bytes, fields, coded variants: a file ready to be sent |
//! | `cache` | path, time | the cached asset |
//! | `content_hash` | the bytes of a file | its entity tag |
//! | `conditions` | a request, validators | send, not modified, failed |
//! | `representation` | an asset, a request | status, fields and pieces of the response |
//! | `sendfile_roots` | a file name from a script, the disk | an open file, or nothing |
//! | `sent_file` | an asset, a request, its script's response head | the same as `representation` |
//! | `stored_asset` | a stored response of a script | an asset, and the same as `representation` |
//! | `route_cache` | path, time | the cached script |

mod asset;
mod cache;
mod conditions;
mod content_hash;
mod extensions;
pub mod file_version;
pub mod media_type;
mod relative_path;
mod representation;
mod resolve;
mod route;
mod route_cache;
mod routing;
mod sendfile_roots;
mod sent_file;
pub mod slice;
mod stored_asset;

pub use self::asset::{Asset, AssetOptions, Content};
pub use self::cache::{LookBegun, Lookup, StaticCache};
pub use self::relative_path::RelativePath;
pub use self::representation::{BodyPiece, Representation, represent};
pub use self::resolve::{DocumentRoot, FoundScript, Resolved, StaticFile, directory_location};
pub use self::route::{Candidate, route};
pub use self::route_cache::RouteCache;
pub use self::routing::{Routing, RoutingMode, SitePart};
pub use self::sendfile_roots::{FoundFile, SendfileRoots};
pub use self::sent_file::{kept, represent_sent};
pub use self::stored_asset::{StoredBody, represent_stored};
