//! The script that a FastCGI request names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use svc_core::pool::{CompleteRequest, Script};
use svc_serve::Shared;

/// Returns the script of the request or, if that was deleted while the request waited, the one that its path leads to now;
/// `None` if there is none.
///
/// PHP must not be asked for a script that does not exist: it would answer with 404, or run a file that its path leads
/// through (`cgi.fix_pathinfo`).
pub(super) fn present(request: &CompleteRequest, shared: &Shared) -> Option<Arc<Script>> {
    if Path::new(OsStr::from_bytes(&request.script.filename)).is_file() {
        return Some(Arc::clone(&request.script));
    }
    shared.find_script(&request.head)
}

/// Returns the script as PHP sees it: its files are below `root`.
pub(super) fn below(root: &[u8], script: &Script) -> Script {
    // Only the root directory ends in a slash, with which the rest of a path begins.
    let folder = |path: &'_ [u8]| path.strip_suffix(b"/").unwrap_or(path).to_vec();
    let moved = |path: &[u8]| {
        let rest = path.strip_prefix(&*folder(&script.document_root));
        rest.map_or_else(|| path.to_vec(), |rest| [&folder(root), rest].concat())
    };
    Script { filename: moved(&script.filename), document_root: root.to_vec(), ..script.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_found_below_the_other_root() {
        let script = Script {
            filename: b"/srv/www/a/b.php".to_vec(),
            document_root: b"/srv/www".to_vec(),
            name: b"/a/b.php".to_vec(),
            ..Script::default()
        };
        let moved = below(b"/app/public", &script);
        assert_eq!(moved.filename, b"/app/public/a/b.php");
        assert_eq!((&moved.document_root[..], &moved.name), (&b"/app/public"[..], &script.name));
        assert_eq!(below(b"/", &script).filename, b"/a/b.php");
        let at_root = Script { filename: b"/a.php".to_vec(), document_root: b"/".to_vec(), ..script };
        assert_eq!(below(b"/app", &at_root).filename, b"/app/a.php");
    }
}
