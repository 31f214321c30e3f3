//! Conditional requests: whether the client's copy is still valid, and whether a range may be sent of the current file.
//!
//! Conditions are evaluated in the order of RFC 9110 section 13.2.2; a weak entity tag never matches where a strong one
//! is required. Only the validators of the selected representation are used, not the file.

use std::time::SystemTime;

use super::file_version::whole_seconds;
use crate::http::token::trim_ows;
use crate::http::{Head, parse_date};

/// The fields of a request that affect the representation, found in one pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// `Accept-Encoding`.
    pub accept_encoding: bool,
    /// `If-Match`, `If-None-Match`, `If-Modified-Since` or `If-Unmodified-Since`.
    pub condition: bool,
    /// `Range`.
    pub range: bool,
}

/// The validators of a representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity tag, with quotes, and with `W/` if it is weak.
    pub tag: &'a [u8],
    /// When it was last modified, if known.
    pub modified: Option<SystemTime>,
}

/// The result of the conditions of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionResult {
    /// A precondition failed: 412.
    Failed,
    /// The client's copy is valid: 304.
    NotModified,
    /// The file is sent.
    Send,
}

impl Asked {
    /// Collects the fields of a request.
    pub(super) fn of(head: &Head) -> Self {
        let mut asked = Self::default();
        for (name, _) in head.headers() {
            match name.len() {
                5 => asked.range |= name.eq_ignore_ascii_case(b"range"),
                8 => asked.condition |= name.eq_ignore_ascii_case(b"if-match"),
                13 => asked.condition |= name.eq_ignore_ascii_case(b"if-none-match"),
                15 => asked.accept_encoding |= name.eq_ignore_ascii_case(b"accept-encoding"),
                17 => asked.condition |= name.eq_ignore_ascii_case(b"if-modified-since"),
                19 => asked.condition |= name.eq_ignore_ascii_case(b"if-unmodified-since"),
                _ => {}
            }
        }
        asked
    }
}

/// Evaluates the conditions of a request, except for ranges.
pub(super) fn judge(head: &Head, validators: Validators<'_>) -> ConditionResult {
    // A repeated date is ignored, and so is every date if the modification time is unknown.
    let since = |name| {
        let mut values = head.header_values(name);
        let since = values.next().filter(|_| values.next().is_none()).and_then(parse_date)?;
        Some((validators.modified.map(whole_seconds)?, since))
    };
    if head.header("if-match").is_some() {
        if !names_tag(head.header_values("if-match"), validators.tag, Comparison::Strong) {
            return ConditionResult::Failed;
        }
    } else if since("if-unmodified-since").is_some_and(|(modified, since)| modified > since) {
        return ConditionResult::Failed;
    }
    let is_good = if head.header("if-none-match").is_some() {
        names_tag(head.header_values("if-none-match"), validators.tag, Comparison::Weak)
    } else {
        since("if-modified-since").is_some_and(|(modified, since)| modified <= since)
    };
    if is_good { ConditionResult::NotModified } else { ConditionResult::Send }
}

/// Returns whether a range may be sent: the request has no `If-Range`, or it matches this state of the file by its
/// strong entity tag or its exact date.
pub(super) fn may_give_range(head: &Head, validators: Validators<'_>) -> bool {
    let mut conditions = head.header_values("if-range");
    match (conditions.next().map(trim_ows), conditions.next()) {
        (None, _) => true,
        (Some(_), Some(_)) => false,
        (Some(tag), None) if tag.starts_with(b"\"") => tag == validators.tag,
        (Some(tag), None) if tag.starts_with(b"W/") => false,
        (Some(date), None) => {
            validators.modified.is_some_and(|modified| parse_date(date) == Some(whole_seconds(modified)))
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Returns whether a list of entity tags is `*` or contains `tag`. A tag may contain commas between its quotes.
fn names_tag<'a>(values: impl Iterator<Item = &'a [u8]>, tag: &[u8], comparison: Comparison) -> bool {
    let (is_own_weak, own) = split_weakness(tag);
    values.into_iter().any(|value| {
        let mut rest = trim_ows(value);
        if rest == b"*" {
            return true;
        }
        while !rest.is_empty() {
            let (is_weak, tag) = split_weakness(rest);
            let Some(end) = tag.strip_prefix(b"\"").and_then(|inner| memchr::memchr(b'"', inner)) else {
                return false;
            };
            let (tag, behind) = tag.split_at(end + 2);
            if tag == own && (comparison == Comparison::Weak || !(is_weak || is_own_weak)) {
                return true;
            }
            rest = trim_ows(trim_ows(behind).strip_prefix(b",").unwrap_or_default());
        }
        false
    })
}

fn split_weakness(tag: &[u8]) -> (bool, &[u8]) {
    tag.strip_prefix(b"W/").map_or((false, tag), |strong| (true, strong))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::http::{HeadLimits, Parsed, parse};

    const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const TAG: &str = "\"ae1b981c3a4d4f5-a\"";

    fn head(fields: &str) -> Head {
        let text = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let Ok(Parsed::Complete { head, .. }) = parse(text.as_bytes(), HeadLimits::main_port()) else {
            panic!("{text}")
        };
        head
    }

    fn validators(tag: &str) -> Validators<'_> {
        let modified = UNIX_EPOCH + Duration::new(784_111_777, 123_456_245);
        Validators { tag: tag.as_bytes(), modified: Some(modified) }
    }

    fn status(fields: &str) -> u16 {
        status_of(TAG, fields)
    }

    fn status_of(tag: &str, fields: &str) -> u16 {
        match judge(&head(fields), validators(tag)) {
            ConditionResult::Failed => 412,
            ConditionResult::NotModified => 304,
            ConditionResult::Send => 200,
        }
    }

    #[test]
    fn tags_compare_weakly_in_lists() {
        for list in
            [format!("W/{TAG}"), format!("\"x\", {TAG}"), format!("\"a,b\",W/\"c\" , W/{TAG}"), "*".into()]
        {
            assert_eq!(status(&format!("If-None-Match: {list}\r\n")), 304, "{list}");
            assert_eq!(status_of(&format!("W/{TAG}"), &format!("If-None-Match: {list}\r\n")), 304, "{list}");
        }
        assert_eq!(status(&format!("If-None-Match: \"x\"\r\nIf-None-Match: {TAG}\r\n")), 304);
        for list in ["\"x\"", "x", "\"", "W/", "", "\"x\" \"y\"", "w/\"x\""] {
            assert_eq!(status(&format!("If-None-Match: {list}\r\n")), 200, "{list}");
        }
    }

    #[test]
    fn a_tag_condition_outranks_a_date_condition() {
        let date = format!("If-Modified-Since: {MODIFIED}\r\n");
        assert_eq!(status(&date), 304);
        assert_eq!(status(&format!("{date}If-None-Match: \"x\"\r\n")), 200);
        let old = "If-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
        assert_eq!(status(&format!("{old}If-None-Match: {TAG}\r\n")), 304);
    }

    #[test]
    fn dates_compare_by_whole_seconds_and_bad_ones_do_not_count() {
        let since = |date: &str| status(&format!("If-Modified-Since: {date}\r\n"));
        assert_eq!(since("Sun, 06 Nov 1994 08:49:38 GMT"), 304);
        assert_eq!(since("Sun, 06 Nov 1994 08:49:36 GMT"), 200);
        assert_eq!(since("Sunday, 06-Nov-94 08:49:37 GMT"), 304);
        assert_eq!(since("yesterday"), 200);
    }

    #[test]
    fn preconditions_that_fail_are_412() {
        assert_eq!(status(&format!("If-Match: {TAG}\r\n")), 200);
        assert_eq!(status("If-Match: *\r\n"), 200);
        assert_eq!(status("If-Match: \"x\"\r\n"), 412);
        assert_eq!(status(&format!("If-Match: W/{TAG}\r\n")), 412);
        assert_eq!(status_of(&format!("W/{TAG}"), &format!("If-Match: {TAG}\r\n")), 412);
        assert_eq!(status(&format!("If-Unmodified-Since: {MODIFIED}\r\n")), 200);
        assert_eq!(status("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n"), 412);
    }

    #[test]
    fn a_date_that_comes_twice_is_none() {
        assert_eq!(status(&format!("If-Modified-Since: {MODIFIED}\r\n")), 304);
        assert_eq!(
            status(&format!("If-Modified-Since: {MODIFIED}\r\nIf-Modified-Since: {MODIFIED}\r\n")),
            200
        );
    }

    #[test]
    fn a_precondition_is_judged_before_a_copy() {
        assert_eq!(status(&format!("If-Match: \"x\"\r\nIf-None-Match: {TAG}\r\n")), 412);
        assert_eq!(status(&format!("If-Match: {TAG}\r\nIf-None-Match: {TAG}\r\n")), 304);
        let old = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n";
        assert_eq!(status(&format!("{old}If-Match: {TAG}\r\n")), 200, "the tag outranks the date");
    }

    #[test]
    fn a_range_is_given_of_the_state_that_the_client_has() {
        let gives = |tag: &str, fields: &str| may_give_range(&head(fields), validators(tag));
        assert!(gives(TAG, ""));
        assert!(gives(TAG, &format!("If-Range: {TAG}\r\n")));
        assert!(gives(TAG, &format!("If-Range: {MODIFIED}\r\n")));
        for other in [
            "\"x\"".to_owned(),
            format!("W/{TAG}"),
            format!("{TAG}, \"x\""),
            "Sun, 06 Nov 1994 08:49:36 GMT".into(),
            "Sun, 06 Nov 1994 08:49:38 GMT".into(),
            "*".into(),
            "x".into(),
            String::new(),
        ] {
            assert!(!gives(TAG, &format!("If-Range: {other}\r\n")), "{other}");
        }
        assert!(!gives(&format!("W/{TAG}"), &format!("If-Range: W/{TAG}\r\n")));
        assert!(!gives(TAG, &format!("If-Range: {TAG}\r\nIf-Range: {TAG}\r\n")));
    }

    #[test]
    fn without_its_date_no_date_matches() {
        let undated = Validators { modified: None, ..validators(TAG) };
        for field in ["If-Modified-Since", "If-Unmodified-Since"] {
            for date in [MODIFIED, "Sun, 06 Nov 1994 08:49:36 GMT", "Fri, 01 Jan 2100 00:00:00 GMT"] {
                let result = judge(&head(&format!("{field}: {date}\r\n")), undated);
                assert_eq!(result, ConditionResult::Send, "{field}: {date}");
            }
        }
        assert!(!may_give_range(&head(&format!("If-Range: {MODIFIED}\r\n")), undated));
        assert!(may_give_range(&head(&format!("If-Range: {TAG}\r\n")), undated));
        assert_eq!(judge(&head(&format!("If-None-Match: {TAG}\r\n")), undated), ConditionResult::NotModified);
    }

    #[test]
    fn field_names_are_found_in_any_letter_case() {
        assert_eq!(Asked::of(&head("X-Range: a\r\nAccept: */*\r\n")), Asked::default());
        let all = Asked { accept_encoding: true, condition: true, range: true };
        assert_eq!(Asked::of(&head("RANGE: a\r\nIf-none-Match: *\r\naccept-encoding: br\r\n")), all);
        for name in ["If-Match", "If-Modified-Since", "If-Unmodified-Since"] {
            assert!(Asked::of(&head(&format!("{name}: x\r\n"))).condition, "{name}");
        }
    }
}
