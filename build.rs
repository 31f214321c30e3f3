//! Finds a PHP, checks that svc can embed it, compiles the shim against it, generates the bindings.
//!
//! Owned by the `ffi` crate. `SVC_PHP_CONFIG` names the `php-config` to use; without it the one on `PATH` is taken.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Builds what the crate needs of PHP.
pub(crate) fn build() {
    let target = ["CARGO_CFG_TARGET_OS", "CARGO_CFG_TARGET_ENV"].map(env);
    if target != [Some("linux".to_owned()), Some("gnu".to_owned())] {
        eprintln!(
            "svc: the server with PHP runs on Linux with glibc only; use a container or a virtual machine"
        );
        exit(1);
    }
    let c = Path::new(&env("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../c");
    let php = find_php();
    probe(&c, &php);
    compile(&c, &php);
    bind(&c.join("shim.h"), "(shim|SHIM)_.*", "shim.rs");
    bind(&c.join("../include/svc_plugin.h"), "(svc|SVC)_.*", "svc_plugin.rs");
    // A folder stands for all that is below it.
    println!("cargo::rerun-if-changed={}", c.display());
    println!("cargo::rerun-if-changed={}", c.join("../include").display());
    println!("cargo::rerun-if-changed=../build.rs");
    // For the tests that compile what PHP's headers say.
    println!("cargo::rustc-env=SHIM_PHP_CONFIG={}", php.config);
    println!("cargo::rustc-env=SHIM_PHP_BINARY={}", php.binary);
    record_source(&php);
}

/// Where the PHP comes from, if it is a build of scripts/php-zts.sh.
fn record_source(php: &Php) {
    let record = php.lib_dir.with_file_name(".source");
    let Ok(source) = fs::read_to_string(&record) else { return };
    println!("cargo::rerun-if-changed={}", record.display());
    println!("cargo::rustc-env=SHIM_PHP_SOURCE={}", source.trim());
    println!("cargo::rustc-env=SHIM_PHP_VERSION={}", php.version);
}

/// What `php-config` says of an installed PHP.
struct Php {
    config: String,
    /// The command-line PHP.
    binary: String,
    version: String,
    include_flags: Vec<String>,
    lib_dir: PathBuf,
}

fn find_php() -> Php {
    let named = env("SVC_PHP_CONFIG");
    let config = named.clone().unwrap_or_else(|| "php-config".into());
    let ask = |option: &str| {
        let output = Command::new(&config).arg(option).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let (Some(includes), Some(prefix), Some(version)) =
        (ask("--includes"), ask("--prefix"), ask("--version"))
    else {
        fail(&match named {
            Some(path) => format!("SVC_PHP_CONFIG={path} cannot be executed"),
            None => "there is no php-config on PATH".into(),
        });
    };
    let has_library = |folder: &PathBuf| folder.join("libphp.so").exists();
    let Some(lib_dir) =
        ["lib", "lib64"].map(|name| Path::new(&prefix).join(name)).into_iter().find(has_library)
    else {
        fail(&format!("{config} belongs to a PHP without {prefix}/lib/libphp.so (--enable-embed=shared)"));
    };
    let binary = ask("--php-binary").unwrap_or_default();
    Php {
        config,
        binary,
        version,
        include_flags: includes.split_whitespace().map(str::to_owned).collect(),
        lib_dir,
    }
}

/// The series of PHP that svc supports.
const SERIES: &str = include_str!("scripts/php-series");

/// Returns the supported series as a range, such as `8.3 to 8.5`.
fn supported() -> String {
    let mut series: Vec<_> = SERIES.split_whitespace().collect();
    series.sort_unstable();
    format!("{} to {}", series[0], series[series.len() - 1])
}

/// Lets the preprocessor say what kind of PHP this is, and refuses what cannot be embedded.
fn probe(c: &Path, php: &Php) {
    let mut build = cc::Build::new();
    build.file(c.join("probe.c")).cargo_metadata(false);
    for flag in &php.include_flags {
        build.flag(flag);
    }
    let Ok(text) = build.try_expand() else { fail(&format!("cannot read the headers of {}", php.config)) };
    let text = String::from_utf8_lossy(&text).into_owned();
    let fact = |name: &str| -> u32 {
        let line = text.lines().rev().find_map(|line| line.strip_prefix("probe ")?.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    let version = fact("version");
    let series = format!("{}.{}", version / 10000, version / 100 % 100);
    if !SERIES.split_whitespace().any(|supported| supported == series) {
        fail(&format!("{} is PHP {series}; svc supports {}", php.config, supported()));
    }
    if fact("zts") == 0 {
        fail(&format!("{} is not thread-safe (--enable-zts)", php.config));
    }
    if fact("signals") == 1 {
        fail(&format!("{} has Zend signals (--disable-zend-signals)", php.config));
    }
    if fact("timers") == 0 {
        fail(&format!("{} lacks execution timers (--enable-zend-max-execution-timers)", php.config));
    }
}

fn compile(c: &Path, php: &Php) {
    let mut build = cc::Build::new();
    build
        .files(["php", "main"].into_iter().chain(features()).flat_map(|folder| sources(&c.join(folder))))
        .include(c)
        .std("gnu11")
        // Before any header, in whatever order: PHP's call functions of glibc, and GCC 14 takes them only if declared.
        .define("_GNU_SOURCE", None)
        .flag("-Werror=implicit-function-declaration")
        .warnings(true)
        .extra_warnings(true)
        .define("ZEND_ENABLE_STATIC_TSRMLS_CACHE", "1")
        .define("SVC_VERSION", format!("\"{}\"", env("CARGO_PKG_VERSION").expect("cargo sets it")).as_str());
    for flag in &php.include_flags {
        // PHP's headers are not held to our warnings.
        match flag.strip_prefix("-I") {
            Some(dir) => build.flag("-isystem").flag(dir),
            None => build.flag(flag),
        };
    }
    if env("SVC_WERROR").is_some() {
        build.flag("-Werror");
    }
    for feature in features() {
        build.define(&format!("SVC_{}", feature.to_uppercase()), None);
    }
    sanitize(&mut build);
    // Whole: some files hold nothing but definitions that come before libc's.
    build.link_lib_modifier("+whole-archive").compile("svc_shim");
    println!("cargo::rustc-link-search=native={}", php.lib_dir.display());
    println!("cargo::rustc-link-lib=dylib=php");
    let names =
        fs::read_to_string(c.join("php/libc/interposed.def")).expect("c/php/libc/interposed.def can be read");
    let names = names.lines().filter_map(|line| line.strip_prefix("SHIM_INTERPOSE(")?.strip_suffix(')'));
    let exports = names.map(|name| format!("-Wl,--export-dynamic-symbol={name}"));
    // An installed server has its libphp with it; scripts/install.sh removes what follows the colon.
    let places = format!("-Wl,-rpath,$ORIGIN/../lib/svc:{}", php.lib_dir.display());
    let arguments: Vec<_> = exports.chain([places]).collect();
    // For this crate's own tests.
    for argument in &arguments {
        println!("cargo::rustc-link-arg={argument}");
    }
    // Read by the server's own build script as DEP_PHP_LINK_ARGUMENTS.
    println!("cargo::metadata=LINK_ARGUMENTS={}", arguments.join("\x1f"));
}

/// The features of this build, which are folders of `c/`.
fn features() -> impl Iterator<Item = &'static str> {
    let is_on = |feature: &&str| env(&format!("CARGO_FEATURE_{}", feature.to_uppercase())).is_some();
    ["worker", "async", "trace"].into_iter().filter(is_on)
}

/// Every source below `folder`, in one order everywhere.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(folder).expect("c/ can be read") {
        let path = entry.expect("c/ can be read").path();
        if path.is_dir() {
            sources.extend(self::sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path);
        }
    }
    sources.sort();
    sources
}

/// `SVC_SANITIZE=address,undefined` is for `make sanitize`. The runtimes are named before libphp, and so before libc: they
/// define some of its functions anew.
fn sanitize(build: &mut cc::Build) {
    let Some(names) = env("SVC_SANITIZE") else { return };
    build.flag(format!("-fsanitize={names}")).flag("-fno-omit-frame-pointer").flag("-g");
    for name in names.split(',') {
        let runtime = match name {
            "address" => {
                // As PHP's --enable-address-sanitizer does: it decides the layout of an arena.
                build.define("ZEND_TRACK_ARENA_ALLOC", None);
                "asan"
            }
            "undefined" => "ubsan",
            _ => fail(&format!("SVC_SANITIZE={names} is unknown (accepted: address, undefined)")),
        };
        println!("cargo::rustc-link-lib=dylib={runtime}");
    }
}

fn bind(header: &Path, names: &str, target: &str) {
    let bindings = bindgen::Builder::default()
        .header(header.display().to_string())
        .allowlist_item(names)
        .default_enum_style(bindgen::EnumVariation::Consts)
        .use_core()
        .merge_extern_blocks(true)
        .generate();
    match bindings {
        Ok(bindings) => {
            let path = Path::new(&env("OUT_DIR").expect("cargo sets it")).join(target);
            bindings.write_to_file(path).expect("OUT_DIR can be written");
        }
        Err(error) => fail(&format!("bindgen cannot read {}: {error}", header.display())),
    }
}

fn env(name: &str) -> Option<String> {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn fail(why: &str) -> ! {
    eprintln!("svc: {why}");
    eprintln!("svc: a thread-safe PHP {} with a shared libphp is required.", supported());
    eprintln!("svc: SVC_PHP_CONFIG=$(scripts/php-zts.sh) finds one, or builds one on Debian and Ubuntu.");
    eprintln!("svc: to build the server without PHP, use cargo build --no-default-features.");
    exit(1);
}
