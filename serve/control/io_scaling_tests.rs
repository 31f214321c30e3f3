use svc_testing::dice::Dice;

use super::*;

/// Threads that have a processor whenever they are awake.
fn fed(awake: &[f64]) -> Vec<IoUse> {
    awake.iter().map(|awake| IoUse { cpu: *awake, awake: *awake }).collect()
}

fn in_use(scaling: &mut IoScaling, awake: &[f64], idle: f64) -> usize {
    scaling.tick(&fed(awake), Some(idle)).in_use
}

/// Takes `threads` of four into use.
fn scaled_to(threads: usize) -> IoScaling {
    let mut scaling = IoScaling::new();
    while scaling.in_use < threads {
        scaling.tick(&fed(&[1.0; 4]), Some(1.0));
    }
    assert_eq!(scaling.in_use, threads);
    scaling
}

#[test]
fn another_thread_comes_into_use_after_two_busy_ticks() {
    let mut scaling = IoScaling::new();
    assert_eq!(in_use(&mut scaling, &[0.9, 0.0], 1.0), 1);
    assert!(scaling.asks_for_idle_time());
    assert_eq!(in_use(&mut scaling, &[0.9, 0.0], 1.0), 2);
}

#[test]
fn a_quiet_tick_between_busy_ones_forgets_the_strain() {
    let mut scaling = IoScaling::new();
    for load in [0.9, 0.1, 0.9, 0.1, 0.9] {
        assert_eq!(in_use(&mut scaling, &[load, 0.0], 1.0), 1);
    }
}

#[test]
fn no_thread_comes_into_use_that_no_processor_has_time_for() {
    let mut scaling = IoScaling::new();
    for _ in 0..10 {
        assert_eq!(in_use(&mut scaling, &[1.0, 0.0], 0.1), 1);
    }
    assert_eq!(in_use(&mut scaling, &[1.0, 0.0], 0.3), 2);
}

#[test]
fn a_thread_that_waits_for_processors_gets_help_though_none_is_idle() {
    let mut scaling = IoScaling::new();
    let starved = [IoUse { cpu: 0.6, awake: 0.75 }, IoUse::default()];
    assert_eq!(scaling.tick(&starved, Some(0.0)).in_use, 1);
    assert_eq!(scaling.tick(&starved, Some(0.0)).in_use, 2);
}

#[test]
fn a_thread_that_sleeps_a_lot_or_gets_its_processors_needs_no_help() {
    for (cpu, awake) in [(0.3, 0.65), (0.72, 0.75)] {
        let mut scaling = IoScaling::new();
        for _ in 0..5 {
            assert_eq!(scaling.tick(&[IoUse { cpu, awake }, IoUse::default()], Some(0.0)).in_use, 1);
        }
    }
}

#[test]
fn without_processor_figures_load_alone_decides() {
    let mut scaling = IoScaling::new();
    scaling.tick(&fed(&[1.0, 0.0]), None);
    assert_eq!(scaling.tick(&fed(&[1.0, 0.0]), None).in_use, 2);
}

#[test]
fn many_idle_processors_double_the_threads_and_never_exceed_them() {
    let mut scaling = IoScaling::new();
    let counts: Vec<_> = (0..8).map(|_| in_use(&mut scaling, &[1.0; 6], 60.0)).collect();
    assert_eq!(counts, [1, 2, 2, 4, 4, 6, 6, 6]);
    assert!(!scaling.asks_for_idle_time(), "there are no more");
}

#[test]
fn a_thread_goes_out_of_use_when_it_has_long_been_dispensable() {
    let mut scaling = scaled_to(2);
    for _ in 0..CALM_TICKS - 1 {
        assert_eq!(in_use(&mut scaling, &[0.2, 0.2, 0.0, 0.0], 1.0), 2);
    }
    assert_eq!(in_use(&mut scaling, &[0.3, 0.3, 0.0, 0.0], 1.0), 2, "not dispensable for a tick");
    for _ in 0..CALM_TICKS - 1 {
        assert_eq!(in_use(&mut scaling, &[0.2, 0.2, 0.0, 0.0], 1.0), 2);
    }
    assert_eq!(in_use(&mut scaling, &[0.2, 0.2, 0.0, 0.0], 1.0), 1);
    for _ in 0..2 * CALM_TICKS {
        assert_eq!(in_use(&mut scaling, &[0.0; 4], 1.0), 1, "one is always in use");
    }
}

#[test]
fn a_new_thread_takes_half_of_the_connections_of_the_first() {
    let mut scaling = IoScaling::new();
    scaling.tick(&fed(&[1.0, 0.0]), Some(1.0));
    let plan = scaling.tick(&fed(&[1.0, 0.0]), Some(1.0));
    assert_eq!(plan.moves, [Move { from: 0, to: 1, share: 0.5 }]);
    let plan = scaling.tick(&fed(&[0.55, 0.45]), Some(1.0));
    assert_eq!(plan.moves, [], "they are even enough");
}

#[test]
fn the_busiest_gives_to_the_least_busy() {
    let mut scaling = scaled_to(4);
    let plan = scaling.tick(&fed(&[0.2, 1.0, 0.6, 0.0]), Some(0.0));
    let expected = [(1, 3, 0.5), (2, 0, (0.6 - 0.2) / 1.2)];
    assert_eq!(plan.moves, expected.map(|(from, to, share)| Move { from, to, share }));
}

#[test]
fn threads_out_of_use_give_up_all_they_have() {
    let mut scaling = IoScaling::new();
    let plan = scaling.tick(&fed(&[0.1, 0.0, 0.0]), Some(1.0));
    assert_eq!(plan.moves, [1, 2].map(|from| Move { from, to: 0, share: 1.0 }));
}

/// Simulates random load for many ticks: every plan can be carried out.
#[test]
fn every_plan_can_be_carried_out() {
    for seed in 0..200u64 {
        let mut dice = Dice::new(seed);
        let mut draw = move || f64::from(u32::try_from(dice.below(1 << 24)).unwrap()) / f64::from(1u32 << 24);
        let threads = 1 + seed as usize % 7;
        let mut scaling = IoScaling::new();
        let mut before = 1;
        for tick in 0..300 {
            let uses: Vec<_> = (0..threads).map(|_| (draw(), draw())).collect();
            let uses: Vec<_> =
                uses.iter().map(|(awake, fed)| IoUse { cpu: awake * fed, awake: *awake }).collect();
            let idle = (draw() < 0.9).then(|| draw() * 3.0);
            let IoPlan { in_use, moves } = scaling.tick(&uses, idle);
            let told = format!("seed {seed}, tick {tick}: {in_use} of {threads}, {moves:?}");
            assert!(
                (1..=threads).contains(&in_use) && in_use <= 2 * before && in_use + 1 >= before,
                "{told}"
            );
            let mut givers: Vec<_> = moves.iter().map(|one| one.from).collect();
            givers.dedup();
            assert_eq!(givers.len(), moves.len(), "{told}");
            for Move { from, to, share } in &moves {
                assert!(*to < in_use && from != to && *share > 0.0 && *share <= 1.0, "{told}");
                assert!(*from < in_use || *share == 1.0, "{told}");
            }
            before = in_use;
        }
    }
}
