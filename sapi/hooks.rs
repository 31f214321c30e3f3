//! Maps runtime hooks between settings, metrics and the interpreter.

use svc_core::config::RuntimeHook;
use svc_core::observe::{HookObstacle, Metrics};

use svc_ffi::{Hook, Obstacle};

/// Converts the hooks of the settings to those of the interpreter.
pub(crate) fn chosen(hooks: &[RuntimeHook]) -> Vec<Hook> {
    let hook = |hook: &RuntimeHook| match hook {
        RuntimeHook::Sleep => Hook::Sleep,
        RuntimeHook::Net => Hook::Net,
        RuntimeHook::Dns => Hook::Dns,
        RuntimeHook::Process => Hook::Process,
    };
    hooks.iter().map(hook).collect()
}

/// Counts a call that blocked its thread despite its hook.
pub(crate) fn count(metrics: &Metrics, hook: Hook, obstacle: Obstacle) {
    let hook = match hook {
        Hook::Sleep => RuntimeHook::Sleep,
        Hook::Net => RuntimeHook::Net,
        Hook::Dns => RuntimeHook::Dns,
        Hook::Process => RuntimeHook::Process,
    };
    let obstacle = match obstacle {
        Obstacle::Switch => HookObstacle::Switch,
        Obstacle::Loading => HookObstacle::Loading,
        Obstacle::Collecting => HookObstacle::Collecting,
        Obstacle::Output => HookObstacle::Output,
        Obstacle::Marks => HookObstacle::Marks,
        Obstacle::Memory => HookObstacle::Memory,
        Obstacle::Helpers => HookObstacle::Helpers,
    };
    metrics.hook_blocked.incr(hook, obstacle);
}
