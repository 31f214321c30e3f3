//! A request of the main port that has ended.

use std::time::Duration;

use crate::abi::svc_request_facts;

/// The Rust type of a fact.
macro_rules! fact {
    (Text) => { &'a [u8] };
    (Status) => { u16 };
    (Count) => { u64 };
    (Time) => { Duration };
    (OptionalTime) => { Option<Duration> };
}

/// The value of a fact, read from the struct of svc.
macro_rules! read {
    (Text, $field:expr) => {
        // SAFETY: the texts are valid as long as the struct is.
        unsafe { $field.bytes() }
    };
    (Status, $field:expr) => {
        u16::try_from($field).unwrap_or_default()
    };
    (Count, $field:expr) => {
        $field
    };
    (Time, $field:expr) => {
        Duration::from_micros($field)
    };
    (OptionalTime, $field:expr) => {
        ($field != u64::MAX).then(|| Duration::from_micros($field))
    };
}

macro_rules! declare {
    ($($(#[$doc:meta])* $fact:ident: $kind:ident as $field:ident,)*) => {
        /// A request of the main port that has ended.
        #[derive(Clone, Copy, Debug)]
        pub struct RequestFacts<'a> {
            $($(#[$doc])* pub $fact: fact!($kind),)*
        }

        impl RequestFacts<'_> {
            /// # Safety
            ///
            /// `facts` was passed by svc, and stays valid while the result is used.
            pub(crate) unsafe fn of(facts: *const svc_request_facts) -> Self {
                // SAFETY: guaranteed by the caller.
                let facts = unsafe { *facts };
                Self { $($fact: read!($kind, facts.$field),)* }
            }
        }
    };
}

each_request_fact!(declare);
