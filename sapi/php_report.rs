//! PHP's part of the output of `svc check`.

/// The facts about a PHP that has started.
#[derive(Clone, Debug)]
pub(crate) struct PhpInspection {
    /// The version.
    pub(crate) version: String,
    /// The ini files that were read.
    pub(crate) ini_files: Vec<String>,
    /// The extensions with their versions.
    pub(crate) extensions: Vec<(String, String)>,
    /// The warnings.
    pub(crate) warnings: Vec<String>,
}
