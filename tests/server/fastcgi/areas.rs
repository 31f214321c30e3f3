//! The list of the areas that the executor runs, too.

use std::process::Command;

/// Returns the names that the list includes, and those that it excludes.
fn listed() -> [Vec<&'static str>; 2] {
    let lines = include_str!("areas.txt").lines();
    let (mut included, mut excluded) = (Vec::new(), Vec::new());
    for line in lines {
        match line.split_at_checked(2) {
            Some(("+ ", name)) => included.push(name),
            Some(("- ", name)) => excluded.push(name),
            _ => {}
        }
    }
    [included, excluded]
}

#[test]
fn each_name_of_the_list_is_that_of_tests() {
    let output = Command::new(std::env::current_exe().unwrap()).arg("--list").output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let tests: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let is_below = |test: &str, name: &str| {
        test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let [included, excluded] = listed();
    for name in included.iter().chain(&excluded) {
        assert!(tests.iter().any(|test| is_below(test, name)), "no test is called {name}");
    }
    for name in &excluded {
        assert!(included.iter().any(|area| is_below(name, area)), "{name} is in no area");
    }
}
