//! Shared helpers for the tests of the interpreter: a recording host, scripts in a temporary directory, a request.

use std::fs;
use std::path::{Path, PathBuf};

use std::convert::Infallible;

use svc_ffi::{
    Host, Interpreter, Pairs, Payload, PhpHead, PhpLog, PhpOutcome, PhpRequest, Runtime, TaskReading,
    TaskRequester,
};
use svc_types::{TaskRejection, WatchMode};

/// A server whose requests cannot wait for other threads, without task threads.
pub(crate) enum NoRuntime {}

impl Runtime for NoRuntime {
    type Awaited = Infallible;
    type Completer = Infallible;
    type Task = Infallible;
    type Watch = Infallible;

    fn completion() -> Option<(Infallible, Infallible)> {
        None
    }
    fn take_woken(_woken: &mut dyn FnMut(u32)) {}
    fn wait(awaited: &Infallible, _waiter: u32) -> bool {
        match *awaited {}
    }
    fn stop_waiting(awaited: &Infallible) {
        match *awaited {}
    }
    fn is_complete(awaited: &Infallible) -> bool {
        match *awaited {}
    }
    fn bytes_max() -> u64 {
        0
    }
    fn dispatch(_input: Payload, _requester: TaskRequester<'_>) -> Result<Infallible, TaskRejection> {
        Err(TaskRejection::NoThread)
    }
    fn id(task: &Infallible) -> u64 {
        match *task {}
    }
    fn read(task: &Infallible) -> TaskReading<'_> {
        match *task {}
    }
    fn cancel(task: &Infallible) -> bool {
        match *task {}
    }
    fn detach(task: &Infallible) {
        match *task {}
    }
    fn is_owned(task: &Infallible) -> bool {
        match *task {}
    }
    fn is_stranded(task: &Infallible) -> bool {
        match *task {}
    }
    fn strand(task: &Infallible) {
        match *task {}
    }
    fn watch(_tasks: &[&Infallible], _mode: WatchMode) -> Option<(Infallible, Infallible)> {
        None
    }
    fn winner(watch: &Infallible) -> usize {
        match *watch {}
    }
}

/// Records the output and messages of a script.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) output: Vec<u8>,
    pub(crate) head: Option<(i32, Vec<String>)>,
    pub(crate) interim: Vec<i32>,
    pub(crate) body: Vec<u8>,
    pub(crate) logs: Vec<(String, u32)>,
    pub(crate) finished: bool,
    pub(crate) refuses: bool,
    pub(crate) panics: bool,
}

impl Host for Recorder {
    fn write(&mut self, output: &[u8]) -> bool {
        assert!(!self.panics, "as the test wants it");
        self.output.extend_from_slice(output);
        !self.refuses
    }
    fn is_gone(&self) -> bool {
        false
    }
    fn is_full(&self) -> bool {
        false
    }
    fn flush(&mut self) -> bool {
        !self.refuses
    }
    fn send_head(&mut self, head: &PhpHead<'_>) {
        let lines = head.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        self.head = Some((head.status, lines));
    }
    fn send_interim(&mut self, head: &PhpHead<'_>) {
        self.interim.push(head.status);
    }
    fn finish(&mut self) {
        self.finished = true;
    }
    fn time_limit(&mut self) {
        self.finished = true;
    }
    fn read_body(&mut self, buffer: &mut [u8]) -> usize {
        let count = buffer.len().min(self.body.len());
        buffer[..count].copy_from_slice(&self.body[..count]);
        self.body.drain(..count);
        count
    }
    fn read_body_at(&mut self, buffer: &mut [u8], offset: u64) -> usize {
        let rest = &self.body[usize::try_from(offset).unwrap().min(self.body.len())..];
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }
    fn target(&mut self) -> &[u8] {
        b"/path?a=1&b[]=2"
    }
    fn client(&mut self) -> &[u8] {
        b"192.0.2.1"
    }
    fn variables(&mut self, out: &mut Pairs) {
        out.push(b"REQUEST_METHOD", b"GET");
        out.push(b"SVC_TEST", b"a value");
    }
    fn fields(&mut self, out: &mut Pairs) {
        out.push(b"X-Test", b"1");
    }
    fn request_id(&mut self) -> &[u8] {
        b"the-id"
    }
    fn log(&mut self, record: &PhpLog<'_>) {
        self.logs.push((String::from_utf8_lossy(record.message).into_owned(), record.line));
    }
}

/// A directory of scripts, removed on drop.
pub(crate) struct Scripts(PathBuf);

impl Scripts {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("svc-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn write(&self, name: &str, code: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("<?php {code}")).unwrap();
        path
    }
}

impl Scripts {
    /// Returns the path of a name in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Waits until the path exists.
    pub(crate) fn until_exists(&self, name: &str) {
        while !self.path(name).exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Drop for Scripts {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn request(script: &Path) -> PhpRequest<'_> {
    PhpRequest {
        number: 0,
        method: b"GET",
        uri: b"/",
        query: b"a=1&b[]=2",
        content_type: None,
        cookies: Some(b"c=3"),
        authorization: b"Basic dTpw",
        script: script.as_os_str().as_encoded_bytes(),
        script_file: script.as_os_str().as_encoded_bytes(),
        folder: b"",
        content_length: 0,
        protocol: 1001,
        time: 1.5,
    }
}

pub(crate) fn run(interpreter: &mut Interpreter, request: &PhpRequest<'_>) -> (PhpOutcome, Recorder) {
    let mut recorder = Recorder::default();
    let outcome = interpreter.run(request, &mut recorder);
    (outcome, recorder)
}
