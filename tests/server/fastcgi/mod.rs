//! PHP in other processes, through FastCGI.

#[cfg(all(feature = "async", feature = "trace"))]
mod areas;
mod fpm;
mod kills;
mod processes;
mod responders;
