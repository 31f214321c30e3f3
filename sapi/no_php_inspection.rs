//! `svc check` in a build without PHP.

use svc_core::config::Config;

use crate::php_report::PhpInspection;

/// Fails, because there is no PHP to start.
///
/// # Errors
///
/// Always.
pub(crate) fn inspect(_config: &Config) -> Result<PhpInspection, Vec<String>> {
    let error = "EXECUTOR: \"sapi\" is not available in this build, which does not include PHP; accepted: fastcgi, stub";
    Err(vec![error.to_owned()])
}
