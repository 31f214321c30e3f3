//! The numbers of hooks and obstacles in `c/shim.h`.

use svc_types::{HookObstacle, RuntimeHook};

use crate::bindings::{shim_hook, shim_obstacle};

/// Returns the bits of `shim_options.hooks`.
pub(crate) fn bits(hooks: &[RuntimeHook]) -> u32 {
    hooks.iter().fold(0, |bits, hook| bits | 1 << *hook as u32)
}

/// Returns the hook with a number of C.
pub(crate) fn hook_of(raw: shim_hook) -> Option<RuntimeHook> {
    RuntimeHook::ALL.get(raw as usize).copied()
}

/// Returns the obstacle with a number of C; 0 stands for none.
pub(crate) fn obstacle_of(raw: shim_obstacle) -> Option<HookObstacle> {
    HookObstacle::ALL.get((raw as usize).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the enumerators that begin with `prefix` in the order of the header, in the spelling of variants.
    fn enumerators(prefix: &str) -> Vec<String> {
        let header = include_str!("../c/shim.h");
        let lines = header.lines().filter_map(|line| line.trim().strip_prefix(prefix));
        let names = lines.map(|line| line.split([' ', ',']).next().unwrap_or_default().to_lowercase());
        names.collect()
    }

    #[test]
    fn hooks_and_obstacles_have_the_order_of_the_header() {
        assert_eq!(
            enumerators("SHIM_HOOK_"),
            RuntimeHook::ALL.map(|hook| format!("{hook:?}").to_lowercase())
        );
        let obstacles = HookObstacle::ALL.map(|obstacle| format!("{obstacle:?}").to_lowercase());
        assert_eq!(enumerators("SHIM_OBSTACLE_"), obstacles);
        assert_eq!((obstacle_of(0), obstacle_of(1)), (None, Some(HookObstacle::Switch)));
        assert_eq!((hook_of(0), hook_of(RuntimeHook::ALL.len() as u32)), (Some(RuntimeHook::Sleep), None));
        assert_eq!(bits(&[RuntimeHook::Sleep, RuntimeHook::Dns]), 0b101);
    }
}
