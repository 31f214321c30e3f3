//! The wire format of Protocol Buffers, as far as OTLP needs it.
//!
//! Output is canonical; input is untrusted. There is no schema: field numbers are arguments.

/// Appends fields to a buffer.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

/// The wire type of a variable-length integer.
const VARINT: u32 = 0;

/// The wire type of an eight-byte value.
const FIXED64: u32 = 1;

/// The wire type of length-prefixed bytes: texts and messages.
pub(super) const DELIMITED: u32 = 2;

/// The wire type of a four-byte value.
const FIXED32: u32 = 5;

impl Writer {
    /// Starts after the existing content of a buffer.
    pub(super) fn behind(buffer: Vec<u8>) -> Self {
        Self(buffer)
    }

    /// Returns the written bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Writes a number, even 0.
    pub(super) fn varint(&mut self, field: u32, number: u64) {
        self.tag(field, VARINT);
        self.number(number);
    }

    /// Writes a number; omits 0, which is the default.
    pub(super) fn count(&mut self, field: u32, number: u32) {
        if number > 0 {
            self.varint(field, number.into());
        }
    }

    /// Writes an eight-byte value.
    pub(super) fn fixed64(&mut self, field: u32, number: u64) {
        self.tag(field, FIXED64);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes a floating-point number, even 0.
    pub(super) fn double(&mut self, field: u32, number: f64) {
        self.fixed64(field, number.to_bits());
    }

    /// Writes a list of eight-byte values, even an empty one.
    pub(super) fn fixed64_list(&mut self, field: u32, numbers: impl ExactSizeIterator<Item = u64>) {
        self.begin(field, numbers.len() * 8);
        numbers.for_each(|number| self.encoded(&number.to_le_bytes()));
    }

    /// Writes a four-byte value.
    pub(super) fn fixed32(&mut self, field: u32, number: u32) {
        self.tag(field, FIXED32);
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes bytes, even if empty.
    pub(super) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.tag(field, DELIMITED);
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    /// Writes text; omits empty text, which is the default.
    pub(super) fn text(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.bytes(field, text.as_bytes());
        }
    }

    /// Writes a message; `write` writes its fields.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, DELIMITED);
        // The length is only known afterwards. Most lengths fit into one byte; for others the message is moved.
        let at = self.0.len();
        self.0.push(0);
        write(self);
        let length = self.0.len() - at - 1;
        let mut digits = [0; 10];
        let count = encode(length as u64, &mut digits);
        self.0.extend_from_slice(&digits[1..count]);
        self.0.copy_within(at + 1..at + 1 + length, at + count);
        self.0[at..at + count].copy_from_slice(&digits[..count]);
    }

    /// Begins a message of `length` bytes, which the caller writes next.
    pub(super) fn begin(&mut self, field: u32, length: usize) {
        self.tag(field, DELIMITED);
        self.number(length as u64);
    }

    /// Reserves room for `bytes` more bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// Writes already encoded fields.
    #[inline]
    pub(super) fn encoded(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    #[inline]
    fn tag(&mut self, field: u32, wire_type: u32) {
        self.number(u64::from(field << 3 | wire_type));
    }

    #[inline]
    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(digit @ ..0x80) => self.0.push(digit),
            _ => self.long_number(number),
        }
    }

    fn long_number(&mut self, number: u64) {
        let mut digits = [0; 10];
        let count = encode(number, &mut digits);
        self.0.extend_from_slice(&digits[..count]);
    }
}

/// Returns the encoded size of a field with `length` bytes, including its tag and length. The field number must be
/// below 16.
pub(super) fn delimited(length: usize) -> usize {
    let bits = (length | 1).ilog2() as usize + 1;
    1 + bits.div_ceil(7) + length
}

/// Encodes a varint: seven bits per byte, the lowest first. Returns the number of bytes.
pub(super) fn encode(mut number: u64, digits: &mut [u8; 10]) -> usize {
    let mut count = 0;
    while number >= 0x80 {
        digits[count] = number as u8 | 0x80;
        number >>= 7;
        count += 1;
    }
    digits[count] = number as u8;
    count + 1
}

/// A decoded field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// A variable-length integer.
    Varint(u64),
    /// Bytes: text, or a message.
    Bytes(&'a [u8]),
    /// A four- or eight-byte value, which no message that we read contains.
    Fixed,
}

/// Reads the fields of a message; stops at the first malformed one.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader of a message.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = (u64, Field<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.number()?;
        let field = match (tag & 7) as u32 {
            VARINT => Field::Varint(self.number()?),
            FIXED64 => self.take(8).map(|_| Field::Fixed)?,
            DELIMITED => {
                let length = self.number()?;
                Field::Bytes(self.take(length)?)
            }
            FIXED32 => self.take(4).map(|_| Field::Fixed)?,
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let mut writer = Writer::behind(vec![0xff]);
        writer.varint(1, u64::MAX);
        writer.varint(2, 0);
        writer.count(3, 0);
        writer.fixed64(4, 7);
        writer.fixed32(16, 7);
        writer.text(5, "");
        writer.message(6, |inner| {
            inner.text(1, &"x".repeat(300));
            inner.message(2, |_| {});
        });
        let bytes = writer.into_bytes();
        let fields: Vec<_> = Reader::new(&bytes[1..]).collect();
        assert_eq!(bytes[0], 0xff);
        assert_eq!(
            fields[..4],
            [(1, Field::Varint(u64::MAX)), (2, Field::Varint(0)), (4, Field::Fixed), (16, Field::Fixed)]
        );
        let (6, Field::Bytes(inner)) = fields[4] else { panic!("{fields:?}") };
        let inner: Vec<_> = Reader::new(inner).collect();
        assert_eq!(inner, [(1, Field::Bytes("x".repeat(300).as_bytes())), (2, Field::Bytes(b""))]);
    }

    #[test]
    fn numbers_follow_the_format() {
        let mut writer = Writer::default();
        writer.varint(1, 150);
        writer.fixed32(16, 1);
        assert_eq!(writer.into_bytes(), [0x08, 0x96, 0x01, 0x85, 0x01, 1, 0, 0, 0]);
    }

    #[test]
    fn malformed_input_ends_the_reading() {
        for bytes in [
            &[0x08][..],
            &[0x0a, 5, b'x'],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0x0b],
            &[0xff; 20],
            &[0x09, 1, 2],
        ] {
            assert_eq!(Reader::new(bytes).next(), None, "{bytes:?}");
        }
    }
}
