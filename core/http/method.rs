//! The closed set of methods that the server distinguishes, so that clients cannot create metric series.
//!
//! Every method has exactly one kind. Methods are case-sensitive; `get` is `OTHER`.

/// The kind of a request's method, which labels metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MethodKind {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `DELETE`.
    Delete,
    /// `PATCH`.
    Patch,
    /// `HEAD`.
    Head,
    /// `OPTIONS`.
    Options,
    /// `CONNECT`.
    Connect,
    /// `QUERY`: a safe method with a body.
    Query,
    /// Every other method.
    Other,
}

impl MethodKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 10] = [
        Self::Get,
        Self::Post,
        Self::Put,
        Self::Delete,
        Self::Patch,
        Self::Head,
        Self::Options,
        Self::Connect,
        Self::Query,
        Self::Other,
    ];

    /// Classifies a method as written in the request line.
    pub fn of(method: &[u8]) -> Self {
        match method {
            b"GET" => Self::Get,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"PATCH" => Self::Patch,
            b"HEAD" => Self::Head,
            b"OPTIONS" => Self::Options,
            b"CONNECT" => Self::Connect,
            b"QUERY" => Self::Query,
            _ => Self::Other,
        }
    }

    /// Returns whether the method is safe (RFC 9110, section 9.2.1). Unknown methods are not considered safe.
    pub const fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Query)
    }

    /// Returns the label: the name of the method, or `OTHER`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Patch => "PATCH",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Connect => "CONNECT",
            Self::Query => "QUERY",
            Self::Other => "OTHER",
        }
    }
}

/// Returns whether `input`, the beginning of a request, has the method `HEAD`: its response has no body, even if the
/// rest of the request header is malformed.
pub fn wants_head_only(input: &[u8]) -> bool {
    let line_start = input.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(input.len());
    input[line_start..].starts_with(b"HEAD ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_map_onto_each_other_in_order() {
        for (index, kind) in MethodKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
            assert_eq!(MethodKind::of(kind.as_str().as_bytes()), kind);
        }
    }

    #[test]
    fn a_head_that_cannot_be_read_still_tells_its_method() {
        assert!(wants_head_only(b"HEAD "));
        assert!(wants_head_only(b"\r\nHEAD / HTTP/9"));
        for other in [&b""[..], b"\r\n", b"HEAD", b"HEADS / HTTP/1.1", b"head / HTTP/1.1", b"GET /HEAD "] {
            assert!(!wants_head_only(other), "{other:?}");
        }
    }

    #[test]
    fn letter_case_matters() {
        assert_eq!(MethodKind::of(b"get"), MethodKind::Other);
        assert_eq!(MethodKind::of(b"TRACE"), MethodKind::Other);
    }
}
