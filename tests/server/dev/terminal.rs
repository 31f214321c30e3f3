//! The lines that people read.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use svc_testing::{command, written};
use tempfile::TempDir;

/// A server whose output is for people.
struct Terminal {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    banner: String,
    site: String,
    _root: TempDir,
}

impl Terminal {
    fn start(files: &[(&str, &str)], settings: &[(&str, &str)]) -> Self {
        let root = written(files);
        let mut command: Command = command(root.path(), settings);
        let mut child = command.arg("dev").stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut banner = String::new();
        while !banner.contains("Ctrl-C") {
            assert!(output.read_line(&mut banner).unwrap() > 0, "{banner}");
        }
        let site = banner.split_once("Site").unwrap().1.split_whitespace().next().unwrap();
        let site = site.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child, output, banner, site, _root: root }
    }

    fn get(&self, path: &str) {
        let mut socket = TcpStream::connect(&self.site).unwrap();
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        socket.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Stops the server; returns its output after the banner.
    fn rest(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest
    }
}

#[test]
fn the_urls_and_each_request_are_printed() {
    let terminal = Terminal::start(&[("page.html", "text")], &[("EXECUTOR", "stub"), ("TZ", "UTC")]);
    assert!(terminal.banner.contains("Operations  http://127.0.0.1:"), "{}", terminal.banner);
    terminal.get("/page.html");
    terminal.get("/.svc/changes?since=0");
    let rest = terminal.rest();
    let line = rest.lines().find(|line| line.contains("GET")).unwrap();
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[1..4], ["GET", "/page.html", "200"], "{line}");
    assert_eq!(words[5], "ms", "{line}");
    assert!(!rest.contains(".svc") && !rest.contains('\u{1b}'), "{rest}");
}

#[test]
#[cfg(feature = "php")]
fn errors_are_below_their_request() {
    let code = "<?php error_log('a note'); echo $undefined; f();";
    let terminal = Terminal::start(&[("index.php", code)], &[]);
    terminal.get("/");
    let rest = terminal.rest();
    let lines: Vec<_> = rest.lines().skip_while(|line| !line.contains(" GET ")).collect();
    assert!(lines[0].contains(" 500 "), "{rest}");
    let below = lines[1..].join("\n");
    for part in [
        "notice a note",
        "warning Undefined variable $undefined",
        "error Uncaught Error: Call to undefined",
        "/index.php:1",
    ] {
        assert!(below.contains(part), "{part}: {rest}");
    }
}
