//! Loads a shared library.
//!
//! Links are followed once, and the checked file is the one that is loaded (`trust`). A library is never unloaded.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::bindings::{svc_host_api, svc_plugin};
use super::fault::PluginFault;
use super::trust::followed;

/// The type of `svc_plugin_entry()`.
pub(super) type PluginEntry = unsafe extern "C" fn(*const svc_host_api, *mut svc_plugin) -> i32;

/// Loads the library at `path`; returns its entry and its real path.
pub(super) fn load(path: &Path) -> Result<(PluginEntry, PathBuf), PluginFault> {
    let path = followed(path)?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| PluginFault::NotFound(String::new()))?;
    // SAFETY: runs the initialisers of a library chosen by the operator; no PHP runs on this thread.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(PluginFault::CannotLoad(last_error()));
    }
    // SAFETY: the handle is open, and is never closed.
    let symbol = unsafe { libc::dlsym(library, c"svc_plugin_entry".as_ptr()) };
    if symbol.is_null() {
        return Err(PluginFault::NoEntry);
    }
    // SAFETY: by contract, the symbol of this name is a function of this type.
    let entry = unsafe { std::mem::transmute::<*mut c_void, PluginEntry>(symbol) };
    Ok((entry, path))
}

fn last_error() -> String {
    // SAFETY: returns NULL or a text of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "for no given reason".to_owned();
    }
    // SAFETY: not NULL, ends with a NUL, and is valid until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
