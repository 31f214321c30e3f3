//! A hash of the bytes of a file, for its entity tag.
//!
//! The hash is the same on every machine and in every version: SHA-256, truncated to 128 bits. A change of the file
//! during the read is not detected.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::hash::{Hash, Output};

use super::slice::read_slice;
use crate::limits::DISK_SLICE_BYTES;

/// The length of the truncated hash, in bytes.
const KEPT: usize = 16;

/// Hashes these bytes.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    shown(&sha256().hash(bytes))
}

/// Hashes a file of this length. Accesses the disk.
///
/// # Errors
///
/// If the disk fails, and `UnexpectedEof` if the file is shorter.
pub(super) fn of_file(file: &File, length: u64) -> io::Result<String> {
    let mut hash = sha256().start();
    let mut offset = 0;
    while offset < length {
        let wanted = DISK_SLICE_BYTES.min(usize::try_from(length - offset).unwrap_or(usize::MAX));
        let bytes = read_slice(offset, wanted, |buffer, at| file.read_at(buffer, at))?;
        if bytes.len() < wanted {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        hash.update(&bytes);
        offset += wanted as u64;
    }
    Ok(shown(&hash.finish()))
}

/// Returns the implementation of the TLS library.
fn sha256() -> &'static dyn Hash {
    let SupportedCipherSuite::Tls13(suite) = TLS13_AES_128_GCM_SHA256 else {
        unreachable!("a suite of TLS 1.3")
    };
    suite.common.hash_provider
}

fn shown(hash: &Output) -> String {
    hash.as_ref()[..KEPT].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_and_files_have_the_same_hash() {
        assert_eq!(of_bytes(b"abc"), "ba7816bf8f01cfea414140de5dae2223");
        for length in [0, 1, DISK_SLICE_BYTES, 3 * DISK_SLICE_BYTES + 7] {
            let bytes: Vec<u8> = (0..=255).cycle().take(length).collect();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            assert_eq!(of_file(&file, length as u64).unwrap(), of_bytes(&bytes));
            assert!(of_file(&file, length as u64 + 1).is_err());
        }
    }
}
