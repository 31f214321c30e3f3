//! Status codes: their reason phrases, and which of them have no body.
//!
//! Every registered code has its registered phrase. 499 has none, because it is never sent.

/// Returns the reason phrase of a status code; empty for unregistered codes.
pub const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300..=399 => redirection(status),
        400..=499 => client_error(status),
        500..=599 => server_error(status),
        _ => "",
    }
}

/// Returns whether a response with this status has no body, regardless of its fields.
pub const fn is_bodiless(status: u16) -> bool {
    matches!(status, 100..=199 | 204 | 304)
}

const fn redirection(status: u16) -> &'static str {
    match status {
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        _ => "",
    }
}

const fn client_error(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        _ => "",
    }
}

const fn server_error(status: u16) -> &'static str {
    match status {
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        510 => "Not Extended",
        511 => "Network Authentication Required",
        529 => "Site is overloaded",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_codes_have_phrases_and_others_have_none() {
        let known = (0..=999).filter(|&status| !reason(status).is_empty()).count();
        // 4 informational, 10 successful, 8 redirections, 28 client errors, 11 server errors, and 529.
        assert_eq!(known, 4 + 10 + 8 + 28 + 11 + 1);
        assert_eq!(reason(499), "");
        assert_eq!(reason(529), "Site is overloaded");
    }

    #[test]
    fn only_informational_no_content_and_not_modified_are_bodiless() {
        assert!([100, 103, 199, 204, 304].into_iter().all(is_bodiless));
        assert!(![200, 205, 301, 404, 500].into_iter().any(is_bodiless));
    }
}
