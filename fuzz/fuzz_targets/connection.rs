//! Whole connections: any bytes of a peer satisfy `invariants.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    svc_fuzz::connection(bytes);
});
