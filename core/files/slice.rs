//! Reads an exact range from a source that returns fewer bytes at a time.
//!
//! Bytes that are missing from the result are missing from the source. The reader blocks as long as the source does.

use std::io;

/// Reads up to `len` bytes starting at `offset` with `read_at`; fewer only at the end.
///
/// # Errors
///
/// Errors of `read_at`, except for "interrupted".
pub fn read_slice(
    offset: u64,
    len: usize,
    read_at: impl Fn(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_slice_is_read_to_its_end_or_to_that_of_the_source() {
        let source = b"0123456789";
        let calls = Cell::new(0);
        let read_at = |buf: &mut [u8], at: u64| {
            calls.set(calls.get() + 1);
            if calls.get() % 2 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let rest = &source[usize::try_from(at).unwrap()..];
            let count = rest.len().min(buf.len()).min(3);
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        assert_eq!(read_slice(1, 7, read_at).unwrap(), b"1234567");
        assert_eq!(read_slice(6, 7, read_at).unwrap(), b"6789");
        assert!(read_slice(10, 7, read_at).unwrap().is_empty());
    }

    #[test]
    fn the_result_of_the_source_is_passed_on() {
        let error = read_slice(0, 1, |_, _| Err(io::ErrorKind::PermissionDenied.into())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }
}
