//! The barrier: its machine step by step, and its shell with threads.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

fn state() -> (BarrierState, Instant) {
    (BarrierState::new(), now())
}

#[test]
fn a_lone_request_restarts_at_once() {
    let (mut state, now) = state();
    assert_eq!(state.enter(now), None);
    assert!(state.want_restart(now));
    assert_eq!(state.enter(now), Some(GATHER_MAX), "others wait while the cache restarts");
    state.restart_done();
    assert_eq!(state.enter(now), None);
}

#[test]
fn others_inside_make_the_barrier_gather() {
    let (mut state, now) = state();
    assert_eq!((state.enter(now), state.enter(now)), (None, None));
    assert!(!state.want_restart(now));
    assert_eq!(state.enter(now), Some(GATHER_MAX), "newcomers are held back");
    assert!(!state.leave());
    assert!(state.leave(), "the last one out tells those who wait");
    assert_eq!(state.enter(now), None, "one of them is let in, alone");
    assert!(state.want_restart(now));
}

#[test]
fn a_slow_script_opens_the_barrier_again() {
    let (mut state, now) = state();
    state.enter(now);
    state.enter(now);
    assert!(!state.want_restart(now));
    let later = now + GATHER_MAX;
    assert_eq!(state.enter(later), None);
    assert!(!state.want_restart(later));
    assert_eq!(state.enter(later), None, "nobody is held back while the barrier rests");
    assert!(!state.want_restart(later + RETRY_AFTER));
    assert_eq!(state.enter(later + RETRY_AFTER), Some(GATHER_MAX), "and then it tries again");
}

#[test]
fn attempts_in_vain_become_rare() {
    let (mut state, mut now) = state();
    state.enter(now);
    state.enter(now);
    for pause_secs in [1, 2, 4, 8, 16, 32, 32] {
        assert!(!state.want_restart(now));
        now += GATHER_MAX;
        assert_eq!(state.enter(now), None, "the barrier opens");
        assert_eq!(state.rest_until, Some(now + Duration::from_secs(pause_secs)));
        now += Duration::from_secs(pause_secs);
    }
}

#[test]
fn a_worker_that_uses_the_cache_is_not_waited_for() {
    let (mut state, now) = state();
    assert_eq!(state.enter(now), None);
    state.settle(ThreadPlace::User);
    assert_eq!(state.enter(now), None);
    assert!(state.note_wanted());
    assert!(!state.want_restart(now));
    assert_eq!(state.enter(now), None, "nobody is held back");
    assert!(!state.note_wanted(), "it is no news");
}

#[test]
fn a_worker_that_does_without_is_in_nobodys_way() {
    let barrier = Barrier::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.enter();
            barrier.note_wanted();
            barrier.worker_started(false);
            assert!(barrier.is_outsider());
            scope.spawn(|| {
                barrier.enter();
                assert!(barrier.try_exclusive());
                barrier.end_exclusive();
                barrier.worker_started(true);
                assert_eq!(barrier.cache(), OpcacheFacts { is_stale: false, users: 1 });
                barrier.leave();
            });
        });
    });
    assert_eq!(barrier.cache(), OpcacheFacts { is_stale: false, users: 0 });
}

#[test]
fn when_the_last_user_has_left_the_next_worker_restarts() {
    let (mut state, now) = state();
    state.enter(now);
    state.settle(ThreadPlace::User);
    state.note_wanted();
    state.enter(now);
    assert!(!state.want_restart(now));
    state.settle(ThreadPlace::Outsider);
    state.users -= 1;
    state.enter(now);
    assert!(state.want_restart(now));
    state.restart_done();
    assert!(!state.is_wanted);
}

#[test]
fn a_delay_is_told_once() {
    let barrier = Barrier::new();
    assert_eq!((barrier.enter(), barrier.enter()), (None, None));
    assert!(!barrier.try_exclusive());
    assert_eq!(barrier.enter(), Some(RestartNews::Delayed), "after it has waited in vain");
    assert_eq!(barrier.enter(), None);
    (0..3).for_each(|_| barrier.leave());
    assert!(barrier.try_exclusive());
    assert_eq!(barrier.end_exclusive(), RestartNews::Done { was_delayed: true });
}

#[test]
fn nobody_is_inside_with_the_one_that_restarts() {
    let barrier = Barrier::new();
    let (inside, restarts) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..2000 {
                    barrier.enter();
                    inside.fetch_add(1, Ordering::SeqCst);
                    if round % 50 == 0 && barrier.try_exclusive() {
                        assert_eq!(inside.load(Ordering::SeqCst), 1);
                        restarts.fetch_add(1, Ordering::SeqCst);
                        barrier.end_exclusive();
                    }
                    inside.fetch_sub(1, Ordering::SeqCst);
                    barrier.leave();
                }
            });
        }
    });
    assert!(restarts.load(Ordering::SeqCst) > 0);
    assert_eq!(barrier.lock().inside, 0);
}
