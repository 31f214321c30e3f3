//! Where callbacks put their answers.
//!
//! Promises: what is passed in is copied before the call returns; an answer that is longer than its bound is refused
//! without being read. Refuses: what an answer means is checked by whoever asked.

use std::ptr;
use std::slice;

use super::bindings::{
    self, SVC_CONFIG_MAX, SVC_DUPLICATE, SVC_FAILED, SVC_INVALID, SVC_METRICS_MAX, SVC_NOT_NOW, SVC_OK,
    SVC_PAGE_MAX, SVC_TOO_LARGE, svc_config, svc_health, svc_label, svc_metrics, svc_page, svc_text,
};
use super::text::{bytes, code, guarded};

/// Takes the metrics of a plugin.
pub trait MetricSink {
    /// Begins a family; `name` is the part after the plugin's.
    ///
    /// # Errors
    ///
    /// Why it was not begun.
    fn family(&mut self, kind: MetricType, name: &[u8], help: &[u8]) -> Result<(), SinkRefusal>;

    /// Adds a series to the family that was begun last.
    ///
    /// # Errors
    ///
    /// Why it was not added.
    fn sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), SinkRefusal>;
}

/// What the numbers of a family do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
}

/// Why a family or a series was not added, as a plugin is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkRefusal {
    /// It is there already.
    Duplicate,
    /// Something of it is malformed.
    Invalid,
    /// There is no family.
    NotNow,
    /// There is no more room.
    TooLarge,
}

/// How a plugin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthAnswer {
    /// How it is.
    pub status: HealthStatus,
    /// What it says about that.
    pub text: String,
}

/// How a plugin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthStatus {
    /// Well.
    Ok,
    /// Worth a look.
    Degraded,
    /// It does not work.
    Failed,
}

/// A page, as the plugin has passed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAnswer {
    /// The status code.
    pub status: i32,
    /// The value of `Content-Type`.
    pub content_type: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
}

/// The answer of `health`.
#[derive(Default)]
pub(super) struct HealthSlot(pub(super) Option<HealthAnswer>);

/// The answer of `config`.
#[derive(Default)]
pub(super) struct ConfigSlot(pub(super) Option<Vec<u8>>);

/// The answer of `serve`.
#[derive(Default)]
pub(super) struct PageSlot(pub(super) Option<PageAnswer>);

/// The answer of `metrics`.
pub(super) struct MetricSlot<'a>(pub(super) &'a mut dyn MetricSink);

/// The maximum length of the text of a health report; more is cut off.
const HEALTH_TEXT_MAX: usize = 64 * 1024;

/// The maximum number of labels that are looked at.
const LABELS_MAX: usize = 64;

/// Defines functions of the contract: `fn name(answer: handle => slot, arguments) |slot| body`. A handle that is NULL is
/// an answer at the wrong time.
macro_rules! answers {
    ($(fn $name:ident($handle:ty => $slot:ty $(, $argument:ident: $type:ty)*) |$answer:ident| $body:block)*) => {
        $(pub(super) unsafe extern "C" fn $name(handle: *mut $handle $(, $argument: $type)*) -> i32 {
            guarded(code(SVC_FAILED), || {
                // SAFETY: NULL, or by contract the slot of the callback that runs, which nobody else uses meanwhile.
                let slot = unsafe { handle.cast::<$slot>().as_mut() };
                let Some($answer) = slot else { return code(SVC_NOT_NOW) };
                let mut act = || -> Result<(), i32> { $body };
                act().map_or_else(|refusal| refusal, |()| code(SVC_OK))
            })
        })*
    };
}

answers! {
    fn answer_health(svc_health => HealthSlot, status: i32, text: svc_text) |answer| {
        let status = match status.try_into() {
            Ok(bindings::SVC_HEALTH_OK) => HealthStatus::Ok,
            Ok(bindings::SVC_HEALTH_DEGRADED) => HealthStatus::Degraded,
            Ok(bindings::SVC_HEALTH_FAILED) => HealthStatus::Failed,
            _ => return Err(code(SVC_INVALID)),
        };
        // SAFETY: by contract, the text is valid for this call.
        let text = unsafe { bytes(&text, HEALTH_TEXT_MAX) }?;
        answer.0 = Some(HealthAnswer { status, text: String::from_utf8_lossy(text).into_owned() });
        Ok(())
    }

    fn answer_config(svc_config => ConfigSlot, json: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        answer.0 = Some(unsafe { bytes(&json, SVC_CONFIG_MAX as usize) }?.to_vec());
        Ok(())
    }

    fn answer_page(svc_page => PageSlot, status: i32, content_type: svc_text, body: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        let content_type = unsafe { bytes(&content_type, CONTENT_TYPE_MAX) }?.to_vec();
        // SAFETY: likewise.
        let body = unsafe { bytes(&body, SVC_PAGE_MAX as usize) }?.to_vec();
        answer.0 = Some(PageAnswer { status, content_type, body });
        Ok(())
    }

    fn add_family(svc_metrics => MetricSlot<'_>, kind: i32, name: svc_text, help: svc_text) |answer| {
        let kind = match kind.try_into() {
            Ok(bindings::SVC_COUNTER) => MetricType::Counter,
            Ok(bindings::SVC_GAUGE) => MetricType::Gauge,
            _ => return Err(code(SVC_INVALID)),
        };
        // SAFETY: by contract, the text is valid for this call.
        let name = unsafe { bytes(&name, SVC_METRICS_MAX as usize) }?;
        // SAFETY: likewise.
        let help = unsafe { bytes(&help, SVC_METRICS_MAX as usize) }?;
        answer.0.family(kind, name, help).map_err(code_of)
    }

    fn add_sample(svc_metrics => MetricSlot<'_>, labels: *const svc_label, count: usize, value: f64) |answer| {
        if count > LABELS_MAX {
            return Err(code(SVC_TOO_LARGE));
        }
        if count > 0 && labels.is_null() {
            return Err(code(SVC_INVALID));
        }
        let labels = if count == 0 { ptr::dangling() } else { labels };
        // SAFETY: not NULL, and by contract as many labels as it says; of none, nothing is read.
        let labels = unsafe { slice::from_raw_parts(labels, count) };
        let mut pairs = Vec::with_capacity(count);
        for label in labels {
            // SAFETY: by contract, the texts are valid for this call.
            let name = unsafe { bytes(&label.name, SVC_METRICS_MAX as usize) }?;
            // SAFETY: likewise.
            let value = unsafe { bytes(&label.value, SVC_METRICS_MAX as usize) }?;
            pairs.push((name, value));
        }
        answer.0.sample(&pairs, value).map_err(code_of)
    }
}

/// The maximum length of a content type that is looked at.
const CONTENT_TYPE_MAX: usize = 4096;

fn code_of(refusal: SinkRefusal) -> i32 {
    code(match refusal {
        SinkRefusal::Duplicate => SVC_DUPLICATE,
        SinkRefusal::Invalid => SVC_INVALID,
        SinkRefusal::NotNow => SVC_NOT_NOW,
        SinkRefusal::TooLarge => SVC_TOO_LARGE,
    })
}
