//! Warnings about the settings, which do not stop the start.

use std::fmt;

use super::problem::Problem;

/// A problem with the settings that an operator should know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The default number of connections exceeds the descriptor limit.
    FewerConnections {
        /// The number in effect.
        max_connections: u64,
        /// The default.
        initial: u64,
        /// The limit.
        descriptors: u64,
    },
    /// A variable that other programs also use has a value that svc does not support; the default is in effect.
    Ignored(Problem),
    /// A variable resembles a setting but is not one.
    Unknown {
        /// The variable.
        variable: String,
        /// Its place in a file, as `file:line`; `None` if it is in the environment.
        place: Option<String>,
        /// The variable that was probably meant.
        meant: Option<String>,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FewerConnections { max_connections, initial, descriptors } => write!(
                f,
                "MAX_CONNECTIONS: reduced from {initial} to {max_connections}, because the limit of file descriptors is \
                 {descriptors} (ulimit -Hn)"
            ),
            Self::Ignored(problem) => write!(f, "{problem}; the default is used"),
            Self::Unknown { variable, place, meant } => {
                if let Some(place) = place {
                    write!(f, "{place}: ")?;
                }
                write!(f, "{variable}: unknown setting")?;
                meant.as_ref().map_or(Ok(()), |meant| write!(f, "; did you mean {meant}?"))
            }
        }
    }
}
