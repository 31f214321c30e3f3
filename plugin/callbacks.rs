//! Adapters from C callbacks to the trait.
//!
//! A panic becomes the error of its callback; after a panic, the plugin is called again, because its state may still be
//! consistent. No method is called before `init` has created the plugin, or after `stop` has consumed it.

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{self, svc_host_api, svc_page_request, svc_request_facts, svc_text};
use crate::{Error, Host, Metrics, PageRequest, Plugin, RequestFacts};

/// The state that svc passes to each callback.
struct State<P> {
    host: Host,
    /// Present from `init` to `stop`.
    plugin: Option<P>,
}

/// Implements `svc_plugin_entry()`.
///
/// # Safety
///
/// Only svc calls it, once, with pointers that follow its header.
pub unsafe fn enter<P: Plugin>(
    host: *const svc_host_api,
    plugin: *mut svc_plugin,
    name: &'static str,
    version: &'static str,
    offers: Offers,
) -> i32 {
    // SAFETY: guaranteed by the caller.
    let Some(host) = (unsafe { Host::of(host) }) else { return abi::SVC_FAILED };
    // SAFETY: guaranteed by the caller.
    let Some(plugin) = (unsafe { plugin.as_mut() }) else { return abi::SVC_FAILED };
    if host.api().abi != abi::SVC_PLUGIN_ABI || host.api().size < size_of::<svc_host_api>() {
        plugin.abi = abi::SVC_PLUGIN_ABI;
        return abi::SVC_FAILED;
    }
    // Leaked, because the library is never unloaded.
    let state: *mut State<P> = Box::into_raw(Box::new(State { host, plugin: None }));
    *plugin = svc_plugin {
        name: svc_text::of(name.as_bytes()),
        version: svc_text::of(version.as_bytes()),
        state: state.cast(),
        ..offered::<P>(offers)
    };
    abi::SVC_OK
}

unsafe extern "C" fn init<P: Plugin>(state: *mut c_void) -> i32 {
    // SAFETY: `enter` has created the state, and this is the plugin's thread.
    unsafe {
        with(state, |state: &mut State<P>| {
            state.plugin = Some(P::init(&state.host)?);
            Ok(abi::SVC_OK)
        })
    }
}

unsafe extern "C" fn start<P: Plugin>(state: *mut c_void) -> i32 {
    // SAFETY: as in `init`.
    unsafe { with(state, |state: &mut State<P>| state.plugin()?.start().map(|()| abi::SVC_OK)) }
}

unsafe extern "C" fn stop<P: Plugin>(state: *mut c_void) {
    let stop = |state: &mut State<P>| {
        if let Some(plugin) = state.plugin.take() {
            plugin.stop();
        }
        Ok(abi::SVC_OK)
    };
    // SAFETY: as in `init`.
    unsafe { with(state, stop) };
}

/// Declares the callbacks that a plugin may lack, in the order of the header: the fields of `svc_plugin`, and functions that
/// call the trait. A new one goes to the end.
macro_rules! callbacks {
    ($(fn $name:ident($($argument:ident: $type:ty),*) |$state:ident| $body:expr;)*) => {
        /// The callbacks that a plugin has.
        #[derive(Clone, Copy, Debug, Default)]
        #[expect(missing_docs, reason = "a set of names")]
        pub struct Offers {
            $(pub $name: bool,)*
        }

        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "include/svc_plugin.h documents it")]
        pub struct svc_plugin {
            pub size: usize,
            pub abi: u32,
            pub reserved: u32,
            pub name: svc_text,
            pub version: svc_text,
            pub state: *mut c_void,
            pub init: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
            pub start: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
            pub stop: Option<unsafe extern "C" fn(*mut c_void)>,
            $(pub $name: Option<unsafe extern "C" fn(*mut c_void $(, $type)*) -> i32>,)*
        }

        /// Returns a struct with these callbacks only.
        fn offered<P: Plugin>(offers: Offers) -> svc_plugin {
            svc_plugin {
                size: size_of::<svc_plugin>(),
                abi: abi::SVC_PLUGIN_ABI,
                reserved: 0,
                name: svc_text::of(b""),
                version: svc_text::of(b""),
                state: std::ptr::null_mut(),
                init: Some(init::<P>),
                start: Some(start::<P>),
                stop: Some(stop::<P>),
                $($name: offers.$name.then_some($name::<P>),)*
            }
        }

        $(unsafe extern "C" fn $name<P: Plugin>(state: *mut c_void $(, $argument: $type)*) -> i32 {
            let act = |$state: &mut State<P>| $body;
            // SAFETY: as in `init`.
            unsafe { with(state, act) }
        })*
    };
}

callbacks! {
    fn health(answer: *mut c_void) |state| {
        let health = state.plugin()?.health()?;
        Ok(state.host.answer_health(answer, health.status, &health.text))
    };
    fn config(answer: *mut c_void) |state| {
        let json = state.plugin()?.config()?;
        taken(state.host.answer_config(answer, &json), "the configuration", "it is no JSON object")
    };
    fn serve(request: *const svc_page_request, answer: *mut c_void) |state| {
        // SAFETY: svc's struct and its texts are valid for the call.
        let request = unsafe { PageRequest::of(request) };
        let page = state.plugin()?.serve(&request)?;
        let code = state.host.answer_page(answer, page.status, &page.kind, &page.body);
        taken(code, "the page", "its status or its content type is not valid")
    };
    fn metrics(answer: *mut c_void) |state| {
        let mut metrics = Metrics::new(state.host, answer);
        state.plugin()?.metrics(&mut metrics).map(|()| abi::SVC_OK)
    };
    fn request_ended(facts: *const svc_request_facts) |state| {
        // SAFETY: svc's struct and its texts are valid for the call.
        let facts = unsafe { RequestFacts::of(facts) };
        state.plugin()?.request_ended(&facts).map(|()| abi::SVC_OK)
    };
}

impl<P> State<P> {
    fn plugin(&mut self) -> Result<&mut P, Error> {
        self.plugin.as_mut().ok_or_else(|| Error::new("the plugin was not initialised"))
    }
}

/// Calls `act`, and explains an error or a panic to svc.
///
/// # Safety
///
/// `state` was created by [`enter`], and no other callback runs.
unsafe fn with<P>(state: *mut c_void, act: impl FnOnce(&mut State<P>) -> Result<i32, Error>) -> i32 {
    // SAFETY: guaranteed by the caller.
    let state = unsafe { &mut *state.cast::<State<P>>() };
    let host = state.host;
    let result = catch_unwind(AssertUnwindSafe(|| act(state)))
        .unwrap_or_else(|panic| Err(Error::new(format!("it panicked: {}", text_of(&*panic)))));
    result.unwrap_or_else(|error| {
        host.explain(&error.to_string());
        abi::SVC_FAILED
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a text")
}

/// Converts svc's code for an answer to a result.
fn taken(code: i32, what: &str, malformed: &str) -> Result<i32, Error> {
    match code {
        abi::SVC_OK => Ok(code),
        abi::SVC_TOO_LARGE => Err(Error::new(format!("{what} is too large"))),
        abi::SVC_INVALID => Err(Error::new(format!("{what} was refused: {malformed}"))),
        _ => Err(Error::new(format!("{what} was refused"))),
    }
}
