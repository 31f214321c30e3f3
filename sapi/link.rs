//! Build script of the server: lets the binary find libphp where the `ffi` crate found it.

fn main() {
    // Set by the `ffi` crate's build script; absent without PHP.
    if let Ok(dir) = std::env::var("DEP_PHP_LIB_DIR") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
    }
    println!("cargo::rerun-if-changed=sapi/link.rs");
}
