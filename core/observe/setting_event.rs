//! Log records about settings: problems that do not stop the start.

use super::record::Record;
use crate::config::Warning;

/// Creates the record of a warning.
pub(super) fn record(warning: &Warning, svc: impl Fn(&str) -> Record) -> Record {
    match warning {
        Warning::FewerConnections { max_connections, initial, descriptors } => svc(FEWER_CONNECTIONS)
            .number("max_connections", *max_connections)
            .number("default", *initial)
            .number("limit", *descriptors),
        Warning::Ignored(problem) => svc("setting is ignored, and its default is used")
            .text("setting", problem.setting)
            .text_or_null("value", problem.value.as_deref())
            .text("error", problem.fault.to_string())
            .text("accepted", &problem.accepted),
        Warning::Unknown { variable, place, meant } => svc("unknown setting")
            .text("variable", variable)
            .text_or_null("place", place.as_deref())
            .text_or_null("hint", meant.as_ref().map(|meant| format!("did you mean {meant}?"))),
    }
}

const FEWER_CONNECTIONS: &str = "MAX_CONNECTIONS is reduced to what the limit of file descriptors allows";
