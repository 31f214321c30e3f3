//! Loads the client policy from the settings and its files.
//!
//! Any invalid file stops the start, in `svc check` as well as in the server. A reload replaces the previous state
//! completely, or changes nothing. Reloads happen only on request, and settings do not change.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::client::TrustedProxies;
use super::deny::{DenyRules, PhpDenyPaths};
use super::error_pages::{ErrorPages, ErrorPagesError};
use super::header_rules::HeaderRules;
use super::rate::RateLimiter;
use super::rules_file::RulesFileError;
use crate::config::ClientConfig;
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// The client policy of the server.
#[derive(Debug, Default)]
pub struct Policy {
    /// The trusted proxies.
    pub proxies: TrustedProxies,
    /// The rate limiter; `None` if there is no limit.
    pub limiter: Option<RateLimiter>,
    /// The paths at which PHP is not executed.
    pub php_deny: PhpDenyPaths,
    /// The paths of the files; absolute, because they are read again regardless of the working directory.
    document_root: PathBuf,
    error_pages_dir: Option<PathBuf>,
    /// Locked only to copy or replace the pointer.
    rules: ShortLock<Arc<Rules>>,
}

/// The contents of the files at the last load.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The deny rules of the document root.
    pub deny: Arc<DenyRules>,
    /// The fields that are added to responses.
    pub headers: Arc<HeaderRules>,
    /// The error pages.
    pub error_pages: Arc<ErrorPages>,
}

/// An error in one of the files.
#[derive(Debug)]
pub enum PolicyError {
    /// In the error pages.
    ErrorPages(ErrorPagesError),
    /// In the rules of the document root.
    RulesFile(RulesFileError),
}

impl Policy {
    /// Loads the policy.
    ///
    /// # Errors
    ///
    /// If the rules or pages cannot be read.
    pub fn load(clients: &ClientConfig, document_root: &Path, now: Instant) -> Result<Self, PolicyError> {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let policy = Self {
            proxies: TrustedProxies::new(clients.trusted_proxies.clone()),
            limiter: RateLimiter::new(clients.rate_limit, clients.rate_window, now),
            php_deny: PhpDenyPaths::new(&clients.php_deny_paths),
            document_root: absolute(document_root),
            error_pages_dir: clients.error_pages_dir.as_deref().map(absolute),
            rules: ShortLock::default(),
        };
        policy.read_deny_rules()?;
        policy.read_header_rules()?;
        policy.read_error_pages()?;
        Ok(policy)
    }

    /// Returns the contents of the files. Callers that need them often keep a copy.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.lock())
    }

    /// Reloads the deny rules of the document root. Returns whether there are any, or were before.
    ///
    /// # Errors
    ///
    /// If they cannot be read; the previous rules stay in effect.
    pub fn read_deny_rules(&self) -> Result<bool, PolicyError> {
        let deny = Arc::new(DenyRules::read(&self.document_root).map_err(PolicyError::RulesFile)?);
        let before = self.rules();
        let concerns = deny.is_loaded() || before.deny.is_loaded();
        self.replace(Rules { deny, ..Rules::clone(&before) });
        Ok(concerns)
    }

    /// Reloads the fields for responses. Returns whether there is a file of them, or was one before.
    ///
    /// # Errors
    ///
    /// If they cannot be read; the previous ones stay in effect.
    pub fn read_header_rules(&self) -> Result<bool, PolicyError> {
        let headers = Arc::new(HeaderRules::read(&self.document_root).map_err(PolicyError::RulesFile)?);
        let before = self.rules();
        let concerns = headers.is_loaded() || before.headers.is_loaded();
        self.replace(Rules { headers, ..Rules::clone(&before) });
        Ok(concerns)
    }

    /// Reloads the error pages. Returns whether the settings name any.
    ///
    /// # Errors
    ///
    /// If they cannot be read; the previous pages stay in effect.
    pub fn read_error_pages(&self) -> Result<bool, PolicyError> {
        let Some(directory) = &self.error_pages_dir else { return Ok(false) };
        let error_pages = Arc::new(ErrorPages::read(directory).map_err(PolicyError::ErrorPages)?);
        self.replace(Rules { error_pages, ..Rules::clone(&self.rules()) });
        Ok(true)
    }

    fn replace(&self, rules: Rules) {
        let replaced = std::mem::replace(&mut *self.rules.lock(), Arc::new(rules));
        // Dropped here and not under the lock: this may be the last reference to the pages.
        drop(replaced);
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ErrorPages(error) => error.fmt(f),
            Self::RulesFile(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PolicyError {}
