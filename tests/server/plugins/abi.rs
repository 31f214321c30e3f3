//! The contract with plugins that were compiled long ago: the first header of its version, unchanged, and a plugin that was
//! written for it.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};
use std::process::Command;

use serde_json::json;
use svc_plugin::abi;

use svc_testing::c;
use svc_testing::client::eventually;
use svc_testing::plugins::Plugins;

const FIRST: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/tests/plugins/abi1");
const PRESENT: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");

/// Returns the offset and the size of each field, with the header in this folder.
fn layout(include: &'static str) -> BTreeMap<String, Vec<usize>> {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("layout");
    c::compiled(include_str!("../../plugins/abi1/layout.c"), &program, &["-std=c11", include]);
    let output = String::from_utf8(Command::new(program).output().unwrap().stdout).unwrap();
    let line = |line: &str| {
        let (name, numbers) = line.split_once(' ').unwrap();
        (name.to_owned(), numbers.split(' ').map(|number| number.parse().unwrap()).collect())
    };
    output.lines().map(line).collect()
}

#[test]
fn structs_only_grow_at_their_end() {
    let (first, present) = (layout(FIRST), layout(PRESENT));
    assert!(first.len() > 50, "{}", first.len());
    for (name, place) in &first {
        match name.contains('.') {
            true => assert_eq!(&present[name], place, "{name} has moved: this needs a new SVC_PLUGIN_ABI"),
            false => assert!(present[name][0] >= place[0], "{name} has shrunk"),
        }
    }
}

#[test]
fn the_header_in_rust_is_the_header() {
    let c = layout(PRESENT);
    macro_rules! fields {
        ($($type:ident: $($field:ident)*;)*) => {{
            $(
                assert_eq!(c[stringify!($type)], [size_of::<abi::$type>()], stringify!($type));
                $(assert_eq!(
                    c[concat!(stringify!($type), ".", stringify!($field))][0],
                    offset_of!(abi::$type, $field),
                    concat!(stringify!($type), ".", stringify!($field))
                );)*
            )*
            [$($(stringify!($field),)* stringify!($type)),*].len()
        }};
    }
    let compared = fields! {
        svc_text: data size;
        svc_label: name value;
        svc_host_api: size abi reserved version host log setting explain answer_health answer_config answer_page
            add_family add_sample;
        svc_page_request: size path query;
        svc_request_facts: size method path protocol client request_id trace_id shed_reason status response_bytes
            duration_us queue_wait_us;
        svc_plugin: size abi reserved name version state init start stop health config serve metrics request_ended;
    };
    // The reserved field is padding in Rust.
    assert_eq!(compared + 1, c.len());
}

#[test]
fn a_plugin_of_the_first_header_works_and_so_does_one_of_a_later_one() {
    for flags in [&[][..], &["-DNEWER"]] {
        let plugins = Plugins::none();
        let path = plugins.path("first.so");
        let source = include_str!("../../plugins/abi1/plugin.c");
        c::compiled(source, &path, &[&[c::PLUGIN_FLAGS, FIRST], flags].concat());
        let plugins = plugins.add(&path, &[("PLUGIN_FIRST_WORD", "hello")]);
        let svc = plugins.start(&[], &[]);
        let json = |path: &str| -> serde_json::Value { serde_json::from_slice(&svc.ask(path).body).unwrap() };
        eventually("it is well", || json("/health")["plugins"] == json!({ "first": "ok" }));
        eventually("it is configured", || json("/config")["plugins"]["first"]["word"] == true);
        assert_eq!(svc.ask("/plugins/first/").text(), "hello");
        svc.get("/");
        eventually("it counts", || {
            svc.ask("/metrics").text().contains("svc_plugin_first_ended_total{a=\"b\"} 1\n")
        });
    }
}
