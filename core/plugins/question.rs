//! A request for a page, on its way to a plugin and back.
//!
//! Promises: it is answered once, or given up; the plugin is not asked what nobody waits for any more. Refuses: it knows
//! no connection, and nobody sleeps for it.

use crate::sync::lock::ShortLock;

use super::answers::PluginPage;

/// A request for a page.
#[derive(Debug)]
pub struct PluginQuestion {
    /// The path below the plugin's own, as the client wrote it.
    pub(super) path: Vec<u8>,
    /// The query, likewise.
    pub(super) query: Vec<u8>,
    state: ShortLock<QuestionState>,
}

/// What became of a request for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// This is the page.
    Page(PluginPage),
    /// The plugin has returned an error, or a page that cannot be sent.
    Failed,
    /// The plugin does not answer in time.
    Late,
}

#[derive(Debug)]
enum QuestionState {
    Open,
    Answered(PageOutcome),
    /// Nobody waits for the answer, or it was taken.
    Over,
}

impl PluginQuestion {
    /// Asks for a page.
    pub fn new(path: &[u8], query: &[u8]) -> Self {
        let state = ShortLock::new(QuestionState::Open);
        Self { path: path.to_vec(), query: query.to_vec(), state }
    }

    /// Whether somebody waits for the answer.
    pub fn is_open(&self) -> bool {
        matches!(*self.state.lock(), QuestionState::Open)
    }

    /// Answers, if somebody waits; returns whether that is so.
    pub fn answer(&self, outcome: PageOutcome) -> bool {
        let mut state = self.state.lock();
        let is_open = matches!(*state, QuestionState::Open);
        if is_open {
            *state = QuestionState::Answered(outcome);
        }
        is_open
    }

    /// Takes the answer, once there is one.
    pub fn take(&self) -> Option<PageOutcome> {
        let mut state = self.state.lock();
        if matches!(*state, QuestionState::Answered(_))
            && let QuestionState::Answered(outcome) = std::mem::replace(&mut *state, QuestionState::Over)
        {
            return Some(outcome);
        }
        None
    }

    /// Nobody waits any more.
    pub fn give_up(&self) {
        // What was answered is freed outside of the section.
        drop(std::mem::replace(&mut *self.state.lock(), QuestionState::Over));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_once() {
        let question = PluginQuestion::new(b"a", b"b=c");
        assert!(question.is_open() && question.take().is_none());
        assert!(question.answer(PageOutcome::Failed));
        assert!(!question.answer(PageOutcome::Late), "the first one stands");
        assert_eq!((question.take(), question.take()), (Some(PageOutcome::Failed), None));
    }

    #[test]
    fn what_was_given_up_is_not_answered() {
        let question = PluginQuestion::new(b"", b"");
        question.give_up();
        assert!(!question.is_open() && !question.answer(PageOutcome::Failed));
        assert_eq!(question.take(), None);
    }
}
