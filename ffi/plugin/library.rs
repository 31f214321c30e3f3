//! A file on its way into the process.
//!
//! Promises: links are followed once, and what is checked is what is loaded: neither the file nor its directory is
//! writable by others, so that nobody can change that in between. Refuses: a library never leaves the process again.

use std::ffi::{CStr, CString, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::bindings::{svc_host_api, svc_plugin};
use super::fault::PluginFault;

/// What a plugin exports.
pub(super) type PluginEntry = unsafe extern "C" fn(*const svc_host_api, *mut svc_plugin) -> i32;

/// Loads the library at `path`; returns its entry and where it really is.
pub(super) fn load(path: &Path) -> Result<(PluginEntry, PathBuf), PluginFault> {
    let path = checked(path)?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| PluginFault::NotFound(String::new()))?;
    // SAFETY: runs the initialisers of a library that the operator has named; nothing of PHP runs on this thread.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(PluginFault::CannotLoad(last_error()));
    }
    // SAFETY: the handle is open, and is never closed.
    let symbol = unsafe { libc::dlsym(library, c"svc_plugin_entry".as_ptr()) };
    if symbol.is_null() {
        return Err(PluginFault::NoEntry);
    }
    // SAFETY: by contract, what has this name is a function of this type.
    let entry = unsafe { std::mem::transmute::<*mut c_void, PluginEntry>(symbol) };
    Ok((entry, path))
}

/// Follows links, and checks who may write there.
fn checked(path: &Path) -> Result<PathBuf, PluginFault> {
    let not_found = |error: std::io::Error| PluginFault::NotFound(error.to_string());
    let path = fs::canonicalize(path).map_err(not_found)?;
    let file = fs::metadata(&path).map_err(not_found)?;
    if !file.is_file() {
        return Err(PluginFault::NotFound("not a regular file".to_owned()));
    }
    if file.mode() & OTHERS_WRITE != 0 {
        return Err(PluginFault::WritableByOthers(path));
    }
    if let Some(directory) = path.parent() {
        let mode = fs::metadata(directory).map_err(not_found)?.mode();
        // In a sticky one, others cannot replace files that are not theirs.
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Err(PluginFault::WritableByOthers(directory.to_owned()));
        }
    }
    Ok(path)
}

const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

fn last_error() -> String {
    // SAFETY: returns NULL or a text of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "for no given reason".to_owned();
    }
    // SAFETY: not NULL, ends with a NUL, and is valid until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
