//! Static files and the routes to them.

mod cache;
mod headers_file;
mod ranges;
mod routing;
mod sendfile;
mod static_files;
mod validators;
