//! Real applications, installed and used as their users do.

mod cached;
mod documented;
mod dokuwiki;
mod octane;
mod psr15;
