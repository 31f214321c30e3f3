//! Plugins that hang, fail or return invalid answers, in each of their callbacks.

use std::os::fd::AsFd;

use super::*;
use crate::plugins::PluginCall::{Config, Health, Init, Metrics, RequestEnded, Serve, Start, Stop};
use crate::plugins::fixture::PluginScript;

/// The callbacks that run while the server serves.
const SERVING: [PluginCall; 6] = [Start, Health, Metrics, Config, Serve, RequestEnded];

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Lets the threads run until `condition` holds.
fn until(condition: impl Fn() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

/// Triggers every callback of a plugin.
fn provoke(set: &PluginSet) -> PluginAsked {
    set.tick(time::now());
    set.request_ended(RequestFacts::default());
    set.ask(b"p", b"a", b"", time::now())
}

fn outcome(asked: &PluginAsked) -> Option<PageOutcome> {
    match asked {
        PluginAsked::Asked(ticket) => ticket.poll(time::now()),
        other => panic!("{other:?}"),
    }
}

/// Returns the health of the only plugin after `after` seconds.
fn health_in(set: &PluginSet, after: u64) -> Option<PluginHealth> {
    set.plugins().next().unwrap().handle.health(time::now() + seconds(after))
}

#[test]
fn a_plugin_is_initialised_started_asked_and_stopped_in_this_order() {
    let script = PluginScript::new();
    let set = script.installed(vec![script.plugin("p")]).unwrap();
    assert_eq!(script.calls(), [Init]);
    set.tick(time::now());
    assert_eq!(health_in(&set, 0), Some(PluginHealth::Degraded), "it is starting");
    set.start();
    script.wait_for(Config, 1);
    let asked = provoke(&set);
    until(|| outcome(&asked).is_some());
    assert!(set.end(Duration::MAX).is_empty());
    let calls = script.calls();
    assert_eq!(calls[..5], [Init, Start, Health, Metrics, Config]);
    assert_eq!(calls.last(), Some(&Stop));
    assert_eq!((script.count(Serve), script.count(RequestEnded), script.count(Stop)), (1, 1, 1));
    assert_eq!(set.health(), [("p".to_owned(), PluginHealth::Ok)]);
    assert!(!set.has_failed() && script.troubles().is_empty());
}

#[test]
fn a_hanging_callback_of_a_plugin_blocks_no_thread_of_the_server() {
    for call in SERVING {
        let script = PluginScript::new();
        script.hold(call);
        let set = script.started("p");
        // Keep the ticket: an abandoned request is not passed to the plugin.
        let _asked = matches!(call, Serve | RequestEnded).then(|| provoke(&set));
        script.wait_for(call, 1);
        // None of these may block.
        (0..100).for_each(|_| set.request_ended(RequestFacts::default()));
        set.tick(time::now());
        assert_eq!((set.readings().len(), set.config().len()), (1, 1));
        assert!(!set.has_failed());
        let now = time::now();
        assert!(matches!(set.ask(b"p", b"a", b"", now), PluginAsked::Asked(_)), "{}", call.as_str());
        assert!(matches!(set.ask(b"p", b"a", b"", now + seconds(6)), PluginAsked::Unavailable));
        let is_well = !matches!(call, Start | Health);
        let before = if is_well { PluginHealth::Ok } else { PluginHealth::Degraded };
        let expected = [before, PluginHealth::Degraded, PluginHealth::Failed].map(Some);
        assert_eq!([0, 6, 61].map(|after| health_in(&set, after)), expected, "{}", call.as_str());
        let reading = set.plugins().next().unwrap().handle.reading(time::now() + seconds(6));
        assert!(reading.families.is_empty(), "what is old is not shown");
        let left = set.end(Duration::ZERO);
        assert_eq!(left, [("p".to_owned(), Some(call))]);
        script.release();
        assert!(set.end(Duration::MAX).is_empty());
        assert_eq!(script.count(Stop), 1);
    }
}

#[test]
fn a_request_that_waits_is_late_when_its_plugin_is_or_after_a_while() {
    let script = PluginScript::new();
    script.hold(Health);
    let set = script.started("p");
    script.wait_for(Health, 1);
    let PluginAsked::Asked(ticket) = set.ask(b"p", b"a", b"", time::now()) else { panic!() };
    assert_eq!(ticket.poll(time::now()), None);
    assert_eq!(ticket.poll(time::now() + seconds(6)), Some(PageOutcome::Late));
    script.release();
    until(|| ticket.poll(time::now()).is_some());
    drop(ticket);
    script.hold(Serve);
    let PluginAsked::Asked(first) = set.ask(b"p", b"a", b"", time::now()) else { panic!() };
    let end = first.until();
    assert_eq!(first.poll(end), Some(PageOutcome::Late));
    script.release();
    set.end(Duration::MAX);
}

#[test]
fn an_error_of_init_stops_the_start_and_the_plugins_before_it() {
    let (good, bad) = (PluginScript::new(), PluginScript::new());
    bad.fail(Init);
    let error = good.installed(vec![good.plugin("good"), bad.plugin("bad")]).unwrap_err();
    assert_eq!(error.to_string(), "plugin bad: init failed: init fails");
    assert_eq!((good.calls(), bad.calls()), (vec![Init, Stop], vec![Init]));
}

#[test]
fn a_stop_ends_the_installation_and_stops_initialised_plugins() {
    let (good, slow, later) = (PluginScript::new(), PluginScript::new(), PluginScript::new());
    slow.hold(Init);
    let set = PluginSet::default();
    let (reader, writer) = io::pipe().unwrap();
    std::thread::scope(|scope| {
        let plugins = vec![good.plugin("good"), slow.plugin("slow"), later.plugin("later")];
        let installing = scope.spawn(|| good.install(&set, plugins, Some(reader.as_fd())));
        slow.wait_for(Init, 1);
        drop(writer);
        assert!(matches!(installing.join().unwrap(), Err(PluginStartError::Stopped)));
    });
    assert_eq!((good.calls(), slow.calls(), later.calls()), (vec![Init, Stop], vec![Init], vec![]));
    assert_eq!(set.end(Duration::MAX), [("slow".to_owned(), Some(Init))], "without a wait for it");
    assert!(set.is_empty());
    slow.release();
    until(|| set.end(Duration::ZERO).is_empty());
    assert_eq!(slow.calls(), [Init, Stop]);
}

#[test]
fn nothing_is_initialised_after_a_stop() {
    let (script, set) = (PluginScript::new(), PluginSet::default());
    let (reader, _) = io::pipe().unwrap();
    let outcome = script.install(&set, vec![script.plugin("p")], Some(reader.as_fd()));
    assert!(matches!(outcome, Err(PluginStartError::Stopped)));
    assert!(script.calls().is_empty() && set.end(Duration::MAX).is_empty());
}

#[test]
fn an_error_of_start_is_a_failure_for_ever() {
    let script = PluginScript::new();
    script.fail(Start);
    let set = script.started("p");
    until(|| set.has_failed());
    assert!(matches!(provoke(&set), PluginAsked::Unavailable));
    assert!(set.end(Duration::MAX).is_empty());
    assert_eq!(script.calls(), [Init, Start, Stop]);
    assert_eq!(script.troubles(), [(Start, "start fails".to_owned())]);
    assert!(set.has_failed());
}

#[test]
fn errors_of_other_callbacks_are_counted_and_logged_once() {
    for call in [Health, Metrics, Config, Serve, RequestEnded] {
        let script = PluginScript::new();
        script.fail(call);
        let set = script.started("p");
        let errors = || set.readings()[0].errors;
        let asked = provoke(&set);
        until(|| errors() >= 1 && (call != Serve || outcome(&asked).is_some()));
        set.tick(time::now());
        set.request_ended(RequestFacts::default());
        drop(set.ask(b"p", b"a", b"", time::now()));
        assert!(set.end(Duration::MAX).is_empty());
        assert_eq!(script.troubles(), [(call, format!("{} fails", call.as_str()))]);
        let expected = if call == Health { PluginHealth::Failed } else { PluginHealth::Ok };
        assert_eq!(health_in(&set, 0), Some(expected), "{}", call.as_str());
        assert_eq!(set.readings()[0].families.is_empty(), call == Metrics);
    }
}

#[test]
fn an_answer_that_is_not_valid_is_not_shown() {
    let script = PluginScript::new();
    script.configure(b"{\"a\": 1, \"path\": 2}");
    script.name_metric(b"bad name");
    let set = script.started("p");
    until(|| set.config()["p"].get("a").is_some());
    assert_eq!(set.config()["p"], serde_json::json!({ "a": 1, "path": "/p.so", "version": "1.0" }));
    until(|| !script.troubles().is_empty());
    let why = "metric \"bad name\" was refused: its name is not valid".to_owned();
    assert_eq!(script.troubles(), [(Metrics, why)]);
    assert!(set.readings()[0].families.is_empty());
    script.configure(b"[1]");
    set.tick(time::now());
    until(|| script.troubles().len() == 2);
    assert_eq!(script.troubles()[1], (Config, "the configuration is not a JSON object".to_owned()));
    assert_eq!(set.config()["p"]["a"], 1, "what was shown before stands");
    script.configure(b"{}");
    set.tick(time::now());
    until(|| set.config()["p"].get("a").is_none());
    set.end(Duration::MAX);
}

#[test]
fn too_many_requests_for_pages_are_unavailable() {
    let script = PluginScript::new();
    script.hold(Health);
    let set = script.started("p");
    script.wait_for(Health, 1);
    let asked: Vec<_> = (0..20).map(|_| set.ask(b"p", b"a", b"", time::now())).collect();
    let taken = asked.iter().filter(|asked| matches!(asked, PluginAsked::Asked(_))).count();
    assert_eq!(taken, 16);
    script.release();
    set.end(Duration::MAX);
}

#[test]
fn a_stopping_plugin_is_unavailable_and_answers_earlier_questions() {
    let script = PluginScript::new();
    script.hold(Health);
    script.hold(Stop);
    let set = script.started("p");
    script.wait_for(Health, 1);
    let asked = set.ask(b"p", b"a", b"", time::now());
    assert_eq!(set.end(Duration::ZERO).len(), 1);
    let is_unavailable = || matches!(set.ask(b"p", b"b", b"", time::now()), PluginAsked::Unavailable);
    assert!(is_unavailable(), "it is going to stop");
    script.release_one(Health);
    script.wait_for(Stop, 1);
    assert!(matches!(outcome(&asked), Some(PageOutcome::Page(_))));
    assert!(is_unavailable(), "it stops");
    script.release();
    assert!(set.end(Duration::MAX).is_empty());
    assert!(is_unavailable(), "it has stopped");
    assert_eq!(script.count(Serve), 1);
}

#[test]
fn names_are_names_and_unique() {
    let script = PluginScript::new();
    let refused = |names: &[&str]| {
        let plugins = names.iter().map(|name| script.plugin(name)).collect();
        script.installed(plugins).unwrap_err().to_string()
    };
    assert_eq!(refused(&["a", "b", "a"]), "plugin a: another plugin has the same name");
    assert!(refused(&["a/b"]).contains("not a name"));
    assert!(script.calls().is_empty());
}
