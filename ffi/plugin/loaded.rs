//! A loaded plugin.
//!
//! Callbacks run one at a time, on any thread. A callback that the plugin lacks is an error.

use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::time::Duration;

use svc_types::{
    ConfigSink, HealthReport, MetricSink, PageSink, Plugin, PluginAbout, PluginCall, PluginCallbacks,
    RequestFacts, each_plugin_callback, each_request_fact,
};

use super::answer::{AnswerHandle, AnswerSink, AnswerSlot, expecting};
use super::bindings::{SVC_OK, SVC_PLUGIN_ABI, svc_page_request, svc_plugin, svc_request_facts};
use super::fault::PluginFault;
use super::library::load;
use super::plugin_host::{PluginHost, PluginServices};
use super::text::{bytes, code, text_of};

/// A plugin whose entry was called.
pub struct LoadedPlugin {
    /// The plugin's struct; callbacks that it lacks, and fields that its header lacks, are zero.
    raw: svc_plugin,
    host: &'static PluginHost,
    name: String,
    version: String,
    path: PathBuf,
}

// SAFETY: the callbacks may be called on any thread, one at a time, which `&mut self` ensures; no data of the loading
// thread is borrowed.
unsafe impl Send for LoadedPlugin {}

/// The space for a plugin's struct, which is larger if the plugin was compiled with a newer header.
const STRUCT_ROOM: usize = 4096;

/// The size of the struct in the first header of this contract version. It never changes.
pub(super) const STRUCT_SIZE_FIRST: usize = 120;

/// The maximum length of a plugin's version.
const VERSION_BYTES_MAX: usize = 256;

/// Space for the struct of a plugin.
#[repr(C)]
union StructRoom {
    known: svc_plugin,
    room: [u64; STRUCT_ROOM / size_of::<u64>()],
}

const _: () = assert!(size_of::<svc_plugin>() <= STRUCT_ROOM && size_of::<svc_plugin>() >= STRUCT_SIZE_FIRST);

impl LoadedPlugin {
    /// Loads the library at `path` and calls its entry. With `name`, the plugin must have this name.
    ///
    /// # Errors
    ///
    /// If the plugin cannot be used; the library stays loaded.
    pub fn load(
        path: &Path,
        name: Option<&str>,
        services: &'static PluginServices,
    ) -> Result<Self, PluginFault> {
        let (entry, path) = load(path)?;
        let (host, api) = PluginHost::leak(services);
        let mut room = StructRoom { room: [0; STRUCT_ROOM / size_of::<u64>()] };
        // SAFETY: by contract, the entry fills the struct; both arguments are valid, the first one forever.
        let result = unsafe { entry(api, &raw mut room.known) };
        // SAFETY: every bit pattern is one of the integers and the nullable pointers of the struct.
        let mut raw = unsafe { room.known };
        let has_failed = result != code(SVC_OK);
        // An entry that fails early has not set its version.
        if raw.abi != SVC_PLUGIN_ABI && !(has_failed && raw.abi == 0) {
            return Err(PluginFault::WrongAbi { found: raw.abi, wanted: SVC_PLUGIN_ABI });
        }
        if has_failed {
            return Err(PluginFault::Entry(host.take_reason().unwrap_or_else(unexplained)));
        }
        if raw.size < STRUCT_SIZE_FIRST {
            return Err(PluginFault::TooSmall { size: raw.size, wanted: STRUCT_SIZE_FIRST });
        }
        raw = truncated(raw);
        // SAFETY: by contract, the texts stay valid after the entry has returned, until now.
        let own = unsafe { text(&raw.name, NAME_BYTES_MAX) }
            .ok_or(PluginFault::Text("name: wanted [a-z][a-z0-9_]*"))?;
        // SAFETY: likewise.
        let version = unsafe { text(&raw.version, VERSION_BYTES_MAX) }
            .ok_or(PluginFault::Text("version: wanted 1 to 256 bytes of UTF-8"))?;
        if name.is_some_and(|name| name != own) {
            return Err(PluginFault::OtherName(own));
        }
        Ok(Self { raw, host, name: own, version, path })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the loaded file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls a callback whose answer goes to `sink`; returns why its last answer was rejected, if it was.
    fn asked(
        &mut self,
        sink: AnswerSink<'_>,
        callback: impl FnOnce(*mut c_void, AnswerHandle) -> i32,
    ) -> Result<Option<String>, String> {
        let mut slot = AnswerSlot::new(sink);
        let result = expecting(&mut slot, |answer| self.try_call(|state| callback(state, answer)));
        let refused = slot.refused();
        match result {
            Ok(()) => Ok(refused),
            // Many plugins return the error that svc returned to them.
            Err(reason) => Err(reason.or(refused).unwrap_or_else(unexplained)),
        }
    }

    /// Calls a callback; turns an error into its reason.
    fn called(&mut self, callback: impl FnOnce(*mut c_void) -> i32) -> Result<(), String> {
        self.try_call(callback).map_err(|reason| reason.unwrap_or_else(unexplained))
    }

    /// Calls a callback; returns the reason of an error, if the plugin has given one.
    fn try_call(&mut self, callback: impl FnOnce(*mut c_void) -> i32) -> Result<(), Option<String>> {
        self.host.forget_reason();
        if callback(self.raw.state) == code(SVC_OK) { Ok(()) } else { Err(self.host.take_reason()) }
    }
}

impl Plugin for LoadedPlugin {
    fn about(&self) -> PluginAbout {
        PluginAbout {
            name: self.name.clone(),
            version: self.version.clone(),
            path: self.path.to_string_lossy().into_owned(),
            callbacks: offered(&self.raw),
        }
    }

    fn init(&mut self) -> Result<(), String> {
        self.host.identify(&self.name);
        let Some(init) = self.raw.init else { return Ok(()) };
        // SAFETY: the plugin's own callback and state.
        self.called(|state| unsafe { init(state) })
    }

    fn start(&mut self) -> Result<(), String> {
        let Some(start) = self.raw.start else { return Ok(()) };
        // SAFETY: the plugin's own callback and state.
        self.called(|state| unsafe { start(state) })
    }

    fn health(&mut self) -> Result<HealthReport, String> {
        let health = self.raw.health.ok_or_else(missing)?;
        let mut taken = None;
        let sink = AnswerSink::Health(&mut taken);
        // SAFETY: the callback belongs to this plugin, `state` is its own, and the answer outlives the call.
        let refused = self.asked(sink, |state, answer| unsafe { health(state, answer.as_raw()) })?;
        taken.ok_or_else(|| unanswered(refused))
    }

    fn metrics(&mut self, metrics: &mut dyn MetricSink) -> Result<(), String> {
        let callback = self.raw.metrics.ok_or_else(missing)?;
        // SAFETY: the callback belongs to this plugin, `state` is its own, and the answer outlives the call.
        self.asked(AnswerSink::Metrics(metrics), |state, answer| unsafe { callback(state, answer.as_raw()) })
            .map(drop)
    }

    fn config(&mut self, report: &mut ConfigSink<'_>) -> Result<(), String> {
        let config = self.raw.config.ok_or_else(missing)?;
        let mut is_answered = false;
        let mut take = |json: &[u8]| report(json).inspect(|()| is_answered = true);
        let sink = AnswerSink::Config(&mut take);
        // SAFETY: the callback belongs to this plugin, `state` is its own, and the answer outlives the call.
        let refused = self.asked(sink, |state, answer| unsafe { config(state, answer.as_raw()) })?;
        if is_answered { Ok(()) } else { Err(unanswered(refused)) }
    }

    fn serve(&mut self, path: &[u8], query: &[u8], page: &mut PageSink<'_>) -> Result<(), String> {
        let serve = self.raw.serve.ok_or_else(missing)?;
        let mut is_answered = false;
        let mut take = |status: i32, content_type: &[u8], body: &[u8]| {
            page(status, content_type, body).inspect(|()| is_answered = true)
        };
        let request = svc_page_request {
            size: size_of::<svc_page_request>(),
            path: text_of(path),
            query: text_of(query),
        };
        let sink = AnswerSink::Page(&mut take);
        // SAFETY: the plugin's own callback and state, a request that is valid for the call, and a handle of its
        // answer.
        let refused =
            self.asked(sink, |state, answer| unsafe { serve(state, &raw const request, answer.as_raw()) })?;
        if is_answered { Ok(()) } else { Err(unanswered(refused)) }
    }

    fn request_ended(&mut self, facts: &RequestFacts) -> Result<(), String> {
        let request_ended = self.raw.request_ended.ok_or_else(missing)?;
        let facts = raw_facts(facts);
        // SAFETY: the plugin's own callback and state; the facts are valid for the call.
        self.called(|state| unsafe { request_ended(state, &raw const facts) })
    }

    fn stop(&mut self) {
        let Some(stop) = self.raw.stop else { return };
        // SAFETY: the plugin's own callback and state.
        unsafe { stop(self.raw.state) };
    }
}

impl std::fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LoadedPlugin")
            .field("name", &self.name)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// The maximum length of a name that is read.
const NAME_BYTES_MAX: usize = 256;

/// `SVC_UNKNOWN` in the header.
const UNKNOWN: u64 = u64::MAX;

/// Clears the fields beyond the size given by the plugin, whose header lacks them.
fn truncated(mut plugin: svc_plugin) -> svc_plugin {
    let size = size_of::<svc_plugin>();
    // A partial field is cleared as well.
    let kept = plugin.size.min(size) / align_of::<svc_plugin>() * align_of::<svc_plugin>();
    // SAFETY: `kept` is within the struct.
    let rest = unsafe { (&raw mut plugin).cast::<u8>().add(kept) };
    // SAFETY: `size - kept` bytes follow `kept`; zero is valid for every field.
    unsafe { rest.write_bytes(0, size - kept) };
    plugin
}

/// Returns the callbacks that a plugin has.
fn offered(raw: &svc_plugin) -> PluginCallbacks {
    macro_rules! collect {
        ($($field:ident $call:ident,)*) => {
            [$(raw.$field.map(|_| PluginCall::$call)),*].into_iter().flatten().collect()
        };
    }
    each_plugin_callback!(collect)
}

/// Describes a request for a plugin; the texts are valid as long as `facts`.
fn raw_facts(facts: &RequestFacts) -> svc_request_facts {
    macro_rules! raw {
        (Text, $fact:expr) => {
            text_of(&$fact)
        };
        (Status, $fact:expr) => {
            $fact.into()
        };
        (Count, $fact:expr) => {
            $fact
        };
        (Time, $fact:expr) => {
            micros($fact)
        };
        (OptionalTime, $fact:expr) => {
            $fact.map_or(UNKNOWN, micros)
        };
    }
    macro_rules! fill {
        ($($(#[$doc:meta])* $fact:ident: $kind:ident as $field:ident,)*) => {
            svc_request_facts {
                size: size_of::<svc_request_facts>(),
                reserved: 0,
                $($field: raw!($kind, facts.$fact),)*
            }
        };
    }
    each_request_fact!(fill)
}

/// Returns a text that is not empty and valid UTF-8.
///
/// # Safety
///
/// As for [`bytes`].
unsafe fn text(text: &super::bindings::svc_text, max: usize) -> Option<String> {
    // SAFETY: as the caller promises.
    let bytes = unsafe { bytes(text, max) }.ok()?;
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn missing() -> String {
    "there is no such callback".to_owned()
}

fn unanswered(refused: Option<String>) -> String {
    let what = "it returned without an answer";
    refused.map_or_else(|| what.to_owned(), |why| format!("{what}: {why}"))
}

fn unexplained() -> String {
    "no reason was given".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_beyond_the_size_are_dropped() {
        // SAFETY: all integers and nullable pointers.
        let mut plugin: svc_plugin = unsafe { std::mem::zeroed() };
        unsafe extern "C" fn ended(_: *mut c_void, _: *const svc_request_facts) -> i32 {
            0
        }
        plugin.size = size_of::<svc_plugin>();
        plugin.request_ended = Some(ended);
        assert!(truncated(plugin).request_ended.is_some());
        plugin.size = size_of::<svc_plugin>() - 1;
        assert!(truncated(plugin).request_ended.is_none());
        plugin.size = usize::MAX;
        assert!(truncated(plugin).request_ended.is_some());
    }
}
