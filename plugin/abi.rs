//! `include/svc_plugin.h`, in Rust. A test compares the two.

use std::ffi::{c_char, c_void};

pub use crate::callbacks::svc_plugin;

pub const SVC_PLUGIN_ABI: u32 = 1;

pub const SVC_OK: i32 = 0;
pub const SVC_FAILED: i32 = 1;
pub const SVC_INVALID: i32 = 2;
pub const SVC_TOO_LARGE: i32 = 3;
pub const SVC_DUPLICATE: i32 = 4;
pub const SVC_NOT_NOW: i32 = 5;

pub const SVC_HEALTH_OK: i32 = 0;
pub const SVC_HEALTH_DEGRADED: i32 = 1;
pub const SVC_HEALTH_FAILED: i32 = 2;

pub const SVC_LOG_ERROR: i32 = 0;
pub const SVC_LOG_WARN: i32 = 1;
pub const SVC_LOG_INFO: i32 = 2;
pub const SVC_LOG_DEBUG: i32 = 3;

pub const SVC_COUNTER: i32 = 0;
pub const SVC_GAUGE: i32 = 1;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct svc_text {
    pub data: *const c_char,
    pub size: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct svc_label {
    pub name: svc_text,
    pub value: svc_text,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct svc_host_api {
    pub size: usize,
    pub abi: u32,
    pub reserved: u32,
    pub version: svc_text,
    pub host: *mut c_void,
    pub log: unsafe extern "C" fn(*mut c_void, i32, svc_text),
    pub setting: unsafe extern "C" fn(*mut c_void, svc_text, *mut svc_text) -> i32,
    pub explain: unsafe extern "C" fn(*mut c_void, svc_text),
    pub answer_health: unsafe extern "C" fn(*mut c_void, i32, svc_text) -> i32,
    pub answer_config: unsafe extern "C" fn(*mut c_void, svc_text) -> i32,
    pub answer_page: unsafe extern "C" fn(*mut c_void, i32, svc_text, svc_text) -> i32,
    pub add_family: unsafe extern "C" fn(*mut c_void, i32, svc_text, svc_text) -> i32,
    pub add_sample: unsafe extern "C" fn(*mut c_void, *const svc_label, usize, f64) -> i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct svc_page_request {
    pub size: usize,
    pub path: svc_text,
    pub query: svc_text,
}

/// The C type of a fact.
macro_rules! fact {
    (Text) => {
        svc_text
    };
    // A reserved field of the header is where this struct is padded.
    (Status) => {
        i32
    };
    ($number:ident) => {
        u64
    };
}

macro_rules! declare {
    ($($(#[$doc:meta])* $fact:ident: $kind:ident as $field:ident,)*) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct svc_request_facts {
            pub size: usize,
            $(pub $field: fact!($kind),)*
        }
    };
}

each_request_fact!(declare);

impl svc_text {
    /// Wraps bytes; the text is valid as long as they are.
    pub fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len() }
    }

    /// Returns the bytes of a text of svc.
    ///
    /// # Safety
    ///
    /// The text is valid for `'a`.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: guaranteed by the caller; a text that is not empty has a pointer.
        unsafe { std::slice::from_raw_parts(self.data.cast(), self.size) }
    }
}
