//! Request heads: any bytes satisfy `invariants.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    svc_fuzz::head(bytes);
});
