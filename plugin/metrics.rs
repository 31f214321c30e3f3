//! A list of metrics.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use crate::Host;
use crate::abi::{self, svc_label, svc_text};

/// The metrics of a plugin while it adds them.
#[derive(Debug)]
pub struct Metrics<'a> {
    host: Host,
    answer: *mut c_void,
    call: PhantomData<&'a mut ()>,
}

/// The reason why svc has refused a family or a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The family or series exists already.
    Duplicate,
    /// A name, a help, a label or a number is not valid.
    Invalid,
    /// A series comes before the first family.
    NotNow,
    /// All metrics together are too large.
    TooLarge,
    /// Another failure.
    Failed,
}

impl Metrics<'_> {
    pub(crate) fn new(host: Host, answer: *mut c_void) -> Self {
        Self { host, answer, call: PhantomData }
    }

    /// Begins a family of numbers that only grow. Its name is `svc_plugin_<name>_` with `name`, which ends in `_total`.
    ///
    /// # Errors
    ///
    /// If svc refuses the family; the others are kept.
    pub fn counter(&mut self, name: &str, help: &str) -> Result<&mut Self, Refused> {
        self.family(abi::SVC_COUNTER, name, help)
    }

    /// Begins a family of numbers that go up and down.
    ///
    /// # Errors
    ///
    /// If svc refuses the family; the others are kept.
    pub fn gauge(&mut self, name: &str, help: &str) -> Result<&mut Self, Refused> {
        self.family(abi::SVC_GAUGE, name, help)
    }

    /// Adds a series to the most recent family.
    ///
    /// # Errors
    ///
    /// If svc refuses the series; the others are kept.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> Result<&mut Self, Refused> {
        let text = |text: &str| svc_text::of(text.as_bytes());
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| svc_label { name: text(name), value: text(value) }).collect();
        // SAFETY: svc's own function, in the callback that it has passed the handle to; labels are valid for the call.
        let code = unsafe { (self.host.api().add_sample)(self.answer, labels.as_ptr(), labels.len(), value) };
        self.checked(code)
    }

    fn family(&mut self, kind: i32, name: &str, help: &str) -> Result<&mut Self, Refused> {
        let (name, help) = (svc_text::of(name.as_bytes()), svc_text::of(help.as_bytes()));
        // SAFETY: svc's own function, in the callback that it has passed the handle to; texts are valid for the call.
        let code = unsafe { (self.host.api().add_family)(self.answer, kind, name, help) };
        self.checked(code)
    }

    fn checked(&mut self, code: i32) -> Result<&mut Self, Refused> {
        match code {
            abi::SVC_OK => Ok(self),
            abi::SVC_DUPLICATE => Err(Refused::Duplicate),
            abi::SVC_INVALID => Err(Refused::Invalid),
            abi::SVC_NOT_NOW => Err(Refused::NotNow),
            abi::SVC_TOO_LARGE => Err(Refused::TooLarge),
            _ => Err(Refused::Failed),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Duplicate => "a metric is there already",
            Self::Invalid => "a name, a help, a label or a number of a metric is not valid",
            Self::NotNow => "a series has no family",
            Self::TooLarge => "all metrics together are too large",
            Self::Failed => "a metric was refused",
        })
    }
}

impl std::error::Error for Refused {}
