//! Exceptions in traces: in spans that scripts create, and in requests.
#![cfg(feature = "trace")]

use serde_json::json;

use svc_testing::IS_WORKER;
use svc_testing::Svc;
use svc_testing::spans::Spans;

/// The code of both modes: a function for each exception that a request may throw.
const CASES: &str = r#"<?php
use function Svc\Trace\{span, start, traceparent};

class Bare extends Exception
{
    public static array $asked = [];
    public function __construct() { unset($this->message); }
    public function __isset($name) { self::$asked[] = $name; return true; }
    public function __get($name) { self::$asked[] = $name; return 'made up'; }
}
class Sessions implements SessionHandlerInterface {
    public function __construct(private Closure $write) {}
    public function open($path, $name): bool { return true; }
    public function close(): bool { return true; }
    public function read($id): string { return ''; }
    #[ReturnTypeWillChange]
    public function write($id, $data) { return ($this->write)(); }
    public function destroy($id): bool { return true; }
    public function gc($lifetime): int { return 0; }
}

function cases(): array
{
    return [
        'throw' => function () {
            try {
                span('throws', function () { throw new DomainException('caught outside'); });
            } catch (DomainException $thrown) {
                start('recorded')->recordException($thrown, ['extra' => 1])->setStatus('ok')->end();
                return [$thrown->getMessage(), traceparent() === $_SERVER['HTTP_TRACEPARENT']];
            }
        },
        'chain' => function () {
            $first = new ErrorException('of the file', 0, E_WARNING, '/generated/at', 77);
            $second = new DomainException("two\nlines", 0, $first);
            throw new LogicException('the last one', 0, $second);
        },
        'circle' => function () {
            $one = new LogicException('one');
            $other = new DomainException('other', 0, $one);
            (new ReflectionProperty(Exception::class, 'previous'))->setValue($one, $other);
            throw $one;
        },
        'many' => function () {
            for ($i = 0, $e = null; $i < 5000; $i++) { $e = new LogicException("number $i", 0, $e); }
            throw $e;
        },
        'fatal' => function () { eval('function a() {} function a() {}'); },
        'bare' => function () {
            start('bare')->recordException(new Bare)->end();
            try { span('bare thrown', fn () => throw new Bare); } catch (Bare) { return Bare::$asked; }
        },
        'uncaught' => fn () => span('escapes', fn () => throw new LogicException('to the end')),
        'anonymous' => fn () => (new class { public function go() { span('fails', fn () => throw new class('nameless') extends LogicException {}); } })->go(),
        'thrown-at-shutdown' => function () { register_shutdown_function(fn () => throw new LogicException('at the end')); return 1; },
        'thrown-by-destructor' => function () { global $doomed; $doomed = new class { public function __destruct() { throw new LogicException('at the end'); } }; return 1; },
        'thrown-by-header-callback' => function () { header_register_callback(fn () => throw new LogicException('at the end')); return 1; },
        'thrown-by-buffer' => function () { ob_start(fn () => throw new LogicException('at the end')); return 1; },
        'thrown-by-handler' => function () { set_exception_handler(fn ($first) => throw new LogicException('at the end')); throw new Exception('first'); },
        'thrown-by-session' => function () { session_set_save_handler(new Sessions(fn () => throw new LogicException('at the end'))); session_start(); $_SESSION['a'] = 1; return 1; },
        'thrown-for-session' => function () { session_set_save_handler(new Sessions(fn () => 'no bool')); session_start(); $_SESSION['a'] = 1; return 1; },
        'thrown-twice' => function () { foreach (['one', 'two'] as $message) { register_shutdown_function(fn () => throw new DomainException($message)); } throw new LogicException('at the end'); },
        'thrown-and-handled' => function () { set_exception_handler(fn () => 1); register_shutdown_function(fn () => throw new LogicException('not at the end')); return 1; },
    ];
}
"#;

const CLASSIC: &str = "<?php require __DIR__ . '/cases.php'; echo json_encode(cases()[$_GET['case']]());";
const WORKER: &str = "<?php require __DIR__ . '/cases.php';
Svc\\Worker::serve(function () { echo json_encode(cases()[$_GET['case']]()); });";

fn start(spans: &Spans, is_worker: bool) -> Svc {
    let worker = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("PHP_WORKERS", "1")];
    let settings = if is_worker { &worker[..] } else { &[] };
    spans.svc(&[("index.php", if is_worker { WORKER } else { CLASSIC }), ("cases.php", CASES)], settings)
}

#[test]
fn an_exception_of_a_body_is_an_event_and_propagates() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker);
        let (answer, request) = spans.case(&svc, "throw");
        assert_eq!(answer, json!(["caught outside", true]));
        let throws = spans.beside(&request, "throws");
        assert!(throws.is_error() && !request.is_error());
        assert_eq!(throws.exceptions()[0][..2], ["DomainException", "caught outside"]);
        let recorded = spans.beside(&request, "recorded");
        assert_eq!(
            (recorded.events()[0].1["extra"].clone(), &recorded.status()["code"]),
            (json!(1), &json!(1))
        );
        let (answer, request) = spans.case(&svc, "bare");
        assert_eq!(answer, json!([]), "no code of a script runs for an event");
        for name in ["bare", "bare thrown"] {
            assert_eq!(spans.beside(&request, name).exceptions()[0][..2], ["Bare", ""]);
        }
        let (answer, request) = spans.case(&svc, "uncaught");
        assert_eq!((answer, request.says("error.type")), (json!(500), json!("LogicException")));
        assert!(spans.beside(&request, "escapes").is_error());
        assert_eq!(request.exceptions().len(), 1);
    }
}

/// PHP reports an exception from the end of a script in another way than one that leaves the script itself.
#[test]
fn an_exception_at_the_end_of_a_script_is_an_event() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker);
        for by in
            ["at-shutdown", "by-destructor", "by-header-callback", "by-buffer", "by-handler", "by-session"]
        {
            // In worker mode, a global variable outlives the response.
            if is_worker && by == "by-destructor" {
                continue;
            }
            let (_, request) = spans.case(&svc, &format!("thrown-{by}"));
            assert_eq!(request.says("error.type"), "LogicException", "{by}, {is_worker}");
            let exceptions = request.exceptions();
            let [[class, message, place]] = &exceptions[..] else { panic!("{by}: {exceptions:?}") };
            assert_eq!((&**class, &**message), ("LogicException", "at the end"), "{by}");
            assert!(place.ends_with("{main}"), "{by}: {place}");
        }
        let (_, request) = spans.case(&svc, "thrown-for-session");
        let exceptions = request.exceptions();
        assert!(exceptions.len() == 1 && exceptions[0][0] == "TypeError", "{exceptions:?}");
        assert!(exceptions[0][1].contains("must have a return value of type bool"), "{exceptions:?}");
        let (_, request) = spans.case(&svc, "thrown-twice");
        let messages: Vec<_> = request.exceptions().into_iter().map(|[_, message, _]| message).collect();
        // The second function is not called in a process that ends with its script.
        let expected: &[&str] =
            if is_worker { &["at the end", "one", "two"] } else { &["at the end", "one"] };
        assert_eq!(
            (messages, request.says("error.type")),
            (expected.iter().map(|text| (*text).to_owned()).collect(), json!("LogicException"))
        );
        let (_, request) = spans.case(&svc, "thrown-and-handled");
        assert!(request.exceptions().is_empty());
    }
}

/// The place in an event: the position of `new`, the calls that led there, and the same for each previous exception.
#[test]
fn a_trace_begins_where_the_exception_was_made() {
    let line = |code: &str| 1 + CASES.lines().position(|line| line.contains(code)).unwrap();
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker);
        let file = svc.root().canonicalize().unwrap().join("cases.php");
        let file = file.to_str().unwrap();
        let place = |case: &str| {
            let (_, request) = spans.case(&svc, case);
            let [[_, _, place]] = &request.exceptions()[..] else { panic!("{case}: one event") };
            place.clone()
        };
        let chain = place("chain");
        let parts: Vec<_> = chain.split("\n\nCaused by: ").collect();
        let begins = [
            format!("{file}:{}\n#0 ", line("'the last one'")),
            format!("DomainException: two\nlines\n{file}:{}\n#0 ", line("two\\nlines")),
            "ErrorException: of the file\n/generated/at:77\n#0 ".to_owned(),
        ];
        assert_eq!(parts.len(), begins.len(), "{chain}");
        for (part, begin) in parts.iter().zip(&begins) {
            assert!(part.starts_with(begin) && part.ends_with(" {main}"), "{begin}\n{chain}");
        }
        let thrown = place("thrown-at-shutdown");
        assert!(thrown.starts_with(&format!("{file}:{}\n", line("thrown-at-shutdown"))), "{thrown}");
        assert_eq!(place("circle").matches("\n\nCaused by: ").count(), 1);
        assert!(place("many").len() <= 16 * 1024);
        let fatal = place("fatal");
        assert!(fatal.starts_with(&format!("{file}({}) : eval()'d code:1\n", line("'fatal'"))), "{fatal}");
    }
}

/// PHP's name of an anonymous class continues after a NUL, with the path of its file.
#[test]
fn an_anonymous_class_is_named_without_its_place() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker);
        let (_, request) = spans.case(&svc, "anonymous");
        assert_eq!(request.says("error.type"), "LogicException@anonymous");
        for span in [&request, &spans.beside(&request, "fails")] {
            let [class, message, place] = &span.exceptions()[0];
            assert_eq!((&**class, &**message), ("LogicException@anonymous", "nameless"));
            assert!(place.contains("class@anonymous->go()") && !place.contains('\0'), "{place:?}");
        }
    }
}
