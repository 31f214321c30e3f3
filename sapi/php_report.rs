//! What `svc check` tells of PHP.

/// What there is to say of a PHP that has started.
#[derive(Clone, Debug)]
pub(crate) struct PhpInspection {
    /// Its version.
    pub(crate) version: String,
    /// The ini files that it has read.
    pub(crate) ini_files: Vec<String>,
    /// Its extensions with their versions.
    pub(crate) extensions: Vec<(String, String)>,
    /// What it has complained about.
    pub(crate) warnings: Vec<String>,
}
