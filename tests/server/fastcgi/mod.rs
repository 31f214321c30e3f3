//! PHP in other processes, through FastCGI.

#[cfg(feature = "php")]
mod areas;
mod fpm;
mod kills;
mod processes;
mod responders;
