//! The inbox of a plugin's thread under every interleaving that a bounded number of preemptions allows: facts,
//! questions, rounds, and the close. A question is taken before the close, or comes back after it.
//!
//! Work that is never taken ends in a deadlock, which the explorer reports. The queues of a model have room for two.

use std::sync::Arc;

use loom::thread;
use svc_core::plugins::{PageOutcome, PluginInbox, PluginQuestion, PluginTurn, PluginWork, RequestFacts};

use crate::exploring::explore;

/// The work that a thread took until it stopped.
#[derive(Debug, Default, PartialEq, Eq)]
struct Taken {
    starts: usize,
    rounds: usize,
    facts: Vec<u64>,
    questions: usize,
}

fn facts(number: u64) -> Arc<RequestFacts> {
    Arc::new(RequestFacts { response_bytes: number, ..RequestFacts::default() })
}

/// Runs the plugin's thread.
fn take_all(inbox: &PluginInbox) -> Taken {
    let (mut taken, mut turn) = (Taken::default(), PluginTurn::default());
    loop {
        match inbox.next(&mut turn) {
            PluginWork::Start => taken.starts += 1,
            PluginWork::Round => taken.rounds += 1,
            PluginWork::RequestEnded(facts) => taken.facts.push(facts.response_bytes),
            PluginWork::Answer(question) => {
                question.answer(PageOutcome::Failed);
                taken.questions += 1;
            }
            PluginWork::Stop => return taken,
        }
    }
}

fn thread_of(inbox: &Arc<PluginInbox>) -> thread::JoinHandle<Taken> {
    let inbox = Arc::clone(inbox);
    thread::spawn(move || take_all(&inbox))
}

#[test]
fn facts_of_two_threads_are_delivered_or_counted() {
    explore(2, || {
        let inbox = Arc::new(PluginInbox::new());
        let plugin = thread_of(&inbox);
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || (1..=2).for_each(|number| inbox.push_facts(facts(number))))
        };
        inbox.push_facts(facts(3));
        other.join().unwrap();
        inbox.close();
        let taken = plugin.join().unwrap();
        assert_eq!(taken.facts.len() as u64 + inbox.lost_total(), 3);
        assert!(inbox.lost_total() <= 1, "there is room for two");
        assert!(
            taken.facts.iter().filter(|number| **number < 3).is_sorted(),
            "those of a thread stay in order"
        );
    });
}

#[test]
fn items_before_the_end_are_taken_before_it() {
    explore(3, || {
        let inbox = Arc::new(PluginInbox::new());
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                inbox.start();
                inbox.push_facts(facts(1));
                inbox.close();
            })
        };
        let taken = take_all(&inbox);
        other.join().unwrap();
        assert_eq!(taken, Taken { starts: 1, facts: vec![1], ..Taken::default() });
    });
}

#[test]
fn each_kind_of_work_wakes_the_thread() {
    let orders: [fn(&PluginInbox); 3] =
        [PluginInbox::start, PluginInbox::order_round, |inbox| inbox.push_facts(facts(1))];
    for order in orders {
        explore(3, move || {
            let inbox = Arc::new(PluginInbox::new());
            let other = {
                let inbox = Arc::clone(&inbox);
                thread::spawn(move || order(&inbox))
            };
            // This is its only wake-up.
            assert!(!matches!(inbox.next(&mut PluginTurn::default()), PluginWork::Stop));
            other.join().unwrap();
        });
    }
}

#[test]
fn a_round_that_is_ordered_while_another_begins_is_asked() {
    explore(3, || {
        let inbox = Arc::new(PluginInbox::new());
        inbox.order_round();
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || {
                assert!(matches!(inbox.next(&mut PluginTurn::default()), PluginWork::Round))
            })
        };
        inbox.order_round();
        other.join().unwrap();
        inbox.push_facts(facts(1));
        // Both orders may have arrived in one round; then only the facts are left.
        let first = inbox.next(&mut PluginTurn::default());
        assert!(matches!(first, PluginWork::Round | PluginWork::RequestEnded(_)));
        if matches!(first, PluginWork::Round) {
            assert!(matches!(inbox.next(&mut PluginTurn::default()), PluginWork::RequestEnded(_)));
        }
    });
}

#[test]
fn a_question_is_answered_or_given_up() {
    explore(3, || {
        let inbox = Arc::new(PluginInbox::new());
        let plugin = thread_of(&inbox);
        let question = Arc::new(PluginQuestion::new(b"", b""));
        assert!(inbox.ask(Arc::clone(&question)));
        let seen = question.take();
        question.give_up();
        inbox.close();
        assert_eq!(plugin.join().unwrap().questions, 1);
        assert!(matches!(seen, None | Some(PageOutcome::Failed)));
        assert_eq!(question.take(), None, "no caller waits");
    });
}

#[test]
fn a_question_at_the_end_is_answered_or_comes_back() {
    explore(3, || {
        let inbox = Arc::new(PluginInbox::new());
        let plugin = thread_of(&inbox);
        let other = {
            let inbox = Arc::clone(&inbox);
            thread::spawn(move || inbox.close())
        };
        let question = Arc::new(PluginQuestion::new(b"", b""));
        let is_asked = inbox.ask(Arc::clone(&question));
        other.join().unwrap();
        plugin.join().unwrap();
        let answer = question.take();
        assert_eq!(answer.is_some(), is_asked, "an answer exists exactly if there was a question");
        assert!(!question.is_open());
    });
}
