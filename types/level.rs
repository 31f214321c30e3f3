//! Levels of log records.

named! {
    /// The level of a log record, the most severe first.
    pub enum Level {
        /// Something failed and needs attention.
        Error = "ERROR",
        /// Something may fail soon, or was refused.
        Warn = "WARN",
        /// The state of the server changed.
        Info = "INFO",
        /// Details for developers.
        Debug = "DEBUG",
    }
}
