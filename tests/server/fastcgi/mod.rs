//! PHP in other processes, through FastCGI.

mod fpm;
mod kills;
mod processes;
mod responders;
