//! Patterns of names: of cookies, and of parameters of a query.
//!
//! `*` stands for any bytes and `?` for one byte; everything else is compared without case. Linear in the product of
//! pattern and name at worst, and both are short.

/// A list of patterns.
#[derive(Clone, Debug, Default)]
pub struct NamePatterns(Box<[Box<[u8]>]>);

impl NamePatterns {
    /// Takes the patterns of a setting.
    pub fn new<T: AsRef<[u8]>>(patterns: impl IntoIterator<Item = T>) -> Self {
        Self(patterns.into_iter().map(|pattern| pattern.as_ref().to_ascii_lowercase().into()).collect())
    }

    /// Returns whether there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether one of them matches the name.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.0.iter().any(|pattern| matches(pattern, name))
    }
}

/// Matches one pattern, whose letters are lower-case. Only the last star is retried.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                at += 1;
                retry = Some((at, read));
            }
            Some(&byte) if byte == b'?' || byte == name[read].to_ascii_lowercase() => {
                at += 1;
                read += 1;
            }
            _ => match &mut retry {
                None => return false,
                Some((behind, from)) => {
                    *from += 1;
                    (at, read) = (*behind, *from);
                }
            },
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, name, expected) in [
            ("*sess*", "PHPSESSID", true),
            ("*sess*", "laravel_session", true),
            ("*sess*", "ses", false),
            ("utm_*", "utm_source", true),
            ("utm_*", "utm_", true),
            ("utm_*", "xutm_a", false),
            ("gclid", "GCLID", true),
            ("gclid", "gclid2", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("**a", "bba", true),
        ] {
            assert_eq!(NamePatterns::new([pattern]).matches(name.as_bytes()), expected, "{pattern} {name}");
        }
        assert!(!NamePatterns::default().matches(b"a"));
    }
}
