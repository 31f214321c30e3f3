//! Plugins: shared libraries compiled by third parties.
//!
//! `include/svc_plugin.h` is the contract; this module loads plugins, calls them, and implements the functions that
//! they call.
//!
//! A library is loaded only if no other user could have written it. Values from a plugin are checked as far as possible
//! (sizes of structs, NULL, lengths against their limits) and copied. A panic in a function called by a plugin never
//! crosses into it. The meaning of answers is not known here. A plugin that passes an invalid pointer, or crashes, ends
//! the process.
//!
//! | file | content |
//! |---|---|
//! | `library` | loads a shared library |
//! | `trust` | resolves a path that no other user can change |
//! | `fault` | why a plugin cannot be used |
//! | `text` | texts and codes at the border |
//! | `plugin_host` | the functions that a plugin may call at any time |
//! | `answer` | the destinations of callbacks' answers |
//! | `loaded` | a loaded plugin |

mod answer;
mod fault;
mod library;
mod loaded;
mod plugin_host;
mod text;
mod trust;

pub use fault::PluginFault;
pub use loaded::LoadedPlugin;
pub use plugin_host::PluginServices;

#[expect(
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    dead_code,
    non_camel_case_types,
    unreachable_pub,
    reason = "made by bindgen from include/svc_plugin.h, which documents it"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/svc_plugin.rs"));
}
