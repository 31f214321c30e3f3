//! A list of names and values, in one block of memory.

/// A list of names and values in one buffer, reused from request to request.
#[derive(Debug, Default)]
pub struct Pairs {
    bytes: Vec<u8>,
    /// The ends of the name and the value of each pair in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    /// Appends a pair. Names and values may contain any bytes; PHP truncates neither.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_with(|bytes| bytes.extend_from_slice(name), value);
    }

    /// Appends a pair whose name `write_name` appends to the buffer.
    pub fn push_with(&mut self, write_name: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        write_name(&mut self.bytes);
        let name_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((name_end, self.bytes.len()));
    }

    /// Empties the list and keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the pairs, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let pair = (&self.bytes[start..name_end], &self.bytes[name_end..value_end]);
            start = value_end;
            pair
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_in_order() {
        let mut pairs = Pairs::default();
        pairs.push(b"A", b"1");
        pairs.push(b"B", b"");
        pairs.push_with(|name| name.extend_from_slice(b"C_D"), b"3");
        let all: Vec<_> = pairs.iter().collect();
        assert_eq!(all, [(&b"A"[..], &b"1"[..]), (b"B", b""), (b"C_D", b"3")]);
        pairs.clear();
        assert!(pairs.is_empty());
    }
}
