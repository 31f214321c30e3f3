//! What new sessions begin with: identities, versions, protocols, and what makes resumption work.
//!
//! Promises: a reload changes the identities of sessions that begin later and nothing else, so that clients resume
//! across it; a reload that fails changes nothing. Refuses: no early data (a replayed request would run twice), no
//! client certificates.

use std::time::SystemTime;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use super::ALPN;
use super::error::TlsError;
use super::identity::Identity;
use super::selection::Selection;
use crate::config::{Config, Tls, TlsVersion};
use crate::limits::{TLS_OUTPUT_BYTES_MAX, TLS_SESSIONS_MAX};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// What new sessions begin with.
#[derive(Debug)]
pub struct Terms {
    basis: Basis,
    /// Locked to copy or to replace the pointer.
    current: ShortLock<Arc<Current>>,
}

/// What stays for the life of the server.
#[derive(Debug)]
struct Basis {
    pairs: Vec<Tls>,
    versions: &'static [&'static SupportedProtocolVersion],
    provider: Arc<CryptoProvider>,
    /// Makes tickets under keys that change twice a day.
    tickets: Arc<dyn ProducesTickets>,
    /// For clients without tickets.
    sessions: Arc<dyn StoresServerSessions>,
}

/// What a reload replaces.
#[derive(Debug)]
struct Current {
    identities: Vec<Identity>,
    config: Arc<ServerConfig>,
}

impl Terms {
    /// Loads the files that the settings name; `None` if they name none.
    ///
    /// # Errors
    ///
    /// What is wrong with the first file that is no good.
    pub fn open(settings: &Config) -> Result<Option<Self>, TlsError> {
        if settings.tls.is_empty() {
            return Ok(None);
        }
        let basis = Basis {
            pairs: settings.tls.clone(),
            versions: match settings.tls_min_version {
                TlsVersion::Tls12 => rustls::ALL_VERSIONS,
                TlsVersion::Tls13 => NEWEST_ONLY,
            },
            provider: Arc::new(ring::default_provider()),
            tickets: ring::Ticketer::new().map_err(TlsError::Library)?,
            sessions: ServerSessionMemoryCache::new(TLS_SESSIONS_MAX),
        };
        let current = ShortLock::new(Arc::new(basis.load()?));
        Ok(Some(Self { basis, current }))
    }

    /// Loads the files anew, for sessions that begin from now on.
    ///
    /// # Errors
    ///
    /// What is wrong with the first file that is no good; sessions go on to begin as before.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = Arc::new(self.basis.load()?);
        let replaced = std::mem::replace(&mut *self.current.lock(), loaded);
        // Here and not under the lock: it may be the last to hold its keys.
        drop(replaced);
        Ok(())
    }

    /// Begins a session.
    ///
    /// # Errors
    ///
    /// When the system has no randomness.
    pub fn session(&self) -> Result<ServerConnection, TlsError> {
        let mut session =
            ServerConnection::new(Arc::clone(&self.current().config)).map_err(TlsError::Library)?;
        session.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Ok(session)
    }

    /// The identities that clients are shown.
    pub fn identities(&self) -> Vec<Identity> {
        self.current().identities.clone()
    }

    /// When the first of the certificates expires.
    pub fn first_expiry(&self) -> Option<SystemTime> {
        self.current().identities.iter().filter_map(|one| one.validity).map(|one| one.not_after).min()
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.lock())
    }
}

impl Basis {
    fn load(&self) -> Result<Current, TlsError> {
        let load = |pair| Identity::load(pair, &self.provider);
        let identities = self.pairs.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(self.versions)
            .map_err(TlsError::Library)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Selection::new(&identities)));
        config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::clone(&self.tickets);
        config.session_storage = Arc::clone(&self.sessions);
        Ok(Current { identities, config: Arc::new(config) })
    }
}

static NEWEST_ONLY: &[&SupportedProtocolVersion] = &[&version::TLS13];

#[cfg(all(test, not(loom)))]
#[path = "terms_tests.rs"]
mod tests;
