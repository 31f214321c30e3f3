//! The environment of the process, which PHP and the programs that it starts inherit.

/// Removes variables. Called first, on the main thread, while no other thread runs.
pub fn remove(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread runs, so that nobody reads the environment meanwhile.
        unsafe { std::env::remove_var(name) }
    }
}
