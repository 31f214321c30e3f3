//! Fails when the table of modules at the top of a folder differs from the modules that the folder has.

use std::fs;
use std::path::Path;

use super::{root, walk};

#[test]
fn each_table_of_modules_lists_all_of_them() {
    let mut files = Vec::new();
    for folder in ["types", "core", "serve", "sapi", "ffi", "plugin"] {
        walk(&root().join(folder), &mut files);
    }
    let mut broken = Vec::new();
    let mut tables = 0;
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let Some(listed) = listed_modules(&source) else { continue };
        let path = file.strip_prefix(root()).unwrap_or(Path::new("")).display();
        let declared = declared_modules(&source);
        tables += 1;
        let lacking = declared.iter().filter(|module| !listed.contains(module));
        broken.extend(lacking.map(|module| format!("{path}: the table lacks `{module}`")));
        let dead = listed.iter().filter(|module| !declared.contains(module));
        broken.extend(dead.map(|module| format!("{path}: there is no module `{module}`")));
    }
    assert!(tables > 15, "{tables}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Returns the names in the first column of the table of files or modules; `None` without such a table.
fn listed_modules(source: &str) -> Option<Vec<&str>> {
    let doc = source
        .lines()
        .skip_while(|line| !["//! | file |", "//! | module |"].iter().any(|h| line.starts_with(h)));
    let mut rows = doc.take_while(|line| line.starts_with("//! |")).skip(2).peekable();
    rows.peek()?;
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    Some(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect())
}

/// Returns the modules of files, without those of tests.
fn declared_modules(source: &str) -> Vec<&str> {
    let lines: Vec<_> = source.lines().collect();
    let is_code = |at: &usize| *at == 0 || !lines[at - 1].starts_with("#[cfg(");
    let names = (0..lines.len()).filter(is_code).filter_map(|at| {
        let (visibility, rest) = lines[at].split_once("mod ")?;
        (visibility.is_empty() || visibility.starts_with("pub")).then_some(rest.strip_suffix(';')?)
    });
    names.map(|name| name.trim_start_matches("r#")).collect()
}

#[test]
fn a_module_that_a_table_lacks_is_found() {
    let source = "//! A folder.\n//!\n//! | file | noun |\n//! |---|---|\n//! | `a`, [`b`] | one of `c` |\n//!\n//! End.\n\
                  mod a;\npub(crate) mod b;\n#[cfg(test)]\nmod tests;\nmod d;\n";
    assert_eq!(listed_modules(source).unwrap(), ["a", "b"]);
    assert_eq!(declared_modules(source), ["a", "b", "d"]);
    assert_eq!(listed_modules("//! Without a table.\nmod a;\n"), None);
}

#[test]
fn the_page_of_a_folder_names_each_source() {
    let mut unnamed = Vec::new();
    let mut folders = vec![root().join("c")];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let (below, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        folders.extend(below);
        let page = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let sources = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "c"));
        unnamed.extend(
            sources
                .filter(|file| {
                    let name = file.file_name().unwrap().to_str().unwrap();
                    !page.contains(&format!("`{name}`"))
                })
                .cloned(),
        );
    }
    assert!(unnamed.is_empty(), "no README.md of its folder names {unnamed:#?}");
}
