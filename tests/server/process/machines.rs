//! The first command of a newcomer on machines that lack something, or that svc does not support: it prints one line with
//! the fault, its reason and the remedy. The machines are folders of commands and a private `/etc/os-release`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::repository::docs;

/// Commands that the scripts use on every machine.
const EVERYWHERE: [&str; 25] = [
    "awk", "bash", "cat", "cut", "date", "dirname", "env", "find", "flock", "getent", "grep", "head", "id",
    "make", "mkdir", "mktemp", "mv", "rm", "sed", "sh", "sort", "tail", "touch", "tr", "uname",
];

struct Machine {
    dir: TempDir,
}

impl Machine {
    /// Creates a machine with these additional commands, as shell scripts, and a Rust toolchain of version 1.88.
    fn new(os_release: &str, commands: &[(&str, &str)]) -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(machine.bin()).unwrap();
        for name in EVERYWHERE {
            let place = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let command = place.iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {name}"));
            symlink(command, machine.bin().join(name)).unwrap();
        }
        std::fs::write(machine.dir.path().join("os-release"), os_release).unwrap();
        machine.has("cargo", "echo 'cargo 1.88.0 (873a06493 2025-05-10)'");
        for (name, text) in commands {
            machine.has(name, text);
        }
        machine
    }

    fn bin(&self) -> PathBuf {
        self.dir.path().join("bin")
    }

    fn has(&self, name: &str, text: &str) {
        let path = self.bin().join(name);
        // It may be a link to the real one.
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn lacks(&self, name: &str) {
        std::fs::remove_file(self.bin().join(name)).unwrap();
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
        command.env("PATH", self.bin()).env("HOME", self.dir.path());
        command.env("SVC_OS_RELEASE", self.dir.path().join("os-release")).output().unwrap()
    }

    /// Returns the message of a command that fails.
    #[track_caller]
    fn complaint(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Returns the single line that `make packages` prints before it fails.
    #[track_caller]
    fn first_complaint(&self) -> String {
        let said = self.complaint("/usr/bin/make", &["--silent", "packages"]);
        // Lines of svc mention the build without PHP.
        let lines: Vec<_> = said.lines().filter(|line| !line.starts_with("svc: ")).collect();
        let [line, end] = lines[..] else { panic!("{said}") };
        assert!(end.starts_with("make: *** "), "{said}");
        line.to_owned()
    }
}

const DEBIAN: &str = "ID=debian\nVERSION_CODENAME=trixie\n";
const FEDORA: &str = "ID=fedora\n";

/// Returns Debian's package list, with these packages installed.
fn dpkg(installed: &str) -> String {
    format!(
        "for name; do :; done; case ' {installed} ' in *\" $name \"*) printf installed ;; *) exit 1 ;; esac"
    )
}

/// An unprivileged user.
const NOT_ROOT: (&str, &str) = ("id", "case $1 in -u) echo 1000 ;; *) echo somebody ;; esac");

#[test]
fn other_systems_get_the_reason_and_an_alternative() {
    let mac = Machine::new("", &[("uname", "echo Darwin")]);
    mac.lacks("cargo");
    let said = mac.first_complaint();
    assert!(said.contains("svc cannot run on macOS: it needs epoll, openat2"), "{said}");
    assert!(said.ends_with("build it in a container or a virtual machine with Debian or Ubuntu"), "{said}");
    let bsd = Machine::new("", &[("uname", "echo FreeBSD")]);
    assert!(bsd.first_complaint().contains("svc cannot run on FreeBSD: "));
    // Such a machine has no bash either.
    for id in ["ID=alpine\n", "ID=postmarketos\nID_LIKE=alpine\n"] {
        let alpine = Machine::new(id, &[]);
        alpine.lacks("bash");
        alpine.lacks("cargo");
        let said = alpine.first_complaint();
        assert!(said.contains("svc cannot run on Alpine: it requires glibc"), "{said}");
        assert!(said.ends_with("build it in an image of Debian or Ubuntu"), "{said}");
    }
}

#[test]
fn a_toolchain_that_is_missing_or_too_old_is_said_first() {
    let machine = Machine::new(DEBIAN, &[NOT_ROOT]);
    machine.has("cargo", "echo 'cargo 1.63.0'");
    let cargo = machine.bin().join("cargo");
    let said = machine.first_complaint();
    let expected = format!("toolchain: {} is version 1.63.0; svc requires Rust 1.", cargo.display());
    assert!(said.starts_with(&expected) && said.contains("rustup"), "{said}");
    machine.lacks("cargo");
    let said = machine.first_complaint();
    assert!(said.starts_with("toolchain: there is no cargo on PATH; svc requires Rust 1."), "{said}");
    // A version with more digits is newer.
    machine.has("cargo", "echo 'cargo 1.188.0'");
    assert!(machine.run("scripts/toolchain.sh", &[]).status.success());
}

#[test]
fn a_user_without_rights_gets_all_packages_at_once() {
    let installed = "build-essential bison dpkg-dev patch pkg-config re2c libcurl4-openssl-dev libfreetype-dev libicu-dev
        libjpeg-dev libonig-dev libpcre2-dev libpng-dev libpq-dev libsodium-dev libsqlite3-dev libssl-dev libxml2-dev
        libzip-dev zlib1g-dev libbz2-dev libgmp-dev libldap-dev libxslt1-dev";
    let installed = installed.split_whitespace().collect::<Vec<_>>().join(" ");
    let dpkg_query = dpkg(&installed);
    let machine = Machine::new(DEBIAN, &[NOT_ROOT, ("dpkg-query", &dpkg_query), ("apt-get", "exit 1")]);
    let nobody_helps =
        "system-packages: missing packages; run as root, or ask an administrator to: apt-get install";
    // The packages that the server needs, and those that its PHP needs.
    assert_eq!(machine.first_complaint(), format!("{nobody_helps} libclang-dev libwebp-dev"));
    machine.has("sudo", "exit 1");
    let with_sudo = "system-packages: missing packages; run: sudo apt-get install libclang-dev libwebp-dev";
    assert_eq!(machine.first_complaint(), with_sudo);
    machine.has("dpkg-query", &dpkg(&format!("{installed} libclang-dev libwebp-dev")));
    let output = machine.run("/usr/bin/make", &["--silent", "packages"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.lines().all(|line| line.starts_with("svc: ")), "{output:?}");
    assert!(said.contains("make build-lean"), "{said}");
}

#[test]
fn packages_have_the_names_of_the_system() {
    let wanted = ["libclang-dev", "re2c", "build-essential"];
    let said = |os_release: &str, commands: &[(&str, &str)]| {
        let machine = Machine::new(os_release, commands);
        machine.has("sudo", "exit 1");
        machine.complaint("scripts/system-packages.sh", &wanted)
    };
    let message = |text: &str| format!("system-packages: {text}\n");
    let fedora = message("missing packages; run: sudo dnf install clang-devel re2c gcc gcc-c++ make");
    assert_eq!(said(FEDORA, &[]), fedora);
    let some = ("rpm", "case \"$*\" in *clang-devel | *gcc) exit 0 ;; *) exit 1 ;; esac");
    let fewer = message("missing packages; run: sudo dnf install re2c gcc-c++ make");
    assert_eq!(said("ID=rocky\nID_LIKE=\"rhel centos fedora\"\n", &[some]), fewer);
    let arch = message("missing packages; run: sudo pacman -S --needed clang re2c base-devel");
    assert_eq!(said("ID=manjaro\nID_LIKE=arch\n", &[]), arch);
    let unknown =
        message("apt-get is not here; install what your system calls: libclang-dev re2c build-essential");
    assert_eq!(said("ID=guix\n", &[]), unknown);
}

#[test]
fn systems_without_an_archive_of_debian_get_the_place_for_sources() {
    let machine = Machine::new(FEDORA, &[("rpm", "exit 0")]);
    let output = machine.run("/usr/bin/make", &["--silent", "packages"]);
    assert!(output.status.success(), "{output:?}");
    let said = machine.complaint("scripts/php-zts.sh", &[]);
    let cache = machine.dir.path().join(".cache/svc");
    let how = format!(
        "php-zts: no archive configured on this machine has sources of PHP {}; unpack a release as \
         {}/php-src-8.x.y, or set SVC_PHP_CONFIG to the php-config of a ZTS build",
        docs::php_series(),
        cache.display()
    );
    assert_eq!(said.lines().last(), Some(&how[..]), "{said}");
    assert!(!said.contains("not found"), "{said}");
    // A read-only folder is named, too.
    std::fs::remove_dir_all(&cache).unwrap();
    std::fs::write(&cache, "").unwrap();
    let said = machine.complaint("scripts/php-zts.sh", &[]);
    assert!(said.starts_with(&format!("php-zts: {} cannot be written; ", cache.display())), "{said}");
}

#[test]
fn a_package_is_tried_on_the_release_that_it_was_built_on() {
    for (os_release, expected) in [
        (DEBIAN, "main debian:trixie-slim\n"),
        ("ID=ubuntu\nID_LIKE=debian\n", "main,universe ubuntu:trixie\n"),
        ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "main,universe ubuntu:trixie\n"),
    ] {
        let said = Machine::new(os_release, &[]).run(
            "/bin/bash",
            &["-euc", ". scripts/archives.sh; echo \"$(components) $(base_image trixie)\""],
        );
        assert_eq!(String::from_utf8(said.stdout).unwrap(), expected, "{os_release}");
    }
}

#[test]
fn the_tests_list_first_the_packages_and_builds() {
    let dpkg_query = dpkg("build-essential libclang-dev");
    let machine = Machine::new(DEBIAN, &[NOT_ROOT, ("dpkg-query", &dpkg_query), ("apt-get", "exit 1")]);
    let plan = |machine: &Machine| {
        let output = machine.run("scripts/test-plan.sh", &["fish"]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = plan(&machine);
    assert!(said.starts_with("test: the tests take about half an hour on two cores"), "{said}");
    let packages = said.lines().find(|line| line.contains("package manager")).unwrap();
    assert!(packages.contains(" libcurl4-openssl-dev ") && packages.ends_with(" fish"), "{said}");
    assert!(!packages.contains("libclang-dev"), "{said}");
    assert!(
        said.contains("PHP (5 minutes)") && said.contains("an OpenTelemetry Collector (2 minutes)"),
        "{said}"
    );
    let cache = machine.dir.path().join(".cache/svc");
    for name in
        ["extensions-php/.complete", "otelcol-1/otelcol", "kubestrict-1/kubestrict", "axe-core-4/axe.min.js"]
    {
        std::fs::create_dir_all(cache.join(name)).unwrap();
    }
    for name in ["clients", "dokuwiki", "laravel", "prometheus", "symfony", "wordpress"] {
        std::fs::create_dir_all(cache.join(format!("{name}-r1/.complete"))).unwrap();
    }
    let said = plan(&machine);
    assert!(said.contains("PHP (5 minutes)") && !said.contains("to build or fetch"), "{said}");
}
