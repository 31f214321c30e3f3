//! The number of calls that a server makes to a function of libc.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::c;

/// A library that is preloaded into a server, and counts.
#[derive(Debug)]
pub struct CountedCalls {
    folder: TempDir,
}

impl CountedCalls {
    /// Counts the calls of `poll()`.
    pub fn of_poll() -> Self {
        Self::of(
            "int poll(struct pollfd *list, nfds_t length, int time_ms) { count_call(); \
             return ((int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, \"poll\"))(list, length, time_ms); }",
        )
    }

    /// Counts the calls of `dladdr()`.
    pub fn of_dladdr() -> Self {
        Self::of(
            "int dladdr(const void *address, Dl_info *info) { count_call(); \
             return ((int (*)(const void *, Dl_info *))dlsym(RTLD_NEXT, \"dladdr\"))(address, info); }",
        )
    }

    fn of(function: &str) -> Self {
        let counted = Self { folder: tempfile::tempdir().unwrap() };
        let define = format!("#define _GNU_SOURCE\n#define COUNT \"{}\"\n", counted.path("count").display());
        let source = [&define, include_str!("../tests/php/counted_calls.c"), function, "\n"].concat();
        c::library(&source, &counted.path("counted_calls.so"));
        counted
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the value of `LD_PRELOAD` for the server.
    pub fn preload(&self) -> String {
        self.path("counted_calls.so").into_os_string().into_string().unwrap()
    }

    /// Returns the number of calls since the server started.
    pub fn count(&self) -> u64 {
        let bytes = std::fs::read(self.path("count")).unwrap();
        u64::from_ne_bytes(bytes.try_into().unwrap())
    }
}
