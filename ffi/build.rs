//! Build script: compiles the shim and generates its bindings if PHP is part of the build.

#[cfg(feature = "php")]
#[path = "../build.rs"]
mod php;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "php")]
    php::build();
}
