//! Files by name: the results equal those of a PHP without threads, which leaves paths to the system, and the effects of
//! realpath()'s cache.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use svc_testing::{IS_WORKER, Svc};

const LOOK: &str = r#"<?php
chdir(__DIR__ . '/one');
$paths = [__DIR__ . '/now/old.txt', __DIR__ . '/now/new.txt', 'old.txt', '../two/new.txt', __DIR__ . '/one/old.txt/',
    __DIR__ . '/one/../two/./new.txt', __DIR__ . '/nowhere/../two/new.txt', '', "\0"];
echo json_encode([array_map(is_file(...), $paths), array_map(file_exists(...), $paths), filesize($paths[3])]);
"#;

#[test]
fn a_link_that_has_changed_is_followed() {
    let files = [("look.php", LOOK), ("one/old.txt", "old"), ("two/new.txt", "newer")];
    let svc = Svc::start_with(&files, &[("PHP_WORKERS", "1")], &[]);
    let now = svc.root().join("now");
    let told = |old: bool| {
        let each = format!("[{old},{},true,true,false,true,false,false,false]", !old);
        format!("[{each},{each},5]")
    };
    symlink("one", &now).unwrap();
    assert_eq!(svc.get("/look.php").text(), told(true));
    // PHP's own cache of resolved paths would keep it for two minutes.
    std::fs::remove_file(&now).unwrap();
    symlink("two", &now).unwrap();
    assert_eq!(svc.get("/look.php").text(), told(false));
}

/// Evaluates each expression in the folder `a` of the site; `@` stands for the site's path in values and warnings.
const EVALUATE: &str = r#"<?php
class Asks { function __toString() { return file_exists('none') ? 'f' : 'lf'; } }
class Info extends SplFileInfo { function getRealPath(): string|false { return parent::getRealPath(); } }

function evaluate() {
    clearstatcache(true);
    $seen = [];
    foreach (json_decode(file_get_contents('php://input')) as $expression) {
        chdir(__DIR__ . '/a');
        $warning = null;
        set_error_handler(function ($type, $text) use (&$warning) { $warning = $text; return true; });
        $value = eval("return $expression;");
        restore_error_handler();
        $seen[] = str_replace(__DIR__, '@', json_encode($warning === null ? $value : [$value, $warning], JSON_UNESCAPED_SLASHES));
    }
    echo '[', implode(',', $seen), ']';
}
if (getenv('WORKER_MODE_ENABLED') === 'true') { Svc\Worker::serve(evaluate(...)); } else { evaluate(); }
"#;

/// Starts a server on the tree of the test cases.
///
/// ```text
/// a/f  a/b/g  a/lf -> f  a/up -> ../other/deep  other/x  x  dead -> nowhere  loop -> loop
/// ```
fn evaluator(is_worker: bool) -> Svc {
    let files = [
        ("index.php", EVALUATE),
        ("a/f", "f"),
        ("a/b/g", "g"),
        ("other/deep/y", ""),
        ("other/x", "x"),
        ("x", "root"),
    ];
    let settings = [
        ("ENTRY_FILE", "index.php"),
        ("PHP_WORKERS", "1"),
        ("WORKER_MODE_ENABLED", if is_worker { "true" } else { "false" }),
    ];
    let svc = Svc::start(&files, &settings);
    for (target, link) in [("f", "a/lf"), ("../other/deep", "a/up"), ("nowhere", "dead"), ("loop", "loop")] {
        symlink(target, svc.root().join(link)).unwrap();
    }
    svc
}

fn evaluated(svc: &Svc, expressions: &[&str]) -> Vec<Value> {
    let body = serde_json::to_string(expressions).unwrap();
    let length = body.len();
    let mut client = svc.client();
    client.send(format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"));
    let text = client.response().text();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

/// Asserts that both kinds of worker evaluate each expression to the value next to it.
#[track_caller]
fn assert_values(svc: &Svc, cases: &[(&str, Value)]) {
    let expressions: Vec<_> = cases.iter().map(|(expression, _)| *expression).collect();
    for ((expression, expected), seen) in cases.iter().zip(evaluated(svc, &expressions)) {
        assert_eq!(seen, *expected, "{expression}");
    }
}

#[test]
fn real_paths_are_those_of_a_php_without_threads() {
    for is_worker in IS_WORKER {
        let svc = evaluator(is_worker);
        let paths = [
            ("f", json!("@/a/f")),
            ("./b/../f", json!("@/a/f")),
            ("lf", json!("@/a/f")),
            ("up", json!("@/other/deep")),
            ("up/..", json!("@/other")),
            ("up/../x", json!("@/other/x")),
            ("up/../../x", json!("@/x")),
            ("f/.", json!(false)),
            ("b/", json!("@/a/b")),
            ("b//g", json!("@/a/b/g")),
            ("../dead", json!(false)),
            ("../loop", json!(false)),
            ("none", json!(false)),
            ("none/..", json!(false)),
            ("b/none/../g", json!(false)),
            (".", json!("@/a")),
            ("..", json!("@")),
            ("//", json!("/")),
            ("php://memory", json!(false)),
        ];
        for (path, expected) in paths {
            let real = format!("realpath('{path}')");
            let method = format!("(new SplFileInfo('{path}'))->getRealPath()");
            assert_values(&svc, &[(&real, expected.clone()), (&method, expected)]);
        }
        assert_values(
            &svc,
            &[
                (r"realpath('')", json!("@/a")),
                (r"realpath('f/')", json!(false)),
                (r"realpath(str_repeat('d', 300))", json!(false)),
                (r"realpath(str_repeat('d/', 2500))", json!(false)),
                (r"realpath(new Asks)", json!("@/a/f")),
                (r"array_map('realpath', ['f', 'none'])", json!(["@/a/f", false])),
                (r"(new Info('lf'))->getRealPath()", json!("@/a/f")),
                (r"[realpath('f'), file_exists('none'), realpath('f')]", json!(["@/a/f", false, "@/a/f"])),
                (r"[chdir('up'), realpath('y'), getcwd()]", json!([true, "@/other/deep/y", "@/other/deep"])),
            ],
        );
    }
}

#[test]
fn the_system_resolves_the_paths_of_all_other_functions() {
    for is_worker in IS_WORKER {
        let svc = evaluator(is_worker);
        for path in
            ["", "@/a/"].map(|start| start.replace('@', svc.root().canonicalize().unwrap().to_str().unwrap()))
        {
            let at = |expression: &str| expression.replace('$', &path);
            // `up/..` is the folder `other`, since `up` is a link; it is not `a`.
            let cases = [
                (r"file_get_contents('$lf')", json!("f")),
                (
                    r"[file_exists('$up/../x'), is_file('$up/../x'), filetype('$up/../x')]",
                    json!([true, true, "file"]),
                ),
                (
                    r"[file_exists('$f/'), file_exists('$f/.'), file_exists('$none/..')]",
                    json!([false, false, false]),
                ),
                (r"scandir('$up/..')", json!([".", "..", "deep", "x"])),
                (r"mkdir('$up/../new')", json!(true)),
                (r"is_dir(__DIR__ . '/other/new')", json!(true)),
                (r"rmdir('$up/../new')", json!(true)),
                (r"touch('$up/../t')", json!(true)),
                (r"chmod('$up/../t', 0600)", json!(true)),
                (r"is_file(__DIR__ . '/other/t')", json!(true)),
                (r"rename('$up/../t', '$up/../u')", json!(true)),
                (r"[is_file(__DIR__ . '/other/u'), is_file('$u')]", json!([true, false])),
                (r"unlink('$up/../u')", json!(true)),
                (r"is_file(__DIR__ . '/other/u')", json!(false)),
            ];
            let written: Vec<_> =
                cases.iter().map(|(expression, value)| (at(expression), value.clone())).collect();
            let cases: Vec<_> = written.iter().map(|(it, value)| (it.as_str(), value.clone())).collect();
            assert_values(&svc, &cases);
        }
        assert_values(
            &svc,
            &[
                (r"readlink('lf')", json!("f")),
                (r"readlink('f')", json!([false, "readlink(): Invalid argument"])),
                (r"disk_free_space('up/..') > 0", json!(true)),
                (
                    r"[posix_mkfifo('fifo', 0600), filetype(__DIR__ . '/a/fifo'), unlink('fifo')]",
                    json!([true, "fifo", true]),
                ),
                (
                    r"function_exists('ftok') ? ftok('f', 'x') === ftok(__DIR__ . '/a/f', 'x') : true",
                    json!(true),
                ),
                (r"mkdir('f/x')", json!([false, "mkdir(): Not a directory"])),
                (r"unlink('')", json!([false, "unlink(): No such file or directory"])),
                (r"rename('f', 'none/f')", json!([false, "rename(f,none/f): No such file or directory"])),
                (
                    r"touch('none/x')",
                    json!([false, "touch(): Unable to create file none/x because No such file or directory"]),
                ),
                (r"file_exists(str_repeat('d/', 2500))", json!(false)),
            ],
        );
    }
}

#[test]
fn realpath_answers_from_its_cache_until_that_is_cleared() {
    for is_worker in IS_WORKER {
        let svc = evaluator(is_worker);
        let (file, link) = (svc.root().join("a/b/g"), svc.root().join("a/up"));
        const BOTH: &str = r"[realpath('b/g'), (new SplFileInfo('b/g'))->getRealPath(), realpath('up')]";
        // EVALUATE clears the cache at the beginning of each request.
        let changed = r"[shell_exec('rm b/g; ln -sfn ../other up; exit 1'), file_exists('b/g'), file_exists('up/deep')]";
        assert_values(
            &svc,
            &[
                (BOTH, json!(["@/a/b/g", "@/a/b/g", "@/other/deep"])),
                (changed, json!([null, false, true])),
                // A system call would show that the file is gone.
                (BOTH, json!(["@/a/b/g", "@/a/b/g", "@/other/deep"])),
                (r"clearstatcache(true, __DIR__ . '/a/b/g')", json!(null)),
                (BOTH, json!([false, false, "@/other/deep"])),
                (r"clearstatcache(true)", json!(null)),
                (BOTH, json!([false, false, "@/other"])),
                (r"file_put_contents('b/g', '')", json!(0)),
                (BOTH, json!(["@/a/b/g", "@/a/b/g", "@/other"])),
                // PHP clears the cache when it removes a file itself.
                (r"[unlink('b/g'), realpath('b/g')]", json!([true, false])),
            ],
        );
        assert!(!file.exists() && link.exists());
    }
}

#[test]
fn open_basedir_and_permissions_hold_for_real_paths() {
    let svc = evaluator(false);
    let closed = svc.root().join("a/closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("s"), "").unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).unwrap();
    let may_enter = fs::metadata(closed.join("s")).is_ok();
    let seen = if may_enter { json!("@/a/closed/s") } else { json!(false) };
    assert_values(&svc, &[(r"realpath('closed/s')", seen)]);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let refused = evaluated(
        &svc,
        &[
            r"ini_set('open_basedir', __DIR__ . '/a')",
            r"realpath('f')",
            r"realpath('lf')",
            r"realpath('none')",
            r"realpath('up/../x')",
            r"realpath('../x')",
        ],
    );
    assert_eq!(refused[1..4], [json!("@/a/f"), json!("@/a/f"), json!(false)]);
    for seen in &refused[4..] {
        assert_eq!(seen[0], json!(false));
        assert!(seen[1].as_str().unwrap().contains("open_basedir restriction in effect"), "{seen}");
    }
}
