//! The preferences of a metrics collector: the exposition format in `Accept`, and whether it accepts compression.
//!
//! Quality values follow RFC 9110; a malformed list member is ignored. The result is never "not acceptable": the caller
//! always has a plain response to fall back on.

use super::coding::{Choice, Coding, choose};
use super::quality::{member, named, quality};
use super::token::list;

/// The versions of OpenMetrics that a client can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMetrics {
    /// Version 0.0.1, requested by older collectors.
    V0_0_1,
    /// Version 1.0.0.
    V1_0_0,
}

impl OpenMetrics {
    /// Returns the version as written in the media type.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V0_0_1 => "0.0.1",
            Self::V1_0_0 => "1.0.0",
        }
    }
}

/// Returns whether the client accepts gzip: it is named or covered by `*`, is not refused, and has no lower weight than
/// identity.
pub fn accepts_gzip<'a>(accept_encoding: impl IntoIterator<Item = &'a [u8]>) -> bool {
    choose(accept_encoding, &[Coding::Gzip]) == Choice::Coded(Coding::Gzip)
}

/// Returns the version of OpenMetrics to send, or `None` for the text format 0.0.4.
///
/// OpenMetrics is chosen only if the client names it and prefers nothing else that is available. Among equal weights
/// the first one wins, and a wildcard loses against a name.
pub fn prefers_openmetrics<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> Option<OpenMetrics> {
    let mut best: Option<(u16, Option<OpenMetrics>)> = None;
    let mut wildcard = 0;
    for range in accept.into_iter().flat_map(list) {
        match offer(range) {
            Some((RequestedFormat::Named(format), quality)) if quality > best.map_or(0, |(best, _)| best) => {
                best = Some((quality, format));
            }
            Some((RequestedFormat::Wildcard, quality)) => wildcard = wildcard.max(quality),
            _ => {}
        }
    }
    best.filter(|&(quality, _)| quality >= wildcard).and_then(|(_, format)| format)
}

enum RequestedFormat {
    /// An available format, requested by name; `None` is the text format.
    Named(Option<OpenMetrics>),
    /// A media range that covers the text format.
    Wildcard,
}

/// Parses one member of `Accept`; returns `None` for formats that are not available.
fn offer(range: &[u8]) -> Option<(RequestedFormat, u16)> {
    let (media_type, parameters) = member(range);
    let version = parameters.clone().find_map(|parameter| named(parameter, b"version"));
    let offer = if media_type.eq_ignore_ascii_case(b"application/openmetrics-text") {
        RequestedFormat::Named(Some(match version {
            None | Some(b"1.0.0") => OpenMetrics::V1_0_0,
            Some(b"0.0.1") => OpenMetrics::V0_0_1,
            Some(_) => return None,
        }))
    } else if media_type.eq_ignore_ascii_case(b"text/plain") {
        matches!(version, None | Some(b"0.0.4")).then_some(RequestedFormat::Named(None))?
    } else if media_type == b"*/*" || media_type.eq_ignore_ascii_case(b"text/*") {
        RequestedFormat::Wildcard
    } else {
        return None;
    };
    Some((offer, quality(parameters)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(value: &str) -> bool {
        accepts_gzip([value.as_bytes()])
    }

    fn format(value: &str) -> Option<OpenMetrics> {
        prefers_openmetrics([value.as_bytes()])
    }

    #[test]
    fn gzip_must_be_asked_for() {
        assert!(!accepts_gzip([]));
        for yes in ["gzip", "GZip", "x-gzip", "deflate, gzip;q=0.5", "*", "br, *;q=0.1", "gzip ; q=0.001"] {
            assert!(gzip(yes), "{yes}");
        }
        for no in
            ["", "identity", "br", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *", "notgzip", "gzipped"]
        {
            assert!(!gzip(no), "{no}");
        }
        assert!(accepts_gzip([&b"br"[..], b"gzip"]));
    }

    #[test]
    fn a_preferred_identity_wins_and_a_refused_one_does_not() {
        assert!(!gzip("identity, gzip;q=0.9"));
        assert!(gzip("identity;q=0.5, gzip"));
        assert!(gzip("gzip, identity;q=0"));
        assert!(gzip("identity;q=0, *"));
    }

    #[test]
    fn malformed_qualities_drop_their_member() {
        for no in ["gzip;q=2", "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=", "gzip;q=x", "gzip;q=-1"] {
            assert!(!gzip(no), "{no}");
        }
        assert!(gzip("gzip;q=1.000"));
        assert!(gzip("gzip;Q=\"0.5\""));
    }

    #[test]
    fn text_is_the_answer_to_nothing_and_to_wildcards() {
        assert_eq!(prefers_openmetrics([]), None);
        for accept in ["", "*/*", "text/*", "text/plain", "application/*", "application/json", "garbage"] {
            assert_eq!(format(accept), None, "{accept}");
        }
    }

    #[test]
    fn openmetrics_by_name_gets_the_version_it_asked_for() {
        assert_eq!(format("application/openmetrics-text"), Some(OpenMetrics::V1_0_0));
        assert_eq!(format("application/openmetrics-text;version=1.0.0"), Some(OpenMetrics::V1_0_0));
        assert_eq!(format("Application/OpenMetrics-Text; version=\"0.0.1\""), Some(OpenMetrics::V0_0_1));
        assert_eq!(format("application/openmetrics-text;version=2.0.0"), None);
        assert_eq!(format("application/openmetrics-text;q=0"), None);
    }

    #[test]
    fn the_highest_quality_that_can_be_given_wins() {
        let collector = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
            q=0.7,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(format(collector), Some(OpenMetrics::V1_0_0));
        assert_eq!(format("application/openmetrics-text;q=0.5,text/plain;version=0.0.4"), None);
        assert_eq!(format("application/openmetrics-text;q=0.5,*/*"), None);
        assert_eq!(
            format("application/openmetrics-text;q=0.5,text/plain;version=1.0.0"),
            Some(OpenMetrics::V1_0_0)
        );
        let old = "application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(format(old), Some(OpenMetrics::V0_0_1));
    }

    #[test]
    fn between_equals_the_first_wins_and_a_name_beats_a_wildcard() {
        assert_eq!(format("application/openmetrics-text, text/plain"), Some(OpenMetrics::V1_0_0));
        assert_eq!(format("text/plain, application/openmetrics-text"), None);
        assert_eq!(format("*/*, application/openmetrics-text"), Some(OpenMetrics::V1_0_0));
    }
}
