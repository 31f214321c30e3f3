//! PHP in other processes, through FastCGI.

mod processes;
mod responders;
