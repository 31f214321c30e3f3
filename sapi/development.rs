//! `svc dev`: the settings of a server for development, and the reload of its browsers.
//!
//! [`svc_core::dev`] renders the pages. Only the command enables them: there is no setting, so no variable of an environment
//! can do so in production.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use svc_core::config::{Config, DevelopmentConfig, ListenAddr, RawConfig};
use svc_core::dev::Development;
use svc_serve::{PortError, ReloadReading, unavailable_ports};

use crate::commands;
use crate::overrides::Overrides;
use crate::watch::project_of;

/// The name of the source of its settings.
const COMMAND: &str = "svc dev";

/// The defaults of settings. Files for browsers are read for each request, so that a browser sees a change at once.
const DEFAULTS: [(&str, &str); 4] =
    [("ACCESS_LOG", "all"), ("LOG_FORMAT", "auto"), ("LOG_LEVEL", "info"), ("STATIC_CACHE_BYTES", "0")];

/// The default port for operators, or the one behind it if the site has that port.
const OPS_PORT: u16 = 9090;

/// The default number of workers that keep code loaded: after a change, all of them boot before browsers reload.
const WORKERS: &str = "2";

/// PHP directives, which those of the command line override. OPcache compiles a changed file again even if php.ini has
/// been made for production; a file of two seconds ago or less is not kept, because its next change may have the same
/// time. Preloaded code would stay until the end of the process.
const DIRECTIVES: [&str; 9] = [
    "display_errors=1",
    "display_startup_errors=1",
    "error_reporting=-1",
    "opcache.file_update_protection=2",
    "opcache.preload=",
    "opcache.revalidate_freq=0",
    "opcache.revalidate_path=1",
    "opcache.validate_timestamps=1",
    "zend.assertions=1",
];

/// The number of ports that are tried.
const PORTS_MAX: u16 = 50;

/// The front controller of a project.
const FRONT_CONTROLLER: &str = "index.php";

/// Names of directories that projects serve.
const PUBLIC: [&str; 2] = ["public", "web"];

/// The options of the command.
#[derive(Debug)]
pub struct DevelopmentOptions {
    host: Option<OsString>,
    port: Option<OsString>,
    environment: Vec<(String, String)>,
    /// The directory that was given, else the current one.
    dir: PathBuf,
}

/// Why a server for development does not start.
#[derive(Debug, PartialEq, Eq)]
pub enum DevelopmentError {
    /// A setting with an address that other machines may reach, without `--host`.
    Public(&'static str, String),
    /// The user that the server would become.
    RunAs(String),
    /// A value of `--host` that is not an IP address.
    Host(String),
    /// A value of `--port` that is not a port.
    Port(String),
}

impl DevelopmentOptions {
    /// Takes the options of the command, and completes its directory: of a project, its public directory is served, and
    /// entry files may be named by their paths in the project.
    pub fn take(overrides: &mut Overrides, environment: &[(OsString, OsString)]) -> Self {
        let dir = overrides.document_root.take().map(PathBuf::from);
        let root = dir.as_deref().map(served);
        if let (Some(dir), Some(root)) = (&dir, &root) {
            for (_, variable, value) in &mut overrides.options {
                if *variable == "ENTRY_FILE"
                    && let Some(file) = below(root, &dir.join(&*value))
                {
                    *value = file.into();
                }
            }
        }
        overrides.document_root = root.map(Into::into);
        overrides.is_watching = false;
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        Self {
            host: overrides.host.take(),
            port: overrides.port.take(),
            environment: environment.iter().map(|(name, value)| (text(name), text(value))).collect(),
            dir: dir.unwrap_or_else(|| ".".into()),
        }
    }

    /// Completes the settings.
    ///
    /// # Errors
    ///
    /// If the server would expose code to other machines without being configured to, or would run as a user other than the
    /// developer.
    pub fn settings(&self, raw: &RawConfig) -> Result<RawConfig, DevelopmentError> {
        let mut raw = raw.clone().with_directives_by_default(&DIRECTIVES);
        for (variable, value) in DEFAULTS {
            raw = raw.with_option_by_default(COMMAND, variable, value);
        }
        if self.host.is_some() || self.port.is_some() {
            let addr = SocketAddr::new(self.host()?, self.port()?);
            raw = raw.with_option(COMMAND, "LISTEN_ADDR", addr.to_string().into());
        }
        // The start reports errors in settings.
        let Ok(config) = Config::resolve(&raw) else { return Ok(raw) };
        if let Some(user) = &config.serving.run_as {
            return Err(DevelopmentError::RunAs(user.clone()));
        }
        let is_public = |addr: &SocketAddr| !addr.ip().to_canonical().is_loopback();
        let main = config.serving.listen_addr.iter().filter_map(ListenAddr::tcp).find(is_public);
        let ops = config.operations.addr.filter(is_public);
        let public = main.map(|addr| ("LISTEN_ADDR", addr)).or(ops.map(|addr| ("INTERNAL_ADDR", addr)));
        if let Some((variable, addr)) = public.filter(|_| self.host.is_none()) {
            return Err(DevelopmentError::Public(variable, addr.to_string()));
        }
        let root = &config.serving.document_root;
        if config.php.worker_mode_enabled {
            raw = raw.with_option_by_default(COMMAND, "PHP_WORKERS", WORKERS);
        } else if self.project(root).is_some() && root.join(FRONT_CONTROLLER).is_file() {
            raw = raw.with_option_by_default(COMMAND, "ENTRY_FILE", FRONT_CONTROLLER);
        }
        let has_ops_port = |place: &ListenAddr| place.tcp().is_some_and(|addr| addr.port() == OPS_PORT);
        let ops_port = OPS_PORT + u16::from(config.serving.listen_addr.iter().any(has_ops_port));
        let ops = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), ops_port).to_string();
        raw = raw.with_option_by_default(COMMAND, "INTERNAL_ADDR", &ops);
        // The start reports errors in settings.
        let Ok(config) = Config::resolve(&raw) else { return Ok(raw) };
        let development = self.facts(&config.serving.document_root);
        Ok(with_free_ports(raw, &config).with_development(development))
    }

    fn facts(&self, document_root: &Path) -> DevelopmentConfig {
        let value = |name: &str| {
            self.environment.iter().find(|(other, _)| other == name).map_or("", |(_, value)| value.as_str())
        };
        // PHP reports the real paths of files.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        DevelopmentConfig {
            project: self.project(document_root).map_or_else(|| project_of(&real(document_root)), real),
            environment: self.environment.clone(),
            permits_colours: value("NO_COLOR").is_empty() && value("TERM") != "dumb",
            utc_offset_seconds: svc_ffi::local_time::utc_offset_seconds(),
        }
    }

    /// Returns the directory of the command if it is a project whose public directory is served.
    fn project(&self, document_root: &Path) -> Option<&Path> {
        let is_root = |name| std::path::absolute(self.dir.join(name)).is_ok_and(|path| path == document_root);
        PUBLIC.iter().any(is_root).then_some(self.dir.as_path())
    }

    fn host(&self) -> Result<IpAddr, DevelopmentError> {
        let Some(host) = &self.host else { return Ok(Ipv4Addr::LOCALHOST.into()) };
        let text = host.to_string_lossy();
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(&text);
        bare.parse().map_err(|_| DevelopmentError::Host(text.into_owned()))
    }

    fn port(&self) -> Result<u16, DevelopmentError> {
        let Some(port) = &self.port else { return Ok(8080) };
        let text = port.to_string_lossy();
        text.parse().map_err(|_| DevelopmentError::Port(text.into_owned()))
    }
}

/// Returns the directory to serve for a project, and any other directory itself.
fn served(dir: &Path) -> PathBuf {
    let has_page = ["index.php", "index.html"].iter().any(|page| dir.join(page).is_file());
    let public = PUBLIC.iter().map(|name| dir.join(name)).find(|public| public.is_dir());
    public.filter(|_| !has_page).unwrap_or_else(|| dir.to_owned())
}

/// Returns the path below `root` of a file that is in it.
fn below(root: &Path, file: &Path) -> Option<PathBuf> {
    file.is_file().then(|| file.strip_prefix(root).ok().map(Path::to_owned)).flatten()
}

/// Replaces ports that are in use by the next free ones.
fn with_free_ports(mut raw: RawConfig, config: &Config) -> RawConfig {
    let mut main = config.serving.listen_addr.clone();
    let mut ops = config.operations.addr;
    let mut candidate = config.clone();
    for _ in 0..PORTS_MAX {
        candidate.serving.listen_addr.clone_from(&main);
        candidate.operations.addr = ops;
        let unavailable = unavailable_ports(&candidate);
        let taken = |variable: &str, addr: SocketAddr| {
            // The two ports may be the same, and then only one of them is free.
            let is_main = variable == "INTERNAL_ADDR" && main.iter().any(|place| place.tcp() == Some(addr));
            addr.port() != 0 && (is_main || unavailable.iter().any(|error| is_in_use(error, variable, addr)))
        };
        let next_main: Vec<ListenAddr> = main
            .iter()
            .map(|place| match place {
                ListenAddr::Tcp(addr) if taken("LISTEN_ADDR", *addr) => ListenAddr::Tcp(next(*addr)),
                other => other.clone(),
            })
            .collect();
        let next_ops = ops.map(|addr| if taken("INTERNAL_ADDR", addr) { next(addr) } else { addr });
        if (&next_main, next_ops) == (&main, ops) {
            break;
        }
        (main, ops) = (next_main, next_ops);
    }
    if main != config.serving.listen_addr {
        raw = moved(raw, "LISTEN_ADDR", &places(&config.serving.listen_addr), &places(&main));
    }
    if let (Some(before), Some(after)) = (config.operations.addr, ops)
        && before != after
    {
        raw = moved(raw, "INTERNAL_ADDR", &before.to_string(), &after.to_string());
    }
    raw
}

fn is_in_use(error: &PortError, setting: &str, place: SocketAddr) -> bool {
    match error {
        PortError::Bind { variable, addr, error } => {
            *variable == setting
                && *addr == place.to_string()
                && error.kind() == std::io::ErrorKind::AddrInUse
        }
        PortError::Inherited { .. } => false,
    }
}

fn next(addr: SocketAddr) -> SocketAddr {
    SocketAddr::new(addr.ip(), addr.port().checked_add(1).unwrap_or(1024))
}

fn places(places: &[ListenAddr]) -> String {
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn moved(raw: RawConfig, variable: &str, before: &str, after: &str) -> RawConfig {
    commands::warn(&format!("{variable}: {before} is in use; {COMMAND} listens on {after}"));
    raw.with_option(COMMAND, variable, after.into())
}

impl std::error::Error for DevelopmentError {}

impl fmt::Display for DevelopmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Public(variable, place) => write!(
                f,
                "{variable}: {place:?}: other machines may reach this address, and {COMMAND} shows code and the \
                 environment; accepted: an address of this machine alone, such as 127.0.0.1:8080, or --host ADDRESS"
            ),
            Self::RunAs(user) => write!(
                f,
                "RUN_AS: {user:?}: {COMMAND} runs as the user who starts it; accepted: unset, or svc serve"
            ),
            Self::Host(text) => {
                write!(
                    f,
                    "--host: {text:?} is not an IP address; accepted: 127.0.0.1, 0.0.0.0 for all, or another one"
                )
            }
            Self::Port(text) => {
                write!(f, "--port: {text:?} is not a port; accepted: an integer from 0 to 65535")
            }
        }
    }
}

/// Finds out when browsers reload: after each reload of the server, whatever its outcome, and when workers begin or cease
/// to boot between reloads.
#[derive(Debug)]
pub(crate) struct BrowserReloads {
    development: Arc<Development>,
    ended: u64,
    is_failing: bool,
}

impl BrowserReloads {
    pub(crate) fn new(development: &Arc<Development>) -> Self {
        Self { development: Arc::clone(development), ended: 0, is_failing: false }
    }

    /// Looks at the progress of reloads.
    pub(crate) fn note(&mut self, reloads: &ReloadReading) {
        let is_failing = self.development.boot_failure().is_some();
        if reloads.ended < reloads.begun || (reloads.ended == self.ended && is_failing == self.is_failing) {
            return;
        }
        (self.ended, self.is_failing) = (reloads.ended, is_failing);
        self.development.changes.note();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::TcpListener;

    use super::*;

    fn options(host: Option<&str>, port: Option<&str>) -> DevelopmentOptions {
        DevelopmentOptions {
            host: host.map(Into::into),
            port: port.map(Into::into),
            environment: Vec::new(),
            dir: "/tmp".into(),
        }
    }

    fn config(options: &DevelopmentOptions, settings: &[(&str, &str)]) -> Result<Config, DevelopmentError> {
        let root = [("DOCUMENT_ROOT", "/tmp"), ("INTERNAL_ADDR", "127.0.0.1:0")];
        let raw = RawConfig::new(root.iter().chain(settings).copied());
        options.settings(&raw).map(|raw| Config::resolve(&raw).unwrap())
    }

    fn listens(
        host: Option<&str>,
        port: Option<&str>,
        settings: &[(&str, &str)],
    ) -> Result<String, DevelopmentError> {
        config(&options(host, port), settings).map(|config| places(&config.serving.listen_addr))
    }

    #[test]
    fn only_an_option_makes_it_public() {
        for addr in ["0.0.0.0:0", "[::]:0", ":0", "192.0.2.1:0", "127.0.0.1:0,10.0.0.1:0"] {
            let seen = listens(None, None, &[("LISTEN_ADDR", addr)]);
            assert!(matches!(seen, Err(DevelopmentError::Public("LISTEN_ADDR", _))), "{addr}: {seen:?}");
        }
        let seen = config(&options(None, Some("0")), &[("INTERNAL_ADDR", "0.0.0.0:0")]);
        assert!(matches!(seen, Err(DevelopmentError::Public("INTERNAL_ADDR", _))), "{seen:?}");
        assert!(config(&options(Some("0.0.0.0"), Some("0")), &[("INTERNAL_ADDR", "0.0.0.0:0")]).is_ok());
        for addr in ["127.0.0.1:0", "[::1]:0", "127.8.8.8:0", "unix:/tmp/a.sock"] {
            assert_eq!(listens(None, None, &[("LISTEN_ADDR", addr)]).as_deref(), Ok(addr));
        }
        let seen = listens(Some("0.0.0.0"), Some("0"), &[("LISTEN_ADDR", "127.0.0.1:1")]);
        assert_eq!(seen.as_deref(), Ok("0.0.0.0:0"));
        assert_eq!(listens(Some("[::]"), Some("0"), &[]).as_deref(), Ok("[::]:0"));
    }

    #[test]
    fn wrong_options_are_named() {
        assert_eq!(
            listens(Some("example.org"), None, &[]),
            Err(DevelopmentError::Host("example.org".into()))
        );
        for port in ["", "a", "65536", "-1"] {
            assert_eq!(listens(None, Some(port), &[]), Err(DevelopmentError::Port(port.into())));
        }
        let seen = listens(None, Some("0"), &[("RUN_AS", "www-data")]);
        assert_eq!(seen, Err(DevelopmentError::RunAs("www-data".into())));
    }

    #[test]
    fn the_next_free_port_replaces_one_in_use() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        let seen = listens(None, Some(&port.to_string()), &[]).unwrap();
        let found: u16 = seen.rsplit_once(':').unwrap().1.parse().unwrap();
        assert!(found > port && found <= port + PORTS_MAX, "{found} for {port}");
        assert_eq!(main_and_ops(9090).len(), 2);
        assert_eq!(main_and_ops(port).len(), 2);
    }

    /// Returns the distinct ports of a server whose site should have this one.
    fn main_and_ops(port: u16) -> std::collections::BTreeSet<u16> {
        let raw = RawConfig::new([("DOCUMENT_ROOT", "/tmp")]);
        let raw = options(None, Some(&port.to_string())).settings(&raw).unwrap();
        let config = Config::resolve(&raw).unwrap();
        let main = config.serving.listen_addr[0].tcp();
        main.into_iter().chain(config.operations.addr).map(|addr| addr.port()).collect()
    }

    #[test]
    fn settings_and_directives_can_be_overridden() {
        let raw = RawConfig::new([
            ("DOCUMENT_ROOT", "/tmp"),
            ("LOG_FORMAT", "json"),
            ("LISTEN_ADDR", "127.0.0.1:0"),
        ])
        .with_directive("display_errors=0".into());
        let config = Config::resolve(&options(None, None).settings(&raw).unwrap()).unwrap();
        assert_eq!(config.logs.format, svc_core::config::LogFormat::Json);
        let last = config.php.ini.iter().rfind(|(name, _)| name == "display_errors");
        assert_eq!(last.map(|(_, value)| value.as_str()), Some("0"));
        assert!(config.development.is_some());
        assert!(Config::resolve(&raw).unwrap().development.is_none());
    }

    #[test]
    fn a_project_that_is_named_is_one_without_further_signs() {
        let project = tempfile::tempdir().unwrap();
        let public = project.path().join("public");
        fs::create_dir(&public).unwrap();
        for name in ["index.php", "worker.php"] {
            fs::write(public.join(name), "").unwrap();
        }
        let settings = |entry: Option<&str>| {
            let mut overrides =
                Overrides { document_root: Some(project.path().into()), ..Overrides::default() };
            overrides.options.extend(entry.map(|entry| ("--entry".to_owned(), "ENTRY_FILE", entry.into())));
            let options = DevelopmentOptions::take(&mut overrides, &[]);
            let raw = overrides.apply(
                RawConfig::new([("LISTEN_ADDR", "127.0.0.1:0"), ("INTERNAL_ADDR", "127.0.0.1:0")]),
                &[],
            );
            Config::resolve(&options.settings(&raw).unwrap()).unwrap()
        };
        let entry = |config: &Config| config.serving.entry_files.first().map(|entry| entry.file.clone());
        let config = settings(None);
        assert_eq!(entry(&config).as_deref(), Some("index.php"));
        assert_eq!(config.development.unwrap().project, project.path().canonicalize().unwrap());
        for file in ["public/worker.php", "worker.php"] {
            assert_eq!(entry(&settings(Some(file))).as_deref(), Some("worker.php"), "{file}");
        }
        // A front controller is the default of projects only.
        fs::write(project.path().join("index.php"), "").unwrap();
        let config = settings(None);
        assert_eq!((entry(&config), config.serving.document_root.as_path()), (None, project.path()));
    }

    #[test]
    fn the_public_directory_of_a_project_is_served() {
        let project = tempfile::tempdir().unwrap();
        assert_eq!(served(project.path()), project.path());
        fs::create_dir(project.path().join("web")).unwrap();
        assert_eq!(served(project.path()), project.path().join("web"));
        fs::create_dir(project.path().join("public")).unwrap();
        assert_eq!(served(project.path()), project.path().join("public"));
        fs::write(project.path().join("index.php"), "").unwrap();
        assert_eq!(served(project.path()), project.path());
    }
}
