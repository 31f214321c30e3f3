//! Scripts that run PHP code with a test's constants and answer in JSON.

use serde_json::Value;

use crate::Svc;

const ANSWER: &str = r#"
try {
    echo json_encode(answer(), JSON_THROW_ON_ERROR);
} catch (Throwable $thrown) {
    echo json_encode($thrown::class . ': ' . $thrown->getMessage());
}
"#;

/// Returns a script that answers with the result of the function `answer()` in `code`, or with `Class: message` of the
/// exception that it throws. The members of the object `constants` are defined as constants.
pub fn script(code: &str, constants: &Value) -> String {
    let constants = constants.to_string().replace('\\', "\\\\").replace('\'', "\\'");
    let define =
        format!("foreach (json_decode('{constants}', true) as $name => $value) define($name, $value);");
    format!("<?php\nini_set('display_errors', '0');\n{define}\n{code}{ANSWER}")
}

/// Returns the JSON answer of the script at `path`.
#[track_caller]
pub fn answer(svc: &Svc, path: &str) -> Value {
    let response = svc.get(path);
    let text = response.text();
    assert_eq!(response.status, 200, "{text}");
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"))
}
