//! Which responses are stored, and why others are not: one rule per section.
//!
//! RFC 9111, section 3, for a shared cache, and the stricter rules of this one. Pure.

use std::time::SystemTime;

use super::directives::Directives;
use super::freshness::stated_lifetime;
use crate::http::Fields;

/// The facts about a request that decide whether its response is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTraits {
    /// Whether it has `Authorization`.
    pub has_authorization: bool,
    /// Whether a trusted proxy has sent it.
    pub is_proxied: bool,
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstorable {
    /// RFC 9111, section 3.5: its request was authorized, and no directive permits sharing.
    Authorized,
    /// Section 3: it states no freshness lifetime.
    NoLifetime,
    /// Section 5.2.2.5.
    NoStore,
    /// Section 5.2.2.3: `no-store, must-understand`, with a status that the cache does not know.
    NotUnderstood,
    /// It is no complete response, but an answer to the range or the conditions of its client. Section 3.4 permits to store
    /// parts.
    Partial,
    /// Section 5.2.2.7.
    Private,
    /// It sets a cookie. RFC 9111, section 7.3 leaves this to the response's `Cache-Control`; applications forget it.
    SetsCookie,
    /// It is larger than what is stored, or has more tags, or names a file.
    TooLarge,
    /// Section 4.1.
    VariesByAnything,
}

/// Returns whether the status may be stored without a statement about freshness (RFC 9110, section 15.1).
pub fn is_heuristically_cacheable(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// Returns whether the cache knows the meaning of a status and of its effect on caching (section 3).
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 307 | 308 | 400..=417 | 421..=422 | 426 | 428..=429 | 431 | 451 | 500..=505)
}

/// Decides whether a complete response may be stored.
///
/// # Errors
///
/// The first rule that forbids it.
pub fn check(
    request: RequestTraits,
    status: u16,
    fields: &Fields,
    directives: &Directives,
    received: SystemTime,
    has_default_ttl: bool,
) -> Result<(), Unstorable> {
    let understands = directives.must_understand && is_understood(status);
    if directives.must_understand && !understands {
        return Err(Unstorable::NotUnderstood);
    }
    if directives.no_store && !understands {
        return Err(Unstorable::NoStore);
    }
    if directives.private {
        return Err(Unstorable::Private);
    }
    if fields.contains(b"set-cookie") {
        return Err(Unstorable::SetsCookie);
    }
    if matches!(status, 0..=199 | 206 | 304 | 412 | 416) {
        return Err(Unstorable::Partial);
    }
    if super::vary::VaryNames::of(fields).is_none() {
        return Err(Unstorable::VariesByAnything);
    }
    let is_stated = stated_lifetime(fields, directives, received).is_some() || directives.no_cache;
    let has_lifetime = is_stated || (has_default_ttl && takes_default_ttl(status, directives));
    if !has_lifetime {
        return Err(Unstorable::NoLifetime);
    }
    // The last rule: the same response to a request without `Authorization` may be stored.
    if request.has_authorization && !permits_authorized(directives) {
        return Err(Unstorable::Authorized);
    }
    Ok(())
}

/// Returns whether the operator's lifetime applies to a response that states none (section 4.2.2).
pub(super) fn takes_default_ttl(status: u16, directives: &Directives) -> bool {
    is_heuristically_cacheable(status) || directives.public
}

/// Returns whether a response to an authorized request may be stored and used for others (section 3.5).
pub(super) fn permits_authorized(directives: &Directives) -> bool {
    directives.public || directives.must_revalidate || directives.s_maxage.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time;

    fn verdict(
        status: u16,
        lines: &[(&str, &str)],
        request: RequestTraits,
        has_default: bool,
    ) -> Result<(), Unstorable> {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes()).unwrap();
        }
        check(request, status, &fields, &Directives::of(&fields), time::wall(), has_default)
    }

    fn plain(status: u16, cache_control: &str) -> Result<(), Unstorable> {
        verdict(status, &[("Cache-Control", cache_control)], RequestTraits::default(), false)
    }

    #[test]
    fn a_rule_for_each_section() {
        for (cache_control, expected) in [
            ("max-age=60", Ok(())),
            ("s-maxage=60, max-age=0", Ok(())),
            ("max-age=0", Ok(())),
            ("no-cache", Ok(())),
            ("public", Err(Unstorable::NoLifetime)),
            ("no-store, max-age=60", Err(Unstorable::NoStore)),
            ("private, max-age=60", Err(Unstorable::Private)),
            ("private=\"a\", max-age=60", Err(Unstorable::Private)),
            ("no-store, must-understand, max-age=60", Ok(())),
        ] {
            assert_eq!(plain(200, cache_control), expected, "{cache_control}");
        }
        assert_eq!(plain(599, "no-store, must-understand, max-age=60"), Err(Unstorable::NotUnderstood));
        for status in [206, 304, 412, 416] {
            assert_eq!(plain(status, "max-age=60"), Err(Unstorable::Partial), "{status}");
        }
        for status in [200, 299, 404, 500, 599] {
            assert_eq!(plain(status, "max-age=60"), Ok(()), "{status}");
        }
    }

    #[test]
    fn cookies_and_a_vary_star_are_never_stored() {
        for (line, expected) in [
            (("Set-Cookie", "a=b"), Unstorable::SetsCookie),
            (("Vary", "a, *"), Unstorable::VariesByAnything),
        ] {
            let lines = [("Cache-Control", "public, max-age=60"), line];
            assert_eq!(verdict(200, &lines, RequestTraits::default(), true), Err(expected));
        }
    }

    #[test]
    fn an_authorized_response_needs_permission() {
        let request = RequestTraits { has_authorization: true, ..RequestTraits::default() };
        for (cache_control, expected) in [
            ("max-age=60", Err(Unstorable::Authorized)),
            ("max-age=60, public", Ok(())),
            ("max-age=60, must-revalidate", Ok(())),
            ("s-maxage=60", Ok(())),
            ("max-age=60, proxy-revalidate", Err(Unstorable::Authorized)),
        ] {
            assert_eq!(
                verdict(200, &[("Cache-Control", cache_control)], request, false),
                expected,
                "{cache_control}"
            );
        }
    }

    #[test]
    fn a_default_lifetime_is_for_statuses_that_may_have_one() {
        for (status, line, expected) in [
            (200, ("A", "b"), Ok(())),
            (404, ("A", "b"), Ok(())),
            (201, ("A", "b"), Err(Unstorable::NoLifetime)),
            (503, ("A", "b"), Err(Unstorable::NoLifetime)),
            (599, ("Cache-Control", "public"), Ok(())),
        ] {
            assert_eq!(verdict(status, &[line], RequestTraits::default(), true), expected, "{status}");
            assert_eq!(
                verdict(status, &[line], RequestTraits::default(), false),
                Err(Unstorable::NoLifetime)
            );
        }
    }
}
