//! Comma-separated lists in settings.
//!
//! White space around an entry and empty entries are ignored; a list has at least one entry. An entry cannot contain a
//! comma.

use super::problem::Fault;

/// Splits a list into its entries.
pub(super) fn entries(text: &str) -> Result<impl Iterator<Item = &str>, Fault> {
    let mut entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).peekable();
    if entries.peek().is_none() { Err(Fault::EmptyList) } else { Ok(entries) }
}
