//! Programs as a JSON file, to be read and edited.

use serde_json::{Value, json};

use crate::grammar::{Client, Op, Program, json_of};

/// Returns programs as the text of a file.
pub(crate) fn to_json(programs: &[Program]) -> String {
    let each = programs.iter().map(|program| {
        let client = match program.client {
            Client::Patient => json!(["patient", 0]),
            Client::Slow(ms) => json!(["slow", ms]),
            Client::Gone(ms) => json!(["gone", ms]),
        };
        format!("{}", json!({ "id": program.id, "client": client, "ops": json_of(&program.ops) }))
    });
    format!("[{}]", each.collect::<Vec<_>>().join(",\n"))
}

/// Parses the text of `to_json`.
pub(crate) fn from_json(text: &str) -> Vec<Program> {
    let programs: Vec<Value> = serde_json::from_str(text).unwrap();
    let of = |program: &Value| {
        let ms = program["client"][1].as_u64().unwrap();
        let client = match program["client"][0].as_str().unwrap() {
            "slow" => Client::Slow(ms),
            "gone" => Client::Gone(ms),
            _ => Client::Patient,
        };
        Program {
            id: program["id"].as_str().unwrap().to_owned(),
            client,
            ops: ops_from(&program["ops"]),
            fault: None,
        }
    };
    programs.iter().map(of).collect()
}

fn ops_from(list: &Value) -> Vec<Op> {
    list.as_array().unwrap().iter().map(op_from).collect()
}

fn op_from(value: &Value) -> Op {
    let list = value.as_array().unwrap();
    // Leaking is harmless: a test is short-lived.
    let word =
        |value: &Value| -> &'static str { Box::leak(value.as_str().unwrap().to_owned().into_boxed_str()) };
    let at = list.iter().position(Value::is_array);
    let args = list[1..at.unwrap_or(list.len())].to_vec();
    let last = at.and_then(|at| list.get(at + 1)).map(word);
    Op { name: word(&list[0]), args, ops: at.map(|at| ops_from(&list[at])), last }
}
