//! The environment of the process, which PHP and its child processes inherit.

/// Removes variables. Must be called on the main thread while no other thread runs.
pub fn remove(names: &[&str]) {
    for name in names {
        // SAFETY: no other thread runs that could read the environment.
        unsafe { std::env::remove_var(name) }
    }
}
