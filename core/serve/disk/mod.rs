//! What waits for disks: the file threads, their jobs, and what is known of the site.
//!
//! | file | noun |
//! |---|---|
//! | `threads` | the file threads |
//! | `file_job` | what they do |
//! | `client` | how an io thread reaches them |
//! | `site` | where a path leads |
//! | `slices` | reading the slices of a body |
//! | `warmth` | what of a file the system has in memory |

pub(in crate::serve) mod client;
pub(in crate::serve) mod file_job;
pub(in crate::serve) mod site;
pub(in crate::serve) mod slices;
pub(in crate::serve) mod threads;
pub(in crate::serve) mod warmth;
