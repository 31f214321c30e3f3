//! Label values that are fixed sets, in the order of the exposition.
//!
//! A value is spelled in one place. The reasons for refusals and for recycled workers are defined by the modules that
//! refuse and recycle.

use svc_types::{HookObstacle, RuntimeHook};

use crate::admission::ShedReason;
use crate::cache::{CacheOutcome, EvictionReason, StaleReason};
use crate::config::ExportSignal;
use crate::http::MethodKind;
use crate::pool::RecycleReason;

use super::php_errors::PhpErrorLevel;

/// Why a request was answered without its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// The client hung up while the request was queued or its handler ran.
    ClientAbort,
    /// The script reached its time limit.
    Timeout,
    /// The drain deadline cut off the request.
    Shutdown,
}

impl CancelReason {
    /// Every reason, in the order of the exposition.
    pub const ALL: [Self; 3] = [Self::ClientAbort, Self::Timeout, Self::Shutdown];

    /// Returns the reason's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClientAbort => "client_abort",
            Self::Timeout => "timeout",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The class of a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusClass {
    /// 100 to 199: only a protocol switch ends a request with such a status.
    Informational,
    /// 200 to 299.
    Success,
    /// 300 to 399.
    Redirection,
    /// 400 to 499.
    ClientError,
    /// 500 and above.
    ServerError,
}

impl StatusClass {
    /// Every class, in the order of the exposition.
    pub const ALL: [Self; 5] =
        [Self::Informational, Self::Success, Self::Redirection, Self::ClientError, Self::ServerError];

    /// Returns the class of a status code; codes above 599, which scripts may invent, count as server errors.
    pub fn of(status: u16) -> Self {
        match status {
            ..=199 => Self::Informational,
            200..=299 => Self::Success,
            300..=399 => Self::Redirection,
            400..=499 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }

    /// Returns the class's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        }
    }
}

/// How a TLS handshake ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsHandshake {
    /// A new session was established.
    Full,
    /// A session was resumed.
    Resumed,
    /// The connection ended before the handshake did.
    Failed,
    /// The client spoke HTTP without TLS.
    PlainHttp,
}

impl TlsHandshake {
    /// Every outcome, in the order of the exposition.
    pub const ALL: [Self; 4] = [Self::Full, Self::Resumed, Self::Failed, Self::PlainHttp];

    /// Returns the outcome's label value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Resumed => "resumed",
            Self::Failed => "failed",
            Self::PlainHttp => "plain_http",
        }
    }
}

/// A set of values that a label can have.
pub trait Label: Copy + 'static {
    /// The label's name.
    const NAME: &'static str;
    /// Every value, in the order of the exposition.
    const VALUES: &'static [Self];
    /// Whether series exist before their first count.
    const IS_SHOWN_FROM_THE_START: bool;

    /// Returns its index among the counters.
    fn index(self) -> usize;

    /// Returns the value's spelling.
    fn as_str(self) -> &'static str;
}

macro_rules! labels {
    ($($name:literal: $label:ty, shown from the start: $is_shown:literal;)*) => {$(
        impl Label for $label {
            const NAME: &'static str = $name;
            const VALUES: &'static [Self] = &Self::ALL;
            const IS_SHOWN_FROM_THE_START: bool = $is_shown;

            #[inline]
            fn index(self) -> usize {
                self as usize
            }

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }
    )*};
}

labels! {
    "method": MethodKind, shown from the start: false;
    "status": StatusClass, shown from the start: false;
    "reason": CancelReason, shown from the start: true;
    "hook": RuntimeHook, shown from the start: false;
    "reason": HookObstacle, shown from the start: false;
    "reason": ShedReason, shown from the start: true;
    "reason": RecycleReason, shown from the start: true;
    "level": PhpErrorLevel, shown from the start: true;
    "result": TlsHandshake, shown from the start: true;
    "result": CacheOutcome, shown from the start: true;
    "reason": EvictionReason, shown from the start: true;
    "reason": StaleReason, shown from the start: true;
    "signal": ExportSignal, shown from the start: true;
}
