//! Checks the shim's knowledge of PHP's data: every member of the engine's and the extensions' structs is classified,
//! and structs that the shim redeclares have the same layout as in PHP's sources, according to the compiler.
//!
//! PHP is not started. Its sources come from `scripts/php-zts.sh --source`, or `SVC_PHP_SOURCE` names them.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use dwarf::Struct;
use svc_testing::skip::skipped;
use tables::{COPIES, Copy, ENGINE, EngineStruct, LIBRARIES, PARTED, Parted};

mod dwarf;
mod tables;

/// Compiles C with the flags of the installed PHP, and reads the structs.
struct Compiler {
    folder: TempDir,
    flags: Vec<String>,
}

impl Compiler {
    fn new() -> Compiler {
        let output =
            Command::new(env!("SHIM_PHP_CONFIG")).arg("--includes").output().expect("php-config runs");
        let includes = String::from_utf8(output.stdout).expect("paths are text");
        let shim = format!("-I{}/../c", env!("CARGO_MANIFEST_DIR"));
        let flags =
            ["-std=gnu11", "-w", "-g", "-gz=none", "-fno-eliminate-unused-debug-types", "-shared", "-fPIC"];
        // The flags of libphp, without its warnings.
        let defines = ["-D_GNU_SOURCE", "-D_REENTRANT", "-DZTS", "-DZEND_ENABLE_STATIC_TSRMLS_CACHE=1"];
        let flags =
            flags.iter().chain(&defines).copied().chain([shim.as_str()]).chain(includes.split_whitespace());
        Compiler { flags: flags.map(str::to_owned).collect(), folder: TempDir::new().unwrap() }
    }

    fn add_flags(&mut self, flags: &str) {
        self.flags.extend(flags.split_whitespace().map(str::to_owned));
    }

    /// Returns the structs of C code; the compiler's message if it does not compile.
    fn structs(&self, text: &str) -> Result<HashMap<String, Struct>, String> {
        let stem = format!("{:x}", text.len() as u64 ^ text.bytes().map(u64::from).sum::<u64>() << 16);
        let (source, object) = (self.path(&stem, "c"), self.path(&stem, "so"));
        std::fs::write(&source, text).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output =
            Command::new(compiler).args(&self.flags).arg("-o").arg(&object).arg(&source).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(dwarf::structs(&object))
    }

    fn path(&self, stem: &str, extension: &str) -> PathBuf {
        self.folder.path().join(stem).with_extension(extension)
    }

    /// Returns the structs in the shim's own files.
    fn shim(&self) -> HashMap<String, Struct> {
        self.structs(
            "#include \"worker/state/php_extensions.c\"\n#include \"worker/state/state.h\"\n#include <zend_globals.h>\n",
        )
        .expect("it compiles")
        .into_iter()
        .chain(self.structs("#include \"worker/state/library_extensions.c\"\n").expect("it compiles"))
        .collect()
    }
}

#[test]
fn every_member_of_the_engine_is_a_requests_a_fibers_or_a_threads() {
    let structs = Compiler::new().shim();
    let faults: Vec<_> = ENGINE.iter().flat_map(|engine| unclassed(engine, &structs)).collect();
    assert_eq!(faults, Vec::<String>::new());
}

fn words(text: &'static str) -> BTreeSet<&'static str> {
    text.split_whitespace().collect()
}

/// Returns the members of an engine struct that are in no list, or in two.
fn unclassed(engine: &EngineStruct, structs: &HashMap<String, Struct>) -> Vec<String> {
    let (name, member) = engine.taken_by;
    let taken: BTreeSet<&str> = match member {
        Some(member) => structs[name].member(member).inner.iter().map(String::as_str).collect(),
        None => structs[name].names().collect(),
    };
    let lists = [taken, words(engine.otherwise), words(engine.fibers), words(engine.threads)];
    in_one_list(engine.name, &structs[engine.name], &lists)
}

fn in_one_list(name: &str, theirs: &Struct, lists: &[BTreeSet<&str>]) -> Vec<String> {
    let fault = |member: &str| match lists.iter().filter(|list| list.contains(member)).count() {
        0 => Some(format!("{name}.{member}: is in no list")),
        1 => None,
        _ => Some(format!("{name}.{member}: is in two lists")),
    };
    theirs.names().filter_map(fault).collect()
}

#[test]
fn what_travels_of_an_extension_is_what_the_tables_say() {
    let structs = Compiler::new().shim();
    let faults: Vec<_> = PARTED.iter().flat_map(|parted| misparted(parted, &structs)).collect();
    assert_eq!(faults, Vec::<String>::new());
}

/// Returns the members of an extension's struct that are in no list, or are switched differently from the lists.
fn misparted(parted: &Parted, structs: &HashMap<String, Struct>) -> Vec<String> {
    let Some(theirs) = structs.get(parted.name) else {
        // The shim leaves mbstring out if PHP lacks it.
        let is_there = svc_ffi::travelling().any(|span| span.extension == parted.extension);
        return is_there.then(|| format!("there is no {}", parted.name)).into_iter().collect();
    };
    let spans = svc_ffi::travelling()
        .filter(|span| span.extension == parted.extension && span.struct_size as u64 == theirs.size);
    let spans: Vec<_> = spans.map(|span| span.range.start as u64..span.range.end as u64).collect();
    let mut faults = in_one_list(parted.name, theirs, &[words(parted.travels), words(parted.stays)]);
    for member in &theirs.members {
        let (start, end) = (member.offset, member.offset + member.size);
        let travels = spans.iter().any(|span| span.start <= start && end <= span.end);
        let touched = spans.iter().any(|span| span.start < end && start < span.end);
        if travels != touched || travels != words(parted.travels).contains(member.name.as_str()) {
            faults.push(format!("{}.{}: travels: {travels}, in part: {touched}", parted.name, member.name));
        }
    }
    faults
}

#[test]
fn each_struct_that_travels_in_part_has_its_lists() {
    let structs = Compiler::new().shim();
    let has_lists = |span: &svc_ffi::SwitchedRange| {
        PARTED.iter().filter(|parted| parted.extension == span.extension).any(|parted| {
            structs.get(parted.name).is_some_and(|theirs| theirs.size == span.struct_size as u64)
        })
    };
    let whole = |span: &svc_ffi::SwitchedRange| span.range == (0..span.struct_size);
    let without: Vec<_> = svc_ffi::travelling().filter(|span| !whole(span) && !has_lists(span)).collect();
    assert!(without.is_empty(), "{without:?}");
}

#[test]
fn structs_that_the_shim_has_written_down_are_phps() {
    let source = match source() {
        Ok(source) => source,
        Err(why) => {
            return skipped(&why);
        }
    };
    let mut compiler = Compiler::new();
    let ours = compiler.shim();
    compiler.add_flags(&format!("-I{0} -I{0}/ext/mbstring/libmbfl", source.display()));
    // The flags of these extensions; some headers are empty if PHP is built without the extension.
    compiler.add_flags("-DONIG_ESCAPE_UCHAR_COLLISION=1 -DUChar=OnigUChar -DHAVE_PGSQL=1 -DPHP_PGSQL_PRIVATE=1 -DHAVE_SNMP=1");
    let include = answer(env!("SHIM_PHP_CONFIG"), &["--include-dir"]).unwrap();
    compiler.add_flags(&format!("-I{include}/ext/mbstring"));
    for library in ["libxml-2.0", "libpq", "oniguruma", "icu-uc", "gmp"] {
        compiler.add_flags(&answer("pkg-config", &["--cflags", library]).unwrap_or_default());
    }
    let (mut faults, mut compared) = (Vec::new(), 0);
    for copy in COPIES {
        match (theirs(&compiler, copy), ours.get(copy.ours)) {
            (Ok(theirs), Some(ours)) => {
                faults.extend(differences(copy, ours, &theirs));
                compared += 1;
            }
            (Err(Missing::Header(name)), _) => skipped(&format!("{}: there is no {name}", copy.file)),
            // The shim leaves out what a build of PHP lacks.
            (Err(Missing::Struct), None) => {}
            (Err(Missing::Struct), Some(_)) if copy.is_optional => {}
            (theirs, ours) => faults.push(format!("{}: {theirs:?}, ours: {}", copy.file, ours.is_some())),
        }
    }
    assert_eq!(faults, Vec::<String>::new());
    assert!(compared > COPIES.len() / 2, "only {compared} of {} were compared", COPIES.len());
}

/// Returns PHP's sources, of the version of the installed PHP.
fn source() -> Result<PathBuf, String> {
    let source = match std::env::var("SVC_PHP_SOURCE") {
        Ok(source) => source,
        Err(_) => answer(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/php-zts.sh"), &["--source"])?,
    };
    let source = PathBuf::from(source);
    let version = answer(env!("SHIM_PHP_CONFIG"), &["--version"])?;
    let text =
        std::fs::read_to_string(source.join("main/php_version.h")).map_err(|error| error.to_string())?;
    match text.contains(&format!("\"{version}\"")) {
        true => Ok(source),
        false => Err(format!("{} are the sources of another version than {version}", source.display())),
    }
}

fn answer(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[derive(Debug)]
enum Missing {
    /// A header of a library that is not installed.
    Header(String),
    Struct,
}

fn theirs(compiler: &Compiler, copy: &Copy) -> Result<Struct, Missing> {
    let text = format!("#include <php.h>\n#include \"{}\"\n", copy.file);
    match compiler.structs(&text) {
        Ok(mut structs) => structs.remove(copy.theirs).ok_or(Missing::Struct),
        Err(said) => {
            let header =
                said.split_once("fatal error: ").and_then(|(_, rest)| rest.split_once(": No such file"));
            let (name, _) = header.unwrap_or_else(|| panic!("{}: {said}", copy.file));
            assert!(LIBRARIES.iter().any(|library| name.starts_with(library)), "{}: {said}", copy.file);
            Err(Missing::Header(name.to_owned()))
        }
    }
}

/// Returns the differences between a redeclared struct and the real one.
fn differences(copy: &Copy, ours: &Struct, theirs: &Struct) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |member: &str, what: &str| faults.push(format!("{}.{member}: {what}", copy.ours));
    let real_name = |name: &str| -> String {
        copy.renamed.iter().find(|(ours, _)| *ours == name).map_or(name, |(_, theirs)| *theirs).to_owned()
    };
    let names: BTreeSet<String> = ours.names().map(real_name).collect();
    for member in theirs.names().filter(|name| !names.contains(*name)) {
        fault(member, "is not written down");
    }
    for member in &ours.members {
        let Some(real) = theirs.members.iter().find(|real| real.name == real_name(&member.name)) else {
            fault(&member.name, "is not PHP's");
            continue;
        };
        if (member.offset, member.size) != (real.offset, real.size) {
            fault(
                &member.name,
                &format!("{}+{}, not {}+{}", real.offset, real.size, member.offset, member.size),
            );
        }
    }
    if ours.size != theirs.size {
        fault("", &format!("{} bytes, not {}", theirs.size, ours.size));
    }
    faults
}

const MUTANTS: &str = r#"
#include <stdbool.h>
struct inner { int first; int second; };
struct original { int a; long b; struct inner c; bool d; void *e; long f[2]; };
struct swapped { int a; void *e; struct inner c; bool d; long b; long f[2]; };
struct in_padding { int a; int new; long b; struct inner c; bool d; void *e; long f[2]; };
struct between { int a; long b; void *new; struct inner c; bool d; void *e; long f[2]; };
struct at_the_end { int a; long b; struct inner c; bool d; void *e; long f[2]; bool new; };
struct grown { int a; long b; struct inner c; long d; void *e; long f[2]; };
struct longer { int a; long b; struct inner c; bool d; void *e; long f[3]; };
struct shorter { int a; long b; struct inner c; bool d; long f[2]; };
struct renamed { int a; long b; struct inner c; bool d; void *other; long f[2]; };
"#;

#[test]
fn a_changed_struct_is_noticed() {
    let structs = Compiler::new().structs(MUTANTS).unwrap();
    let original = &structs["original"];
    let written = Copy { ours: "original", theirs: "", file: "", renamed: &[], is_optional: false };
    let compare = |name: &str| differences(&written, original, &structs[name]);
    assert_eq!(compare("original"), Vec::<String>::new());
    assert_eq!(compare("in_padding"), ["original.new: is not written down"]);
    assert_eq!(compare("grown"), ["original.d: 24+8, not 24+1"]);
    for name in ["swapped", "between", "at_the_end", "longer", "shorter", "renamed"] {
        assert_ne!(compare(name), Vec::<String>::new(), "{name}");
    }
    let renamed = Copy { renamed: &[("e", "other")], ..written };
    assert_eq!(differences(&renamed, original, &structs["renamed"]), Vec::<String>::new());
}

#[test]
fn a_member_in_no_list_is_noticed() {
    let structs = Compiler::new().structs(MUTANTS).unwrap();
    let engine = |name, threads| EngineStruct {
        name,
        taken_by: ("original", Some("c")),
        otherwise: "",
        fibers: "a b",
        threads,
    };
    assert_eq!(unclassed(&engine("original", "c d e f"), &structs), Vec::<String>::new());
    assert_eq!(unclassed(&engine("original", "c d f"), &structs), ["original.e: is in no list"]);
    assert_eq!(unclassed(&engine("original", "b c d e f"), &structs), ["original.b: is in two lists"]);
    assert_eq!(unclassed(&engine("in_padding", "c d e f"), &structs), ["in_padding.new: is in no list"]);
    // Switched by the shim, but listed as belonging to the thread.
    assert_eq!(unclassed(&engine("inner", "second"), &structs), ["inner.second: is in two lists"]);
}

#[test]
fn a_table_that_leaves_a_member_out_is_noticed() {
    let structs = Compiler::new().shim();
    let date = |travels, stays| Parted { extension: "date", name: "zend_date_globals", travels, stays };
    let faults = misparted(&date("timezone", "last_errors default_timezone tzcache"), &structs);
    assert_eq!(faults, ["zend_date_globals.last_errors: travels: true, in part: true"]);
    let faults = misparted(&date("timezone last_errors tzcache", "default_timezone"), &structs);
    assert_eq!(faults, ["zend_date_globals.tzcache: travels: false, in part: false"]);
}
