//! Resolves text to a [`Config`], or to a list of all errors in it.
//!
//! All errors are found in one pass. Each automatic value is computed here, once; the typed field, `svc check` and the
//! report show the same result. Files are not read, but their existence is checked.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

use super::directive;
use super::entry_file::EntryFile;
use super::fastcgi;
use super::files::{default_root, directory, readable_file};
use super::id::Id;
use super::key::{Exposure, Initial, Key};
use super::keys::KEYS;
use super::listen_addr::ListenAddr;
use super::machine::Machine;
use super::problem::{ConfigError, Fault, Problem};
use super::raw::{PREFIX, RawConfig, UnknownVariable, ValueSource};
use super::settings::{Setting, Settings};
use super::value::Value;
use super::warning::Warning;
use super::{
    AdmissionConfig, BackgroundConfig, BodyConfig, ClientConfig, Config, FileConfig, LogConfig,
    OperationsConfig, PhpConfig, ResponseCacheConfig, ServingConfig, TimeoutConfig, TlsConfig, TraceConfig,
    WorkerRange,
};
use crate::limits::{QUEUE_CAPACITY_MAX, THREADS_MAX};

impl Config {
    /// Resolves the settings on this machine.
    ///
    /// # Errors
    ///
    /// All errors in all settings.
    pub fn resolve(raw: &RawConfig) -> Result<Self, ConfigError> {
        Self::resolve_on(raw, &Machine::of_this_process())
    }

    /// Resolves the settings for another machine.
    ///
    /// # Errors
    ///
    /// All errors in all settings.
    pub fn resolve_on(raw: &RawConfig, machine: &Machine) -> Result<Self, ConfigError> {
        let mut resolver = Resolver::default();
        resolver.read(raw);
        resolver.notice_strangers(raw);
        resolver.check_tls_pair();
        resolver.check_tls_lists();
        resolver.compute_threads(machine.cpus);
        machine.fit_connections(&mut resolver.settings, &mut resolver.problems, &mut resolver.warnings);
        resolver.compute_waiting();
        resolver.find_directories(raw);
        resolver.check_entry_file();
        resolver.check_worker_mode();
        resolver.check_async();
        fastcgi::check(&mut resolver.settings, &mut resolver.problems, raw.search_path());
        resolver.check_listeners();
        let tracing = resolver.tracing();
        let php_ini = directive::all(raw.directives(), &mut resolver.problems);
        if resolver.problems.is_empty() {
            Ok(resolver.config(php_ini, tracing, raw))
        } else {
            // In the order of the table, which is that of the reference page; options of the command line come last.
            let row = |problem: &Problem| KEYS.iter().position(|key| key.variable == problem.setting);
            resolver.problems.sort_by_key(|problem| row(problem).unwrap_or(KEYS.len()));
            let named = |problem: Problem| {
                let source = row(&problem).map(|row| resolver.settings.source(KEYS[row].id));
                (
                    source.map_or_else(|| problem.setting.to_owned(), |source| source.name(problem.setting)),
                    problem,
                )
            };
            Err(ConfigError::new(resolver.problems.into_iter().map(named).collect()))
        }
    }

    /// Returns every setting with its resolved value and source, in the order of the table.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    /// Returns the variable or option of a setting as the operator wrote it, for error messages.
    pub fn written_name(&self, variable: &str) -> String {
        let setting = self.settings.iter().find(|setting| setting.key.variable == variable);
        setting.map_or_else(|| variable.to_owned(), |setting| setting.source.name(variable))
    }
}

#[derive(Default)]
struct Resolver {
    settings: Settings,
    problems: Vec<Problem>,
    /// Rejected values of tracing that do not stop the start.
    ignored: Vec<Problem>,
    warnings: Vec<Warning>,
    io_workers_at_start: usize,
}

impl Resolver {
    fn read(&mut self, raw: &RawConfig) {
        for key in &KEYS {
            let initial = match key.initial {
                Initial::Is(text) => key.kind.parse(OsStr::new(text)).unwrap_or(Value::Unset),
                Initial::Computed(_) | Initial::Unset => Value::Unset,
            };
            let mut setting = Setting { key, value: initial, source: ValueSource::Default };
            if let Some((text, source)) = raw.value(key.id)
                && self.is_looked_at(key)
            {
                match key.kind.parse(text) {
                    Ok(value) => (setting.value, setting.source) = (value, source),
                    Err(fault) if key.is_lenient && source.is_shared() => {
                        let problem = problem(key, Some(text), fault);
                        if key.section.is_of_opentelemetry() {
                            self.ignored.push(problem);
                        } else {
                            self.warnings.push(Warning::Ignored(problem));
                        }
                    }
                    Err(fault) => {
                        setting.source = source;
                        self.fault(key, Some(text), fault);
                    }
                }
            }
            self.settings.push(setting);
        }
    }

    fn notice_strangers(&mut self, raw: &RawConfig) {
        for UnknownVariable { variable, place, meant } in raw.unknown_variables() {
            let is_prefixed = variable.starts_with(PREFIX);
            let meant = meant.filter(|key| is_prefixed || self.is_looked_at(key));
            if !is_prefixed && meant.is_none() {
                continue;
            }
            let prefix = if is_prefixed { PREFIX } else { "" };
            let meant = meant.map(|key| format!("{prefix}{}", key.variable));
            self.warnings.push(Warning::Unknown { variable: variable.clone(), place: place.clone(), meant });
        }
    }

    /// Returns whether the setting is evaluated. An application may use the variables of OpenTelemetry while svc does
    /// not.
    fn is_looked_at(&self, key: &Key) -> bool {
        const METRICS: usize = Id::OtelMetricsEnabled as usize;
        const LOGS: usize = Id::OtelLogsEnabled as usize;
        let switch = match key.id as usize {
            _ if !key.section.is_of_opentelemetry() => return true,
            METRICS | LOGS => return true,
            ..METRICS => Id::OtelEnabled,
            METRICS..LOGS => Id::OtelMetricsEnabled,
            _ => Id::OtelLogsEnabled,
        };
        key.id == switch || self.settings.boolean(Id::OtelEnabled) && self.settings.boolean(switch)
    }

    fn tracing(&mut self) -> Option<TraceConfig> {
        let ignored = std::mem::take(&mut self.ignored);
        if self.settings.boolean(Id::OtelEnabled) {
            return Some(TraceConfig::resolve(&mut self.settings, &mut self.problems, ignored));
        }
        for id in [Id::OtelMetricsEnabled, Id::OtelLogsEnabled] {
            if self.settings.boolean(id) {
                self.settings.set(id, Value::Boolean(false));
                self.warnings.push(Warning::Ignored(Problem {
                    setting: KEYS[id as usize].variable,
                    value: Some("true".to_owned()),
                    fault: Fault::Unused("OTEL_ENABLED"),
                    accepted: "true with OTEL_ENABLED=true, or false".to_owned(),
                }));
            }
        }
        None
    }

    /// Checks for an incomplete pair; that error is easier to understand than an unavailable feature.
    fn check_tls_pair(&mut self) {
        for (set, unset) in [(Id::TlsCert, Id::TlsKey), (Id::TlsKey, Id::TlsCert)] {
            let present = |id: Id| *self.settings.source(id) != ValueSource::Default;
            if present(set) && !present(unset) {
                let set = KEYS[set as usize].variable;
                self.problems.retain(|problem| problem.setting != set);
                self.problems.push(Problem {
                    setting: KEYS[unset as usize].variable,
                    value: None,
                    fault: Fault::HalfPair(set),
                    accepted: "both or neither".to_owned(),
                });
            }
        }
    }

    /// Checks that each certificate has its key at the same position in the other list.
    fn check_tls_lists(&mut self) {
        let (certs, keys) = (self.settings.paths(Id::TlsCert).len(), self.settings.paths(Id::TlsKey).len());
        if certs > 0 && keys > 0 && certs != keys {
            let (key, text) = (&KEYS[Id::TlsKey as usize], self.settings.value(Id::TlsKey).to_string());
            let fault = Fault::UnequalPair(keys, KEYS[Id::TlsCert as usize].variable, certs);
            self.fault_accepting(key, &text, fault, "a key for each certificate, in the same order");
        }
    }

    fn compute_threads(&mut self, cpus: usize) {
        let chosen = match self.settings.value(Id::PhpWorkers) {
            Value::Workers(workers) if workers.max > 0 => *workers,
            _ => WorkerRange { min: (cpus * 2).min(THREADS_MAX), max: (cpus * 2).min(THREADS_MAX) },
        };
        self.settings.set(Id::PhpWorkers, Value::Workers(chosen));
        let was_set = self.set_if_automatic(Id::IoWorkers, cpus.clamp(1, THREADS_MAX));
        // A configured number is in use from the start.
        self.io_workers_at_start = if was_set { 1 } else { self.settings.count(Id::IoWorkers) };
        self.set_if_automatic(Id::QueueCapacity, (chosen.min * 128).min(QUEUE_CAPACITY_MAX));
        let async_workers = self.settings.count(Id::AsyncWorkers);
        self.set_if_automatic(Id::AsyncQueueCapacity, (async_workers * 64).min(QUEUE_CAPACITY_MAX));
    }

    fn compute_waiting(&mut self) {
        // Waiting requests hold connections; half of the connections stay free for other requests.
        let waiting =
            self.settings.count(Id::QueueCapacity).min(self.settings.count(Id::MaxConnections) / 2).max(1);
        self.set_if_automatic(Id::QueueMaxWaiting, waiting);
        self.set_if_automatic(Id::QueueMaxWaitingBytes, WAITING_BYTES_AUTO);
    }

    fn find_directories(&mut self, raw: &RawConfig) {
        let root = match self.settings.value(Id::DocumentRoot) {
            Value::Path(path) => path.clone(),
            _ => default_root(Path::new(".")),
        };
        let spool = match self.settings.value(Id::SpoolDir) {
            Value::Path(path) => path.clone(),
            _ => PathBuf::from(raw.temporary_dir()),
        };
        for (id, path) in [(Id::DocumentRoot, root), (Id::SpoolDir, spool)] {
            match directory(&path) {
                Ok(path) => self.settings.set(id, Value::Path(path)),
                Err(fault) => self.directory_fault(id, &path, fault),
            }
        }
        let mut roots = self.settings.paths(Id::SendfileRoots).to_vec();
        for path in &mut roots {
            match directory(path) {
                Ok(absolute) => *path = absolute,
                Err(fault) => self.directory_fault(Id::SendfileRoots, path, fault),
            }
        }
        if !roots.is_empty() {
            self.settings.set(Id::SendfileRoots, Value::Paths(roots));
        }
    }

    fn directory_fault(&mut self, id: Id, path: &Path, fault: Fault) {
        self.problems.push(Problem {
            setting: KEYS[id as usize].variable,
            value: Some(path.display().to_string()),
            accepted: "an existing directory".to_owned(),
            fault,
        });
    }

    fn check_entry_file(&mut self) {
        let Value::Text(text) = self.settings.value(Id::EntryFile).clone() else { return };
        let key = &KEYS[Id::EntryFile as usize];
        let root = self.settings.path(Id::DocumentRoot).unwrap_or_default();
        let entries = match EntryFile::list(&text, &root) {
            Ok(entries) => entries,
            Err(fault) => {
                let accepted = "a file, or a list of PREFIX=FILE such as /api/=api/index.php,/=index.php";
                self.fault_accepting(key, &text, fault, accepted);
                return;
            }
        };
        // Hidden files are never served.
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
        let is_below =
            |entry: &EntryFile| !entry.file.is_empty() && Path::new(&entry.file).components().all(is_plain);
        if let Some(wrong) = entries.iter().find(|entry| !is_below(entry)) {
            self.fault_accepting(
                key,
                if entries.len() > 1 { &wrong.file } else { &text },
                Fault::NotBelowRoot,
                "the path of a file that is not hidden, such as index.php, without . and .. in it",
            );
            return;
        }
        // A missing root is reported separately.
        let is_there = |entry: &EntryFile| !root.is_dir() || root.join(&entry.file).is_file();
        if let Some(wrong) = entries.iter().find(|entry| !is_there(entry)) {
            self.fault_accepting(
                key,
                if entries.len() > 1 { &wrong.file } else { &text },
                Fault::NotAFile,
                "the path of an existing file in the document root",
            );
        }
        if let [EntryFile { prefix, file, gets_rest: false }] = &entries[..]
            && prefix.is_empty()
        {
            self.settings.set(Id::EntryFile, Value::Text(file.clone()));
        }
    }

    fn check_worker_mode(&mut self) {
        // A worker loads a single script, which handles all paths.
        let root = self.settings.path(Id::DocumentRoot).unwrap_or_default();
        let entries = self.settings.text(Id::EntryFile).and_then(|text| EntryFile::list(text, &root).ok());
        let has_script = entries.is_some_and(|entries| {
            matches!(&entries[..], [only] if only.prefix.is_empty() && !only.gets_rest && only.file.ends_with(".php"))
        });
        if self.settings.boolean(Id::WorkerModeEnabled) && !has_script {
            let key = &KEYS[Id::WorkerModeEnabled as usize];
            self.fault_accepting(
                key,
                "true",
                Fault::LacksScript,
                "true with one .php file in ENTRY_FILE, without a list of prefixes, or false",
            );
        }
    }

    fn check_async(&mut self) {
        let workers = self.settings.count(Id::AsyncWorkers);
        if workers > 0 && self.settings.text(Id::Executor) == Some("stub") {
            let key = &KEYS[Id::AsyncWorkers as usize];
            self.fault_accepting(key, &workers.to_string(), Fault::LacksPhp, "0 with EXECUTOR=stub");
        }
        let Some(path) = self.settings.path(Id::AsyncEntryFile) else { return };
        match readable_file(&path) {
            Ok(path) => self.settings.set(Id::AsyncEntryFile, Value::Path(path)),
            Err(fault) => {
                let key = &KEYS[Id::AsyncEntryFile as usize];
                self.fault_accepting(key, &path.to_string_lossy(), fault, "the path of a readable file");
            }
        }
    }

    fn check_listeners(&mut self) {
        let place = |settings: &Settings, id| settings.address(id).map(ListenAddr::Tcp);
        let main = self.settings.listeners(Id::ListenAddr).to_vec();
        let redirect = place(&self.settings, Id::RedirectAddr);
        let takes = |taken: &[ListenAddr], own: &ListenAddr| taken.iter().any(|other| other.overlaps(own));
        for (id, others) in [
            (Id::RedirectAddr, &[("LISTEN_ADDR", &main[..])][..]),
            (Id::InternalAddr, &[("LISTEN_ADDR", &main[..]), ("REDIRECT_ADDR", redirect.as_slice())][..]),
        ] {
            let Some(own) = place(&self.settings, id) else { continue };
            if let Some((other, _)) = others.iter().find(|(_, taken)| takes(taken, &own)) {
                let (key, text) = (&KEYS[id as usize], own.to_string());
                let fault = Fault::AddressTaken(other);
                self.fault_accepting(key, &text, fault, "an address that does not overlap with it");
            }
        }
        if let Some(redirect) = redirect
            && self.settings.source(Id::TlsCert) == &ValueSource::Default
        {
            let key = &KEYS[Id::RedirectAddr as usize];
            self.fault_accepting(
                key,
                &redirect.to_string(),
                Fault::Unused("TLS_CERT"),
                "no value without TLS_CERT",
            );
        }
    }

    fn fault(&mut self, key: &'static Key, text: Option<&OsStr>, fault: Fault) {
        self.problems.push(problem(key, text, fault));
    }

    fn fault_accepting(&mut self, key: &'static Key, text: &str, fault: Fault, accepted: &str) {
        let value = Some(text.to_owned());
        self.problems.push(Problem { setting: key.variable, value, fault, accepted: accepted.to_owned() });
    }

    /// Sets an automatic setting; returns whether it is automatic.
    fn set_if_automatic(&mut self, id: Id, number: usize) -> bool {
        let is_automatic = matches!(self.settings.value(id), Value::Unset | Value::Integer(0));
        if is_automatic {
            self.settings.set(id, Value::Integer(number as u64));
        }
        is_automatic
    }

    fn config(self, ini: Vec<(String, String)>, tracing: Option<TraceConfig>, raw: &RawConfig) -> Config {
        let settings = &self.settings;
        Config {
            serving: ServingConfig::of(settings, self.io_workers_at_start),
            php: PhpConfig::of(settings, ini),
            admission: AdmissionConfig::of(settings),
            bodies: BodyConfig::of(settings),
            timeouts: TimeoutConfig::of(settings),
            files: FileConfig::of(settings),
            response_cache: ResponseCacheConfig::of(settings),
            tls: TlsConfig::of(settings),
            clients: ClientConfig::of(settings),
            logs: LogConfig::of(settings),
            background: BackgroundConfig::of(settings, &raw.plugins()),
            operations: OperationsConfig::of(settings),
            tracing,
            development: raw.development().cloned(),
            service_manager: raw.service_manager().clone(),
            warnings: self.warnings,
            settings: self.settings.into_vec(),
        }
    }
}

impl RawConfig {
    /// Resolves only the address of the operations port, for clients of that port; `None` if it is unset.
    ///
    /// # Errors
    ///
    /// Returns the problem with the address.
    pub fn internal_addr(&self) -> Result<Option<SocketAddr>, Problem> {
        let Some((text, _)) = self.value(Id::InternalAddr) else { return Ok(None) };
        let key = &KEYS[Id::InternalAddr as usize];
        match key.kind.parse(text) {
            Ok(Value::Address(address)) => Ok(Some(address)),
            Ok(_) => Ok(None),
            Err(fault) => Err(Problem {
                setting: key.variable,
                value: Some(text.to_string_lossy().into_owned()),
                fault,
                accepted: key.accepted(),
            }),
        }
    }
}

impl RawConfig {
    /// Returns the path of the server's PID file, for clients of the server; `None` if it is unset.
    pub fn pid_file(&self) -> Option<PathBuf> {
        self.value(Id::PidFile).map(|(path, _)| PathBuf::from(path))
    }
}

/// The default limit for the bodies of requests that wait for a queue slot, in bytes.
const WAITING_BYTES_AUTO: usize = 64 << 20;

fn problem(key: &Key, text: Option<&OsStr>, fault: Fault) -> Problem {
    let value =
        text.filter(|_| key.exposure != Exposure::Secret).map(|text| text.to_string_lossy().into_owned());
    Problem { setting: key.variable, value, fault, accepted: key.accepted() }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
