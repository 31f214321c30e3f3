//! The destinations of callbacks' answers.
//!
//! An answer is copied before the call returns; one that exceeds its limit is rejected without being read. A handle is
//! a unique number, not a pointer: a handle that a plugin has kept, passed to another thread or used for another kind
//! of answer is rejected, and no memory is accessed. The caller of the callback validates the configuration, page or
//! metric before the call returns.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use svc_types::{
    AnswerRefusal, ConfigSink, HealthReport, MetricSink, PageSink, PluginHealth, PluginMetricKind,
    RefusalCode,
};

use super::bindings::{
    self, SVC_CONFIG_MAX, SVC_DUPLICATE, SVC_FAILED, SVC_HEALTH_TEXT_MAX, SVC_INVALID, SVC_METRICS_MAX,
    SVC_NOT_NOW, SVC_OK, SVC_PAGE_MAX, SVC_TOO_LARGE, svc_config, svc_health, svc_label, svc_metrics,
    svc_page, svc_text,
};
use super::text::{bytes, code, guarded};

const _: () = {
    assert!(bindings::SVC_HEALTH_OK == PluginHealth::Ok as u32);
    assert!(bindings::SVC_HEALTH_DEGRADED == PluginHealth::Degraded as u32);
    assert!(bindings::SVC_HEALTH_FAILED == PluginHealth::Failed as u32);
    assert!(bindings::SVC_COUNTER == PluginMetricKind::Counter as u32);
    assert!(bindings::SVC_GAUGE == PluginMetricKind::Gauge as u32);
    assert!(SVC_HEALTH_TEXT_MAX as usize == HealthReport::TEXT_BYTES_MAX);
};

/// The destination of a callback's answer.
pub(super) enum AnswerSink<'a> {
    /// The answer of `health`.
    Health(&'a mut Option<HealthReport>),
    /// The answer of `config`: JSON.
    Config(&'a mut ConfigSink<'a>),
    /// The answer of `serve`: a status, the value of `Content-Type`, a body.
    Page(&'a mut PageSink<'a>),
    /// The answers of `metrics`.
    Metrics(&'a mut dyn MetricSink),
}

/// The answer of a running callback.
pub(super) struct AnswerSlot<'a> {
    sink: AnswerSink<'a>,
    /// Why the latest answer was rejected; `None` if it was accepted.
    refused: Option<String>,
}

impl<'a> AnswerSlot<'a> {
    /// Creates a slot without an answer.
    pub(super) fn new(sink: AnswerSink<'a>) -> Self {
        Self { sink, refused: None }
    }

    /// Returns why the latest answer was rejected; `None` if it was accepted.
    pub(super) fn refused(self) -> Option<String> {
        self.refused
    }
}

/// A return value other than `SVC_OK` for a function of the contract.
struct Refused {
    code: i32,
    /// The reason, if the code alone is not enough.
    why: Option<String>,
}

impl Refused {
    fn invalid(why: &str) -> Self {
        Self { code: code(SVC_INVALID), why: Some(why.to_owned()) }
    }
}

impl From<i32> for Refused {
    fn from(refused: i32) -> Self {
        let is_too_large = refused == code(SVC_TOO_LARGE);
        let why = if is_too_large { "a text is longer than its bound" } else { "a text is malformed" };
        Self { code: refused, why: Some(why.to_owned()) }
    }
}

impl From<RefusalCode> for Refused {
    fn from(refusal: RefusalCode) -> Self {
        Self { code: code_of(refusal), why: None }
    }
}

impl From<AnswerRefusal> for Refused {
    fn from(refusal: AnswerRefusal) -> Self {
        Self { code: code_of(refusal.code), why: Some(refusal.why) }
    }
}

/// The handle by which a callback answers.
#[derive(Clone, Copy)]
pub(super) struct AnswerHandle(usize);

impl AnswerHandle {
    /// Returns the handle as the opaque pointer of the contract.
    pub(super) fn as_raw<T>(self) -> *mut T {
        ptr::without_provenance_mut(self.0)
    }
}

/// The answer that a thread expects.
#[derive(Clone, Copy)]
struct Expected {
    handle: usize,
    /// An [`AnswerSlot`] that is not used elsewhere until its callback has returned.
    slot: *mut c_void,
}

/// Calls `callback`; while it runs, its answer is expected on this thread, and goes to `slot`.
pub(super) fn expecting<T>(slot: &mut AnswerSlot<'_>, callback: impl FnOnce(AnswerHandle) -> T) -> T {
    /// The answer expected by an outer callback, which has not returned; restored on drop.
    struct Before(Option<Expected>);
    impl Drop for Before {
        fn drop(&mut self) {
            EXPECTED.set(self.0);
        }
    }
    // Relaxed: only uniqueness matters.
    let handle = HANDLE_BIT | (HANDLES.fetch_add(1, Ordering::Relaxed) << HANDLE_SHIFT);
    let expected = Expected { handle, slot: ptr::from_mut(slot).cast() };
    let _before = Before(EXPECTED.replace(Some(expected)));
    callback(AnswerHandle(handle))
}

thread_local! {
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
}

/// The number of answers expected so far.
static HANDLES: AtomicUsize = AtomicUsize::new(0);

/// Makes handles invalid as addresses, so that dereferencing one faults.
const HANDLE_BIT: usize = 1 << (usize::BITS - 1);

/// Handles are aligned, as languages expect of pointers.
const HANDLE_SHIFT: u32 = 4;

/// Calls `act` with the sink of the answer expected on this thread, if `handle` stands for it.
fn answered(handle: usize, act: impl FnOnce(&mut AnswerSink<'_>) -> Result<(), Refused>) -> i32 {
    // Taken meanwhile, so that a nested call cannot access the slot.
    let Some(expected) = EXPECTED.take() else { return code(SVC_NOT_NOW) };
    let result = if expected.handle == handle {
        guarded(code(SVC_FAILED), || {
            // SAFETY: it was made from a slot that is borrowed until its callback has returned, which is when it leaves
            // `EXPECTED`; `EXPECTED` is local to this thread, and empty until the slot is put back.
            let slot = unsafe { &mut *expected.slot.cast::<AnswerSlot<'_>>() };
            match act(&mut slot.sink) {
                Ok(()) => {
                    slot.refused = None;
                    code(SVC_OK)
                }
                Err(refused) => {
                    slot.refused = refused.why;
                    refused.code
                }
            }
        })
    } else {
        code(SVC_NOT_NOW)
    };
    EXPECTED.set(Some(expected));
    result
}

/// The maximum number of labels that are read.
const LABELS_MAX: usize = 64;

/// Defines functions of the contract: `fn name(answer: handle => kind, arguments) |sink| body`. A handle that does not
/// stand for the expected answer is rejected with `SVC_NOT_NOW`.
macro_rules! answers {
    ($(fn $name:ident($handle:ty => $kind:ident $(, $argument:ident: $type:ty)*) |$answer:ident| $body:block)*) => {
        $(pub(super) unsafe extern "C" fn $name(handle: *mut $handle $(, $argument: $type)*) -> i32 {
            answered(handle.addr(), |sink| {
                let AnswerSink::$kind($answer) = sink else { return Err(RefusalCode::NotNow.into()) };
                $body
            })
        })*
    };
}

answers! {
    fn answer_health(svc_health => Health, status: i32, text: svc_text) |answer| {
        let health = usize::try_from(status).ok().and_then(|status| PluginHealth::ALL.get(status).copied());
        let health = health.ok_or_else(|| Refused::invalid("the status is none of SVC_HEALTH_"))?;
        // SAFETY: by contract, the text is valid for this call.
        let text = unsafe { bytes(&text, usize::MAX) }?;
        let text = beginning(text).ok_or_else(|| Refused::invalid("the text is not UTF-8"))?;
        **answer = Some(HealthReport::new(health, text));
        Ok(())
    }

    fn answer_config(svc_config => Config, json: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        let json = unsafe { bytes(&json, SVC_CONFIG_MAX as usize) }?;
        Ok(answer(json)?)
    }

    fn answer_page(svc_page => Page, status: i32, content_type: svc_text, body: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        let content_type = unsafe { bytes(&content_type, CONTENT_TYPE_MAX) }?;
        // SAFETY: likewise.
        let body = unsafe { bytes(&body, SVC_PAGE_MAX as usize) }?;
        Ok(answer(status, content_type, body)?)
    }

    fn add_family(svc_metrics => Metrics, kind: i32, name: svc_text, help: svc_text) |answer| {
        let kind = usize::try_from(kind).ok().and_then(|kind| PluginMetricKind::ALL.get(kind).copied());
        let kind = kind.ok_or(RefusalCode::Invalid)?;
        // SAFETY: by contract, the text is valid for this call.
        let name = unsafe { bytes(&name, SVC_METRICS_MAX as usize) }?;
        // SAFETY: likewise.
        let help = unsafe { bytes(&help, SVC_METRICS_MAX as usize) }?;
        Ok(answer.add_family(kind, name, help)?)
    }

    fn add_sample(svc_metrics => Metrics, labels: *const svc_label, count: usize, value: f64) |answer| {
        if count > LABELS_MAX {
            return Err(RefusalCode::TooLarge.into());
        }
        if count > 0 && labels.is_null() {
            return Err(RefusalCode::Invalid.into());
        }
        let labels = if count == 0 { ptr::dangling() } else { labels };
        // SAFETY: not NULL, and by contract an array of `count` labels; an empty one is not read.
        let labels = unsafe { slice::from_raw_parts(labels, count) };
        let mut pairs = Vec::with_capacity(count);
        for label in labels {
            // SAFETY: by contract, the texts are valid for this call.
            let name = unsafe { bytes(&label.name, SVC_METRICS_MAX as usize) }?;
            // SAFETY: likewise.
            let value = unsafe { bytes(&label.value, SVC_METRICS_MAX as usize) }?;
            pairs.push((name, value));
        }
        Ok(answer.add_sample(&pairs, value)?)
    }
}

/// The maximum length of a content type that is read.
const CONTENT_TYPE_MAX: usize = 4096;

/// Returns the part of a health text that is kept, cut between characters; `None` if it is not UTF-8.
fn beginning(text: &[u8]) -> Option<&str> {
    let kept = &text[..text.len().min(SVC_HEALTH_TEXT_MAX as usize)];
    match str::from_utf8(kept) {
        Ok(kept) => Some(kept),
        // The cut is within a character.
        Err(error) if kept.len() < text.len() && error.error_len().is_none() => {
            str::from_utf8(&kept[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

fn code_of(refusal: RefusalCode) -> i32 {
    code(match refusal {
        RefusalCode::Duplicate => SVC_DUPLICATE,
        RefusalCode::Invalid => SVC_INVALID,
        RefusalCode::NotNow => SVC_NOT_NOW,
        RefusalCode::TooLarge => SVC_TOO_LARGE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::text::text_of;

    fn say_health<T>(handle: *mut T) -> i32 {
        // SAFETY: the text is static.
        unsafe { answer_health(handle.cast(), 0, text_of(b"well")) }
    }

    fn say_page<T>(handle: *mut T) -> i32 {
        // SAFETY: the texts are static.
        unsafe { answer_page(handle.cast(), 200, text_of(b"a/b"), text_of(b"x")) }
    }

    #[test]
    fn a_handle_stands_for_one_answer_of_one_kind() {
        let (mut answer, mut other) = (None, None);
        let kept = expecting(&mut AnswerSlot::new(AnswerSink::Health(&mut answer)), |handle| {
            let handle = handle.as_raw::<svc_health>();
            assert_eq!((say_page(handle), say_health(handle)), (code(SVC_NOT_NOW), code(SVC_OK)));
            assert_eq!(say_health(handle.wrapping_byte_add(1)), code(SVC_NOT_NOW));
            assert_eq!(say_health(ptr::null_mut::<svc_health>()), code(SVC_NOT_NOW));
            handle
        });
        assert!(answer.is_some());
        assert_eq!(say_health(kept), code(SVC_NOT_NOW));
        let mut next = AnswerSlot::new(AnswerSink::Health(&mut other));
        expecting(&mut next, |_| assert_eq!(say_health(kept), code(SVC_NOT_NOW)));
        assert!(other.is_none());
    }

    #[test]
    fn a_handle_stands_for_nothing_on_another_thread() {
        let mut pages = 0;
        let mut take = |_: i32, _: &[u8], _: &[u8]| {
            pages += 1;
            Ok(())
        };
        let elsewhere = expecting(&mut AnswerSlot::new(AnswerSink::Page(&mut take)), |handle| {
            std::thread::scope(|scope| scope.spawn(|| say_page(handle.as_raw::<svc_page>())).join().unwrap())
        });
        assert_eq!((elsewhere, pages), (code(SVC_NOT_NOW), 0));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let max = SVC_HEALTH_TEXT_MAX as usize;
        assert_eq!(beginning("ä".repeat(max).as_bytes()).unwrap().len(), max);
        assert_eq!(beginning(format!("x{}", "ä".repeat(max)).as_bytes()).unwrap().len(), max - 1);
        assert_eq!(beginning(&[b'x'; 3]), Some("xxx"));
        // Truncated without a cut; or invalid in the part that is kept.
        assert_eq!(beginning(b"x\xc3"), None);
        assert_eq!(beginning(&[&b"\xff"[..], &vec![b'x'; max]].concat()), None);
    }

    #[test]
    fn the_last_refusal_is_known_until_an_answer_is_taken() {
        let mut is_full = true;
        let mut take = |_: i32, _: &[u8], _: &[u8]| {
            if std::mem::take(&mut is_full) { Err(AnswerRefusal::too_large("full")) } else { Ok(()) }
        };
        let mut slot = AnswerSlot::new(AnswerSink::Page(&mut take));
        let result = expecting(&mut slot, |handle| say_page(handle.as_raw::<svc_page>()));
        assert_eq!((result, slot.refused.as_deref()), (code(SVC_TOO_LARGE), Some("full")));
        let result = expecting(&mut slot, |handle| say_page(handle.as_raw::<svc_page>()));
        assert_eq!((result, slot.refused()), (code(SVC_OK), None));
    }
}
