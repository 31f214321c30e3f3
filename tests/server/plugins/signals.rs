//! Signals that arrive while plugins are loaded and initialised: they end the start at once.

use std::process::{Child, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use svc_testing::client::eventually;
use svc_testing::plugins::Plugins;

const TO_STOP: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::QUIT];

/// Sends a signal to a server that starts, and asserts that it exits soon.
fn stopped_by(signal: Signal, server: Child) -> Output {
    let sent_at = Instant::now();
    kill_process(Pid::from_child(&server), signal).unwrap();
    let output = server.wait_with_output().unwrap();
    assert!(sent_at.elapsed() < Duration::from_secs(30), "it has waited for the plugin");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    output
}

/// Asserts that the start was aborted, and which plugin, if any, was abandoned in a callback.
fn was_given_up(output: &Output, left: Option<(&str, &str)>) {
    let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
    let fields: Vec<Value> =
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].take()).collect();
    let find = |message: &str| fields.iter().find(|fields| fields["message"] == message);
    assert!(find("svc was stopped during its start").is_some(), "{fields:?}");
    assert!(find("svc is ready").is_none() && find("svc is draining").is_none());
    let text = |name: &str| find("plugin did not stop in time").map(|fields| fields[name].as_str().unwrap());
    assert_eq!(text("plugin").zip(text("callback")), left, "{fields:?}");
}

#[test]
fn a_signal_does_not_wait_for_an_init_that_hangs() {
    for signal in TO_STOP {
        let plugins =
            Plugins::none().with("a", &[], &[]).with("b", &[], &[("HANG", "init")]).with("c", &[], &[]);
        let pid_file = plugins.path("pid");
        let server = plugins.begin(&[("PID_FILE", pid_file.to_str().unwrap())]);
        eventually("the second one hangs", || plugins.trace() == ["init", "init"]);
        assert!(pid_file.exists());
        let output = stopped_by(signal, server);
        was_given_up(&output, Some(("b", "init")));
        assert_eq!(plugins.trace(), ["init", "init", "stop"], "of the first one");
        assert!(!pid_file.exists());
    }
}

#[test]
fn a_signal_does_not_wait_for_an_entry_that_hangs() {
    for signal in TO_STOP {
        let plugins = Plugins::none().with("a", &[], &[]);
        let here = plugins.path("here");
        let plugins = plugins.with("b", &[&format!("-DENTRY_HANGS=\"{}\"", here.display())], &[]);
        let pid_file = plugins.path("pid");
        let server = plugins.begin(&[("PID_FILE", pid_file.to_str().unwrap())]);
        eventually("the second one hangs", || here.exists());
        let output = stopped_by(signal, server);
        let path = plugins.path("b.so");
        was_given_up(&output, Some((path.to_str().unwrap(), "svc_plugin_entry")));
        assert!(plugins.trace().is_empty() && !pid_file.exists());
    }
}

#[test]
fn a_signal_during_a_hanging_init_does_not_start_php() {
    let plugins = Plugins::hostile(&[("HANG", "init")]);
    let server = plugins.begin(&[("EXECUTOR", "sapi")]);
    eventually("it hangs", || plugins.trace() == ["init"]);
    // SIGHUP requests a reload, and there is nothing to reload yet.
    kill_process(Pid::from_child(&server), Signal::HUP).unwrap();
    was_given_up(&stopped_by(Signal::TERM, server), Some(("hostile", "init")));
}
