//! Outcomes of the cache, as spelled in the access log and in the metrics.

/// The outcome of the cache for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheOutcome {
    /// A fresh response answered it.
    Hit,
    /// Its script ran.
    Miss,
    /// A stale response answered it.
    Stale,
    /// A stale response answered it after its script had confirmed it.
    Revalidated,
    /// The cache was bypassed because of the method, the body, a cookie or another field of the request.
    Bypass,
    /// The response to another request that was under way answered it.
    Collapsed,
}

impl CacheOutcome {
    /// Every outcome, in the order of the exposition.
    pub const ALL: [Self; 6] =
        [Self::Hit, Self::Miss, Self::Stale, Self::Revalidated, Self::Bypass, Self::Collapsed];

    /// Returns the outcome's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Stale => "stale",
            Self::Revalidated => "revalidated",
            Self::Bypass => "bypass",
            Self::Collapsed => "collapsed",
        }
    }
}

/// Why a stale response was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// The request would have been refused.
    Overload,
    /// Its script failed.
    Error,
    /// A new response was being received (`stale-while-revalidate`).
    Revalidate,
}

impl StaleReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::Overload, Self::Error, Self::Revalidate];

    /// Returns the reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Error => "error",
            Self::Revalidate => "revalidate",
        }
    }
}

/// Why a stored response was removed although no purge named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    /// Others needed the memory.
    Memory,
    /// There were too many responses to its URL.
    Variants,
}

impl EvictionReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 2] = [Self::Memory, Self::Variants];

    /// Returns the reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Variants => "variants",
        }
    }
}
