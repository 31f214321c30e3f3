//! The resolved settings, and typed access to their values.
//!
//! There is one for each row of the table, in its order. Decides and reports nothing.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;

use super::WorkerRange;
use super::id::Id;
use super::key::{Initial, Key, ValueKind, ValueUnit};
use super::keys::KEYS;
use super::listen_addr::ListenAddr;
use super::raw::ValueSource;
use super::value::Value;

/// A resolved setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its row in the table.
    pub key: &'static Key,
    /// Its resolved value.
    pub value: Value,
    /// The source of the value.
    pub source: ValueSource,
}

/// Every setting, in the order of the table.
#[derive(Debug, Default)]
pub(super) struct Settings(Vec<Setting>);

impl Settings {
    /// Adds the setting of the next row.
    pub(super) fn push(&mut self, setting: Setting) {
        debug_assert_eq!(setting.key.id as usize, self.0.len(), "the order is the table's");
        self.0.push(setting);
    }

    /// Returns all settings.
    pub(super) fn into_vec(self) -> Vec<Setting> {
        self.0
    }

    /// Returns the source of a value.
    pub(super) fn source(&self, id: Id) -> &ValueSource {
        &self.0[id as usize].source
    }

    /// Returns the value.
    pub(super) fn value(&self, id: Id) -> &Value {
        &self.0[id as usize].value
    }

    /// Returns its row in the table.
    pub(super) fn key(&self, id: Id) -> &'static Key {
        self.0[id as usize].key
    }

    /// Returns the default words of a list.
    pub(super) fn initial(&self, id: Id) -> Vec<String> {
        match self.key(id).initial {
            Initial::Is(words) => words.split(',').map(str::to_owned).collect(),
            Initial::Computed(_) | Initial::Unset => Vec::new(),
        }
    }

    /// Replaces the value.
    pub(super) fn set(&mut self, id: Id, value: Value) {
        self.0[id as usize].value = value;
    }
}

/// Typed access to values. The kind of a key determines which method fits, and a test resolves every key.
impl Settings {
    /// Returns an address; `None` if it is unset.
    pub(super) fn address(&self, id: Id) -> Option<SocketAddr> {
        if let Value::Address(address) = self.value(id) { Some(*address) } else { None }
    }

    /// Returns a boolean.
    pub(super) fn boolean(&self, id: Id) -> bool {
        *self.value(id) == Value::Boolean(true)
    }

    /// Returns a count.
    pub(super) fn count(&self, id: Id) -> usize {
        usize::try_from(self.integer(id)).unwrap_or(usize::MAX)
    }

    /// Returns a duration, converted from the unit of its row.
    pub(super) fn duration(&self, id: Id) -> Duration {
        match KEYS[id as usize].kind {
            ValueKind::Integer { unit: ValueUnit::Milliseconds, .. } => {
                Duration::from_millis(self.integer(id))
            }
            _ => Duration::from_secs(self.integer(id)),
        }
    }

    /// Returns an integer.
    pub(super) fn integer(&self, id: Id) -> u64 {
        match self.value(id) {
            Value::Integer(number) => *number,
            other => unreachable!("{} is no number: {other:?}", KEYS[id as usize].variable),
        }
    }

    /// Returns a list of words; empty if it is unset.
    pub(super) fn list(&self, id: Id) -> Vec<String> {
        if let Value::List(words) = self.value(id) { words.clone() } else { Vec::new() }
    }

    /// Returns listening addresses.
    pub(super) fn listeners(&self, id: Id) -> &[ListenAddr] {
        if let Value::Listeners(places) = self.value(id) { places } else { &[] }
    }

    /// Returns file permissions.
    pub(super) fn mode(&self, id: Id) -> u32 {
        if let Value::Mode(mode) = self.value(id) { *mode } else { 0 }
    }

    /// Returns a list of networks; `None` if it is unset.
    pub(super) fn networks(&self, id: Id) -> Option<Vec<IpNet>> {
        if let Value::Networks(networks) = self.value(id) { Some(networks.clone()) } else { None }
    }

    /// Returns a path; `None` if it is unset.
    pub(super) fn path(&self, id: Id) -> Option<PathBuf> {
        if let Value::Path(path) = self.value(id) { Some(path.clone()) } else { None }
    }

    /// Returns a list of paths; empty if it is unset.
    pub(super) fn paths(&self, id: Id) -> &[PathBuf] {
        if let Value::Paths(paths) = self.value(id) { paths } else { &[] }
    }

    /// Returns a text or a choice; `None` if it is unset.
    pub(super) fn text(&self, id: Id) -> Option<&str> {
        if let Value::Text(text) = self.value(id) { Some(text) } else { None }
    }

    /// Returns names and values; if a name occurs twice, the later value applies.
    pub(super) fn variables(&self, id: Id) -> Vec<(String, String)> {
        let mut variables: Vec<(String, String)> = Vec::new();
        for entry in self.list(id) {
            let Some((name, value)) = entry.split_once('=') else { continue };
            variables.retain(|(other, _)| other != name);
            variables.push((name.to_owned(), value.to_owned()));
        }
        variables
    }

    /// Returns the size of the pool.
    pub(super) fn workers(&self) -> WorkerRange {
        match self.value(Id::PhpWorkers) {
            Value::Workers(workers) => *workers,
            other => unreachable!("the threads are computed: {other:?}"),
        }
    }
}
