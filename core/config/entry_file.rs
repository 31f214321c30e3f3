//! The files that handle paths without a matching file, and the part of the site that each handles.
//!
//! A list is sorted by decreasing length of the prefix, so that the first match is the longest. The existence of the
//! files is checked elsewhere.

use std::path::{Path, absolute};

use super::entries::entries;
use super::problem::Fault;
use super::tracing::decoded;

/// A front controller, or the page of a single-page application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFile {
    /// The decoded path that it handles together with all paths below it, without a trailing slash: empty for all paths.
    pub prefix: String,
    /// Its path below the document root, without a leading slash.
    pub file: String,
    /// Whether the rest of the path after the prefix is `PATH_INFO`. Then it is a script.
    pub gets_rest: bool,
}

impl EntryFile {
    /// Parses `FILE`, or a list of `PREFIX=FILE`, where one entry may lack a prefix. Prefixes are percent-encoded. A
    /// file is relative to the document root `root`; if there is no such file, to the working directory; or absolute.
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
            // A file may have such a name.
            Some((prefix, _)) if is_no_file(entry, root) => return Err(Fault::NotAPrefix(prefix.to_owned())),
            _ => ("/", entry),
        };
        let not_a_prefix = || Fault::NotAPrefix(prefix.to_owned());
        let decoded = decoded(prefix).ok_or_else(not_a_prefix)?;
        let decoded = decoded.strip_suffix('/').unwrap_or(&decoded);
        let is_plain = |segment: &str| !matches!(segment, "" | "." | "..") && !segment.contains('\0');
        if !decoded.split('/').skip(1).all(is_plain) {
            return Err(not_a_prefix());
        }
        let below = below_root(file, root);
        let file = below.as_deref().unwrap_or_else(|| file.trim_start_matches('/'));
        let script = file.strip_suffix('/').filter(|file| file.ends_with(".php"));
        Ok(Self {
            prefix: decoded.to_owned(),
            file: script.unwrap_or(file).to_owned(),
            gets_rest: script.is_some(),
        })
    }
}

/// Returns whether a document root exists, and an entry is no file in it or in the working directory.
fn is_no_file(entry: &str, root: &Path) -> bool {
    let file = entry.trim_end_matches('/');
    root.is_dir() && !root.join(file).is_file() && !Path::new(file).is_file()
}

/// Returns the path relative to the document root `root` of a file that is given by its absolute path, or by its path
/// relative to the working directory. Other links may lead to the root; links below it keep their names.
fn below_root(text: &str, root: &Path) -> Option<String> {
    // A path below the root takes precedence.
    if root.join(text.trim_start_matches('/')).is_file() {
        return None;
    }
    let path = absolute(text).ok().filter(|_| Path::new(text.trim_end_matches('/')).is_file())?;
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
    fn a_prefix_is_percent_encoded() {
        assert_eq!(parsed("/a%20b/=a.php"), ["/a b|a.php|false"]);
        assert_eq!(parsed("/%C3%A9%2c%3D=a.php/,/100%25=b.php"), ["/100%|b.php|false", "/é,=|a.php|true"]);
        assert_eq!(parsed("/é=a.php"), ["/é|a.php|false"]);
    }

    #[test]
    fn a_prefix_is_a_path_and_there_once() {
        for wrong in [
            "//=a.php",
            "/a//b/=a.php",
            "/./=a.php",
            "/a/../=a.php",
            "/%2e%2E/=a.php",
            "/a%2F%2Fb=a.php",
            "/100%=a.php",
            "/%ff=a.php",
            "/%00=a.php",
        ] {
            assert!(
                matches!(EntryFile::list(wrong, Path::new("/none")), Err(Fault::NotAPrefix(_))),
                "{wrong}"
            );
        }
        for twice in ["a.php,b.php", "/=a.php,b.php", "/api=a.php,/api/=b.php", "/api=a.php,/%61pi=b.php"] {
            assert!(matches!(EntryFile::list(twice, Path::new("/none")), Err(Fault::Twice(_))), "{twice}");
        }
        assert_eq!(EntryFile::list(" , ", Path::new("/none")), Err(Fault::EmptyList));
    }
}
