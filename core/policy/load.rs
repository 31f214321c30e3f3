//! All that the settings say about clients, made ready when the server starts.
//!
//! Promises: whatever is wrong with a file stops the start, in `svc check` as in the server; what is read anew later takes
//! the place of what was there as a whole, or changes nothing. Refuses: it reads nothing by itself; settings do not
//! change.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use super::client::TrustedProxies;
use super::deny::{DenyFileError, DenyRules, PhpDenyPaths};
use super::error_pages::{ErrorPages, ErrorPagesError};
use super::rate::RateLimiter;
use crate::config::Config;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// What clients may do, and what they are told when they may not.
#[derive(Debug, Default)]
pub struct Policy {
    /// Who is believed about who clients are.
    pub proxies: TrustedProxies,
    /// How often a client may ask; `None` when there is no limit.
    pub limiter: Option<RateLimiter>,
    /// Where no PHP runs.
    pub php_deny: PhpDenyPaths,
    /// Where the files are; absolute, since they are read again wherever the process is by then.
    document_root: PathBuf,
    error_pages_dir: Option<PathBuf>,
    /// Locked to copy or to replace the pointer.
    rules: ShortLock<Arc<Rules>>,
}

/// What stands in files, as it was read the last time.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The rules of the document root.
    pub deny: Arc<DenyRules>,
    /// What stands in the place of errors.
    pub error_pages: Arc<ErrorPages>,
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
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let policy = Self {
            proxies: TrustedProxies::new(config.trusted_proxies.clone()),
            limiter: RateLimiter::new(config.rate_limit, config.rate_window, now),
            php_deny: PhpDenyPaths::new(&config.php_deny_paths),
            document_root: absolute(&config.document_root),
            error_pages_dir: config.error_pages_dir.as_ref().map(absolute),
            rules: ShortLock::default(),
        };
        policy.read_deny_rules()?;
        policy.read_error_pages()?;
        Ok(policy)
    }

    /// What stands in files. Whoever asks often keeps a copy.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock())
    }

    /// Reads the rules of the document root anew; returns whether there are any, or were.
    ///
    /// # Errors
    ///
    /// When they cannot be read; those that were read before stay.
    pub fn read_deny_rules(&self) -> Result<bool, PolicyError> {
        let deny = Arc::new(DenyRules::read(&self.document_root).map_err(PolicyError::DenyFile)?);
        let before = self.rules();
        let concerns = deny.is_loaded() || before.deny.is_loaded();
        self.replace(Rules { deny, ..Rules::clone(&before) });
        Ok(concerns)
    }

    /// Reads the pages of errors anew; returns whether the settings name any.
    ///
    /// # Errors
    ///
    /// When they cannot be read; those that were read before stay.
    pub fn read_error_pages(&self) -> Result<bool, PolicyError> {
        let Some(directory) = &self.error_pages_dir else { return Ok(false) };
        let error_pages = Arc::new(ErrorPages::read(directory).map_err(PolicyError::ErrorPages)?);
        self.replace(Rules { error_pages, ..Rules::clone(&self.rules()) });
        Ok(true)
    }

    fn replace(&self, rules: Rules) {
        let replaced = std::mem::replace(&mut *self.rules.lock(), Arc::new(rules));
        // Here and not under the lock: it may be the last to hold its pages.
        drop(replaced);
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
