//! The example of PSR-7 and PSR-15 in docs/workers.md, begun by the command of that page.
//!
//! The messages are Guzzle's, from the package archive of the system. It has no package with the two interfaces of PSR-15:
//! a stand-in declares them, and its `composer` installs both.
#![cfg(feature = "worker")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use svc_testing::Svc;
use svc_testing::fetched::fetched;

/// The interfaces of psr/http-server-handler and psr/http-server-middleware.
const INTERFACES: &str = "namespace Psr\\Http\\Server {
    use Psr\\Http\\Message\\{ResponseInterface, ServerRequestInterface};
    interface RequestHandlerInterface { public function handle(ServerRequestInterface $request): ResponseInterface; }
    interface MiddlewareInterface {
        public function process(ServerRequestInterface $request, RequestHandlerInterface $handler): ResponseInterface;
    }
}";

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Starts the command of the page in a copy of the example.
fn started() -> Option<Svc> {
    let classes = fetched("clients")?;
    let root = tempfile::tempdir().unwrap();
    let project = root.path().join("examples/psr15");
    fs::create_dir_all(root.path().join("examples")).unwrap();
    let copied = Command::new("cp").arg("-r").arg(repository().join("examples/psr15")).arg(&project).status();
    assert!(copied.unwrap().success());
    let autoload = format!(
        "<?php {INTERFACES} namespace {{ require '{classes}/autoload.php'; spl_autoload_register(function ($class) {{ \
         $file = __DIR__ . '/../src/' . strtr(substr($class, 8), '\\\\', '/') . '.php'; \
         str_starts_with($class, 'Example\\\\') && is_file($file) && require $file; }}); }}"
    );
    let bin = root.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("autoload.php"), autoload).unwrap();
    let composer = bin.join("composer");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = install ] && mkdir vendor && cp {}/autoload.php vendor/\n",
        bin.display()
    );
    fs::write(&composer, script).unwrap();
    fs::set_permissions(&composer, fs::Permissions::from_mode(0o755)).unwrap();
    let page = fs::read_to_string(repository().join("docs/workers.md")).unwrap();
    let (_, block) = page.split_once("```console\n$ ").unwrap();
    let command = block.split_once("\n```").unwrap().0;
    let svc = Path::new(env!("CARGO_BIN_EXE_svc")).parent().unwrap();
    let plain = svc_testing::command(&project.join("public"), &[]);
    let mut shell = Command::new("sh");
    shell.args(["-ec", command]).current_dir(root.path()).env_clear().stdin(Stdio::null());
    shell.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{}:{}:/usr/bin:/bin", bin.display(), svc.display()));
    Some(Svc::spawn(root, shell))
}

#[test]
fn handlers_and_middleware_serve_requests() {
    let Some(svc) = started() else { return };
    let response = svc.get("/?name=Ada%20L");
    assert_eq!((response.status, &*response.text()), (200, "Hello, Ada L!\n"));
    assert_eq!(response.field("content-type"), Some("text/plain; charset=utf-8"));
    assert!(response.field("server-timing").unwrap().starts_with("app;dur="));
    assert_eq!(svc.get("/?name[]=x").text(), "Hello, World!\n");
    assert_eq!(svc.get("/missing").status, 404);
    let mut client = svc.client();
    for length in [0, 1, 100_000, 3_000_000] {
        let body = "0123456789".repeat(length / 10 + 1)[..length].to_owned();
        assert_eq!(client.post("/echo", body.as_bytes()).text(), body, "{length}");
    }
    let head = svc.client().request("HEAD / HTTP/1.1\r\nHost: a");
    assert_eq!(head.status, 200);
    assert_eq!(svc.metric("svc_workers_spawned_total"), 2.0, "each worker has booted once");
}
