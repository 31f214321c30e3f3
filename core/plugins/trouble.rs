//! Rate limit for the error records of a plugin.
//!
//! The first error of each callback is logged, then at most one a minute. Errors are counted elsewhere.

use std::time::Instant;

use svc_types::PluginCall;

use crate::limits::TROUBLE_RECORD_PAUSE;

/// When an error of each callback was last logged.
#[derive(Debug, Default)]
pub(super) struct TroubleLog {
    logged_at: [Option<Instant>; PluginCall::ALL.len()],
}

impl TroubleLog {
    /// Returns whether an error of `call` should be logged now.
    pub(super) fn is_news(&mut self, call: PluginCall, now: Instant) -> bool {
        let logged_at = &mut self.logged_at[call as usize];
        let is_news = logged_at.is_none_or(|at| now.saturating_duration_since(at) >= TROUBLE_RECORD_PAUSE);
        if is_news {
            *logged_at = Some(now);
        }
        is_news
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_callback_has_a_record_a_minute() {
        let (mut log, start) = (TroubleLog::default(), crate::time::now());
        let logged = [0, 1, 59, 60, 61, 119, 120]
            .map(|seconds| log.is_news(PluginCall::Health, start + Duration::from_secs(seconds)));
        assert_eq!(logged, [true, false, false, true, false, false, true]);
        assert!(log.is_news(PluginCall::Stop, start));
    }
}
