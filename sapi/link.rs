//! Build script of the server: passes on how the `ffi` crate wants its executables linked.

fn main() {
    // Set by the `ffi` crate's build script; absent without PHP.
    for argument in std::env::var("DEP_PHP_LINK_ARGUMENTS").iter().flat_map(|all| all.split('\x1f')) {
        println!("cargo::rustc-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=sapi/link.rs");
}
