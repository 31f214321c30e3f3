//! Disk access: the file threads, their jobs, and the site.
//!
//! | file | noun |
//! |---|---|
//! | `threads` | the file threads |
//! | `file_job` | their jobs |
//! | `client` | how an I/O thread reaches them |
//! | `site` | the resource at a path |
//! | `slices` | reads slices of a body |
//! | `page_cache` | which parts of a file are in memory |

pub(crate) mod client;
pub(crate) mod file_job;
pub(crate) mod page_cache;
pub(crate) mod site;
pub(crate) mod slices;
pub(crate) mod threads;
