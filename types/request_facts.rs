//! A request that has ended, as plugins see it.

use std::time::Duration;

/// The table of facts is a file of the crate for plugins, which depends on nothing.
#[macro_use]
#[path = "../plugin/request_facts_table.rs"]
mod table;

/// The Rust type of a fact.
macro_rules! fact {
    (Text) => { Vec<u8> };
    (Status) => { u16 };
    (Count) => { u64 };
    (Time) => { Duration };
    (OptionalTime) => { Option<Duration> };
}

macro_rules! declare {
    ($($(#[$doc:meta])* $fact:ident: $kind:ident as $field:ident,)*) => {
        /// A request that has ended.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct RequestFacts {
            $($(#[$doc])* pub $fact: fact!($kind),)*
        }
    };
}

each_request_fact!(declare);
