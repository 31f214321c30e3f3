//! The response cache: stores responses of scripts, and decides which requests they answer.
//!
//! A shared cache as defined by RFC 9111, in front of admission, with the extensions of RFC 5861 (stale responses), RFC
//! 8246 (`immutable`, which does not concern a shared cache), RFC 9211 (`Cache-Status`) and RFC 9213 (targeted fields).
//! Decisions are pure functions, or a state machine that gets the time as an argument. The only shared state is
//! [`ResponseCache`], whose locks are held for lookups and never while bytes are copied or freed. There is no socket;
//! the shells in `serve` send the result of a lookup, and report the end of a request to its [`Fill`].
//!
//! A *flight* is the reception of a response for the cache: one request *leads* it, and others *follow* it. A *fill* is
//! the flight as seen by the leader's worker. Requests *pass* if they run side by side because the response for their URL
//! is not stored.
//!
//! | file | in | out |
//! |---|---|---|
//! | `structured` | the text of a dictionary (RFC 9651) | its members |
//! | `directives` | the fields of a response | the directives for caches |
//! | `expiry` | `Expires`, other dates | a time, or none |
//! | `storable` | a response and its directives | permission to store it, or the rule that forbids it |
//! | `freshness` | a response, the time | its age and its permitted uses |
//! | `vary` | `Vary`, the fields of a request | equal bytes for requests that agree |
//! | `patterns`, `key` | a URL | the key of its responses |
//! | `tag` | `Cache-Tag`, `Surrogate-Key` | tags |
//! | `entry` | a complete response | what answers requests |
//! | `variants` | complete responses to one URL | the one for a request, and the memory of all |
//! | `partition` | requests, responses, purges | which requests are answered, run or wait |
//! | `recent_keys`, `purges` | | the recent past of a partition |
//! | `response_cache` | | all partitions, behind their locks |
//! | `fill` | the response of a script | a stored response, and released followers |
//! | `outcome` | | the outcome of a request, as spelled in the access log and the metrics |

mod directives;
mod entry;
mod expiry;
mod fill;
mod freshness;
mod key;
mod outcome;
mod partition;
mod patterns;
mod purges;
mod recent_keys;
mod response_cache;
mod storable;
mod structured;
mod tag;
mod variants;
mod vary;

pub use self::directives::Directives;
pub use self::entry::{EntryOptions, ReceivedResponse, StoredEntry};
pub use self::fill::{Fill, Replacement};
pub use self::freshness::{Freshness, FreshnessPolicy, ReceivedAt, Usability};
pub use self::key::{CacheKey, UrlParts, has_cookie, is_forged_by_clients, is_unkeyed};
pub use self::outcome::{CacheOutcome, EvictionReason, StaleReason};
pub use self::partition::{
    CacheLookup, ClientConditions, Following, Lead, Partition, Query, Remembered, Removed, StoreOutcome,
};
pub use self::patterns::NamePatterns;
pub use self::purges::Purge;
pub use self::response_cache::{CacheReading, CacheSettings, Follower, Release, ResponseCache};
pub use self::storable::{RequestTraits, Unstorable, check, is_heuristically_cacheable};
pub use self::structured::{MemberValue, dictionary};
pub use self::tag::CacheTag;
pub use self::vary::VaryNames;
