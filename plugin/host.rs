//! The functions that svc offers at any time.

use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::abi::{self, svc_host_api, svc_text};

/// A handle of svc. It can be copied, kept, and used on any thread.
#[derive(Clone, Copy)]
pub struct Host(&'static svc_host_api);

// SAFETY: by contract, its functions (the log, settings) may be called on any thread, and it is never freed.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

/// The level of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A failure.
    Error,
    /// A condition that deserves attention.
    Warn,
    /// A normal event.
    Info,
    /// For developers.
    Debug,
}

impl Host {
    /// # Safety
    ///
    /// `api` was passed by svc.
    pub(crate) unsafe fn of(api: *const svc_host_api) -> Option<Self> {
        // SAFETY: guaranteed by the caller; svc never frees it.
        unsafe { api.as_ref() }.map(Self)
    }

    /// Returns the version of svc.
    pub fn version(&self) -> String {
        // SAFETY: svc never frees the text.
        String::from_utf8_lossy(unsafe { self.0.version.bytes() }).into_owned()
    }

    /// Writes a record to svc's log. Never waits.
    pub fn log(&self, level: Level, message: impl fmt::Display) {
        let level = match level {
            Level::Error => abi::SVC_LOG_ERROR,
            Level::Warn => abi::SVC_LOG_WARN,
            Level::Info => abi::SVC_LOG_INFO,
            Level::Debug => abi::SVC_LOG_DEBUG,
        };
        let message = message.to_string();
        // SAFETY: svc's own function and handle; the text is valid for the call.
        unsafe { (self.0.log)(self.0.host, level, svc_text::of(message.as_bytes())) };
    }

    /// Returns the setting `PLUGIN_<NAME>_<KEY>`, where `key` is written as in the environment; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// If the value is not UTF-8.
    pub fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        let mut value = svc_text::of(b"");
        // SAFETY: svc's own function and handle; both texts are valid for the call.
        let code = unsafe { (self.0.setting)(self.0.host, svc_text::of(key.as_bytes()), &raw mut value) };
        if code != abi::SVC_OK {
            return Ok(None);
        }
        // SAFETY: svc never frees settings.
        let value = String::from_utf8(unsafe { value.bytes() }.to_vec());
        value.map(Some).map_err(|_| Error::new(format!("the setting {key} is not UTF-8")))
    }

    /// Returns a setting as a number, or as another type that can be parsed; `otherwise` if it is not set.
    ///
    /// # Errors
    ///
    /// If the setting cannot be parsed.
    pub fn parsed_setting<T: FromStr>(&self, key: &str, otherwise: T) -> Result<T, Error>
    where
        T::Err: fmt::Display,
    {
        let Some(text) = self.setting(key)? else { return Ok(otherwise) };
        text.trim().parse().map_err(|error| Error::new(format!("the setting {key} is {text:?}: {error}")))
    }

    /// Explains to svc why a callback is about to fail.
    pub(crate) fn explain(&self, reason: &str) {
        // SAFETY: svc's own function and handle; the text is valid for the call.
        unsafe { (self.0.explain)(self.0.host, svc_text::of(reason.as_bytes())) };
    }

    pub(crate) fn api(&self) -> &'static svc_host_api {
        self.0
    }

    /// Answers a callback; `answer` is the handle that svc has passed to it.
    pub(crate) fn answer_health(&self, answer: *mut c_void, status: i32, text: &str) -> i32 {
        // SAFETY: svc's own function, in the callback that it has passed the handle to.
        unsafe { (self.0.answer_health)(answer, status, svc_text::of(text.as_bytes())) }
    }

    pub(crate) fn answer_config(&self, answer: *mut c_void, json: &str) -> i32 {
        // SAFETY: as above.
        unsafe { (self.0.answer_config)(answer, svc_text::of(json.as_bytes())) }
    }

    pub(crate) fn answer_page(&self, answer: *mut c_void, status: u16, kind: &str, body: &[u8]) -> i32 {
        let (kind, body) = (svc_text::of(kind.as_bytes()), svc_text::of(body));
        // SAFETY: as above.
        unsafe { (self.0.answer_page)(answer, status.into(), kind, body) }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.version()).finish()
    }
}
