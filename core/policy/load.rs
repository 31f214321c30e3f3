//! All that the settings say about clients, made ready when the server starts.
//!
//! Promises: whatever is wrong with a file stops the start, in `svc check` as in the server. Refuses: it reads nothing
//! later.

use std::fmt;
use std::time::Instant;

use super::client::TrustedProxies;
use super::deny::{DenyFileError, DenyRules, PhpDenyPaths};
use super::error_pages::{ErrorPages, ErrorPagesError};
use super::rate::RateLimiter;
use crate::config::Config;

/// What clients may do, and what they are told when they may not.
#[derive(Debug, Default)]
pub struct Policy {
    /// Who is believed about who clients are.
    pub proxies: TrustedProxies,
    /// How often a client may ask; `None` when there is no limit.
    pub limiter: Option<RateLimiter>,
    /// The rules of the document root.
    pub deny: DenyRules,
    /// Where no PHP runs.
    pub php_deny: PhpDenyPaths,
    /// What stands in the place of errors.
    pub error_pages: ErrorPages,
}

/// What is wrong with the files that the settings lead to.
#[derive(Debug)]
pub enum PolicyError {
    /// The rules of the document root.
    DenyFile(DenyFileError),
    /// The pages of errors.
    ErrorPages(ErrorPagesError),
}

impl Policy {
    /// Makes everything ready.
    ///
    /// # Errors
    ///
    /// When rules or pages cannot be read.
    pub fn load(config: &Config, now: Instant) -> Result<Self, PolicyError> {
        Ok(Self {
            proxies: TrustedProxies::new(config.trusted_proxies.clone()),
            limiter: RateLimiter::new(config.rate_limit, config.rate_window, now),
            deny: DenyRules::read(&config.document_root).map_err(PolicyError::DenyFile)?,
            php_deny: PhpDenyPaths::new(&config.php_deny_paths),
            error_pages: match &config.error_pages_dir {
                Some(directory) => ErrorPages::read(directory).map_err(PolicyError::ErrorPages)?,
                None => ErrorPages::default(),
            },
        })
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DenyFile(error) => error.fmt(f),
            Self::ErrorPages(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PolicyError {}
