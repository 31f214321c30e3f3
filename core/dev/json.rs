//! A failure as JSON.

use serde_json::{Value, json};

use super::failure::Failure;

/// Renders a failure with its causes.
pub(super) fn render(failure: &Failure) -> Vec<u8> {
    let mut body = format!("{:#}", value(failure)).into_bytes();
    body.push(b'\n');
    body
}

fn value(failure: &Failure) -> Value {
    let chain: Vec<&Failure> = failure.chain().collect();
    let mut whole = Value::Null;
    for one in chain.into_iter().rev() {
        let trace: Vec<_> = one
            .frames
            .iter()
            .map(|frame| json!({ "file": frame.file, "line": (frame.line > 0).then_some(frame.line), "call": frame.call }))
            .collect();
        let mut object = json!({
            "class": one.class, "message": one.message, "file": one.file, "line": one.line, "trace": trace,
        });
        if !whole.is_null() {
            object["previous"] = whole;
        }
        whole = object;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_an_object_with_its_causes() {
        let trace = "/a.php:1\n#0 [internal function]: g()\n#1 /b.php(2): f()\n#2 {main}\n\nCaused by: B: <b>\n/c.php:3\n#0 {main}";
        let failure = Failure::new(b"A", b"\"x\"\n\xff", trace.as_bytes());
        let seen: Value = serde_json::from_slice(&render(&failure)).unwrap();
        assert_eq!(
            seen,
            json!({
                "class": "A", "message": "\"x\"\n\u{fffd}", "file": "/a.php", "line": 1,
                "trace": [{ "file": null, "line": null, "call": "g()" }, { "file": "/b.php", "line": 2, "call": "f()" }],
                "previous": { "class": "B", "message": "<b>", "file": "/c.php", "line": 3, "trace": [] },
            })
        );
    }
}
