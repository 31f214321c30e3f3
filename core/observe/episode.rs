//! The recent episodes: what an operator who arrives late would search the log for.
//!
//! Bounded in number and in bytes; repeated updates are one episode, however often they arrive; ended episodes are
//! evicted before ongoing ones. The book reads no clock, and an access record costs it one comparison.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::limits::{EPISODE_TEXT_BYTES_MAX, EPISODES_MAX};

/// The subject of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpisodeKind {
    /// Connections could not be accepted.
    AcceptFailed,
    /// Workers failed to boot.
    BootFailed,
    /// A certificate has expired, or is not valid yet.
    Certificate,
    /// The process ran out of descriptors.
    Descriptors,
    /// The server is shutting down.
    Drain,
    /// Spans could not be exported.
    ExportFailed,
    /// OPcache waits for its restart.
    OpcacheRestart,
    /// A plugin is degraded or has failed.
    Plugin,
    /// SIGHUP was received.
    Reload,
    /// All workers are being replaced.
    RollingRestart,
    /// Requests are refused under overload.
    Shedding,
    /// Spans were dropped.
    SpansDropped,
    /// Bodies could not be written to temporary files.
    Spool,
    /// Requests hold up their workers.
    Stuck,
    /// The pool takes no work although workers are idle.
    Wedge,
    /// Worker threads were lost.
    WorkerLost,
}

/// One episode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeEntry {
    /// Its kind.
    pub kind: EpisodeKind,
    /// The name of the plugin or pool, if several can have such an episode at the same time.
    pub subject: String,
    /// When it began.
    pub began_at: SystemTime,
    /// When it was last seen.
    pub last_at: SystemTime,
    /// When it ended; `None` if it is ongoing.
    pub ended_at: Option<SystemTime>,
    /// How often it was seen; for shedding, the number of refused requests.
    pub count: u64,
    /// The last message about it.
    pub detail: String,
}

/// The effect of an event on the episodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpisodeUpdate {
    /// The kind of the episode.
    pub kind: EpisodeKind,
    /// The plugin or pool that it is about.
    pub subject: String,
    /// The change of the episode.
    pub step: EpisodeStep,
    /// The new count; `None` adds one, except at the end.
    pub total: Option<u64>,
    /// The new message; if empty, the previous one stays.
    pub detail: String,
}

/// A change of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpisodeStep {
    /// It began, or continues.
    Holds,
    /// It began and ended immediately.
    Happened,
    /// It has ended; contains its duration if it did not last until now.
    Ended(Option<Duration>),
}

/// The recent episodes, oldest first.
#[derive(Debug, Default)]
pub struct EpisodeBook(VecDeque<EpisodeEntry>);

impl EpisodeKind {
    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AcceptFailed => "accept_failed",
            Self::BootFailed => "boot_failed",
            Self::Certificate => "certificate",
            Self::Descriptors => "descriptors",
            Self::Drain => "drain",
            Self::ExportFailed => "export_failed",
            Self::OpcacheRestart => "opcache_restart",
            Self::Plugin => "plugin",
            Self::Reload => "reload",
            Self::RollingRestart => "rolling_restart",
            Self::Shedding => "shedding",
            Self::SpansDropped => "spans_dropped",
            Self::Spool => "spool",
            Self::Stuck => "stuck",
            Self::Wedge => "wedge",
            Self::WorkerLost => "worker_lost",
        }
    }
}

impl EpisodeUpdate {
    /// Returns the end of an episode, without a message.
    pub fn ended(kind: EpisodeKind) -> Self {
        let (subject, detail) = (String::new(), String::new());
        Self { kind, subject, step: EpisodeStep::Ended(None), total: None, detail }
    }
}

impl EpisodeBook {
    /// Records an update that arrived at `at`.
    pub fn note(&mut self, update: EpisodeUpdate, at: SystemTime) {
        let known =
            self.0.iter_mut().rev().find(|one| one.kind == update.kind && one.subject == update.subject);
        let goes_on = known.filter(|one| one.is_continued_by(update.step, at));
        match goes_on {
            Some(episode) => episode.go_on(update, at),
            None if matches!(update.step, EpisodeStep::Ended(_)) => {}
            None => self.begin(update, at),
        }
    }

    /// Returns all episodes, latest first.
    pub fn episodes(&self) -> Vec<EpisodeEntry> {
        self.0.iter().rev().cloned().collect()
    }

    fn begin(&mut self, update: EpisodeUpdate, at: SystemTime) {
        if self.0.len() >= EPISODES_MAX {
            let ended = self.0.iter().position(|one| one.ended_at.is_some());
            self.0.remove(ended.unwrap_or(0));
        }
        self.0.push_back(EpisodeEntry {
            kind: update.kind,
            subject: update.subject,
            began_at: at,
            last_at: at,
            ended_at: (update.step == EpisodeStep::Happened).then_some(at),
            count: update.total.unwrap_or(1),
            detail: shortened(update.detail),
        });
    }
}

impl EpisodeEntry {
    fn is_continued_by(&self, step: EpisodeStep, at: SystemTime) -> bool {
        match step {
            EpisodeStep::Holds | EpisodeStep::Ended(_) => self.ended_at.is_none(),
            EpisodeStep::Happened => at.duration_since(self.last_at).unwrap_or_default() < FOLDED_WITHIN,
        }
    }

    fn go_on(&mut self, update: EpisodeUpdate, at: SystemTime) {
        self.last_at = at;
        if !update.detail.is_empty() {
            self.detail = shortened(update.detail);
        }
        self.ended_at = match update.step {
            EpisodeStep::Holds => None,
            EpisodeStep::Happened => Some(at),
            EpisodeStep::Ended(lasted) => Some(lasted.map_or(at, |lasted| self.began_at + lasted)),
        };
        match update.total {
            Some(total) => self.count = total,
            None if matches!(update.step, EpisodeStep::Ended(_)) => {}
            None => self.count += 1,
        }
    }
}

/// Truncates a text between characters.
fn shortened(mut text: String) -> String {
    if text.len() > EPISODE_TEXT_BYTES_MAX {
        let end = (0..=EPISODE_TEXT_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// An event that repeats within this time belongs to the same episode.
const FOLDED_WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn update(kind: EpisodeKind, step: EpisodeStep) -> EpisodeUpdate {
        let (subject, detail) = (String::new(), "why".to_owned());
        EpisodeUpdate { kind, subject, step, total: None, detail }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lasting_state_is_one_episode_until_it_ends() {
        let mut book = EpisodeBook::default();
        for second in [0, 100, 200] {
            book.note(update(EpisodeKind::Wedge, EpisodeStep::Holds), at(second));
        }
        let seen = &book.episodes()[0];
        assert_eq!((seen.began_at, seen.last_at, seen.ended_at, seen.count), (at(0), at(200), None, 3));
        book.note(update(EpisodeKind::Wedge, EpisodeStep::Ended(None)), at(210));
        book.note(update(EpisodeKind::Wedge, EpisodeStep::Ended(None)), at(220));
        assert_eq!(book.episodes()[0].ended_at, Some(at(210)));
        book.note(update(EpisodeKind::Wedge, EpisodeStep::Holds), at(230));
        assert_eq!(book.episodes().len(), 2);
    }

    #[test]
    fn an_end_without_a_beginning_is_none() {
        let mut book = EpisodeBook::default();
        book.note(update(EpisodeKind::Plugin, EpisodeStep::Ended(None)), at(0));
        assert!(book.episodes().is_empty());
    }

    #[test]
    fn an_episode_may_have_lasted_less_long_than_it_took_to_see_that() {
        let mut book = EpisodeBook::default();
        book.note(update(EpisodeKind::Shedding, EpisodeStep::Holds), at(10));
        let lasted = Some(Duration::from_secs(5));
        book.note(
            EpisodeUpdate { total: Some(70), ..update(EpisodeKind::Shedding, EpisodeStep::Ended(lasted)) },
            at(75),
        );
        let seen = &book.episodes()[0];
        assert_eq!((seen.ended_at, seen.count), (Some(at(15)), 70));
    }

    #[test]
    fn a_prompt_repetition_is_counted_and_a_later_one_is_another_episode() {
        let mut book = EpisodeBook::default();
        for second in [0, 59, 118, 178] {
            book.note(update(EpisodeKind::Stuck, EpisodeStep::Happened), at(second));
        }
        let counts: Vec<_> = book.episodes().iter().map(|one| (one.began_at, one.count)).collect();
        assert_eq!(counts, [(at(178), 1), (at(0), 3)]);
    }

    #[test]
    fn plugins_have_episodes_of_their_own() {
        let mut book = EpisodeBook::default();
        for name in ["a", "b", "a"] {
            let update = update(EpisodeKind::Plugin, EpisodeStep::Holds);
            book.note(EpisodeUpdate { subject: name.to_owned(), ..update }, at(0));
        }
        let counts: Vec<_> = book.episodes().iter().map(|one| (one.subject.clone(), one.count)).collect();
        assert_eq!(counts, [("b".to_owned(), 1), ("a".to_owned(), 2)]);
    }

    #[test]
    fn it_is_bounded_and_keeps_open_episodes() {
        let mut book = EpisodeBook::default();
        book.note(update(EpisodeKind::Drain, EpisodeStep::Holds), at(0));
        for round in 1..=3 * EPISODES_MAX as u64 {
            let long = "é".repeat(EPISODE_TEXT_BYTES_MAX);
            let update = update(EpisodeKind::Reload, EpisodeStep::Happened);
            book.note(EpisodeUpdate { detail: long, ..update }, at(100 * round));
        }
        let seen = book.episodes();
        assert_eq!(seen.len(), EPISODES_MAX);
        assert_eq!(seen.last().map(|one| one.kind), Some(EpisodeKind::Drain));
        assert!(seen.iter().all(|one| one.detail.len() <= EPISODE_TEXT_BYTES_MAX + '…'.len_utf8()));
    }
}
