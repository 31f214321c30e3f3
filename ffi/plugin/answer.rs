//! Where callbacks put their answers.
//!
//! Promises: what is passed in is copied before the call returns; an answer that is longer than its bound is refused
//! without being read. A handle is a number that is never used twice and leads nowhere by itself: one that a plugin has
//! kept, given to another thread or taken for another kind is refused, and no memory is touched. Refuses: what an answer
//! means is checked by whoever asked.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// Where the answer of a callback goes.
pub(super) enum AnswerSlot<'a> {
    /// That of `health`.
    Health(Option<HealthAnswer>),
    /// That of `config`.
    Config(Option<Vec<u8>>),
    /// That of `serve`.
    Page(Option<PageAnswer>),
    /// That of `metrics`.
    Metrics(&'a mut dyn MetricSink),
}

/// What a callback is given to answer with.
#[derive(Clone, Copy)]
pub(super) struct AnswerHandle(usize);

impl AnswerHandle {
    /// The handle as the contract has it.
    pub(super) fn as_raw<T>(self) -> *mut T {
        ptr::without_provenance_mut(self.0)
    }
}

/// An answer as its thread knows it.
#[derive(Clone, Copy)]
struct Expected {
    handle: usize,
    /// An [`AnswerSlot`] that nobody else uses until its callback has returned.
    slot: *mut c_void,
}

/// Calls `callback`; as long as it runs, its answer is expected on this thread, and goes to `slot`.
pub(super) fn expecting<T>(slot: &mut AnswerSlot<'_>, callback: impl FnOnce(AnswerHandle) -> T) -> T {
    /// What was expected before, by a callback that has not returned.
    struct Before(Option<Expected>);
    impl Drop for Before {
        fn drop(&mut self) {
            EXPECTED.set(self.0);
        }
    }
    // Relaxed: only that no two are the same counts.
    let handle = HANDLE_BIT | (HANDLES.fetch_add(1, Ordering::Relaxed) << HANDLE_SHIFT);
    let expected = Expected { handle, slot: ptr::from_mut(slot).cast() };
    let _before = Before(EXPECTED.replace(Some(expected)));
    callback(AnswerHandle(handle))
}

thread_local! {
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
}

/// How many answers were expected so far.
static HANDLES: AtomicUsize = AtomicUsize::new(0);

/// Where no process has memory, so that a plugin that follows a handle does not get far.
const HANDLE_BIT: usize = 1 << (usize::BITS - 1);

/// Handles look aligned, as languages expect of a pointer.
const HANDLE_SHIFT: u32 = 4;

/// Calls `act` with the slot of the answer that is expected on this thread, if that is what `handle` stands for.
fn answered(handle: usize, act: impl FnOnce(&mut AnswerSlot<'_>) -> Result<(), i32>) -> i32 {
    // Nothing is expected meanwhile, so that nobody else gets at the slot.
    let Some(expected) = EXPECTED.take() else { return code(SVC_NOT_NOW) };
    let result = if expected.handle == handle {
        guarded(code(SVC_FAILED), || {
            // SAFETY: it was made of a slot that is borrowed until its callback has returned, which is when it leaves
            // `EXPECTED`; no other thread sees that, and nobody else on this one before it is put back.
            let slot = unsafe { &mut *expected.slot.cast::<AnswerSlot<'_>>() };
            act(slot).map_or_else(|refusal| refusal, |()| code(SVC_OK))
        })
    } else {
        code(SVC_NOT_NOW)
    };
    EXPECTED.set(Some(expected));
    result
}

/// The maximum length of the text of a health report; more is cut off.
const HEALTH_TEXT_MAX: usize = 64 * 1024;

/// The maximum number of labels that are looked at.
const LABELS_MAX: usize = 64;

/// Defines functions of the contract: `fn name(answer: handle => kind, arguments) |slot| body`. A handle that does not
/// stand for the answer that is expected is an answer at the wrong time.
macro_rules! answers {
    ($(fn $name:ident($handle:ty => $kind:ident $(, $argument:ident: $type:ty)*) |$answer:ident| $body:block)*) => {
        $(pub(super) unsafe extern "C" fn $name(handle: *mut $handle $(, $argument: $type)*) -> i32 {
            answered(handle.addr(), |slot| {
                let AnswerSlot::$kind($answer) = slot else { return Err(code(SVC_NOT_NOW)) };
                $body
            })
        })*
    };
}

answers! {
    fn answer_health(svc_health => Health, status: i32, text: svc_text) |answer| {
        let status = match status.try_into() {
            Ok(bindings::SVC_HEALTH_OK) => HealthStatus::Ok,
            Ok(bindings::SVC_HEALTH_DEGRADED) => HealthStatus::Degraded,
            Ok(bindings::SVC_HEALTH_FAILED) => HealthStatus::Failed,
            _ => return Err(code(SVC_INVALID)),
        };
        // SAFETY: by contract, the text is valid for this call.
        let text = unsafe { bytes(&text, HEALTH_TEXT_MAX) }?;
        *answer = Some(HealthAnswer { status, text: String::from_utf8_lossy(text).into_owned() });
        Ok(())
    }

    fn answer_config(svc_config => Config, json: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        *answer = Some(unsafe { bytes(&json, SVC_CONFIG_MAX as usize) }?.to_vec());
        Ok(())
    }

    fn answer_page(svc_page => Page, status: i32, content_type: svc_text, body: svc_text) |answer| {
        // SAFETY: by contract, the text is valid for this call.
        let content_type = unsafe { bytes(&content_type, CONTENT_TYPE_MAX) }?.to_vec();
        // SAFETY: likewise.
        let body = unsafe { bytes(&body, SVC_PAGE_MAX as usize) }?.to_vec();
        *answer = Some(PageAnswer { status, content_type, body });
        Ok(())
    }

    fn add_family(svc_metrics => Metrics, kind: i32, name: svc_text, help: svc_text) |answer| {
        let kind = match kind.try_into() {
            Ok(bindings::SVC_COUNTER) => MetricType::Counter,
            Ok(bindings::SVC_GAUGE) => MetricType::Gauge,
            _ => return Err(code(SVC_INVALID)),
        };
        // SAFETY: by contract, the text is valid for this call.
        let name = unsafe { bytes(&name, SVC_METRICS_MAX as usize) }?;
        // SAFETY: likewise.
        let help = unsafe { bytes(&help, SVC_METRICS_MAX as usize) }?;
        answer.family(kind, name, help).map_err(code_of)
    }

    fn add_sample(svc_metrics => Metrics, labels: *const svc_label, count: usize, value: f64) |answer| {
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
        answer.sample(&pairs, value).map_err(code_of)
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
        let mut slot = AnswerSlot::Health(None);
        let kept = expecting(&mut slot, |handle| {
            let handle = handle.as_raw::<svc_health>();
            assert_eq!((say_page(handle), say_health(handle)), (code(SVC_NOT_NOW), code(SVC_OK)));
            assert_eq!(say_health(handle.wrapping_byte_add(1)), code(SVC_NOT_NOW));
            assert_eq!(say_health(ptr::null_mut::<svc_health>()), code(SVC_NOT_NOW));
            handle
        });
        assert!(matches!(slot, AnswerSlot::Health(Some(_))));
        assert_eq!(say_health(kept), code(SVC_NOT_NOW));
        let mut next = AnswerSlot::Health(None);
        expecting(&mut next, |_| assert_eq!(say_health(kept), code(SVC_NOT_NOW)));
        assert!(matches!(next, AnswerSlot::Health(None)));
    }

    #[test]
    fn a_handle_stands_for_nothing_on_another_thread() {
        let mut slot = AnswerSlot::Page(None);
        let elsewhere = expecting(&mut slot, |handle| {
            std::thread::scope(|scope| scope.spawn(|| say_page(handle.as_raw::<svc_page>())).join().unwrap())
        });
        assert_eq!(elsewhere, code(SVC_NOT_NOW));
        assert!(matches!(slot, AnswerSlot::Page(None)));
    }
}
