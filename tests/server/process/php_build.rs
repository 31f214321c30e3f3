//! `scripts/php-zts.sh` on a simulated machine: an empty home, an archive that the test fills, and sources of a PHP whose
//! `configure` and `make` take no time. Each run is judged by the path that it prints and by the files that it leaves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/php-zts.sh");

/// A `configure` that records its flags, and writes a Makefile which installs a php-config with the facts of that PHP.
const CONFIGURE: &str = r##"#!/bin/sh
set -eu
echo "$CFLAGS|$*" >>"$HOME/configured"
[ ! -e "$HOME/broken" ] || { echo 'configure: error: no libxml'; exit 1; }
for flag; do case $flag in --prefix=*) prefix=${flag#--prefix=} ;; esac; done
source=$(cd "$(dirname "$0")" && pwd)
version=$(sed -nE 's/^#define PHP_VERSION "([^"]+)"/\1/p' "$source/main/php_version.h")
mkdir -p main
echo '#define PHP_INCLUDE_PATH ".:/usr/lib/php"' >main/build-defs.h
cat >Makefile <<MAKE
objects = ext/date/lib/parse_date.lo Zend/zend_execute.lo
\$(objects):
all:
install-cli:
	mkdir -p $prefix/bin $prefix/include/main $prefix/lib
	cp $HOME/php-config $prefix/bin/php-config
	sed -i 's|VERSION|$version|; s|PREFIX|$prefix|' $prefix/bin/php-config
	printf '#define ZTS 1\n#define ZEND_MAX_EXECUTION_TIMERS 1\n' >$prefix/include/main/php_config.h
	touch $prefix/lib/libphp.so
install-headers install-build install-programs install-sapi:
MAKE
"##;

const PHP_CONFIG: &str = r#"#!/bin/sh
case $1 in
--version) echo VERSION ;;
--vernum) echo VERSION | awk -F. '{ print $1 * 10000 + $2 * 100 + $3 }' ;;
--include-dir) echo PREFIX/include ;;
--extension-dir) echo PREFIX/extensions ;;
--prefix) echo PREFIX ;;
esac
"#;

/// A machine that has all packages, and whose archive is empty or has what the test puts there.
struct Machine {
    dir: TempDir,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { dir: tempfile::tempdir().unwrap() };
        for (name, code) in [
            ("dpkg-query", "printf installed"),
            ("apt-get", "exit 100"),
            ("apt-cache", "cat \"$HOME/listed\" 2>/dev/null"),
            ("php-config", "exit 1"),
            ("nproc", "echo 1"),
        ] {
            machine.program(&format!("bin/{name}"), &format!("#!/bin/sh\n{code}\n"));
        }
        machine.program("php-config", PHP_CONFIG);
        fs::write(machine.at("sources.list"), "deb http://mirror.test/debian trixie main\n").unwrap();
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn program(&self, path: &str, code: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, code).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Unpacks a release of PHP in the cache folder, as a user without an archive does.
    fn has_sources(&self, version: &str) {
        let tree = format!("cache/svc/php-src-{version}");
        self.program(&format!("{tree}/configure"), CONFIGURE);
        let header = self.at(&tree).join("main/php_version.h");
        fs::create_dir_all(header.parent().unwrap()).unwrap();
        fs::write(header, format!("#define PHP_VERSION \"{version}\"\n")).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(SCRIPT);
        command.args(arguments).env_clear().stdin(Stdio::null());
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", self.at("bin").display()));
        command.env("HOME", self.dir.path()).env("XDG_CACHE_HOME", self.at("cache"));
        command.env("SVC_APT_ETC", self.dir.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the folder in the cache folder whose php-config the script prints.
    #[track_caller]
    fn found(&self, arguments: &[&str]) -> String {
        self.folder_of(&self.run(arguments))
    }

    #[track_caller]
    fn folder_of(&self, output: &Output) -> String {
        assert!(output.status.success(), "{}", errors(output));
        let path = PathBuf::from(String::from_utf8(output.stdout.clone()).unwrap().trim_end());
        assert!(path.ends_with("bin/php-config") && path.is_file(), "{}", path.display());
        let folder = path.strip_prefix(self.at("cache/svc")).unwrap().parent().unwrap().parent().unwrap();
        folder.to_str().unwrap().to_owned()
    }

    /// Returns the compiler's and the configuration's flags of all builds so far.
    fn configured(&self) -> Vec<String> {
        let record = fs::read_to_string(self.at("configured")).unwrap_or_default();
        record.lines().map(str::to_owned).collect()
    }

    /// Returns the message of a run that fails, of which it is the last line.
    #[track_caller]
    fn complaint(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
        errors(&output).lines().last().unwrap().to_owned()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sources_in_the_cache_folder_are_built_once() {
    let machine = Machine::new();
    machine.has_sources("8.4.90");
    let packages = String::from_utf8(machine.run(&["--packages"]).stdout).unwrap();
    assert!(packages.lines().any(|line| line == "libxml2-dev"), "{packages}");
    assert!(!machine.at("cache/svc/lock").exists(), "a question creates nothing");
    let folder = machine.found(&[]);
    assert!(folder.starts_with("php-8.4.90-zts-r"), "{folder}");
    assert_eq!(machine.found(&[]), folder);
    assert_eq!(machine.configured().len(), 1);
    assert!(machine.run(&["--packages"]).stdout.is_empty(), "nothing is needed any longer");
    let flags = &machine.configured()[0];
    for flag in ["-O2", "--enable-zts", "--disable-zend-signals", "--enable-embed=shared", "--with-zip"] {
        assert!(flags.contains(flag), "{flags}");
    }
    assert!(!flags.contains("--enable-debug"), "{flags}");
    assert!(!machine.at(&format!("cache/svc/{folder}.work")).exists());
    let source = String::from_utf8(machine.run(&["--source"]).stdout).unwrap();
    assert_eq!(source.trim_end(), machine.at("cache/svc/php-src-8.4.90").to_str().unwrap());
}

#[test]
fn of_several_runs_at_a_time_one_builds() {
    let machine = Machine::new();
    machine.has_sources("8.4.90");
    let mut runs: Vec<_> = (0..3)
        .map(|_| machine.command(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    let outputs: Vec<_> = runs.drain(..).map(|run| run.wait_with_output().unwrap()).collect();
    let folders: Vec<_> = outputs.iter().map(|output| machine.folder_of(output)).collect();
    assert!(folders.iter().all(|folder| *folder == folders[0]), "{folders:?}");
    assert_eq!(machine.configured().len(), 1);
}

#[test]
fn each_kind_of_build_has_a_place_and_flags() {
    let machine = Machine::new();
    machine.has_sources("8.3.90");
    machine.has_sources("8.4.90");
    let plain = machine.found(&[]);
    // A newer release that was unpacked since is not that of the server.
    machine.has_sources("8.4.91");
    let debug = machine.found(&["--debug"]);
    let asan = machine.found(&["--asan"]);
    let series = machine.found(&["--version", "8.3"]);
    assert!(plain.starts_with("php-8.4.90-zts-r"), "{plain}");
    assert!(debug.starts_with("php-8.4.90-zts-debug-r"), "{debug}");
    assert!(asan.starts_with("php-8.4.90-zts-asan-r"), "{asan}");
    assert!(series.starts_with("php-8.3.90-zts-series-r"), "{series}");
    let [_, debug, asan, series] = &machine.configured()[..] else { panic!("{:?}", machine.configured()) };
    assert!(debug.starts_with("-O1 -g") && debug.contains(" --enable-debug"), "{debug}");
    assert!(!debug.contains("--enable-address-sanitizer") && !debug.contains("--with-zip"), "{debug}");
    assert!(asan.contains(" --enable-debug") && asan.contains(" --enable-address-sanitizer"), "{asan}");
    assert!(series.contains(" --with-zip") && !series.contains("--enable-debug"), "{series}");
    // Each build is found again, and not mistaken for another.
    assert_eq!(machine.found(&[]), plain);
    assert!(machine.found(&["--asan"]).contains("-asan-"));
    assert_eq!(machine.configured().len(), 4);
    let said = machine.complaint(&["--version", "8.2"]);
    assert!(said.starts_with("php-zts: --version requires one of ") && said.contains(" 8.3"), "{said}");
    assert!(machine.complaint(&["--fast"]).starts_with("php-zts: unknown option: --fast"));
}

#[test]
fn a_build_that_fails_is_reported_and_made_again() {
    let machine = Machine::new();
    machine.has_sources("8.4.90");
    fs::write(machine.at("broken"), "").unwrap();
    let output = machine.run(&[]);
    let said = errors(&output);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(said.contains("configure: error: no libxml\nphp-zts: configure failed\n"), "{said}");
    fs::remove_file(machine.at("broken")).unwrap();
    machine.found(&[]);
    assert_eq!(machine.configured().len(), 2);
}

#[test]
fn a_php_that_is_named_must_fit() {
    let machine = Machine::new();
    machine.has_sources("8.4.90");
    let folder = machine.at("cache/svc").join(machine.found(&[]));
    let config = folder.join("bin/php-config");
    let header = folder.join("include/main/php_config.h");
    let named =
        |arguments: &[&str]| machine.command(arguments).env("SVC_PHP_CONFIG", &config).output().unwrap();
    assert!(named(&[]).status.success());
    assert!(named(&["--packages"]).stdout.is_empty());
    let good = fs::read_to_string(&header).unwrap();
    let why = |facts: &str| {
        fs::write(&header, facts).unwrap();
        let output = named(&[]);
        assert!(!output.status.success(), "{output:?}");
        errors(&output)
    };
    assert!(why("").contains("it is not thread-safe (configure with --enable-zts)"));
    assert!(why(&format!("{good}#define ZEND_SIGNALS 1\n")).contains("it has Zend signals"));
    assert!(why("#define ZTS 1\n").contains("it lacks execution timers"));
    fs::write(&header, &good).unwrap();
    fs::remove_file(folder.join("lib/libphp.so")).unwrap();
    assert!(why(&good).contains("it has no shared libphp (configure with --enable-embed=shared)"));
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("echo 8.4.90", "echo 8.2.1")).unwrap();
    assert!(why(&good).contains("it is PHP 8.2.1, but svc requires 8.3 to 8.5"));
    // A build that lost a part is not taken, but made anew.
    machine.found(&[]);
    assert_eq!(machine.configured().len(), 2);
}

/// Puts a source package of this version, whose `configure` is that of the test, into the folder `pool`.
const PACK: &str = r#"mkdir -p "$1/php/debian/patches" "$1/php/main" pool
cd "$1"
printf '#define PHP_VERSION "%s"\n' "${1%-*}" >php/main/php_version.h
cp ../configure php/configure
printf 'first.patch\nCVE-2026-1.patch\n' >php/debian/patches/series
printf -- '--- a/main/php_version.h\n+++ b/main/php_version.h\n@@ -1 +1,2 @@\n #define PHP_VERSION "%s"\n+#define SAFE 1\n' \
    "${1%-*}" >php/debian/patches/CVE-2026-1.patch
file=php8.4_$1.tar.gz
tar -czf "../pool/$file" php
printf 'Format: 3.0 (native)\nSource: php8.4\nVersion: %s\nFiles:\n %s %s %s\n' "$1" \
    "$(md5sum "../pool/$file" | cut -d ' ' -f 1)" "$(stat -c %s "../pool/$file")" "$file" >"../pool/php8.4_$1.dsc"
printf 'Package: php8.4\nVersion: %s\n\n' "$1" >>../listed"#;

#[test]
fn the_newest_of_the_archive_is_built_with_its_security_patches_and_updated_on_request() {
    let machine = Machine::new();
    machine.program("configure", CONFIGURE);
    machine.program(
        "bin/apt-get",
        "#!/bin/sh\ncase \"$*\" in *source*php8.4=*) cp \"$HOME\"/pool/*\"${*##*=}\"* . ;; esac\n",
    );
    let packed = |version: &str| {
        let mut shell = Command::new("/bin/bash");
        let status = shell.args(["-euc", PACK, "bash", version]).current_dir(&machine.dir).status().unwrap();
        assert!(status.success());
    };
    packed("8.4.98-1");
    let folder = machine.found(&[]);
    assert!(folder.starts_with("php-8.4.98+1-zts-r"), "{folder}");
    let source = machine.at("cache/svc/php-src-8.4.98+1");
    assert!(fs::read_to_string(source.join("main/php_version.h")).unwrap().contains("SAFE"));
    let record = fs::read_to_string(machine.at("cache/svc").join(&folder).join(".source")).unwrap();
    assert!(record.starts_with("php8.4 8.4.98-1 ("), "{record}");
    assert!(record.ends_with("), its 1 security patches applied\n"), "{record}");
    let same = machine.run(&["--update"]);
    assert!(errors(&same).contains("no version newer than PHP 8.4.98-1 is available"), "{}", errors(&same));
    assert_eq!(machine.folder_of(&same), folder);
    packed("8.4.99-1");
    assert_eq!(machine.found(&[]), folder, "updates are requested");
    let newer = machine.found(&["--update"]);
    assert!(newer.starts_with("php-8.4.99+1-zts-r"), "{newer}");
    assert_eq!(machine.found(&[]), newer);
    assert_eq!(machine.configured().len(), 2);
    let leftovers = fs::read_dir(machine.at("cache/svc")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(leftovers.into_iter().all(|name| !name.to_str().unwrap().starts_with("apt.")));
}
