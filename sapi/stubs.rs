//! `svc stubs`: writes the declarations of what svc gives to scripts, for editors and static analysis.

use std::fs;
use std::path::Path;

use crate::commands::{self, Exit};

/// The declarations, which `make stubs` generates from a running server.
const STUBS: &str = include_str!("../stubs/svc.php");

/// The name of the file.
const NAME: &str = "svc.php";

/// The beginning of each version of the file: a file that begins differently belongs to the application.
const BEGINNING: &str = "<?php\n\n// What svc gives to scripts";

/// Writes the file into `dir`, which is created if it is missing. Declarations that are there are replaced as a whole.
pub fn write(dir: &Path) -> Exit {
    let path = dir.join(NAME);
    let is_other =
        fs::read(&path).is_ok_and(|text| !text.is_empty() && !text.starts_with(BEGINNING.as_bytes()));
    if is_other {
        commands::print_error(&format_args!(
            "cannot write {path:?}: a file with other contents has this name"
        ));
        return Exit::Failed;
    }
    match fs::create_dir_all(dir).and_then(|()| fs::write(&path, STUBS)) {
        Ok(()) => commands::print(&format!("{}\n", path.display())),
        Err(error) => {
            commands::print_error(&format_args!("cannot write {path:?}: {error}"));
            Exit::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declarations_are_known_by_their_beginning() {
        assert!(STUBS.starts_with(BEGINNING));
    }
}
