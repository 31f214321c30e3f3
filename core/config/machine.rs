//! The system's resources and limits for the process, and the settings that depend on them.
//!
//! Insufficient limits are found before anything is started. No limit is changed.

use rustix::process::{Resource, getrlimit};

use super::id::Id;
use super::keys::KEYS;
use super::problem::{Fault, Problem};
use super::raw::ValueSource;
use super::settings::Settings;
use super::value::Value;
use super::warning::Warning;
use crate::limits::{connections_within, descriptors_needed};

/// The system's resources and limits for the process.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// The number of CPUs.
    pub cpus: usize,
    /// The descriptor limit; `None` if unlimited.
    pub descriptors_max: Option<u64>,
}

impl Machine {
    /// Returns the limits of this process on its machine.
    pub fn of_this_process() -> Self {
        Self {
            // Honours affinity and the quotas of control groups; an unknown number is treated as the smallest.
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            descriptors_max: getrlimit(Resource::Nofile).maximum,
        }
    }

    /// Adapts the default number of connections to the descriptor limit; a configured number must fit.
    pub(super) fn fit_connections(
        &self,
        settings: &mut Settings,
        problems: &mut Vec<Problem>,
        warnings: &mut Vec<Warning>,
    ) {
        let (Some(granted), initial) = (self.descriptors_max, settings.integer(Id::MaxConnections)) else {
            return;
        };
        if descriptors_needed(initial) <= granted {
            return;
        }
        let room = connections_within(granted);
        let is_default = *settings.source(Id::MaxConnections) == ValueSource::Default;
        if room > 0 && is_default {
            settings.set(Id::MaxConnections, Value::Integer(room));
            let descriptors = granted;
            warnings.push(Warning::FewerConnections { max_connections: room, initial, descriptors });
            return;
        }
        // A default may shrink down to one connection.
        let wanted = if is_default { 1 } else { initial };
        let needed = descriptors_needed(wanted);
        let fewer = if room > 0 { format!("up to {room}, or ") } else { String::new() };
        problems.push(Problem {
            setting: KEYS[Id::MaxConnections as usize].variable,
            value: None,
            fault: Fault::Descriptors { max_connections: wanted, needed, granted },
            accepted: format!("{fewer}a limit of at least {needed} (ulimit -Hn)"),
        });
    }
}
