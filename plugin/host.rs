//! What svc offers at any time.

use std::ffi::c_void;
use std::fmt;
use std::str::FromStr;

use crate::Error;
use crate::abi::{self, svc_host_api, svc_text};

/// svc, as a plugin knows it. It can be copied, kept, and used on any thread.
#[derive(Clone, Copy)]
pub struct Host(&'static svc_host_api);

// SAFETY: by contract, what is reached through it (the log, settings) may be used on any thread, and it lives for ever.
unsafe impl Send for Host {}
// SAFETY: likewise.
unsafe impl Sync for Host {}

/// The level of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something deserves a look.
    Warn,
    /// Something has happened.
    Info,
    /// For developers.
    Debug,
}

impl Host {
    /// # Safety
    ///
    /// `api` was given by svc.
    pub(crate) unsafe fn of(api: *const svc_host_api) -> Option<Self> {
        // SAFETY: the caller's; it lives for ever.
        unsafe { api.as_ref() }.map(Self)
    }

    /// The version of svc.
    pub fn version(&self) -> String {
        // SAFETY: valid for ever.
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

    /// The setting `PLUGIN_<NAME>_<KEY>`, where `key` is written as in the environment; `None` if it is not set.
    ///
    /// # Errors
    ///
    /// If it is not UTF-8.
    pub fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        let mut value = svc_text::of(b"");
        // SAFETY: svc's own function and handle; both texts are valid for the call.
        let code = unsafe { (self.0.setting)(self.0.host, svc_text::of(key.as_bytes()), &raw mut value) };
        if code != abi::SVC_OK {
            return Ok(None);
        }
        // SAFETY: settings are valid for ever.
        let value = String::from_utf8(unsafe { value.bytes() }.to_vec());
        value.map(Some).map_err(|_| Error::new(format!("the setting {key} is not UTF-8")))
    }

    /// A setting as a number, or whatever else can be read from a text.
    ///
    /// # Errors
    ///
    /// If it is set and cannot be read.
    pub fn parsed_setting<T: FromStr>(&self, key: &str, otherwise: T) -> Result<T, Error>
    where
        T::Err: fmt::Display,
    {
        let Some(text) = self.setting(key)? else { return Ok(otherwise) };
        text.trim().parse().map_err(|error| Error::new(format!("the setting {key} is {text:?}: {error}")))
    }

    /// Says why a callback is about to fail.
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
