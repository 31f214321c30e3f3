//! A failure with the code at its places.

use std::path::Path;

use super::excerpt::{self, Excerpt};
use super::failure::{Failure, Location};

/// The number of places of an exception whose code is read.
const EXCERPTS_MAX: usize = 40;

/// A failure with the code at its places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureReport {
    pub(super) failure: Failure,
    /// The code, by file and line.
    sources: Vec<(String, u32, Excerpt)>,
}

impl FailureReport {
    /// Reads the code at the places of a failure. Waits for the disk.
    pub fn read(failure: Failure) -> Self {
        let mut sources: Vec<(String, u32, Excerpt)> = Vec::new();
        for location in failure.chain().flat_map(|one| one.locations().take(EXCERPTS_MAX)) {
            let Some(file) = location.file else { continue };
            if sources.iter().any(|(known, line, _)| known == file && *line == location.line) {
                continue;
            }
            if let Some(excerpt) = excerpt::read(Path::new(file), location.line) {
                sources.push((file.to_owned(), location.line, excerpt));
            }
        }
        Self { failure, sources }
    }

    /// Returns the code at a place.
    pub(super) fn source_at(&self, location: &Location<'_>) -> Option<&Excerpt> {
        let is_there = |(file, line, _): &&(String, u32, Excerpt)| {
            Some(file.as_str()) == location.file && *line == location.line
        };
        self.sources.iter().find(is_there).map(|(_, _, excerpt)| excerpt)
    }
}
