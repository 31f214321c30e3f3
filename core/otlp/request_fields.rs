//! The request fields that do not depend on the protocol.

use crate::config::ExportConfig;

/// Returns the configured fields and the server's defaults. A configured user agent replaces the default.
pub(super) fn fields(config: &ExportConfig) -> impl Iterator<Item = (&str, &str)> {
    let chosen = config.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let has_agent = config.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
    let own = (!has_agent).then_some(("user-agent", USER_AGENT));
    own.into_iter().chain(chosen)
}

/// The server, and the exporter in OpenTelemetry's format.
const USER_AGENT: &str =
    concat!("svc/", env!("CARGO_PKG_VERSION"), " OTel-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION"));
