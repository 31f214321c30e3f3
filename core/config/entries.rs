//! Lists in settings: entries with commas between them.
//!
//! Promises: white space around an entry is ignored, and so are empty entries; a list has at least one. Refuses: an entry
//! contains no comma.

use super::problem::Fault;

/// Splits a list into its entries.
pub(super) fn entries(text: &str) -> Result<impl Iterator<Item = &str>, Fault> {
    let mut entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).peekable();
    if entries.peek().is_none() { Err(Fault::EmptyList) } else { Ok(entries) }
}
