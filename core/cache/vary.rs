//! The request fields by which a response varies, and whether two requests agree in them.
//!
//! RFC 9111, section 4.1. Values are normalised where that cannot change their meaning: white space around members,
//! several lines of a list, and, for fields of preferences, case and order. Fields that are not lists are compared as
//! scripts see them. Names and values are bounded, so that a
//! response cannot make each lookup expensive.

use super::key::FORWARDED_FIELDS;
use crate::allocation::allocated;
use crate::http::token::{is_token, list};
use crate::http::{Fields, Head};
use crate::limits::CACHE_VARY_NAMES_MAX;

/// The field names of `Vary`, lower-cased, sorted and unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryNames(Box<[Box<[u8]>]>);

impl VaryNames {
    /// Reads `Vary` of a response; `None` if it varies by anything (`*`), by an invalid field name, or by too
    /// many fields.
    pub fn of(fields: &Fields) -> Option<Self> {
        let values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"vary"));
        let mut names = Vec::new();
        for name in values.flat_map(|(_, value)| list(value)) {
            if name == b"*" || !is_token(name) {
                return None;
            }
            names.push(name.to_ascii_lowercase().into_boxed_slice());
        }
        names.sort_unstable();
        names.dedup();
        (names.len() <= CACHE_VARY_NAMES_MAX).then(|| Self(names.into_boxed_slice()))
    }

    /// Returns these names, `Host`, and the fields in which a proxy describes the requests that it passes on.
    ///
    /// The key contains what the server reads in those fields. An application may read `Host` instead, or another member
    /// of a list that the client has begun. `Forwarded` is not among them, because it differs between clients.
    pub fn with_proxy_fields(&self) -> Self {
        let forwarded = FORWARDED_FIELDS.into_iter().filter(|name| *name != b"forwarded");
        let added = forwarded.chain([&b"host"[..]]).map(Box::from);
        let mut names: Vec<_> = self.0.iter().cloned().chain(added).collect();
        names.sort_unstable();
        names.dedup();
        Self(names.into_boxed_slice())
    }

    /// Returns whether the response is the same for all requests.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the values of these fields in a request, in a form in which equal bytes mean that the requests agree.
    pub fn values_in(&self, head: &Head) -> Box<[u8]> {
        let mut values = Vec::new();
        for name in &self.0 {
            let start = values.len();
            let mut is_there = false;
            // The authority of the target takes the place of `Host`.
            let host = if **name == *b"host" { head.host() } else { None };
            let is_line = |candidate: &[u8]| host.is_none() && candidate.eq_ignore_ascii_case(name);
            let lines = head.headers().filter(|(candidate, _)| is_line(candidate)).map(|(_, value)| value);
            for value in lines.chain(host) {
                is_there = true;
                if is_no_list(name) {
                    if values.len() > start {
                        values.extend_from_slice(b"; ");
                    }
                    values.extend_from_slice(value);
                    continue;
                }
                for member in list(value) {
                    if values.len() > start {
                        values.push(b',');
                    }
                    values.extend_from_slice(member);
                }
            }
            if is_of_the_origin(name) {
                values[start..].make_ascii_lowercase();
            }
            if is_there && is_preference(name) {
                let normal = normal_preference(&values[start..]);
                values.truncate(start);
                values.extend_from_slice(&normal);
            }
            // An absent field and an empty one differ.
            values.extend_from_slice(if is_there { b"\n" } else { b"\r" });
        }
        values.into_boxed_slice()
    }

    /// Returns the memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        allocated(size_of_val(&*self.0)) + self.0.iter().map(|name| allocated(name.len())).sum::<usize>()
    }
}

/// Returns whether commas do not separate the members of a field. HTTP/2 divides cookies into several lines.
fn is_no_list(name: &[u8]) -> bool {
    matches!(name, b"authorization" | b"cookie" | b"referer" | b"user-agent")
}

/// Returns whether a field lists preferences, whose members have no case and, at equal weights, no order.
fn is_preference(name: &[u8]) -> bool {
    matches!(name, b"accept" | b"accept-charset" | b"accept-encoding" | b"accept-language")
}

/// Returns whether the values of a field are hosts or schemes, which have no case.
fn is_of_the_origin(name: &[u8]) -> bool {
    matches!(name, b"host" | b"x-forwarded-host" | b"x-forwarded-proto")
}

/// Lower-cases the members, removes white space, and sorts them.
fn normal_preference(value: &[u8]) -> Vec<u8> {
    let mut lower = value.to_ascii_lowercase();
    if memchr::memchr(b'"', &lower).is_some() {
        // A parameter of a media range may be quoted; it is compared as it is.
        return value.to_vec();
    }
    lower.retain(|byte| !matches!(byte, b' ' | b'\t'));
    let mut members: Vec<&[u8]> = lower.split(|&byte| byte == b',').collect();
    members.sort_unstable();
    members.join(&b","[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    fn head(lines: &[&str]) -> Head {
        let text = format!(
            "GET / HTTP/1.1\r\nHost: h\r\n{}\r\n",
            lines.iter().map(|l| format!("{l}\r\n")).collect::<String>()
        );
        match parse(text.as_bytes(), HeadLimits::main_port()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{other:?}"),
        }
    }

    fn names(value: &str) -> Option<VaryNames> {
        let mut fields = Fields::new();
        fields.push(b"Vary", value.as_bytes()).unwrap();
        VaryNames::of(&fields)
    }

    fn agree(vary: &str, one: &[&str], other: &[&str]) -> bool {
        let names = names(vary).unwrap();
        names.values_in(&head(one)) == names.values_in(&head(other))
    }

    #[test]
    fn fields_that_are_no_lists_are_compared_as_they_are() {
        assert!(agree("Cookie", &["Cookie: a=1", "Cookie: b=2"], &["Cookie: a=1; b=2"]));
        assert!(!agree("Cookie", &["Cookie: a=1", "Cookie: b=2"], &["Cookie: a=1, b=2"]));
        assert!(!agree("User-Agent", &["User-Agent: a, b"], &["User-Agent: a,b"]));
        assert!(agree("X", &["X: a, b"], &["X: a,b"]));
    }

    #[test]
    fn names_are_normalised() {
        assert_eq!(names("B, a,b ,, A"), names("a, b"));
        assert!(VaryNames::of(&Fields::new()).unwrap().is_empty());
        for invalid in ["*", "a, *", "a b", "a;b"] {
            assert_eq!(names(invalid), None, "{invalid}");
        }
        let many: Vec<String> = (0..=CACHE_VARY_NAMES_MAX).map(|n| format!("x{n}")).collect();
        assert_eq!(names(&many.join(",")), None);
    }

    #[test]
    fn requests_agree_in_the_named_fields_only() {
        assert!(agree("Foo", &["Foo: 1", "Bar: 2"], &["bar: 3", "foo: 1"]));
        assert!(!agree("Foo", &["Foo: 1"], &["Foo: 2"]));
        assert!(!agree("Foo", &["Foo: 1"], &[]));
        assert!(!agree("Foo", &["Foo:"], &[]));
        assert!(agree("Foo, Bar", &["Foo: 1"], &["Foo: 1"]));
        assert!(!agree("Foo, Bar", &["Foo: 1"], &["Bar: 1"]));
    }

    #[test]
    fn lists_are_compared_by_their_members() {
        assert!(agree("Foo", &["Foo: 1, 2"], &["Foo: 1", "Foo: 2"]));
        assert!(agree("Foo", &["Foo: 1,2"], &["Foo:  1 ,  2 "]));
        assert!(!agree("Foo", &["Foo: 1, 2"], &["Foo: 2, 1"]));
        assert!(!agree("Foo", &["Foo: a"], &["Foo: A"]));
    }

    #[test]
    fn preferences_have_no_case_and_no_order() {
        assert!(agree("Accept-Language", &["Accept-Language: en, de"], &["Accept-Language: DE ,en"]));
        assert!(agree(
            "Accept-Encoding",
            &["Accept-Encoding: gzip, br;q=1"],
            &["Accept-Encoding: br; q=1,gzip"]
        ));
        assert!(!agree(
            "Accept-Language",
            &["Accept-Language: en, de;q=0.5"],
            &["Accept-Language: en;q=0.5, de"]
        ));
        assert!(!agree("Accept", &["Accept: a/b;c=\"D\""], &["Accept: a/b;c=\"d\""]));
    }

    #[test]
    fn proxied_requests_agree_if_an_application_reads_the_same_origin() {
        let vary = names("Foo").unwrap().with_proxy_fields();
        let values = |lines: &[&str]| vary.values_in(&head(lines));
        let usual = values(&["X-Forwarded-Host: example.org", "X-Forwarded-For: 192.0.2.1"]);
        assert_eq!(usual, values(&["X-Forwarded-Host: EXAMPLE.org", "X-Forwarded-For: 192.0.2.2"]));
        for other in [
            &[][..],
            &["X-Forwarded-Host: evil, example.org"],
            &["X-Forwarded-Host: example.org", "X-Forwarded-Ssl: on"],
            &["X-Forwarded-Host: example.org", "Foo: 1"],
        ] {
            assert_ne!(usual, values(other), "{other:?}");
        }
        let host = |host: &str| {
            let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
                panic!("{host}")
            };
            vary.values_in(&head)
        };
        assert!(host("h") == host("H") && host("h") != host("evil"));
    }

    #[test]
    fn values_of_two_fields_do_not_run_together() {
        assert!(!agree("A, B", &["A: x", "B: y"], &["A: x,y", "B:"]));
        assert!(!agree("A, B", &["A: x"], &["B: x"]));
    }
}
