//! The functions that a plugin may call at any time: log, settings, the reason of an error.
//!
//! They may be called on any thread, and catch panics. Memory that a plugin may keep pointers to (the functions, its
//! settings) is never freed. Settings are available once the plugin's name is known.

use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};

use svc_types::Level;

use super::answer;
use super::bindings::{
    self, SVC_FAILED, SVC_INVALID, SVC_NOT_FOUND, SVC_OK, SVC_PLUGIN_ABI, svc_host, svc_host_api, svc_text,
};
use super::text::{bytes, code, guarded, text_of};

/// Writes a record of the plugin with this name.
type PluginLog = Box<dyn Fn(&str, Level, &[u8]) + Send + Sync>;

/// Returns the settings of the plugin with this name.
type PluginSettings = Box<dyn Fn(&str) -> Vec<(String, Vec<u8>)> + Send + Sync>;

/// Services of the server for all plugins. Called on any thread; must not block.
pub struct PluginServices {
    /// Writes a log record of a plugin.
    pub log: PluginLog,
    /// Returns the settings of a plugin: keys and values.
    pub settings: PluginSettings,
}

/// The server as seen by one plugin; never freed.
pub(super) struct PluginHost {
    services: &'static PluginServices,
    identity: OnceLock<PluginIdentity>,
    /// The reason that the running callback has given for its failure.
    reason: Mutex<Option<String>>,
}

struct PluginIdentity {
    name: String,
    /// The settings; values end with a NUL.
    settings: Vec<(String, Vec<u8>)>,
}

impl PluginHost {
    /// Creates the host of a plugin, and its table of functions.
    pub(super) fn leak(services: &'static PluginServices) -> (&'static Self, &'static svc_host_api) {
        let host: &'static Self =
            Box::leak(Box::new(Self { services, identity: OnceLock::new(), reason: Mutex::new(None) }));
        let api = svc_host_api {
            size: size_of::<svc_host_api>(),
            abi: SVC_PLUGIN_ABI,
            reserved: 0,
            version: text_of(env!("CARGO_PKG_VERSION").as_bytes()),
            host: std::ptr::from_ref(host).cast_mut().cast(),
            log: Some(log),
            setting: Some(setting),
            explain: Some(explain),
            answer_health: Some(answer::answer_health),
            answer_config: Some(answer::answer_config),
            answer_page: Some(answer::answer_page),
            add_family: Some(answer::add_family),
            add_sample: Some(answer::add_sample),
        };
        let api: &'static svc_host_api = Box::leak(Box::new(api));
        let kept = (std::ptr::from_ref(host).addr(), std::ptr::from_ref(api).addr());
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(kept);
        (host, api)
    }

    /// Records the name of the plugin, and fetches its settings.
    pub(super) fn identify(&self, name: &str) {
        let mut settings = (self.services.settings)(name);
        settings.iter_mut().for_each(|(_, value)| value.push(0));
        // Set once: a plugin has one entry, and so one name.
        let _ = self.identity.set(PluginIdentity { name: name.to_owned(), settings });
    }

    /// Takes the reason of the error just returned, if one was given.
    pub(super) fn take_reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Discards the reason of an earlier callback.
    pub(super) fn forget_reason(&self) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Keeps the addresses of hosts, so that leak checkers do not report them.
static KEPT: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// The maximum length of a record, a key and a reason; longer records and reasons are truncated, longer keys not found.
const TEXT_BYTES_MAX: usize = 8 * 1024;

unsafe extern "C" fn log(host: *mut svc_host, level: i32, message: svc_text) {
    guarded((), || {
        // SAFETY: `host` is the one that the plugin was given, or NULL.
        let Some(host) = (unsafe { host_of(host) }) else { return };
        // SAFETY: by contract, the text is valid for this call.
        let Ok(message) = (unsafe { bytes(&message, usize::MAX) }) else { return };
        let level = match level.try_into() {
            Ok(bindings::SVC_LOG_ERROR) => Level::Error,
            Ok(bindings::SVC_LOG_WARN) => Level::Warn,
            Ok(bindings::SVC_LOG_DEBUG) => Level::Debug,
            _ => Level::Info,
        };
        let name = host.identity.get().map_or("", |identity| identity.name.as_str());
        (host.services.log)(name, level, &message[..message.len().min(TEXT_BYTES_MAX)]);
    });
}

unsafe extern "C" fn setting(host: *mut svc_host, key: svc_text, value: *mut svc_text) -> i32 {
    guarded(code(SVC_FAILED), || {
        // SAFETY: `host` is the one that the plugin was given, or NULL.
        let Some(host) = (unsafe { host_of(host) }) else { return code(SVC_INVALID) };
        // SAFETY: by contract, the text is valid for this call.
        let key = match unsafe { bytes(&key, TEXT_BYTES_MAX) } {
            Ok(key) => key,
            Err(refusal) => return refusal,
        };
        if value.is_null() {
            return code(SVC_INVALID);
        }
        let settings = host.identity.get().map_or(&[][..], |identity| &identity.settings);
        let Some((_, found)) = settings.iter().find(|(name, _)| name.as_bytes() == key) else {
            return code(SVC_NOT_FOUND);
        };
        // SAFETY: not NULL, and by contract an out parameter of the plugin.
        unsafe { *value = text_of(&found[..found.len() - 1]) };
        code(SVC_OK)
    })
}

unsafe extern "C" fn explain(host: *mut svc_host, reason: svc_text) {
    guarded((), || {
        // SAFETY: `host` is the one that the plugin was given, or NULL.
        let Some(host) = (unsafe { host_of(host) }) else { return };
        // SAFETY: by contract, the text is valid for this call.
        let Ok(reason) = (unsafe { bytes(&reason, usize::MAX) }) else { return };
        let reason = String::from_utf8_lossy(&reason[..reason.len().min(TEXT_BYTES_MAX)]).into_owned();
        *host.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    });
}

/// # Safety
///
/// `host` is NULL, or was made by [`PluginHost::leak`].
unsafe fn host_of(host: *mut svc_host) -> Option<&'static PluginHost> {
    // SAFETY: it lives forever and is only read.
    unsafe { host.cast::<c_void>().cast_const().cast::<PluginHost>().as_ref() }
}
