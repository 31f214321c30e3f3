//! The real location of a file relative to the document root, which links can change.
//!
//! Pure; works on two real paths. Files outside the root are named by their relative path (`../shared/a.css`), so that
//! only the part that a link led through is checked, not the location of the whole site. Opens nothing and knows no
//! rules except that dot-files are hidden.

/// A real path, relative to the real document root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelativePath {
    /// Below the root: its path with the leading slash; empty for the root itself.
    Inside(Vec<u8>),
    /// Elsewhere: the number of steps up, and the path from there without a leading slash.
    Outside(Vec<u8>),
}

impl RelativePath {
    /// Returns the relative path from a root to a real path; both are absolute.
    pub fn of(root: &[u8], real_path: &[u8]) -> Self {
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let is_below = |rest: &&[u8]| rest.is_empty() || rest.starts_with(b"/");
        if let Some(inside) = real_path.strip_prefix(root).filter(is_below) {
            return Self::Inside(inside.into());
        }
        let segments = |path| <[u8]>::split(path, |&byte| byte == b'/');
        let shared = segments(root).zip(segments(real_path)).take_while(|(one, other)| one == other).count();
        let mut way = b"../".repeat(segments(root).count() - shared);
        for (n, segment) in segments(real_path).skip(shared).enumerate() {
            way.extend_from_slice(if n > 0 { b"/" } else { b"" });
            way.extend_from_slice(segment);
        }
        Self::Outside(way)
    }

    /// Returns whether it is below the root.
    pub fn is_inside(&self) -> bool {
        matches!(self, Self::Inside(_))
    }

    /// Returns the path as bytes.
    pub fn way(&self) -> &[u8] {
        match self {
            Self::Inside(way) | Self::Outside(way) => way,
        }
    }

    /// Returns whether it is a dot-file or in a dot-directory, except for `/.well-known`. Names that begin with two
    /// dots are not hidden: Kubernetes volumes switch their contents behind them (`..data`).
    pub fn is_hidden(&self) -> bool {
        let is_hidden = |segment: &[u8]| segment.starts_with(b".") && !segment.starts_with(b"..");
        let mut segments = self.way().split(|&byte| byte == b'/').skip_while(|segment| segment.is_empty());
        let first = segments.next().unwrap_or_default();
        (is_hidden(first) && !(self.is_inside() && first == b".well-known")) || segments.any(is_hidden)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &str, real_path: &str) -> RelativePath {
        RelativePath::of(root.as_bytes(), real_path.as_bytes())
    }

    #[test]
    fn paths_below_the_root_are_relative_to_it() {
        assert_eq!(place("/srv/app", "/srv/app/a/b"), RelativePath::Inside(b"/a/b".to_vec()));
        assert_eq!(place("/srv/app", "/srv/app"), RelativePath::Inside(Vec::new()));
        assert_eq!(place("/", "/etc/a"), RelativePath::Inside(b"/etc/a".to_vec()));
    }

    #[test]
    fn paths_outside_the_root_are_relative_to_it() {
        let way = |root, real_path| match place(root, real_path) {
            RelativePath::Outside(way) => String::from_utf8(way).unwrap(),
            inside @ RelativePath::Inside(_) => panic!("{inside:?}"),
        };
        assert_eq!(way("/srv/app/public", "/srv/app/storage/a.png"), "../storage/a.png");
        assert_eq!(way("/srv/app/releases/3/public", "/srv/app/shared/a"), "../../../shared/a");
        assert_eq!(way("/srv/app", "/srv/app-beside/a"), "../app-beside/a");
        assert_eq!(way("/srv/app", "/srv"), "../");
        assert_eq!(way("/srv/app", "/etc/a"), "../../etc/a");
        assert_eq!(way("/srv/app", "/"), "../../");
    }

    #[test]
    fn dot_files_are_hidden_wherever_they_lie_but_the_site_may_lie_in_a_hidden_place() {
        for hidden in ["/srv/app/.env", "/srv/.env", "/srv/.git/config", "/root/.ssh/id", "/srv/app/a/.b/c"] {
            assert!(place("/srv/app", hidden).is_hidden(), "{hidden}");
        }
        assert!(place("/srv/app", "/srv/.well-known/a").is_hidden());
        for open in ["/srv/app/.well-known/a", "/srv/app/..data/a.php", "/srv/shared/a", "/srv/app", "/"] {
            assert!(!place("/srv/app", open).is_hidden(), "{open}");
        }
        assert!(!place("/home/me/.sites/app/public", "/home/me/.sites/app/storage/a").is_hidden());
    }
}
