//! Collects the variables of `$_SERVER`, with the operator's overrides, for PHP.
//!
//! Each name appears once, and the setting `SERVER_VARIABLES` takes precedence. The variables themselves come from the
//! caller.

use svc_ffi::Pairs;

/// Collects the variables of one request.
pub(crate) struct Variables<'a> {
    out: &'a mut Pairs,
    /// The names and values set by the operator.
    set: &'a [(String, String)],
}

impl<'a> Variables<'a> {
    /// Starts with the operator's variables.
    pub(crate) fn new(set: &'a [(String, String)], out: &'a mut Pairs) -> Self {
        for (name, value) in set {
            out.push(name.as_bytes(), value.as_bytes());
        }
        Self { out, set }
    }

    /// Appends a variable, unless the operator has set it.
    pub(crate) fn push(&mut self, name: &[u8], value: &[u8]) {
        if !self.is_set(name) {
            self.out.push(name, value);
        }
    }

    /// Appends a variable for a field of the request.
    pub(crate) fn push_field(&mut self, field: &[u8], value: &[u8]) {
        let write_name = |bytes: &mut Vec<u8>| {
            bytes.extend_from_slice(b"HTTP_");
            bytes.extend(
                field.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }),
            );
        };
        if !self.set.is_empty() {
            let mut name = Vec::new();
            write_name(&mut name);
            return self.push(&name, value);
        }
        self.out.push_with(write_name, value);
    }

    fn is_set(&self, name: &[u8]) -> bool {
        self.set.iter().any(|(set, _)| set.as_bytes() == name)
    }
}
