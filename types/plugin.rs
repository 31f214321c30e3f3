//! The callbacks of a plugin: one declaration each.
//!
//! A callback is a method of [`Plugin`], a [`PluginCall`] that names it, and a field of `struct svc_plugin` in
//! `include/svc_plugin.h`; [`each_plugin_callback`](crate::each_plugin_callback) lists the fields.

use crate::{AnswerRefusal, HealthReport, MetricSink, RequestFacts};

/// Declares the callbacks.
macro_rules! callbacks {
    ($dollar:tt $($(#[$doc:meta])* $call:ident: fn $name:ident($($parameters:tt)*) $(-> $result:ty)? $default:block)*) => {
        /// A plugin: its callbacks, which are called on one thread, one at a time. First comes `init`, then `start`, then
        /// the others in any order, and `stop` last.
        ///
        /// Errors are texts for the operator. Implementations need not limit the duration of a call; the caller tracks it.
        /// A callback that is not among [`PluginAbout::callbacks`] is never called.
        pub trait Plugin: Send {
            /// Returns the plugin's identity and capabilities. Must always return the same value.
            fn about(&self) -> PluginAbout;

            $($(#[$doc])* fn $name($($parameters)*) $(-> $result)? $default)*
        }

        /// A callback of a plugin, named like its field in `struct svc_plugin`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum PluginCall {
            $(#[doc = concat!("[`Plugin::", stringify!($name), "`].")] $call,)*
        }

        impl PluginCall {
            /// All callbacks.
            pub const ALL: [Self; [$(stringify!($name)),*].len()] = [$(Self::$call),*];

            /// Returns the name of the callback as plugin authors know it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$call => stringify!($name),)*
                }
            }
        }

        /// Calls a macro with the callbacks: the field of `struct svc_plugin`, and the [`PluginCall`].
        #[macro_export]
        macro_rules! each_plugin_callback {
            ($dollar with:ident) => {
                $dollar with! { $($name $call,)* }
            };
        }
    };
}

callbacks! {
    $
    /// Initialises the plugin.
    ///
    /// # Errors
    ///
    /// If the server must not start.
    Init: fn init(&mut self) -> Result<(), String> { Ok(()) }

    /// Called when the server begins to serve.
    ///
    /// # Errors
    ///
    /// If the plugin cannot work; only `stop` is called afterwards.
    Start: fn start(&mut self) -> Result<(), String> { Ok(()) }

    /// Returns the health.
    ///
    /// # Errors
    ///
    /// If the health cannot be determined; counts as failed.
    Health: fn health(&mut self) -> Result<HealthReport, String> { Err(missing()) }

    /// Passes the plugin's metrics to `metrics`.
    ///
    /// # Errors
    ///
    /// If the metrics cannot be collected; those added so far are dropped.
    Metrics: fn metrics(&mut self, _metrics: &mut dyn MetricSink) -> Result<(), String> { Err(missing()) }

    /// Passes the configuration to report, a JSON object, to `report`, which checks it.
    ///
    /// # Errors
    ///
    /// If there is none; the previous one stays.
    Config: fn config(&mut self, _report: &mut ConfigSink<'_>) -> Result<(), String> { Err(missing()) }

    /// Passes the page for a path and a query, both as sent by the client, to `page`, which checks it.
    ///
    /// # Errors
    ///
    /// If there is no page.
    Serve: fn serve(&mut self, _path: &[u8], _query: &[u8], _page: &mut PageSink<'_>) -> Result<(), String> {
        Err(missing())
    }

    /// Called when a request has ended.
    ///
    /// # Errors
    ///
    /// If the plugin could not process it.
    RequestEnded: fn request_ended(&mut self, _facts: &RequestFacts) -> Result<(), String> { Err(missing()) }

    /// Called when the server stops.
    Stop: fn stop(&mut self) {}
}

/// Receives a configuration: JSON.
pub type ConfigSink<'a> = dyn FnMut(&[u8]) -> Result<(), AnswerRefusal> + 'a;

/// Receives a page: the status, the value of `Content-Type`, the body.
pub type PageSink<'a> = dyn FnMut(i32, &[u8], &[u8]) -> Result<(), AnswerRefusal> + 'a;

/// Identity and capabilities of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginAbout {
    /// The name in settings, paths and metrics.
    pub name: String,
    /// The version of the plugin.
    pub version: String,
    /// The path of its library.
    pub path: String,
    /// The callbacks that it has.
    pub callbacks: PluginCallbacks,
}

/// A set of callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginCallbacks(u32);

impl PluginCallbacks {
    /// Returns whether the set contains this callback.
    pub fn has(self, call: PluginCall) -> bool {
        self.0 & 1 << call as u32 != 0
    }
}

impl FromIterator<PluginCall> for PluginCallbacks {
    fn from_iter<I: IntoIterator<Item = PluginCall>>(calls: I) -> Self {
        Self(calls.into_iter().fold(0, |bits, call| bits | 1 << call as u32))
    }
}

/// The error of a callback that the plugin lacks.
fn missing() -> String {
    "there is no such callback".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_callbacks_that_it_was_made_of() {
        let some: PluginCallbacks = [PluginCall::Health, PluginCall::Stop].into_iter().collect();
        let has: Vec<_> = PluginCall::ALL.into_iter().filter(|call| some.has(*call)).collect();
        assert_eq!(has, [PluginCall::Health, PluginCall::Stop]);
    }

    #[test]
    fn callbacks_have_the_names_of_the_header() {
        let header = include_str!("../include/svc_plugin.h");
        let (_, plugin) = header.split_once("typedef struct svc_plugin {").unwrap();
        let fields = plugin.split_once("} svc_plugin;").unwrap().0.split("(*").skip(1);
        let mut fields: Vec<_> = fields.map(|field| field.split_once(')').unwrap().0).collect();
        let mut calls = PluginCall::ALL.map(PluginCall::as_str);
        fields.sort_unstable();
        calls.sort_unstable();
        assert_eq!(fields, calls);
    }
}
