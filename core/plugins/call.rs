//! The callbacks of a plugin.

/// A callback of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginCall {
    /// `Plugin::init`.
    Init,
    /// `Plugin::start`.
    Start,
    /// `Plugin::health`.
    Health,
    /// `Plugin::metrics`.
    Metrics,
    /// `Plugin::config`.
    Config,
    /// `Plugin::serve`.
    Serve,
    /// `Plugin::request_ended`.
    RequestEnded,
    /// `Plugin::stop`.
    Stop,
}

impl PluginCall {
    /// The number of callbacks.
    pub const COUNT: usize = 8;

    /// Returns the name of the callback as plugin authors know it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Start => "start",
            Self::Health => "health",
            Self::Metrics => "metrics",
            Self::Config => "config",
            Self::Serve => "serve",
            Self::RequestEnded => "request_ended",
            Self::Stop => "stop",
        }
    }
}
