//! Answers of plugins, and refusals of them.

use std::fmt;

named! {
    /// The health of a plugin, best first; in the order of `SVC_HEALTH_` in `include/svc_plugin.h`.
    pub enum PluginHealth {
        /// Working.
        Ok = "ok",
        /// Needs attention.
        Degraded = "degraded",
        /// Not working; the server is not ready.
        Failed = "failed",
    }
}

named! {
    /// The type of a family of metrics; in the order of `SVC_COUNTER` and `SVC_GAUGE` in `include/svc_plugin.h`.
    pub enum PluginMetricKind {
        /// A value that only grows.
        Counter = "counter",
        /// A value that goes up and down.
        Gauge = "gauge",
    }
}

/// The health of a plugin with an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// The health.
    pub health: PluginHealth,
    /// A text for the operator; may be empty.
    pub text: String,
}

impl HealthReport {
    /// The maximum length of the text, in bytes.
    pub const TEXT_BYTES_MAX: usize = 1024;

    /// Creates a report; truncates a text that is too long.
    pub fn new(health: PluginHealth, text: impl Into<String>) -> Self {
        let mut text = text.into();
        let cut = (0..=Self::TEXT_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(cut.unwrap_or(0));
        Self { health, text }
    }
}

/// The code that a plugin gets for an answer that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCode {
    /// A family or a series exists already.
    Duplicate,
    /// It is malformed.
    Invalid,
    /// It is not expected now: a series without a family, or an answer of another callback.
    NotNow,
    /// It exceeds a limit.
    TooLarge,
}

/// An answer that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerRefusal {
    /// The code for the plugin.
    pub code: RefusalCode,
    /// The reason, for the operator.
    pub why: String,
}

impl AnswerRefusal {
    /// Refuses a malformed answer.
    pub fn invalid(why: impl Into<String>) -> Self {
        Self { code: RefusalCode::Invalid, why: why.into() }
    }

    /// Refuses an answer that exceeds a limit.
    pub fn too_large(why: impl Into<String>) -> Self {
        Self { code: RefusalCode::TooLarge, why: why.into() }
    }
}

impl fmt::Display for AnswerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Receives the metrics of a plugin.
pub trait MetricSink {
    /// Begins a family; `name` follows the plugin's prefix.
    ///
    /// # Errors
    ///
    /// If the family is refused. Series added before the next family are then refused, too.
    fn add_family(&mut self, kind: PluginMetricKind, name: &[u8], help: &[u8]) -> Result<(), RefusalCode>;

    /// Adds a series to the family begun last.
    ///
    /// # Errors
    ///
    /// If the series is refused; the others are kept.
    fn add_sample(&mut self, labels: &[(&[u8], &[u8])], value: f64) -> Result<(), RefusalCode>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_truncated_between_characters() {
        let max = HealthReport::TEXT_BYTES_MAX;
        assert_eq!(HealthReport::new(PluginHealth::Ok, "ä".repeat(max)).text.len(), max);
        assert_eq!(HealthReport::new(PluginHealth::Ok, format!("x{}", "ä".repeat(max))).text.len(), max - 1);
    }
}
