//! The barrier: its state machine step by step, and its shell with threads.

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
    assert!(state.leave(), "the last one out wakes the waiting threads");
    assert_eq!(state.enter(now), None, "one of them is let in, alone");
    assert_eq!(state.enter(now), Some(GATHER_MAX), "and no other one before it has restarted");
    assert!(state.want_restart(now));
}

#[test]
fn an_exclusive_request_without_restart_ends_the_exclusion() {
    let (mut state, now) = state();
    assert_eq!((state.enter(now), state.enter(now)), (None, None));
    assert!(!state.want_restart(now));
    assert!(!state.leave());
    assert!(state.leave());
    let later = now + GATHER_MAX / 2;
    assert_eq!(state.enter(later), None);
    assert_eq!(state.enter(later), Some(GATHER_MAX / 2), "counted from the beginning");
    assert!(state.leave(), "the next one may try");
    assert_eq!(state.enter(later), None);
    assert_eq!(state.enter(now + GATHER_MAX), None, "time is up");
    assert!(!state.want_restart(now + GATHER_MAX), "the barrier rests");
    assert_eq!(state.enter(now + GATHER_MAX), None);
}

#[test]
fn a_task_that_was_dispatched_from_the_cache_is_inside() {
    static BARRIER: Barrier = Barrier::new();
    BARRIER.enter();
    BARRIER.note_wanted();
    let (queued, running) = (BARRIER.pin(), BARRIER.pin());
    BARRIER.leave();
    assert_eq!(BARRIER.cache(), OpcacheFacts { is_stale: true, users: 0, is_occupied: true });
    BARRIER.enter();
    assert!(!BARRIER.try_exclusive());
    drop((queued, running));
    assert!(BARRIER.try_exclusive());
    BARRIER.end_exclusive();
    BARRIER.leave();
    assert_eq!(BARRIER.cache(), OpcacheFacts { is_stale: false, users: 0, is_occupied: false });
}

#[test]
fn no_request_is_held_back_for_longer_than_the_time() {
    // Requests of different durations, each of which asks to restart, and tasks that outlive some of them.
    let (mut state, start) = state();
    state.note_wanted();
    let mut held: Vec<Instant> = Vec::new();
    let mut ends: Vec<Instant> = Vec::new();
    let mut restarts = 0;
    for step in 0..20_000_u64 {
        let now = start + Duration::from_millis(step);
        let before = ends.len();
        ends.retain(|end| *end > now);
        (ends.len()..before).for_each(|_| {
            state.leave();
        });
        if step % 7 == 0 {
            held.push(now);
        }
        held.retain(|since| {
            assert!(now - *since <= GATHER_MAX, "held back since {since:?}");
            if state.enter(now).is_some() {
                return true;
            }
            if state.is_wanted && state.want_restart(now) {
                state.restart_done();
                restarts += 1;
            }
            let lasts = if step < 10_000 && step % 5 == 0 { 700 } else { 30 };
            ends.push(now + Duration::from_millis(lasts));
            false
        });
    }
    assert_eq!(restarts, 1, "once the slow ones have gone");
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
    assert_eq!(state.enter(later), None, "an idle barrier holds no request back");
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
    assert_eq!(state.enter(now), None, "no request is held back");
    assert!(!state.note_wanted(), "it is no news");
}

#[test]
fn a_worker_without_the_cache_delays_no_restart() {
    let barrier = Barrier::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.enter();
            barrier.note_wanted();
            barrier.worker_started(false);
            assert!(barrier.is_uncached());
            scope.spawn(|| {
                barrier.enter();
                assert!(barrier.try_exclusive());
                barrier.end_exclusive();
                barrier.worker_started(true);
                assert_eq!(barrier.cache(), OpcacheFacts { is_stale: false, users: 1, is_occupied: false });
                barrier.leave();
            });
        });
    });
    assert_eq!(barrier.cache(), OpcacheFacts { is_stale: false, users: 0, is_occupied: false });
}

#[test]
fn when_the_last_user_has_left_the_next_worker_restarts() {
    let (mut state, now) = state();
    state.enter(now);
    state.settle(ThreadPlace::User);
    state.note_wanted();
    state.enter(now);
    assert!(!state.want_restart(now));
    state.settle(ThreadPlace::Uncached);
    state.users -= 1;
    state.enter(now);
    assert!(state.want_restart(now));
    state.restart_done();
    assert!(!state.is_wanted);
}

#[test]
fn a_delay_is_reported_once() {
    let barrier = Barrier::new();
    assert_eq!((barrier.enter(), barrier.enter()), (None, None));
    assert!(!barrier.try_exclusive());
    assert_eq!(barrier.enter(), Some(RestartEvent::Delayed), "after it has waited without success");
    assert_eq!(barrier.enter(), None);
    (0..3).for_each(|_| barrier.leave());
    assert!(barrier.try_exclusive());
    assert_eq!(barrier.end_exclusive(), RestartEvent::Done { was_delayed: true });
}

#[test]
fn a_restart_excludes_all_other_threads() {
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
