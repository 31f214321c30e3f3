//! Headless Chromium, controlled over a pipe with the DevTools protocol.
//!
//! It records the faults of a page: console errors, exceptions, violations of the content security policy; and every
//! address that the page requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::eventually;

/// A running browser with one page.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Events that arrived while a command waited for its result.
    events: VecDeque<Value>,
    last_id: u64,
    session: String,
    folder: TempDir,
}

/// The browser reads commands from descriptor 3 and writes answers to descriptor 4.
const LAUNCH: &str = r#"log=$0; exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>"$log""#;

/// As root, Chromium runs only without its sandbox; the tests open only our own pages.
const OPTIONS: &[&str] = &[
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-breakpad",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-US",
    "--window-size=1280,900",
];

/// Longer than any single command takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(120);

impl Chromium {
    /// Starts a browser; `None` if Chromium is not installed.
    pub fn start() -> Option<Self> {
        let program = installed()?;
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", LAUNCH]).arg(folder.path().join("log")).arg(program).args(OPTIONS);
        command
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank");
        command.env("HOME", folder.path()).env("TZ", "UTC");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(output).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let (input, session) = (child.stdin.take(), String::new());
        let mut browser =
            Self { child, input, messages, events: VecDeque::new(), last_id: 0, session, folder };
        browser.open_page();
        Some(browser)
    }

    fn open_page(&mut self) {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call("Target.attachToTarget", &attach);
        session["sessionId"].as_str().unwrap().clone_into(&mut self.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
    }

    /// Opens an address and waits until the document has loaded.
    #[track_caller]
    pub fn open(&mut self, url: &str) {
        let answer = self.call("Page.navigate", &json!({ "url": url }));
        assert_eq!(answer["errorText"], Value::Null, "{url}");
        self.eventually("document.readyState === 'complete'");
    }

    /// Returns the value of an expression; a promise is awaited.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let question = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &question);
        assert_eq!(answer["exceptionDetails"], Value::Null, "{expression}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub fn eventually(&mut self, expression: &str) {
        eventually(expression, || self.evaluate(expression) == true);
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Tab" => (9, Value::Null),
            "Enter" => (13, "\r".into()),
            other => panic!("{other} has no number yet"),
        };
        for kind in ["keyDown", "keyUp"] {
            let event =
                json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            let event = if kind == "keyUp" || text.is_null() { without_text(event) } else { event };
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Selects the colour scheme, `light` or `dark`.
    pub fn prefer(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Replaces the page's colours by those of the system, as for users who need other contrasts.
    pub fn force_colors(&mut self) {
        let features = json!([{ "name": "forced-colors", "value": "active" }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Sets the size of the window.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Returns a picture of the window as PNG in base64.
    pub fn picture(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", &json!({ "format": "png" }));
        answer["data"].as_str().unwrap().to_owned()
    }

    /// Returns the faults since the last call: console errors, exceptions, policy violations.
    pub fn faults(&mut self) -> Vec<String> {
        self.take("Log.entryAdded", |event| {
            (event["entry"]["level"] != "info").then(|| event["entry"].to_string())
        })
        .into_iter()
        .chain(self.take("Runtime.exceptionThrown", |event| Some(event["exceptionDetails"].to_string())))
        .chain(self.take("Runtime.consoleAPICalled", |event| Some(event["args"].to_string())))
        .collect()
    }

    /// Returns the addresses that were requested since the last call.
    pub fn requests(&mut self) -> Vec<String> {
        self.take("Network.requestWillBeSent", |event| Some(event["request"]["url"].as_str()?.to_owned()))
    }

    fn take(&mut self, method: &str, what: impl Fn(&Value) -> Option<String>) -> Vec<String> {
        // Results come in order: once this command has its result, all earlier events have arrived.
        self.evaluate("0");
        let (these, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.events).into_iter().partition(|event| event["method"] == method);
        self.events = others.into();
        these.iter().filter_map(|event| what(&event["params"])).collect()
    }

    /// Runs a command and returns its result.
    #[track_caller]
    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": parameters });
        if !self.session.is_empty() {
            command["sessionId"] = self.session.as_str().into();
        }
        let mut input = self.input.as_ref().unwrap();
        let is_sent = input.write_all(format!("{command}\0").as_bytes()).is_ok();
        loop {
            let Some(mut message) = self.messages.recv_timeout(PATIENCE).ok().filter(|_| is_sent) else {
                let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                panic!("the browser does not answer {command}: {log}");
            };
            if message["id"] == self.last_id {
                assert_eq!(message["error"], Value::Null, "{command}");
                return message["result"].take();
            }
            self.events.push_back(message);
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Chromium and all its processes exit when the pipe closes.
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

fn without_text(mut event: Value) -> Value {
    event.as_object_mut().unwrap().remove("text");
    event
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.push("/usr/bin".into());
    let find = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    let found = find("chromium").or_else(|| find("chromium-browser"));
    if found.is_none() {
        crate::skip::skipped("chromium is not installed");
    }
    found
}
