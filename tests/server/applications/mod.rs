//! Real applications, installed and used as their users do.

mod cached;
mod documented;
mod dokuwiki;
mod octane;
mod octane_commands;
mod psr15;
