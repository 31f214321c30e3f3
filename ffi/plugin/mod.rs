//! Plugins: shared libraries that somebody else has compiled.
//!
//! Why: `include/svc_plugin.h` is the contract; the types here load what follows it, call it, and let it call back.
//!
//! Promises: a library is loaded only if nobody else could have written it; whatever a plugin passes in is checked as far
//! as it can be (sizes of structs, NULL, lengths against their bounds) and copied; a panic in a function that a plugin
//! calls never reaches it. Refuses: what the answers mean is not known here. A plugin that passes a wrong pointer, or
//! crashes, takes the process with it.
//!
//! | file | noun |
//! |---|---|
//! | `library` | a file on its way into the process |
//! | `trust` | the way to the file, and who could change it |
//! | `fault` | why it is not used |
//! | `text` | texts and codes at the border |
//! | `plugin_host` | what a plugin may call at any time |
//! | `answer` | where its callbacks put their answers |
//! | `loaded` | a plugin that can be called |

mod answer;
mod fault;
mod library;
mod loaded;
mod plugin_host;
mod text;
mod trust;

pub use answer::{AnswerFault, HealthAnswer, HealthStatus, MetricSink, MetricType, SinkRefusal};
pub use fault::PluginFault;
pub use loaded::{EndedRequest, LoadedPlugin};
pub use plugin_host::{PluginLevel, PluginServices};

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
