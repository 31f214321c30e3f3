//! Worker mode: scripts that serve many requests.

mod bailouts;
mod bodies;
mod books;
mod compat;
mod completions;
mod connections;
mod depth;
mod directives;
mod docs;
mod errors;
#[cfg(feature = "async")]
mod event_loops;
mod extensions;
mod fibers;
mod flight;
mod frameworks;
#[cfg(feature = "async")]
mod garbage;
mod isolation;
#[cfg(feature = "async")]
mod left_fibers;
#[cfg(feature = "async")]
mod left_open;
mod life;
mod limits;
mod loading;
mod locks;
mod opcache;
mod pool;
mod recycle;
mod registered;
mod sessions;
mod stand_ins;
mod starting_point;
mod streams;
mod variables;
mod watches;
mod wedge;
mod wsdl;
