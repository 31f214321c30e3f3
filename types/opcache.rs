//! Readings of OPcache.

/// OPcache's report about its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpcacheMemory {
    /// Bytes in use.
    pub used_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of scripts that have been replaced; a restart frees them.
    pub wasted_bytes: u64,
    /// Scripts in the cache.
    pub scripts: u64,
    /// Script loads served from the cache, since its start or last restart.
    pub hits: u64,
    /// Script loads that missed the cache.
    pub misses: u64,
    /// Whether it takes no further scripts before a restart: an allocation has failed, or all keys are in use.
    pub is_full: bool,
}

/// The users of the cache, and whether it must restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpcacheFacts {
    /// Whether a restart is wanted: the cache is full, or a script has reset it.
    pub is_stale: bool,
    /// The number of workers that use it, including those that boot and those that drain.
    pub users: usize,
    /// Whether it has other users now: a request in classic mode, a worker that boots, or a task that was dispatched
    /// from it.
    pub is_occupied: bool,
}
