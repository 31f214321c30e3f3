//! Where callbacks put their answers.
//!
//! Promises: what is passed in is copied before the call returns; an answer that is longer than its bound is refused
//! without being read. A handle is a number that is never used twice and leads nowhere by itself: one that a plugin has
//! kept, given to another thread or taken for another kind is refused, and no memory is touched. Refuses: what a
//! configuration, a page or a metric means is checked by whoever asked, before the call returns.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::bindings::{
    self, SVC_CONFIG_MAX, SVC_DUPLICATE, SVC_FAILED, SVC_HEALTH_TEXT_MAX, SVC_INVALID, SVC_METRICS_MAX,
    SVC_NOT_NOW, SVC_OK, SVC_PAGE_MAX, SVC_TOO_LARGE, svc_config, svc_health, svc_label, svc_metrics,
    svc_page, svc_text,
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

/// Why an answer, a family or a series was not taken, as a plugin is told.
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

/// Why an answer was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerFault {
    /// As the plugin is told.
    pub refusal: SinkRefusal,
    /// As an operator is told.
    pub why: String,
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

/// Takes a page.
type PageSink<'a> = dyn FnMut(i32, &[u8], &[u8]) -> Result<(), AnswerFault> + 'a;

/// Where the answer of a callback goes.
pub(super) enum AnswerSink<'a> {
    /// That of `health`.
    Health(&'a mut Option<HealthAnswer>),
    /// That of `config`: its JSON.
    Config(&'a mut dyn FnMut(&[u8]) -> Result<(), AnswerFault>),
    /// That of `serve`: a status, the value of `Content-Type`, a body.
    Page(&'a mut PageSink<'a>),
    /// That of `metrics`.
    Metrics(&'a mut dyn MetricSink),
}

/// The answer of a callback that runs.
pub(super) struct AnswerSlot<'a> {
    sink: AnswerSink<'a>,
    /// Why what was answered last was not taken.
    refused: Option<String>,
}

impl<'a> AnswerSlot<'a> {
    /// Nothing was answered yet.
    pub(super) fn new(sink: AnswerSink<'a>) -> Self {
        Self { sink, refused: None }
    }

    /// Why what was answered last was not taken.
    pub(super) fn refused(self) -> Option<String> {
        self.refused
    }
}

/// What a function of the contract says instead of `SVC_OK`.
struct Refused {
    code: i32,
    /// Why, if there is more to say than the code does.
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

impl From<SinkRefusal> for Refused {
    fn from(refusal: SinkRefusal) -> Self {
        Self { code: code_of(refusal), why: None }
    }
}

impl From<AnswerFault> for Refused {
    fn from(fault: AnswerFault) -> Self {
        Self { code: code_of(fault.refusal), why: Some(fault.why) }
    }
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

/// Calls `act` with the sink of the answer that is expected on this thread, if that is what `handle` stands for.
fn answered(handle: usize, act: impl FnOnce(&mut AnswerSink<'_>) -> Result<(), Refused>) -> i32 {
    // Nothing is expected meanwhile, so that nobody else gets at the slot.
    let Some(expected) = EXPECTED.take() else { return code(SVC_NOT_NOW) };
    let result = if expected.handle == handle {
        guarded(code(SVC_FAILED), || {
            // SAFETY: it was made of a slot that is borrowed until its callback has returned, which is when it leaves
            // `EXPECTED`; no other thread sees that, and nobody else on this one before it is put back.
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

/// The maximum number of labels that are looked at.
const LABELS_MAX: usize = 64;

/// Defines functions of the contract: `fn name(answer: handle => kind, arguments) |sink| body`. A handle that does not
/// stand for the answer that is expected is an answer at the wrong time.
macro_rules! answers {
    ($(fn $name:ident($handle:ty => $kind:ident $(, $argument:ident: $type:ty)*) |$answer:ident| $body:block)*) => {
        $(pub(super) unsafe extern "C" fn $name(handle: *mut $handle $(, $argument: $type)*) -> i32 {
            answered(handle.addr(), |sink| {
                let AnswerSink::$kind($answer) = sink else { return Err(SinkRefusal::NotNow.into()) };
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
            _ => return Err(Refused::invalid("the status is none of SVC_HEALTH_")),
        };
        // SAFETY: by contract, the text is valid for this call.
        let text = unsafe { bytes(&text, usize::MAX) }?;
        let text = beginning(text).ok_or_else(|| Refused::invalid("the text is not UTF-8"))?;
        **answer = Some(HealthAnswer { status, text: text.to_owned() });
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
        let kind = match kind.try_into() {
            Ok(bindings::SVC_COUNTER) => MetricType::Counter,
            Ok(bindings::SVC_GAUGE) => MetricType::Gauge,
            _ => return Err(SinkRefusal::Invalid.into()),
        };
        // SAFETY: by contract, the text is valid for this call.
        let name = unsafe { bytes(&name, SVC_METRICS_MAX as usize) }?;
        // SAFETY: likewise.
        let help = unsafe { bytes(&help, SVC_METRICS_MAX as usize) }?;
        Ok(answer.family(kind, name, help)?)
    }

    fn add_sample(svc_metrics => Metrics, labels: *const svc_label, count: usize, value: f64) |answer| {
        if count > LABELS_MAX {
            return Err(SinkRefusal::TooLarge.into());
        }
        if count > 0 && labels.is_null() {
            return Err(SinkRefusal::Invalid.into());
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
        Ok(answer.sample(&pairs, value)?)
    }
}

/// The maximum length of a content type that is looked at.
const CONTENT_TYPE_MAX: usize = 4096;

/// As much of the text of a health report as is kept, with whole characters only; `None` if it is not UTF-8.
fn beginning(text: &[u8]) -> Option<&str> {
    let kept = &text[..text.len().min(SVC_HEALTH_TEXT_MAX as usize)];
    match str::from_utf8(kept) {
        Ok(kept) => Some(kept),
        // The cut is within its last character.
        Err(error) if kept.len() < text.len() && error.error_len().is_none() => {
            str::from_utf8(&kept[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

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
        // Not cut, and not whole; or wrong where nothing was cut.
        assert_eq!(beginning(b"x\xc3"), None);
        assert_eq!(beginning(&[&b"\xff"[..], &vec![b'x'; max]].concat()), None);
    }

    #[test]
    fn the_last_refusal_is_known_until_an_answer_is_taken() {
        let mut is_full = true;
        let mut take = |_: i32, _: &[u8], _: &[u8]| {
            let fault = AnswerFault { refusal: SinkRefusal::TooLarge, why: "full".to_owned() };
            if std::mem::take(&mut is_full) { Err(fault) } else { Ok(()) }
        };
        let mut slot = AnswerSlot::new(AnswerSink::Page(&mut take));
        let result = expecting(&mut slot, |handle| say_page(handle.as_raw::<svc_page>()));
        assert_eq!((result, slot.refused.as_deref()), (code(SVC_TOO_LARGE), Some("full")));
        let result = expecting(&mut slot, |handle| say_page(handle.as_raw::<svc_page>()));
        assert_eq!((result, slot.refused()), (code(SVC_OK), None));
    }
}
