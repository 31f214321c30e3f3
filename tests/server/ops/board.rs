//! The Grafana board: its rows, colours and links. `board_queries` has the results of its queries.
#![cfg(feature = "php")]

use serde_json::Value;

pub(super) fn board() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/grafana/svc.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn panels_have_distinct_titles_and_do_not_overlap() {
    let board = board();
    let panels = board["panels"].as_array().unwrap();
    let mut cells = std::collections::BTreeSet::new();
    for (index, panel) in panels.iter().enumerate() {
        assert!(panels[..index].iter().all(|other| other["id"] != panel["id"]), "{}", panel["id"]);
        let number = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        for x in number("x")..number("x") + number("w") {
            for y in number("y")..number("y") + number("h") {
                assert!(x < 24 && cells.insert((x, y)), "{}", panel["title"]);
            }
        }
        let targets = panel["targets"].as_array().into_iter().flatten();
        assert!(targets.clone().all(|one| one["datasource"]["uid"] == "${datasource}"), "{}", panel["title"]);
    }
}

/// A colour has a meaning: thresholds are those of an alert, or distinguish two states.
#[test]
fn colours_have_the_meaning_of_alerts() {
    let rules = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/prometheus/alerts.yml"))
        .unwrap();
    let board = board();
    let mut coloured = Vec::new();
    for panel in board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] != "row") {
        let (title, defaults) = (panel["title"].as_str().unwrap(), &panel["fieldConfig"]["defaults"]);
        let steps =
            defaults["thresholds"]["steps"].as_array().expect("Grafana's own thresholds mean nothing");
        let description = panel["description"].as_str().unwrap();
        if steps.len() == 1 {
            assert_eq!(steps[0]["color"], "text", "{title}");
            assert!(panel["type"] != "stat" || panel["options"]["colorMode"] == "none", "{title}");
            continue;
        }
        coloured.push(title);
        let says = |color: &str| description.to_lowercase().contains(color);
        let bad = steps.iter().filter(|step| step["color"] != "green");
        bad.for_each(|step| assert!(says(step["color"].as_str().unwrap()), "{title}: {description}"));
        let alerts = description.split(|c: char| !c.is_alphanumeric()).filter(|word| word.starts_with("Svc"));
        alerts.for_each(|alert| assert!(rules.contains(&format!("- alert: {alert}\n")), "{title}: {alert}"));
    }
    let expected = [
        "Refused for overload",
        "Failed with 5xx",
        "Code on disk",
        "Last reload",
        "Ini files of PHP",
        "Certificate expires in",
    ];
    assert_eq!(coloured, expected);
}

#[test]
fn each_row_answers_a_question() {
    let board = board();
    let rows = board["panels"].as_array().unwrap().iter().filter(|panel| panel["type"] == "row");
    let titles: Vec<_> = rows.map(|row| row["title"].as_str().unwrap().to_owned()).collect();
    assert!(titles.len() > 6 && titles.iter().all(|title| title.ends_with('?')), "{titles:?}");
}
