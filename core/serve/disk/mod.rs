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

pub(in crate::serve) mod client;
pub(in crate::serve) mod file_job;
pub(in crate::serve) mod page_cache;
pub(in crate::serve) mod site;
pub(in crate::serve) mod slices;
pub(in crate::serve) mod threads;
