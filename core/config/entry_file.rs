//! The files that handle paths at which there is no file, and which paths each of them handles.
//!
//! Promises: a list is sorted so that the first entry whose prefix fits a path is the one with the longest prefix. Refuses: it
//! does not look whether the files exist.

use std::path::Path;

use super::entries::entries;
use super::problem::Fault;

/// A front controller, or the page of a single-page application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFile {
    /// The path that it handles, and everything below it, without a trailing slash: empty for all paths.
    pub prefix: String,
    /// Its path below the document root, without a leading slash.
    pub file: String,
    /// Whether the rest of the path after the prefix is `PATH_INFO`. Then it is a script.
    pub gets_rest: bool,
}

impl EntryFile {
    /// Parses `FILE`, or a list of `PREFIX=FILE` in which one entry may be without prefix. A file may be named by its path
    /// in the file system if that leads into the document root `root`.
    pub(super) fn list(text: &str, root: &Path) -> Result<Vec<Self>, Fault> {
        let mut list: Vec<_> =
            entries(text)?.map(|entry| Self::parse(entry, root)).collect::<Result<_, _>>()?;
        list.sort_by(|one, other| {
            other.prefix.len().cmp(&one.prefix.len()).then(one.prefix.cmp(&other.prefix))
        });
        match list.windows(2).find(|pair| pair[0].prefix == pair[1].prefix) {
            Some(pair) => Err(Fault::Twice(format!("{}/", pair[0].prefix))),
            None => Ok(list),
        }
    }

    fn parse(entry: &str, root: &Path) -> Result<Self, Fault> {
        let (prefix, file) = match entry.split_once('=') {
            Some((prefix, file)) if prefix.starts_with('/') => (prefix.trim_end(), file.trim_start()),
            _ => ("/", entry),
        };
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let is_plain = |segment: &str| !matches!(segment, "" | "." | "..");
        if !prefix.split('/').skip(1).all(is_plain) {
            return Err(Fault::NotAPrefix(prefix.to_owned()));
        }
        let below = below_root(file, root);
        let file = below.as_deref().unwrap_or_else(|| file.trim_start_matches('/'));
        let script = file.strip_suffix('/').filter(|file| file.ends_with(".php"));
        Ok(Self {
            prefix: prefix.to_owned(),
            file: script.unwrap_or(file).to_owned(),
            gets_rest: script.is_some(),
        })
    }
}

/// The path below the document root `root` of a file that was given by its path in the file system. Any
/// of the directories above it may be the root by another name; links below that keep their names.
fn below_root(text: &str, root: &Path) -> Option<String> {
    let path = Path::new(text);
    // A URL path of the same text takes precedence.
    if !path.is_absolute() || root.join(text.trim_start_matches('/')).is_file() {
        return None;
    }
    let resolved_root = root.canonicalize().ok()?;
    let is_root = |above: &&Path| above.canonicalize().is_ok_and(|resolved| resolved == resolved_root);
    let above = path.ancestors().skip(1).find(is_root)?;
    Some(path.strip_prefix(above).ok()?.to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<String> {
        let list = EntryFile::list(text, Path::new("/none")).unwrap();
        list.iter().map(|it| format!("{}|{}|{}", it.prefix, it.file, it.gets_rest)).collect()
    }

    #[test]
    fn a_file_alone_handles_all_paths() {
        assert_eq!(parsed("index.php"), ["|index.php|false"]);
        assert_eq!(parsed("/public/index.php"), ["|public/index.php|false"]);
        assert_eq!(parsed("a=b.php"), ["|a=b.php|false"]);
        assert_eq!(parsed("/=index.php/"), ["|index.php|true"]);
        assert_eq!(parsed("index.php/"), ["|index.php|true"]);
    }

    #[test]
    fn the_longest_prefix_comes_first() {
        assert_eq!(
            parsed("index.php, /api=api/index.php ,/api/v2/ = api/v2/http.php/,/admin/=/admin/index.html"),
            [
                "/api/v2|api/v2/http.php|true",
                "/admin|admin/index.html|false",
                "/api|api/index.php|false",
                "|index.php|false"
            ]
        );
    }

    #[test]
    fn a_prefix_is_a_path_and_there_once() {
        for wrong in ["//=a.php", "/a//b/=a.php", "/./=a.php", "/a/../=a.php"] {
            assert!(
                matches!(EntryFile::list(wrong, Path::new("/none")), Err(Fault::NotAPrefix(_))),
                "{wrong}"
            );
        }
        for twice in ["a.php,b.php", "/=a.php,b.php", "/api=a.php,/api/=b.php"] {
            assert!(matches!(EntryFile::list(twice, Path::new("/none")), Err(Fault::Twice(_))), "{twice}");
        }
        assert_eq!(EntryFile::list(" , ", Path::new("/none")), Err(Fault::EmptyList));
    }
}
