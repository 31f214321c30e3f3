//! A page request on its way to a plugin and back.
//!
//! It is answered at most once. The plugin is not called for an abandoned request. The type knows no connection, and
//! nothing blocks on it.

use crate::sync::lock::ShortLock;

use super::answers::PluginPage;

/// A page request.
#[derive(Debug)]
pub struct PluginQuestion {
    /// The path below the plugin's prefix, as sent by the client.
    pub(super) path: Vec<u8>,
    /// The query, as sent by the client.
    pub(super) query: Vec<u8>,
    state: ShortLock<QuestionState>,
}

/// The outcome of a page request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOutcome {
    /// The plugin returned a page.
    Page(PluginPage),
    /// The plugin returned an error or an invalid page.
    Failed,
    /// The plugin did not answer in time.
    Late,
}

#[derive(Debug)]
enum QuestionState {
    Open,
    Answered(PageOutcome),
    /// Abandoned, or the answer was taken.
    Over,
}

impl PluginQuestion {
    /// Creates an open request.
    pub fn new(path: &[u8], query: &[u8]) -> Self {
        let state = ShortLock::new(QuestionState::Open);
        Self { path: path.to_vec(), query: query.to_vec(), state }
    }

    /// Returns whether the client still waits for the answer.
    pub fn is_open(&self) -> bool {
        matches!(*self.state.lock(), QuestionState::Open)
    }

    /// Answers the request if it is still open; returns whether it was.
    pub fn answer(&self, outcome: PageOutcome) -> bool {
        let mut state = self.state.lock();
        let is_open = matches!(*state, QuestionState::Open);
        if is_open {
            *state = QuestionState::Answered(outcome);
        }
        is_open
    }

    /// Takes the answer, if there is one.
    pub fn take(&self) -> Option<PageOutcome> {
        let mut state = self.state.lock();
        if matches!(*state, QuestionState::Answered(_))
            && let QuestionState::Answered(outcome) = std::mem::replace(&mut *state, QuestionState::Over)
        {
            return Some(outcome);
        }
        None
    }

    /// Abandons the request.
    pub fn give_up(&self) {
        // Free the answer without holding the lock.
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
    fn an_abandoned_question_is_not_answered() {
        let question = PluginQuestion::new(b"", b"");
        question.give_up();
        assert!(!question.is_open() && !question.answer(PageOutcome::Failed));
        assert_eq!(question.take(), None);
    }
}
