//! `svc stubs`: writes the declarations of what svc gives to scripts, for editors and static analysis.

use std::fs;
use std::path::Path;

use crate::commands::{self, Exit};

/// The declarations, which `make stubs` generates from a running server.
const STUBS: &str = include_str!("../stubs/svc.php");

/// The name of the file.
const NAME: &str = "svc.php";

/// Writes the file into `dir`, which is created if it is missing. A present file of that name is replaced as a whole.
pub fn write(dir: &Path) -> Exit {
    let path = dir.join(NAME);
    match fs::create_dir_all(dir).and_then(|()| fs::write(&path, STUBS)) {
        Ok(()) => commands::print(&format!("{}\n", path.display())),
        Err(error) => {
            commands::complain(&format_args!("cannot write {path:?}: {error}"));
            Exit::Failed
        }
    }
}
