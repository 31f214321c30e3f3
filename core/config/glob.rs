//! URL path patterns, as used in `PHP_DENY_PATHS`.
//!
//! There is one dialect: `*` and `?` match within a segment, `**` matches across segments, `[…]` and `{…,…}` match
//! alternatives, matching is case-insensitive, and the leading slash is optional. The matching itself is in
//! [`policy`](crate::policy).

use globset::{GlobBuilder, GlobMatcher};

/// Compiles a pattern.
///
/// # Errors
///
/// Returns a description of the syntax error.
pub fn url_path_glob(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern.strip_prefix('/').unwrap_or(pattern))
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(true)
        .build()
        .map_err(|error| error.kind().to_string())?;
    Ok(glob.compile_matcher())
}

/// Splits a list of patterns at its commas; commas between braces separate alternatives of one pattern.
pub(super) fn patterns(text: &str) -> Vec<&str> {
    let (mut patterns, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                patterns.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    patterns.push(&text[start..]);
    patterns.into_iter().map(str::trim).filter(|pattern| !pattern.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        url_path_glob(pattern).unwrap().is_match(path)
    }

    #[test]
    fn stars_stay_within_a_segment_and_double_stars_do_not() {
        assert!(matches("/uploads/*.php", "uploads/x.php") && matches("uploads/*.php", "UPLOADS/X.PHP"));
        assert!(!matches("uploads/*.php", "uploads/a/x.php") && !matches("*.php", "a/x.php"));
        assert!(matches("uploads/**", "uploads/a/b/x.php") && matches("**/x.php", "x.php"));
        assert!(matches("/{uploads,files}/**/*.ph?", "files/a/b.php"));
        assert!(!matches("uploads/**", "uploadsx/a"));
    }

    #[test]
    fn commas_between_braces_do_not_separate() {
        assert_eq!(patterns("/a/*.{php,phtml} , b,,{c"), ["/a/*.{php,phtml}", "b", "{c"]);
        assert_eq!(patterns(" , "), [""; 0]);
    }

    #[test]
    fn invalid_patterns_have_an_error_message() {
        for pattern in ["a[", "{a", "a{b}}", "a\\", "[z-a]"] {
            assert!(!url_path_glob(pattern).expect_err(pattern).is_empty());
        }
    }
}
