//! The log of a server for development: a line for each request, and below it the messages of its script.
//!
//! The record of a request arrives after those of its script, which are held back until then, within limits of time and
//! number. Other records are printed if they are warnings or concern development. Texts of clients and scripts cannot
//! control the terminal.

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::Value;

use super::timestamp::seconds_of_day;

/// How lines are formed.
#[derive(Clone, Debug, Default)]
pub(super) struct TerminalOptions {
    /// Whether lines are coloured.
    pub(super) has_colours: bool,
    /// The difference of the local time to UTC.
    pub(super) utc_offset_seconds: i32,
    /// The directory that is served.
    pub(super) document_root: String,
    /// The scheme of URLs.
    pub(super) scheme: &'static str,
}

/// Forms lines from the records of the log.
#[derive(Debug)]
pub(super) struct TerminalLines {
    options: TerminalOptions,
    held: VecDeque<Held>,
    /// The facts of the banner, which is printed once the server is ready.
    banner: Banner,
}

/// The messages of a request that runs.
#[derive(Debug)]
struct Held {
    request_id: String,
    /// The second of the day of the first one.
    since: i64,
    count: usize,
    lines: String,
}

#[derive(Debug, Default)]
struct Banner {
    version: String,
    php: String,
    sites: Vec<String>,
    ops: Option<String>,
}

/// The most requests whose messages are held back.
const HELD_REQUESTS_MAX: usize = 64;

/// The most messages of a request that are held back.
const HELD_MESSAGES_MAX: usize = 50;

/// How long messages are held back if other records arrive.
const HELD_SECONDS_MAX: i64 = 1;

/// The path of requests that wait for a change, which are not printed.
const UNSEEN_PATH: &str = "/.svc/changes";

const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const CYAN: &str = "36";

impl TerminalLines {
    pub(super) fn new(options: TerminalOptions) -> Self {
        Self { options, held: VecDeque::new(), banner: Banner::default() }
    }

    /// Forms the lines that a record makes due.
    pub(super) fn lines(&mut self, record: &[u8]) -> String {
        let Ok(record) = serde_json::from_slice::<Value>(record) else { return String::new() };
        let (time, second) = self.time(text(&record["timestamp"]));
        let mut lines = self.overdue(second);
        let (fields, target) = (&record["fields"], text(&record["target"]));
        match target {
            "access" => self.put_access(&mut lines, &time, fields),
            "php" => self.put_php(&mut lines, &time, second, fields),
            _ => self.put_event(&mut lines, &time, text(&record["level"]), fields),
        }
        lines
    }

    /// Forms the lines of everything that is held back, because no more records follow.
    pub(super) fn rest(&mut self) -> String {
        self.held.drain(..).map(|held| held.lines).collect()
    }

    fn overdue(&mut self, second: i64) -> String {
        let mut lines = String::new();
        self.held.retain(|held| {
            // At midnight, everything is due.
            let is_due = !(0..=HELD_SECONDS_MAX).contains(&(second - held.since));
            if is_due {
                lines.push_str(&held.lines);
            }
            !is_due
        });
        lines
    }

    fn put_access(&mut self, lines: &mut String, time: &str, fields: &Value) {
        let path = text(&fields["path"]);
        let held = self.held.iter().position(|held| held.request_id == text(&fields["request_id"]));
        let held = held.and_then(|at| self.held.remove(at));
        if path != UNSEEN_PATH {
            let status = fields["status"].as_u64().unwrap_or_default();
            let colour = match status {
                ..300 => GREEN,
                300..400 => CYAN,
                400..500 => YELLOW,
                _ => RED,
            };
            let method = visible(text(&fields["method"]));
            let _ = write!(
                lines,
                "{} {method:<4} {:<32} {} {:>8}",
                self.painted(DIM, time),
                visible(path),
                self.painted(colour, &status.to_string()),
                duration(fields["duration_us"].as_u64().unwrap_or_default()),
            );
            for name in ["shed_reason", "denied_by", "cache"] {
                if let Some(value) = fields[name].as_str() {
                    let _ = write!(lines, " {}", self.painted(DIM, value));
                }
            }
            lines.push('\n');
        }
        lines.extend(held.map(|held| held.lines));
    }

    fn put_php(&mut self, lines: &mut String, time: &str, second: i64, fields: &Value) {
        let level = text(&fields["php_level"]);
        let colour = match level {
            "error" => RED,
            "warning" => YELLOW,
            _ => CYAN,
        };
        let message = visible(text(&fields["message"]));
        let mut message_lines =
            message.lines().filter(|line| !matches!(line.trim(), "" | "Stack trace:" | "thrown"));
        let place = fields["file"].as_str().map(|file| format!("{}:{}", visible(file), fields["line"]));
        let first = message_lines.next().unwrap_or_default();
        // PHP appends the place to the text of an uncaught exception.
        let first = place
            .as_ref()
            .and_then(|place| first.strip_suffix(place.as_str())?.strip_suffix(" in "))
            .unwrap_or(first);
        let mut own = format!("         {} {first}\n", self.painted(colour, level));
        if let Some(place) = &place {
            let _ = writeln!(own, "           {place}");
        }
        for line in message_lines {
            let _ = writeln!(own, "           {}", self.painted(DIM, &linkable(line)));
        }
        if let Some(context) = fields.get("context") {
            let _ = writeln!(own, "           {}", self.painted(DIM, &visible(&context.to_string())));
        }
        let Some(request_id) = fields["request_id"].as_str() else {
            let _ = writeln!(lines, "{} PHP, outside of requests", self.painted(DIM, time));
            lines.push_str(&own);
            return;
        };
        if !self.held.iter().any(|held| held.request_id == request_id) {
            if self.held.len() == HELD_REQUESTS_MAX {
                lines.extend(self.held.pop_front().map(|held| held.lines));
            }
            let held =
                Held { request_id: request_id.to_owned(), since: second, count: 0, lines: String::new() };
            self.held.push_back(held);
        }
        if let Some(held) = self.held.iter_mut().find(|held| held.request_id == request_id) {
            held.lines.push_str(&own);
            held.count += 1;
            if held.count >= HELD_MESSAGES_MAX {
                lines.push_str(&std::mem::take(&mut held.lines));
                held.count = 0;
            }
        }
    }

    fn put_event(&mut self, lines: &mut String, time: &str, level: &str, fields: &Value) {
        let message = text(&fields["message"]);
        match message {
            "svc is starting" => text(&fields["version"]).clone_into(&mut self.banner.version),
            "PHP is ready" => text(&fields["version"]).clone_into(&mut self.banner.php),
            "main port is listening" => self.banner.sites.push(text(&fields["addr"]).to_owned()),
            "operations port is listening" => self.banner.ops = fields["addr"].as_str().map(str::to_owned),
            "svc is ready" => self.put_banner(lines),
            "code has changed and is being reloaded" => {
                let _ =
                    writeln!(lines, "{} changed {}", self.painted(DIM, time), visible(text(&fields["path"])));
            }
            _ if matches!(level, "WARN" | "ERROR") => {
                let colour = if level == "WARN" { YELLOW } else { RED };
                let _ = write!(
                    lines,
                    "{} {} {}",
                    self.painted(DIM, time),
                    self.painted(colour, "svc"),
                    visible(message)
                );
                for (name, value) in fields.as_object().into_iter().flatten() {
                    if name != "message" && !value.is_null() {
                        let value = value.as_str().map_or_else(|| value.to_string(), visible);
                        let _ = write!(lines, " {name}={}", value.replace('\n', " "));
                    }
                }
                lines.push('\n');
            }
            _ => {}
        }
    }

    fn put_banner(&self, lines: &mut String) {
        let Banner { version, php, sites, ops } = &self.banner;
        let php = if php.is_empty() { String::new() } else { format!(", PHP {php}") };
        let _ = writeln!(
            lines,
            "\n  svc {version}{php}, for development: {}\n",
            visible(&self.options.document_root)
        );
        for site in sites {
            let url = if site.starts_with("unix:") {
                site.clone()
            } else {
                format!("{}://{}/", self.options.scheme, reachable(site))
            };
            let _ = writeln!(lines, "  Site        {}", self.painted(CYAN, &url));
        }
        if let Some(ops) = ops {
            let url = format!("http://{}/", reachable(ops));
            let _ = writeln!(lines, "  Operations  {}", self.painted(CYAN, &url));
        }
        lines.push_str("\n  Ctrl-C stops it.\n\n");
    }

    /// Returns the local time of a record, as text and as the second of its day.
    fn time(&self, timestamp: &str) -> (String, i64) {
        let second =
            seconds_of_day(timestamp).unwrap_or_default() + i64::from(self.options.utc_offset_seconds);
        let second = second.rem_euclid(24 * 60 * 60);
        (format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60), second)
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.options.has_colours { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Replaces characters that control a terminal.
fn visible(text: &str) -> String {
    let is_control = |c: char| {
        c != '\n' && (c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
    };
    text.replace('\t', "    ").replace(is_control, "\u{fffd}")
}

/// Returns an address at which a browser on this machine finds the port.
fn reachable(addr: &str) -> String {
    match addr.rsplit_once(':') {
        Some(("0.0.0.0" | "[::]", port)) => format!("127.0.0.1:{port}"),
        _ => addr.to_owned(),
    }
}

/// Writes the place of a frame as terminals recognize it: `#0 FILE(LINE): CALL` becomes `#0 FILE:LINE CALL`.
fn linkable(frame: &str) -> String {
    let parts = || {
        let (before, call) = frame.split_once("): ").filter(|_| frame.starts_with('#'))?;
        let (file, line) = before.rsplit_once('(')?;
        line.bytes().all(|byte| byte.is_ascii_digit()).then(|| format!("{file}:{line} {call}"))
    };
    parts().unwrap_or_else(|| frame.to_owned())
}

fn duration(micros: u64) -> String {
    match micros {
        ..100_000 => format!("{}.{} ms", micros / 1000, micros / 100 % 10),
        100_000..10_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{}.{} s", micros / 1_000_000, micros / 100_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::observe::{Access, Event, PhpLevel, PhpMessage};

    fn terminal() -> TerminalLines {
        let document_root = "/srv/app".to_owned();
        TerminalLines::new(TerminalOptions {
            document_root,
            scheme: "http",
            utc_offset_seconds: 3600,
            ..Default::default()
        })
    }

    fn at(lines: &mut TerminalLines, seconds: u64, event: &Event<'_>) -> String {
        lines.lines(&event.render(UNIX_EPOCH + Duration::from_secs(seconds)))
    }

    fn access(request_id: &'static str, path: &'static [u8]) -> Event<'static> {
        Event::Access(Access {
            method: "GET",
            path,
            status: 500,
            bytes: 5,
            duration: Duration::from_micros(12_345),
            queue_wait: None,
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            user_agent: None,
            referer: None,
            protocol: "HTTP/1.1",
            request_id,
            trace: None,
            shed_reason: None,
            denied_by: None,
            cache: None,
        })
    }

    fn message<'a>(request_id: Option<&'a str>, text: &'a str) -> Event<'a> {
        Event::PhpMessage(PhpMessage {
            level: PhpLevel::Error,
            message: text.as_bytes(),
            context: None,
            file: Some(b"/srv/a.php"),
            line: Some(3),
            request_id,
            traceparent: None,
        })
    }

    #[test]
    fn messages_are_below_their_request() {
        let mut lines = terminal();
        let text = "Uncaught E: no in /srv/a.php:3\nStack trace:\n#0 /srv/b.php(4): f()\n#1 {main}\n  thrown";
        assert_eq!(at(&mut lines, 0, &message(Some("a"), text)), "");
        assert_eq!(at(&mut lines, 0, &message(Some("b"), "other")), "");
        assert_eq!(
            at(&mut lines, 1, &access("a", b"/x")),
            format!(
                "01:00:01 GET  {:<32} 500  12.3 ms\n         error Uncaught E: no\n           /srv/a.php:3\n           #0 /srv/b.php:4 f()\n           #1 {{main}}\n",
                "/x"
            )
        );
        assert!(lines.rest().contains("other"));
        assert_eq!(lines.rest(), "");
    }

    #[test]
    fn messages_of_a_running_request_are_shown() {
        let mut lines = terminal();
        assert_eq!(at(&mut lines, 10, &message(Some("a"), "early")), "");
        assert!(at(&mut lines, 12, &access("b", b"/")).starts_with("         error early\n"));
        let said: String =
            (0..HELD_MESSAGES_MAX).map(|_| at(&mut lines, 12, &message(Some("a"), "again"))).collect();
        assert_eq!(said.matches("again").count(), HELD_MESSAGES_MAX);
        assert_eq!(at(&mut lines, 12, &message(Some("a"), "over midnight")), "");
        assert!(at(&mut lines, 0, &access("b", b"/")).contains("over midnight"));
        for _ in 0..2 * HELD_REQUESTS_MAX {
            assert!(lines.held.len() <= HELD_REQUESTS_MAX);
        }
        assert!(at(&mut lines, 0, &message(None, "at boot")).contains("at boot"));
    }

    #[test]
    fn the_banner_has_the_urls() {
        let mut lines = terminal();
        for event in [
            Event::Starting { version: "1.2" },
            Event::PhpReady { version: "8.4", zts: true, opcache: true },
            Event::OpsListening { addr: "127.0.0.1:9".parse().unwrap() },
            Event::Listening { addr: "0.0.0.0:8" },
        ] {
            assert_eq!(at(&mut lines, 0, &event), "");
        }
        let banner = at(&mut lines, 0, &Event::Ready { workers: 2 });
        for part in ["svc 1.2, PHP 8.4", "/srv/app", "http://127.0.0.1:8/", "http://127.0.0.1:9/"] {
            assert!(banner.contains(part), "{banner}");
        }
    }

    #[test]
    fn only_important_records_are_printed() {
        let mut lines = terminal();
        assert_eq!(at(&mut lines, 0, &Event::Reloaded), "");
        assert_eq!(at(&mut lines, 0, &access("a", UNSEEN_PATH.as_bytes())), "");
        let trouble = at(&mut lines, 0, &Event::Failure { what: "no disk" });
        assert_eq!(trouble, "01:00:00 svc no disk\n");
    }

    #[test]
    fn texts_do_not_control_the_terminal() {
        let mut lines = terminal();
        at(&mut lines, 0, &message(Some("a"), "\u{1b}]0;x\u{7}\u{202e}\r\nsecond"));
        let seen = at(&mut lines, 0, &access("a", b"/\x1b[2J"));
        assert!(!seen.contains(|c: char| c != '\n' && c.is_control()), "{seen:?}");
    }

    #[test]
    fn colours_are_an_option() {
        let mut lines = terminal();
        assert!(!at(&mut lines, 0, &access("a", b"/")).contains('\u{1b}'));
        lines.options.has_colours = true;
        assert!(at(&mut lines, 0, &access("a", b"/")).contains("\u{1b}[31m500\u{1b}[0m"));
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        for (micros, expected) in
            [(0, "0.0 ms"), (450, "0.4 ms"), (12_345, "12.3 ms"), (250_000, "250 ms"), (12_340_000, "12.3 s")]
        {
            assert_eq!(duration(micros), expected);
        }
    }
}
