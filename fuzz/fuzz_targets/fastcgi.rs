//! The bytes of a FastCGI responder: any input satisfies `invariants.rs`.
#![no_main]

#[expect(dead_code, reason = "each target checks one of the parsers")]
#[path = "../invariants.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::fastcgi(bytes);
});
