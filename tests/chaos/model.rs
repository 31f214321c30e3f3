//! Predicts a program's answer without running it.
//!
//! The prediction is the output of PHP for the program alone on its server; every difference comes from another program or
//! from the server. The body after a fatal error is not predicted.

use super::grammar::{Op, Program};
use super::server::Mode;
use super::shutdown_code::VIOLENT_ENDS;

/// The expected answer of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `None`: a bailout ended the program; the body contains its output so far.
    pub(crate) body: Option<String>,
    pub(crate) fields: Vec<(String, String)>,
    /// The head was sent before the program failed, so the client sees a cut connection.
    pub(crate) may_be_cut: bool,
    /// The program may fail instead.
    pub(crate) may_fail: bool,
}

/// How a part of a program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Normal,
    Thrown(&'static str),
    Exited,
    Fatal,
    TimeLimit,
    /// The fiber that contains it is never resumed.
    Abandoned,
}

#[derive(Debug)]
struct Buffer<'a> {
    kind: String,
    chunk: usize,
    text: String,
    is_disabled: bool,
    /// How the code of its last call ends.
    last: Option<&'a str>,
}

#[derive(Debug)]
struct Model<'a> {
    buffers: Vec<Buffer<'a>>,
    body: String,
    status: u16,
    fields: Vec<(String, String)>,
    is_head_sent: bool,
    may_be_cut: bool,
    may_fail: bool,
    /// Open objects, which call the program when they are closed.
    open_objects: Vec<&'a Op>,
    session: Option<&'a Op>,
    /// Whether a session handler is set, which stays for the request.
    has_own_sessions: bool,
    is_finished: bool,
    handler: Option<&'a str>,
    catcher: bool,
    shutdowns: Vec<&'a [Op]>,
    /// Whether each fiber, the innermost last, will be resumed.
    fibers: Vec<bool>,
    id: &'a str,
}

/// PHP's `output_buffering` in production.
const BASE_BYTES: usize = 4096;

/// The server sends the head of a response when it has gathered so much output.
const GATHERED_BYTES: usize = 64 * 1024;

/// Predicts the answer.
pub(crate) fn answer(program: &Program, mode: Mode) -> Answer {
    let mut model = Model::new(&program.id, BASE_BYTES);
    let end = model.run(&program.ops);
    let mut is_bailout = model.settle(&end);
    let mut next = 0;
    while next < model.shutdowns.len() {
        let ops = model.shutdowns[next];
        next += 1;
        model.fibers.clear();
        let end = model.run(ops);
        is_bailout |= model.settle(&end);
        if end != End::Normal && !matches!(end, End::Thrown(_)) {
            break;
        }
    }
    is_bailout |= model.end(mode, is_bailout);
    let is_body_known = !is_bailout || model.is_finished;
    Answer {
        status: model.status,
        body: is_body_known.then_some(model.body),
        fields: model.fields,
        may_be_cut: model.may_be_cut,
        may_fail: model.may_fail,
    }
}

impl<'a> Model<'a> {
    fn new(id: &'a str, base_bytes: usize) -> Self {
        let base = Buffer::new("plain", base_bytes);
        Self {
            buffers: vec![base],
            body: String::new(),
            status: 200,
            fields: Vec::new(),
            is_head_sent: false,
            may_be_cut: false,
            may_fail: false,
            open_objects: Vec::new(),
            session: None,
            has_own_sessions: false,
            is_finished: false,
            handler: None,
            catcher: false,
            shutdowns: Vec::new(),
            fibers: Vec::new(),
            id,
        }
    }

    /// Ends the top level after an uncaught exception or an exit. Returns true for a bailout.
    fn settle(&mut self, end: &End) -> bool {
        let is_bailout = matches!(end, End::Fatal | End::TimeLimit);
        let is_failure = is_bailout || matches!(end, End::Thrown(_)) && !self.catcher;
        self.may_be_cut |= is_failure && self.is_head_sent && !self.is_finished;
        match end {
            End::Thrown(message) if self.catcher => self.say(&format!("X{message}")),
            End::Thrown(_) | End::Fatal if !self.is_head_sent && self.status < 500 => self.status = 500,
            End::TimeLimit if !self.is_head_sent => self.status = 504,
            _ => {}
        }
        is_bailout
    }

    // ---- shutdown code ----

    fn leave(&mut self, op: &'a Op) {
        match op.text(0) {
            "buffer" => self.buffers.push(Buffer { last: op.last, ..Buffer::new("last", 0) }),
            "session" if self.is_head_sent => {}
            "session" => (self.has_own_sessions, self.session) = (true, Some(op)),
            _ => {
                // A collector may find it before the head is sent.
                let is_garbage = ["cycle", "lost"].contains(&op.text(1));
                self.may_fail |= is_garbage && op.last.is_some_and(|end| VIOLENT_ENDS.contains(&end));
                self.open_objects.push(op);
            }
        }
    }

    /// The end of the request. Returns true if the body is unknown.
    fn end(&mut self, mode: Mode, has_bailed_out: bool) -> bool {
        let mut is_bailout = has_bailed_out;
        let is_object = |op: &&&Op| ["destructor", "generator"].contains(&op.text(0));
        let open = std::mem::take(&mut self.open_objects);
        // A worker keeps static properties, and collects cycles some time later.
        let early = open.iter().filter(|op| match (op.text(1), mode) {
            ("call", _) | ("fiber", Mode::Classic) => true,
            ("static", Mode::Classic) => is_object(op),
            _ => false,
        });
        for op in early {
            is_bailout |= self.shutdown_code(op.last, true, is_bailout);
        }
        while let Some(buffer) = self.buffers.last() {
            let last = buffer.last;
            if last == Some("throw") && self.output_bytes() >= GATHERED_BYTES {
                // PHP passes all buffers on before it reports the exception.
                self.is_head_sent = true;
            }
            // An exit out of the callback may cost what the buffer contained.
            is_bailout |= self.shutdown_code(last, false, is_bailout) || last == Some("exit");
            self.close(true);
        }
        if let Some(op) = self.session {
            is_bailout |= self.shutdown_code(op.last, true, is_bailout);
        }
        let late = open.iter().filter(|op| mode == Mode::Classic && !is_object(op));
        for op in late {
            match op.text(1) {
                "static" => is_bailout |= self.shutdown_code(op.last, false, is_bailout),
                // Unless a collector has found it.
                "cycle" => self.may_fail = true,
                _ => {}
            }
        }
        is_bailout
    }

    /// The length of the output so far, in buffers and beyond.
    fn output_bytes(&self) -> usize {
        self.body.len() + self.buffers.iter().map(|buffer| buffer.text.len()).sum::<usize>()
    }

    /// Ends shutdown code. Returns true if the body is unknown from then on.
    fn shutdown_code(&mut self, last: Option<&str>, is_heard: bool, has_bailed_out: bool) -> bool {
        let end = match last.unwrap_or_default() {
            "echo" if is_heard => {
                self.say("L");
                return false;
            }
            "throw" => End::Thrown("thrown"),
            "memory" | "grow" => End::Fatal,
            "limit" => End::TimeLimit,
            _ => return false,
        };
        if has_bailed_out || self.catcher {
            // A bailout may have ended it before, and a handler may have caught it.
            self.may_fail = true;
        } else {
            self.settle(&end);
        }
        true
    }

    fn run(&mut self, ops: &'a [Op]) -> End {
        for op in ops {
            let end = self.step(op);
            if end != End::Normal {
                return end;
            }
        }
        End::Normal
    }

    fn step(&mut self, op: &'a Op) -> End {
        match op.name {
            "echo" => self.say(op.text(0)),
            "big" => self.say(&"x".repeat(usize::try_from(op.number(0)).unwrap())),
            "recurse" => self.say("R"),
            "handler" => self.handler = Some(op.text(0)),
            "catcher" => self.catcher = true,
            "warn" => match self.handler {
                Some("throw") => return End::Thrown("thrown"),
                Some(_) => self.say("E"),
                None => {}
            },
            "header" if !self.is_head_sent => self.set_field(op.number(0)),
            "status" if !self.is_head_sent => self.status = u16::try_from(op.number(0)).unwrap(),
            "flush" => self.flush(),
            "hint" if !self.is_head_sent && op.number(0) >= 200 => {
                (self.status, self.is_head_sent) = (u16::try_from(op.number(0)).unwrap(), true);
            }
            "exhaust" => self.may_fail = true,
            "last" => self.leave(op),
            "finish" => {
                self.close_all();
                (self.is_finished, self.is_head_sent) = (true, true);
            }
            "throw" => return End::Thrown("thrown"),
            "exit" => return End::Exited,
            "fatal" => return End::Fatal,
            "limit" | "limit_sleep" => return End::TimeLimit,
            "suspend" => match self.fibers.last() {
                Some(true) => self.say("~"),
                Some(false) => return End::Abandoned,
                None => {}
            },
            "shutdown" => self.shutdowns.push(op.inner()),
            "session" if op.text(0) == "user" && self.is_head_sent => {}
            "session" if op.text(0) != "user" && self.has_own_sessions => {}
            "session" if op.text(0) == "user" => {
                self.has_own_sessions = true;
                self.session = None;
                return self.run(op.inner());
            }
            "buffer" => return self.buffer(op),
            "generator" => return self.generator(op),
            "fiber" | "abandon" => return self.fiber(op),
            "try" => return self.attempt(op),
            "task" => match op.text(0) {
                "cancel" => self.say("c"),
                "detach" => self.say("d"),
                "leave" => self.say("l"),
                _ => self.say(&outcome(self.id, op.inner())),
            },
            "beside" => return self.beside(op),
            "tasks" => self.tasks(op),
            "never" => self.say("N"),
            // They run at the end and print nothing.
            "keep" | "head_callback" => {}
            _ => return self.run(op.inner()),
        }
        End::Normal
    }

    // ---- operations around others ----

    fn buffer(&mut self, op: &'a Op) -> End {
        let level = self.buffers.len() + 1;
        let chunk = usize::try_from(op.number(1)).unwrap();
        self.buffers.push(Buffer::new(op.text(0), chunk));
        let end = self.run(op.inner());
        if end != End::Normal {
            return end;
        }
        self.close_down_to(level);
        self.close(op.args[2].as_bool().unwrap());
        if op.text(0) == "throw" { End::Thrown("of a buffer") } else { End::Normal }
    }

    fn generator(&mut self, op: &'a Op) -> End {
        let mut count = 0;
        for inner in op.inner() {
            match self.step(inner) {
                End::Normal => self.say("."),
                End::Thrown(message) => {
                    self.say("F");
                    return End::Thrown(message);
                }
                end => return end,
            }
            count += 1;
            if count == op.number(0) {
                break;
            }
        }
        self.say("F");
        End::Normal
    }

    fn fiber(&mut self, op: &'a Op) -> End {
        let (level, depth) = (self.buffers.len(), self.fibers.len());
        self.fibers.push(op.name == "fiber");
        let end = self.run(op.inner());
        self.fibers.truncate(depth);
        match end {
            End::Normal | End::Abandoned if op.name == "abandon" => {
                self.close_down_to(level);
                End::Normal
            }
            end => end,
        }
    }

    fn attempt(&mut self, op: &'a Op) -> End {
        let (level, depth) = (self.buffers.len(), self.fibers.len());
        match self.run(op.inner()) {
            End::Thrown(message) => {
                self.fibers.truncate(depth);
                self.close_down_to(level);
                self.say(&format!("C{message}"));
                End::Normal
            }
            end => end,
        }
    }

    // ---- tasks ----

    fn beside(&mut self, op: &'a Op) -> End {
        let Some((task, rest)) = op.inner().split_first() else { return End::Normal };
        let end = self.run(rest);
        if end == End::Normal {
            self.say(&outcome(self.id, std::slice::from_ref(task)));
        }
        end
    }

    fn tasks(&mut self, op: &'a Op) {
        let results: Vec<_> =
            op.inner().iter().map(|task| result(self.id, std::slice::from_ref(task))).collect();
        let texts: Vec<_> = results.iter().flatten().map(String::as_str).collect();
        match op.text(0) {
            _ if results.is_empty() => {}
            "all" if texts.len() == results.len() => self.say(&format!("A{};", texts.join(","))),
            "all" => self.say("a"),
            "any" => self.say(if texts.is_empty() { "y" } else { "Y" }),
            _ => self.say("R"),
        }
    }

    // ---- output ----

    fn say(&mut self, text: &str) {
        self.write(self.buffers.len(), text);
    }

    /// Writes into the buffer below `above`.
    fn write(&mut self, above: usize, text: &str) {
        if self.is_finished {
            return;
        }
        let Some(at) = above.checked_sub(1) else {
            if !text.is_empty() {
                self.is_head_sent = true;
            }
            self.body.push_str(text);
            return;
        };
        if self.buffers[at].is_disabled {
            return self.write(at, text);
        }
        let buffer = &mut self.buffers[at];
        buffer.text.push_str(text);
        if buffer.chunk > 0 && buffer.text.len() >= buffer.chunk {
            let whole = buffer.passed();
            self.write(at, &whole);
        }
    }

    fn close(&mut self, is_sent: bool) {
        let Some(mut buffer) = self.buffers.pop() else { return };
        if buffer.is_disabled {
            return;
        }
        let whole = buffer.passed();
        if is_sent {
            self.write(self.buffers.len(), &whole);
        }
    }

    fn close_down_to(&mut self, level: usize) {
        while self.buffers.len() > level {
            self.close(true);
        }
    }

    fn close_all(&mut self) {
        self.close_down_to(0);
    }

    fn flush(&mut self) {
        if self.buffers.len() == 1 {
            let text = std::mem::take(&mut self.buffers[0].text);
            self.write(0, &text);
        }
        self.is_head_sent = true;
    }

    fn set_field(&mut self, n: u64) {
        let name = format!("x-chaos-{n}");
        self.fields.retain(|(known, _)| *known != name);
        self.fields.push((name, self.id.to_owned()));
    }
}

/// Returns the result of a task, which is its program's output, or its failure.
fn result(id: &str, ops: &[Op]) -> Result<String, &'static str> {
    let mut model = Model::new(id, 0);
    match model.run(ops) {
        End::Normal => {
            model.close_down_to(1);
            Ok(model.buffers.pop().map(|mut buffer| buffer.passed()).unwrap_or_default())
        }
        End::Thrown(message) => Err(message),
        End::Exited => Err("exit"),
        End::Fatal | End::TimeLimit | End::Abandoned => Err("!"),
    }
}

/// Returns the outcome as the awaiting program prints it.
fn outcome(id: &str, ops: &[Op]) -> String {
    match result(id, ops) {
        Ok(text) => format!("T{text};"),
        Err(why) => format!("t{why};"),
    }
}

impl Buffer<'_> {
    fn new(kind: &str, chunk: usize) -> Self {
        Self { kind: kind.into(), chunk, text: String::new(), is_disabled: false, last: None }
    }

    /// Returns the result of its callback for the current content.
    fn passed(&mut self) -> String {
        let text = std::mem::take(&mut self.text);
        match self.kind.as_str() {
            "wrap" => format!("[{text}]"),
            "sleep" => format!("<{text}>"),
            "false" => {
                self.is_disabled = true;
                text
            }
            _ => text,
        }
    }
}
