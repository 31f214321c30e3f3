//! One case of a bad end: the end, the step of the script at which it happens, and the request that runs the script:
//! the first one of a client, or a refresh without a client.

use std::fmt::{Debug, Formatter};
use std::path::PathBuf;

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::client::{Client, Response, eventually};
use svc_testing::http2::{Http2Client, code};

/// One run of the script ends badly, if `bad` is its number.
pub(super) const PAGE: (&str, &str) = (
    "page.php",
    r#"<?php
    if ($_SERVER['REQUEST_METHOD'] === 'DELETE') { echo 'deleted'; return; }
    $case = __DIR__ . '/' . $_GET['case'];
    $runs = fopen($case . '.runs', 'a');
    flock($runs, LOCK_EX); // until it is closed: no two runs read the same number
    fwrite($runs, 'x');
    $run = fstat($runs)['size'];
    fclose($runs);
    $is_bad = $run === (int) $_GET['bad'];
    [$end, $step] = [$_GET['end'], $_GET['step']];
    header('Cache-Control: ' . $_GET['lifetime']);
    header('Cache-Tag: ' . $_GET['case']);
    echo '[run ', $run, '|';
    if ($is_bad) {
        if ($end === 'WrongLength') header('Content-Length: 100');
        if ($end === 'Private') header('Cache-Control: private');
        if ($step === 'Sending') { ob_flush(); flush(); }
        if ($step === 'Finished') { echo 'run ', $run, ']'; svc_finish_request(); }
        touch($case . '.here');
        if ($end === 'LimitInCall') exec("while [ -e $case.runs ] && [ ! -e $case.go ]; do sleep 0.1; done");
        // Many of them run at once: if they took all processors, good scripts would reach the limit, too.
        while ($end === 'Limit' && !file_exists($case . '.go')) { usleep(1000); clearstatcache(); }
        while (!file_exists($case . '.go')) { usleep(500); clearstatcache(); }
        if ($end === 'Fatal') undefined_function();
        if ($end === 'Exception') throw new Exception('told to');
        if ($end === 'Memory') str_repeat('x', 1 << 30);
        if ($end === 'Killed') exec('kill -KILL ' . getmypid());
        if ($end === 'TooLarge') for ($i = 0; $i < 100; $i++) echo str_repeat('.', 10000);
    }
    echo 'run ', $run, ']';"#,
);

pub(super) const PURGE: (&str, &str) = ("purge.php", "<?php echo Svc\\Cache\\purge_tags($_GET['tag']);");

pub(super) const APP: (&str, &str) = (
    "app.php",
    r"<?php Svc\Worker::serve(static function () {
        require __DIR__ . (str_starts_with($_SERVER['REQUEST_URI'], '/purge') ? '/purge.php' : '/page.php');
    });",
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// The request whose script ends badly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    FirstClient,
    Refresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It waits for a worker.
    Queued,
    /// The script runs.
    Running,
    /// A part of the response is sent.
    Sending,
    /// The response is sent, and the script goes on.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is no bad end; the other ones are compared with it.
    Good,
    Fatal,
    Exception,
    Memory,
    WrongLength,
    Private,
    TooLarge,
    ClientLeaves,
    FollowerLeaves,
    Reload,
    PurgeOfTag,
    UnsafeRequest,
    Limit,
    LimitInCall,
    /// The process of the script is killed.
    Killed,
}

/// Where scripts run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Classic,
    Worker,
    /// In other processes, without the functions of svc.
    Fastcgi,
}

impl End {
    /// The ends that can happen while the script runs, and need no time.
    pub(super) const PROMPT: [Self; 13] = [
        Self::Good,
        Self::Fatal,
        Self::Exception,
        Self::Memory,
        Self::WrongLength,
        Self::Private,
        Self::TooLarge,
        Self::ClientLeaves,
        Self::FollowerLeaves,
        Self::Reload,
        Self::PurgeOfTag,
        Self::UnsafeRequest,
        Self::Killed,
    ];

    pub(super) fn is_possible_in(self, mode: Mode) -> bool {
        match self {
            Self::Killed => mode == Mode::Fastcgi,
            Self::PurgeOfTag => mode != Mode::Fastcgi,
            _ => true,
        }
    }

    pub(super) fn is_possible_at(self, step: Step) -> bool {
        let has_script = !matches!(self, Self::ClientLeaves | Self::FollowerLeaves | Self::Reload)
            && !matches!(self, Self::PurgeOfTag | Self::UnsafeRequest | Self::Good);
        match step {
            Step::Queued => !has_script,
            Step::Running => true,
            Step::Sending => self != Self::Private,
            Step::Finished => {
                !matches!(self, Self::Private | Self::WrongLength | Self::TooLarge | Self::Killed)
            }
        }
    }

    /// Whether the next requests run side by side, because the response may not be stored.
    fn is_remembered(self) -> bool {
        matches!(self, Self::Private | Self::TooLarge)
    }

    fn removes(self) -> bool {
        matches!(self, Self::Reload | Self::PurgeOfTag | Self::UnsafeRequest)
    }
}

/// A client that has sent a request.
pub(super) enum Visitor {
    Http1(Client),
    Http2(Box<Http2Client>, u32),
}

impl Visitor {
    fn ask(svc: &Svc, protocol: Protocol, path: &str) -> Self {
        match protocol {
            Protocol::Http1 => {
                let mut client = svc.client();
                client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"));
                Self::Http1(client)
            }
            Protocol::Http2 => {
                let mut client = Http2Client::connect(svc.main());
                let stream = client.ask(path);
                Self::Http2(Box::new(client), stream)
            }
        }
    }

    pub(super) fn response(&mut self) -> Response {
        match self {
            Self::Http1(client) => client.response(),
            Self::Http2(client, stream) => client.response(*stream),
        }
    }

    /// Waits until a part of the response is here.
    pub(super) fn until_begun(&mut self) {
        match self {
            Self::Http1(client) => assert_ne!(client.socket().peek(&mut [0]).unwrap(), 0),
            Self::Http2(client, stream) => client.until(|client| client.heard(*stream).status != 0),
        }
    }

    fn leave(self) {
        if let Self::Http2(mut client, stream) = self {
            client.reset(stream, code::CANCEL);
            client.ping();
        }
    }
}

/// Returns the number of the run that made this response, which is whole.
#[track_caller]
pub(super) fn run_of(response: &Response, case: &dyn Debug) -> usize {
    let text = response.text();
    assert!(response.status == 200 && response.is_whole, "{case:?}: {} {text}", response.status);
    let (first, second) =
        text.strip_prefix("[run ").and_then(|rest| rest.split_once("|run ")).unwrap_or_default();
    assert!(text.ends_with(']') && second.strip_suffix(']') == Some(first), "{case:?}: {text}");
    first.parse().unwrap()
}

/// One case on a server that other cases share.
pub(super) struct Case<'a> {
    pub(super) svc: &'a Svc,
    pub(super) mode: Mode,
    pub(super) protocol: Protocol,
    pub(super) role: Role,
    pub(super) step: Step,
    pub(super) end: End,
}

impl Debug for Case<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name())
    }
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{:?}-{:?}-{:?}-{:?}", self.protocol, self.role, self.step, self.end)
    }

    pub(super) fn file(&self, what: &str) -> PathBuf {
        self.svc.root().join(format!("{}.{what}", self.name()))
    }

    fn path(&self) -> String {
        let (bad, lifetime) = match self.role {
            Role::FirstClient => (1, "max-age=600"),
            Role::Refresh => (2, "max-age=0,stale-while-revalidate=600"),
        };
        let (name, end, step) = (self.name(), self.end, self.step);
        format!("/page.php?case={name}&end={end:?}&step={step:?}&bad={bad}&lifetime={lifetime}")
    }

    pub(super) fn ask(&self, protocol: Protocol) -> Visitor {
        Visitor::ask(self.svc, protocol, &self.path())
    }

    fn runs(&self) -> usize {
        std::fs::read(self.file("runs")).map_or(0, |runs| runs.len())
    }

    pub(super) fn received(&self) -> f64 {
        self.svc.metric("svc_requests_total")
    }

    /// Waits until this many requests more than `before` have arrived.
    pub(super) fn until_received(&self, before: f64, count: usize) {
        eventually("they have arrived", || self.received() >= before + count as f64);
    }

    pub(super) fn run(&self) {
        let reloads = || {
            let records = self.svc.log().of("svc");
            records.iter().filter(|record| record["fields"]["message"] == "reload finished").count()
        };
        let before = reloads();
        match self.role {
            Role::FirstClient => self.end_first_client(),
            Role::Refresh => self.end_refresh(),
        }
        // The cache is emptied a second time once all workers are replaced.
        eventually("the reload is over", || self.end != End::Reload || reloads() > before);
        self.check_afterwards();
    }

    fn end_first_client(&self) {
        let blocker = (self.step == Step::Queued).then(|| Blocker::start(self.svc));
        let before = self.received();
        let mut leader = Some(self.ask(self.protocol));
        match self.step {
            Step::Queued => self.until_received(before, 1),
            _ => eventually("the script runs", || self.file("here").exists()),
        }
        if let (Step::Sending, Some(leader)) = (self.step, &mut leader) {
            leader.until_begun();
        }
        let others = self.received();
        let mut followers: Vec<Visitor> =
            [Protocol::Http1, Protocol::Http2, self.protocol].map(|protocol| self.ask(protocol)).into();
        self.until_received(others, 3);
        let has_ended = self.step == Step::Finished;
        assert!(has_ended || self.runs() <= 1, "{self:?}: the others wait for the first one");
        self.inject(&mut leader, &mut followers);
        drop(blocker);
        let runs: Vec<usize> =
            followers.iter_mut().map(|follower| run_of(&follower.response(), self)).collect();
        let is_first = self.end == End::Good || self.end == End::FollowerLeaves || has_ended;
        if is_first {
            assert!(runs.iter().all(|run| *run == 1), "{self:?}: {runs:?}");
        } else if self.end.removes() && self.step != Step::Queued {
            assert!(
                runs.iter().all(|run| *run > 1),
                "{self:?}: a response from before it was removed: {runs:?}"
            );
        }
        let Some(mut leader) = leader else { return };
        let response = leader.response();
        match (self.end, self.step) {
            (_, Step::Finished) => drop(run_of(&response, self)),
            (End::Limit | End::LimitInCall, Step::Running) => assert_eq!(response.status, 504, "{self:?}"),
            (End::Fatal | End::Exception | End::Memory | End::Killed, Step::Running) => {
                assert_eq!(response.status, 500, "{self:?}");
            }
            // The process ends the response as usual.
            (End::Fatal | End::Exception | End::Memory, _) if self.mode == Mode::Fastcgi => {}
            (End::Killed, _) => assert!(!response.is_whole, "{self:?}: {response:?}"),
            (End::Fatal | End::Exception | End::Memory | End::Limit | End::LimitInCall, _)
            | (End::WrongLength, _) => assert!(!response.is_whole, "{self:?}: {}", response.text()),
            (End::TooLarge, _) => assert!(response.is_whole && response.body.len() > 1_000_000, "{self:?}"),
            _ => drop(run_of(&response, self)),
        }
    }

    fn end_refresh(&self) {
        assert_eq!(run_of(&self.ask(self.protocol).response(), self), 1, "{self:?}");
        // A refresh that finds no idle worker is left to the next request.
        eventually("the refresh is stored", || {
            let response = self.ask(self.protocol).response();
            let is_there = self.file("here").exists();
            let may_be_new = is_there || self.step == Step::Finished;
            assert!(run_of(&response, self) == 1 || may_be_new, "{self:?}: it is answered at once");
            is_there
        });
        if self.step != Step::Finished {
            assert_eq!(run_of(&self.ask(self.protocol).response(), self), 1, "{self:?}");
            assert_eq!(self.runs(), 2, "{self:?}: there is one at a time");
        }
        self.inject(&mut None, &mut Vec::new());
    }

    /// Makes the end happen.
    fn inject(&self, leader: &mut Option<Visitor>, followers: &mut Vec<Visitor>) {
        let svc = self.svc;
        match self.end {
            End::ClientLeaves => {
                let left = || svc.metric("svc_request_cancelled_total{reason=\"client_abort\"}");
                let before = left();
                if let Some(leader) = leader.take() {
                    leader.leave();
                    let is_counted = matches!(self.step, Step::Queued | Step::Running);
                    eventually("it has left", || !is_counted || left() > before);
                }
            }
            End::FollowerLeaves => {
                if let Some(follower) = followers.pop() {
                    follower.leave();
                }
            }
            End::Reload => {
                let sentinel = "/page.php?case=sentinel&end=Good&step=Running&bad=0&lifetime=max-age=600";
                let is_hit = || {
                    let response = Visitor::ask(svc, Protocol::Http1, sentinel).response();
                    response.field("cache-status").is_some_and(|status| status.starts_with("svc; hit"))
                };
                // Without an idle worker, a missing sentinel would wait.
                let has_worker = self.step != Step::Queued;
                eventually("the sentinel is stored", || !has_worker || is_hit());
                svc.signal(Signal::HUP);
                eventually("the cache is empty", || !has_worker || !is_hit());
            }
            End::PurgeOfTag if self.step != Step::Queued => {
                assert_eq!(svc.get(&format!("/purge.php?tag={}", self.name())).status, 200);
            }
            End::UnsafeRequest if self.step != Step::Queued => {
                let deletion = format!("DELETE {} HTTP/1.1\r\nHost: test", self.path());
                assert_eq!(svc.client().request(&deletion).text(), "deleted");
            }
            End::Limit | End::LimitInCall => return,
            _ => {}
        }
        std::fs::write(self.file("go"), "").unwrap();
    }

    /// No flight is left, and what is stored is whole.
    fn check_afterwards(&self) {
        let mut is_hit = false;
        for _ in 0..2 {
            let response = self.ask(Protocol::Http1).response();
            run_of(&response, self);
            is_hit = response.field("cache-status").is_some_and(|status| status.starts_with("svc; hit"));
        }
        if self.role == Role::FirstClient {
            assert_eq!(is_hit, !self.end.is_remembered(), "{self:?}: {:?}", self.runs());
        } else if !self.end.is_remembered() {
            let is_good = matches!(self.end, End::Good | End::ClientLeaves | End::FollowerLeaves);
            let next = if is_good || self.step == Step::Finished { 2 } else { 3 };
            eventually("a refresh has succeeded", || {
                run_of(&self.ask(self.protocol).response(), self) >= next
            });
        }
        // A script that its limit ends late.
        std::fs::write(self.file("go"), "").unwrap();
    }
}

/// A request that keeps the only worker busy until it is dropped.
struct Blocker<'a>(&'a Svc, Visitor);

impl<'a> Blocker<'a> {
    fn start(svc: &'a Svc) -> Self {
        let files = ["blocker.go", "blocker.here", "blocker.runs"].map(|name| svc.root().join(name));
        files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        let path = "/page.php?case=blocker&end=Good&step=Running&bad=1&lifetime=no-store";
        let blocker = Visitor::ask(svc, Protocol::Http1, path);
        eventually("the worker is busy", || files[1].exists());
        Self(svc, blocker)
    }
}

impl Drop for Blocker<'_> {
    fn drop(&mut self) {
        std::fs::write(self.0.root().join("blocker.go"), "").unwrap();
        let response = self.1.response();
        assert!(response.status == 200 || std::thread::panicking(), "{response:?}");
    }
}
