//! The format that a client gets, and its media type.

use crate::http::negotiate::{OpenMetrics, prefers_openmetrics};

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics, in the requested version; the two versions differ in name only.
    OpenMetrics(OpenMetrics),
    /// The text format, version 0.0.4; also the fallback for clients that accept neither.
    Text,
}

impl Format {
    /// Chooses the format by the `Accept` fields of a request.
    pub fn negotiate<'a>(accept: impl IntoIterator<Item = &'a [u8]>) -> Self {
        prefers_openmetrics(accept).map_or(Self::Text, Self::OpenMetrics)
    }

    /// Returns the value of `Content-Type`.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics(OpenMetrics::V0_0_1) => {
                "application/openmetrics-text; version=0.0.1; charset=utf-8"
            }
            Self::OpenMetrics(OpenMetrics::V1_0_0) => {
                "application/openmetrics-text; version=1.0.0; charset=utf-8"
            }
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}
