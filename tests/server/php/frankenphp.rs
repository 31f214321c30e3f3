//! Functions with FrankenPHP's names, in classic mode and in worker mode.

use serde_json::{Value, json};
use svc_testing::Svc;
use svc_testing::client::Response;

/// A script and a worker that run the PHP code in the request's body.
const SCRIPT: &str = "<?php eval(file_get_contents('php://input'));";
const WORKER: &str = "<?php Svc\\Worker::serve(function () { eval(file_get_contents('php://input')); });";

/// Runs the test with a server in each mode of this build.
fn in_each_mode(test: impl Fn(&Svc)) {
    test(&Svc::start(&[("index.php", SCRIPT)], &[("LOG_LEVEL", "debug")]));
    if cfg!(feature = "worker") {
        let settings =
            [("LOG_LEVEL", "debug"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
        test(&Svc::start(&[("worker.php", WORKER)], &settings));
    }
}

fn run(svc: &Svc, code: &str) -> Response {
    svc.client().post("/", code.as_bytes())
}

#[test]
fn a_script_logs_with_a_level_and_a_context() {
    in_each_mode(|svc| {
        let code = "
            frankenphp_log('plain');
            frankenphp_log('debug', FRANKENPHP_LOG_LEVEL_DEBUG);
            frankenphp_log('info', FRANKENPHP_LOG_LEVEL_INFO, []);
            frankenphp_log('between', 3);
            frankenphp_log('warn', FRANKENPHP_LOG_LEVEL_WARN, ['used' => 10, 'of' => ['a', 2.5, null], 'ä' => \"\\u{2028}ü\"]);
            frankenphp_log(\"error\", context: ['x' => 1.0], level: FRANKENPHP_LOG_LEVEL_ERROR);
            frankenphp_log('beyond', PHP_INT_MAX);
            echo svc_request_id();";
        let id = run(svc, code).text();
        for (message, level, php_level) in [
            ("plain", "INFO", "info"),
            ("debug", "DEBUG", "debug"),
            ("info", "INFO", "info"),
            ("between", "INFO", "info"),
            ("warn", "WARN", "warning"),
            ("error", "ERROR", "error"),
            ("beyond", "ERROR", "error"),
        ] {
            let record = svc.log().expect(message);
            assert_eq!((&record["level"], &record["target"]), (&json!(level), &json!("php")), "{record}");
            assert_eq!(record["fields"]["php_level"], php_level, "{record}");
            assert_eq!(record["fields"]["request_id"], id.as_str(), "{record}");
            assert!(record["fields"]["file"].as_str().unwrap().contains(".php"), "{record}");
        }
        let context = |message: &str| svc.log().expect(message)["fields"].get("context").cloned();
        assert_eq!(context("plain"), None);
        assert_eq!(context("info"), None);
        let expected = json!({"used": 10, "of": ["a", 2.5, null], "ä": "\u{2028}ü"});
        assert_eq!(context("warn"), Some(expected));
        assert_eq!(context("error"), Some(json!({"x": 1.0})));
    });
}

#[test]
fn a_context_that_json_has_no_form_for_is_logged_as_far_as_it_goes() {
    in_each_mode(|svc| {
        let code = "
            json_decode('{');
            $round = ['a' => 1]; $round['self'] = &$round;
            frankenphp_log('round', 0, $round);
            frankenphp_log('odd', 0, ['nan' => NAN, 'file' => STDERR_OR_NOT(), 'bytes' => \"\\xff\", 'after' => 1]);
            frankenphp_log('long', 0, ['text' => str_repeat('x', 20000)]);
            frankenphp_log(\"two\\nlines\");
            try {
                frankenphp_log('never', 0, [new class implements JsonSerializable {
                    function jsonSerialize(): mixed { throw new DomainException('mine'); }
                }]);
            } catch (Exception $e) { echo get_class($e->getPrevious() ?? $e), ' '; }
            try { frankenphp_log([]); } catch (TypeError) { echo 'TypeError '; }
            echo json_last_error();";
        let code = code.replace("STDERR_OR_NOT()", "fopen('php://memory', 'r')");
        assert_eq!(run(svc, &code).text(), "DomainException TypeError 4");
        assert_eq!(svc.log().expect("round")["fields"]["context"]["a"], 1);
        let odd = json!({"nan": 0, "file": null, "bytes": "\u{fffd}", "after": 1});
        assert_eq!(svc.log().expect("odd")["fields"]["context"], odd);
        let long = svc.log().expect("long");
        let text = long["fields"]["context"].as_str().unwrap();
        assert!(text.starts_with("{\"text\":\"xxx") && text.len() < 9000, "{text}");
        svc.log().expect("two\nlines");
        assert!(svc.log().find("never").is_none());
    });
}

#[test]
fn the_other_names_are_aliases_of_the_functions() {
    in_each_mode(|svc| {
        let code = "
            header('X-A: 1');
            header('X-B: 2');
            $same = [frankenphp_request_headers() === getallheaders(), frankenphp_response_headers() === apache_response_headers()];
            echo json_encode([$same, frankenphp_request_headers()['Host'] ?? '', frankenphp_response_headers()['X-B']]);
            $first = frankenphp_finish_request();
            echo 'nobody reads this';
            frankenphp_log('after the end', 0, [$first, frankenphp_finish_request(), fastcgi_finish_request()]);";
        let response = run(svc, code);
        let seen: Value = serde_json::from_str(&response.text()).unwrap();
        assert_eq!((&seen[0], &seen[2]), (&json!([true, true]), &json!("2")));
        assert_eq!((response.field("x-a"), response.field("x-b")), (Some("1"), Some("2")));
        assert_eq!(svc.log().expect("after the end")["fields"]["context"], json!([true, false, false]));
    });
}
