//! The configuration of new sessions: identities, versions, protocols, and session resumption.
//!
//! A reload changes only the identities of new sessions, so that clients can resume across it; a failed reload changes
//! nothing. Early data (a replayed request would run twice) and client certificates are not supported.

use std::time::SystemTime;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{ProducesTickets, ServerSessionMemoryCache, StoresServerSessions};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use super::ALPN;
use super::error::TlsError;
use super::identity::Identity;
use super::resolver::CertificateResolver;
use crate::config::{CertificateFiles, TlsConfig, TlsVersion};
use crate::http::CoveredNames;
use crate::limits::{TLS_OUTPUT_BYTES_MAX, TLS_SESSIONS_MAX};
use crate::sync::lock::ShortLock;
use crate::sync::primitive::Arc;

/// The configuration of new sessions.
#[derive(Debug)]
pub struct SessionConfig {
    basis: Basis,
    /// Locked only to copy or replace the pointer.
    current: ShortLock<Arc<Current>>,
}

/// The parts that stay for the lifetime of the server.
#[derive(Debug)]
struct Basis {
    pairs: Vec<CertificateFiles>,
    versions: &'static [&'static SupportedProtocolVersion],
    provider: Arc<CryptoProvider>,
    /// Issues tickets with keys that rotate every six hours.
    tickets: Arc<dyn ProducesTickets>,
    /// For clients without tickets.
    sessions: Arc<dyn StoresServerSessions>,
}

/// The parts that a reload replaces.
#[derive(Debug)]
struct Current {
    identities: Vec<Identity>,
    config: Arc<ServerConfig>,
}

impl SessionConfig {
    /// Loads the files named by the settings; `None` if there are none.
    ///
    /// # Errors
    ///
    /// Returns the fault of the first invalid file.
    pub fn open(settings: &TlsConfig) -> Result<Option<Self>, TlsError> {
        if settings.certificates.is_empty() {
            return Ok(None);
        }
        let basis = Basis {
            pairs: settings.certificates.clone(),
            versions: match settings.min_version {
                TlsVersion::Tls12 => rustls::ALL_VERSIONS,
                TlsVersion::Tls13 => NEWEST_ONLY,
            },
            provider: Arc::new(aws_lc_rs::default_provider()),
            tickets: aws_lc_rs::Ticketer::new().map_err(TlsError::Library)?,
            sessions: ServerSessionMemoryCache::new(TLS_SESSIONS_MAX),
        };
        let current = ShortLock::new(Arc::new(basis.load()?));
        Ok(Some(Self { basis, current }))
    }

    /// Reloads the files, for sessions that begin from now on.
    ///
    /// # Errors
    ///
    /// Returns the fault of the first invalid file; new sessions keep using the previous files.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = Arc::new(self.basis.load()?);
        let replaced = std::mem::replace(&mut *self.current.lock(), loaded);
        // Dropped here and not under the lock: this may be the last reference to the keys.
        drop(replaced);
        Ok(())
    }

    /// Starts a session.
    ///
    /// # Errors
    ///
    /// If the system provides no randomness.
    pub fn session(&self) -> Result<ServerConnection, TlsError> {
        let mut session =
            ServerConnection::new(Arc::clone(&self.current().config)).map_err(TlsError::Library)?;
        session.set_buffer_limit(Some(TLS_OUTPUT_BYTES_MAX));
        Ok(session)
    }

    /// Returns the identities that clients may receive.
    pub fn identities(&self) -> Vec<Identity> {
        self.current().identities.clone()
    }

    /// Returns the earliest expiry of all certificates.
    pub fn first_expiry(&self) -> Option<SystemTime> {
        self.current().identities.iter().filter_map(|one| one.validity).map(|one| one.not_after).min()
    }

    fn current(&self) -> Arc<Current> {
        Arc::clone(&self.current.lock())
    }
}

impl CoveredNames for SessionConfig {
    fn covers(&self, name: &str) -> bool {
        self.current().identities.iter().any(|identity| identity.covers(name))
    }

    /// Returns the first name of the first certificate that is not a wildcard.
    fn usual(&self) -> Option<String> {
        let current = self.current();
        let names = &current.identities.first()?.names;
        names.iter().find(|name| !name.starts_with("*.")).cloned()
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
            .with_cert_resolver(Arc::new(CertificateResolver::new(&identities)));
        config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        config.ticketer = Arc::clone(&self.tickets);
        config.session_storage = Arc::clone(&self.sessions);
        Ok(Current { identities, config: Arc::new(config) })
    }
}

static NEWEST_ONLY: &[&SupportedProtocolVersion] = &[&version::TLS13];

#[cfg(test)]
#[path = "session_config_tests.rs"]
mod tests;
