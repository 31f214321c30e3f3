//! Svc\Trace: spans that scripts create.
#![cfg(feature = "trace")]

use serde_json::{Value, json};

#[cfg(feature = "worker")]
use svc_testing::client::eventually;
use svc_testing::spans::Spans;
use svc_testing::{IS_WORKER, Svc};

/// The code of both modes: a function for each action of a request.
const CASES: &str = r#"<?php
use Svc\Trace;
use function Svc\Trace\{current, span, start, traceparent};

class Kept { public static $span; public static $own; public static $fiber; }
class Doomed { public function __destruct() { span('in a destructor', fn () => 1); error_log('destructed in ' . traceparent()); } }

function cases(): array
{
    return [
        'nested' => function () {
            $own = traceparent();
            $seen = span('outer', function () use ($own) {
                current()->setAttribute('text', 'value')->setAttribute('number', 7)->setAttribute('ratio', 1.5)->setAttribute('flag', true);
                current()->setAttribute('list', ['a', 'b'])->setAttribute('numbers', [1, 2])->setAttribute('none', [])->addEvent('event', ['x' => 1]);
                $outer = traceparent();
                return [$own, $outer, span('inner', fn () => traceparent(), ['given' => 'yes']), traceparent() === $outer];
            });
            current()->setAttribute('app.user', 'joe')->addEvent('of the request');
            return [...$seen, traceparent() === $own, $_SERVER['HTTP_TRACEPARENT'] === $own];
        },
        'identity' => fn () => [
            current() === current(), span('a', fn (Trace\Span $span) => $span === current()), current() !== span('b', fn ($span) => $span),
            current() != start('c'), start('d') != start('d'),
        ],
        'start' => function () {
            $call = start('call', ['to' => 'backend'], 'client');
            $inactive = traceparent() === $_SERVER['HTTP_TRACEPARENT'];
            $call->setStatus('error', 'refused')->end();
            $call->setAttribute('after', 'its end')->addEvent('after');
            $call->end();
            span('parent', fn () => start('child', [], 'producer')->end());
            start('forgotten');
            return $inactive;
        },
        'order' => fn () => span('a', fn ($a) => span('b', function ($b) use ($a) { $a->end(); span('c', fn () => 1); $b->end(); return current() === $b; })),
        'fibers' => function () {
            return span('main', function () {
                $main = traceparent();
                $fiber = new Fiber(function () use ($main) {
                    $inherits = traceparent() === $main;
                    return span('in a fiber', function () use ($inherits) { $own = traceparent(); Fiber::suspend($own); return [$inherits, traceparent() === $own]; });
                });
                $own = $fiber->start();
                $seen = [$own !== $main, traceparent() === $main];
                span('meanwhile', fn () => $fiber->resume());
                return [...$seen, ...$fiber->getReturn()];
            });
        },
        'types' => function () {
            $seen = [];
            foreach ([null, new stdClass, [1, 'a'], ['a' => 1], [[1]], [null], fopen('php://memory', 'r')] as $value) {
                foreach ([fn () => current()->setAttribute('k', $value), fn () => span('never', fn () => 1, ['k' => $value]), fn () => start('never', ['k' => $value]), fn () => current()->addEvent('never', ['k' => $value])] as $call) {
                    try { $call(); $seen[] = 'accepted'; } catch (TypeError $error) { $seen[TypeError::class] = 1; }
                }
            }
            foreach ([fn () => start('never', [1]), fn () => start('never', [], 'other'), fn () => current()->setStatus('fine'), fn () => clone current(), fn () => serialize(current()),
                fn () => new Trace\Span, function () { current()->x = 1; }, fn () => unserialize('O:14:"Svc\Trace\Span":0:{}')] as $call) {
                try { $call(); $seen[] = 'accepted'; } catch (Throwable $error) { $seen[] = $error::class; }
            }
            return $seen;
        },
        'callables' => function () {
            $magic = new class { public function __call($name, $arguments) { return $name; } public static function fixed() { return 'static'; } };
            return [is_int(span('f', 'time')), span('m', [$magic, 'anything']), span('s', [$magic::class, 'fixed']), span('d', fn ($optional = 'left out') => $optional)];
        },
        'exit' => fn () => span('exits', function () { echo '"exited"'; exit; }),
        'suspended' => function () {
            $begin = function ($name) { $fiber = new Fiber(fn () => span("around $name", fn () => span($name, fn () => Fiber::suspend()))); $fiber->start(); return $fiber; };
            $freed = $begin('freed');
            unset($freed);
            $GLOBALS['left'] = $begin('left');
            register_shutdown_function(function () use (&$left) { unset($GLOBALS['left']); });
            $left = $begin('held');
            return 1;
        },
        'memory' => fn () => span('exhausts', function () { ini_set('memory_limit', '6M'); $all = []; while (true) { $all[] = str_repeat('x', 4096); } }),
        'shutdown' => function () { register_shutdown_function(fn () => span('at shutdown', fn () => 1)); return 'later'; },
        'shutdown-fatal' => function () {
            register_shutdown_function(fn () => start('after the jump')->end());
            return span('jumped out of', fn () => trigger_error('jump', E_USER_ERROR));
        },
        'destructor' => function () { Kept::$own = null; $doomed = new Doomed; return 'doomed'; },
        'keep' => function () { Kept::$span = start('kept'); Kept::$own = current(); return 'kept'; },
        'steal' => function () {
            foreach ([Kept::$span, Kept::$own] as $span) { $span?->setAttribute('stolen', true)->addEvent('stolen')->setStatus('error', 'stolen')->end(); }
            return [Kept::$own === null, Kept::$own !== current()];
        },
        'keep-fiber' => function () {
            Kept::$fiber = new Fiber(fn () => span('of the first', function () {
                Fiber::suspend();
                error_log('in the second');
                $seen = [traceparent(), span('of the second', fn () => traceparent()), traceparent(), Svc\async(static fn () => traceparent())->await()];
                Fiber::suspend($seen);
            }));
            Kept::$fiber->start();
            return 'kept';
        },
        'resume-fiber' => fn () => Kept::$fiber->resume(),
        'bounds' => function () {
            for ($i = 0; $i < 300; $i++) { $open[] = start('open'); }
            $last = end($open);
            $last->setAttribute('ignored', 1)->end();
            foreach ($open as $span) { $span->end(); }
            $big = start('big');
            for ($i = 0; $i < 500; $i++) { $big->setAttribute("key $i", str_repeat('x', 100000)); }
            $big->end();
            $again = start('again');
            for ($i = 0; $i < 2000; $i++) { $again->setAttribute('rows', $i); }
            $again->setAttribute('done', true)->setAttribute('list', range(1, 10_000))->end();
            for ($i = 0; $i < 8; $i++) { current()->setAttribute("key $i", str_repeat("\xff", 100_000)); }
            for ($i = 0; $i < 12000; $i++) { start('many')->end(); }
            return $i;
        },
    ];
}
"#;

const CLASSIC: &str = "<?php require __DIR__ . '/cases.php'; echo json_encode(cases()[$_GET['case']]());";
const WORKER: &str = "<?php require __DIR__ . '/cases.php'; $boot = [Svc\\Trace\\current(), Svc\\Trace\\start('boot'), Svc\\Trace\\traceparent()];
Svc\\Worker::serve(function () use ($boot) {
    if ($_GET['case'] === 'boot') { $boot[0]->setAttribute('stolen', true)->end(); $boot[1]->setAttribute('stolen', true)->end(); echo json_encode($boot[2]); return; }
    if ($_GET['case'] === 'park') {
        $seen = Svc\\Trace\\span('parked', function () { $own = Svc\\Trace\\traceparent(); Svc\\sleep(0.02); return $own === Svc\\Trace\\traceparent(); });
        echo json_encode($seen); return;
    }
    echo json_encode(cases()[$_GET['case']]());
});";

fn start(spans: &Spans, is_worker: bool, settings: &[(&str, &str)]) -> Svc {
    let worker = [("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "index.php"), ("PHP_WORKERS", "1")];
    let settings = if is_worker { [&worker[..], settings].concat() } else { settings.to_vec() };
    spans.svc(&[("index.php", if is_worker { WORKER } else { CLASSIC }), ("cases.php", CASES)], &settings)
}

fn id_in(traceparent: &Value) -> &str {
    &traceparent.as_str().unwrap()[36..52]
}

#[test]
fn spans_are_nested_and_have_their_attributes() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker, &[]);
        let (answer, request) = spans.case(&svc, "nested");
        let [own, outer_at, inner_at, after, end, field] = answer.as_array().unwrap().as_slice() else {
            panic!("{answer}")
        };
        assert!([after, end, field].iter().all(|is| **is == json!(true)), "{answer}");
        let (outer, inner) = (spans.beside(&request, "outer"), spans.beside(&request, "inner"));
        assert_eq!((outer.parent(), inner.parent()), (request.id(), outer.id()));
        assert_eq!([id_in(own), id_in(outer_at), id_in(inner_at)], [request.id(), outer.id(), inner.id()]);
        let expected = json!({
            "text": "value", "number": 7, "ratio": 1.5, "flag": true, "list": ["a", "b"], "numbers": [1, 2], "none": [],
        });
        assert_eq!(json!(outer.attributes()), expected);
        assert_eq!(outer.events()[0].0, "event");
        assert_eq!((inner.says("given"), inner.kind(), inner.is_error()), (json!("yes"), 1, false));
        assert_eq!((request.says("app.user"), &*request.events()[0].0), (json!("joe"), "of the request"));
        let [outer, inner] = [outer, inner].map(|span| span.times());
        assert!(outer[0] <= inner[0] && inner[1] <= outer[1]);
        assert_eq!(spans.case(&svc, "identity").0, json!([true, true, true, true, true]));
    }
}

#[test]
fn a_span_that_is_started_is_ended_once() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker, &[]);
        let (answer, request) = spans.case(&svc, "start");
        assert_eq!(answer, json!(true), "it is not the current one");
        let call = spans.beside(&request, "call");
        assert_eq!((call.kind(), call.says("to"), call.says("after")), (3, json!("backend"), json!(null)));
        assert_eq!((call.parent(), call.status()), (request.id(), &json!({"code": 2, "message": "refused"})));
        assert!(call.events().is_empty());
        let child = spans.beside(&request, "child");
        assert_eq!((child.parent(), child.kind()), (spans.beside(&request, "parent").id(), 4));
        assert_eq!(spans.beside(&request, "forgotten").says("svc.unfinished"), true);
        assert_eq!(spans.all().iter().filter(|span| span.name() == "call").count(), 1);
    }
}

#[test]
fn spans_may_end_in_any_order() {
    let spans = Spans::collect();
    let svc = start(&spans, false, &[]);
    let (answer, request) = spans.case(&svc, "order");
    assert_eq!(answer, json!(true));
    let [a, b, c] = ["a", "b", "c"].map(|name| spans.beside(&request, name));
    assert_eq!([a.parent(), b.parent(), c.parent()], [request.id(), a.id(), b.id()]);
    assert!([&a, &b, &c].iter().all(|span| span.says("svc.unfinished").is_null()));
}

#[test]
fn each_fiber_has_a_current_span() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker, &[]);
        let (answer, request) = spans.case(&svc, "fibers");
        assert_eq!(answer, json!([true, true, true, true]));
        let main = spans.beside(&request, "main");
        assert_eq!(spans.beside(&request, "in a fiber").parent(), main.id());
        assert_eq!(spans.beside(&request, "meanwhile").parent(), main.id());
    }
}

#[test]
fn invalid_attributes_are_refused_everywhere() {
    let refused = json!({
        "TypeError": 1, "0": "TypeError", "1": "ValueError", "2": "ValueError", "3": "Error", "4": "Exception",
        "5": "Error", "6": "Error", "7": "Exception",
    });
    let spans = Spans::collect();
    let recorded = start(&spans, false, &[]);
    let plain = Svc::start(&[("index.php", CLASSIC), ("cases.php", CASES)], &[]);
    for svc in [&recorded, &plain] {
        let response = svc.get("/?case=types");
        assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), refused, "{}", response.text());
        let response = svc.get("/?case=callables");
        let expected = json!([true, "anything", "static", "left out"]);
        assert_eq!(serde_json::from_slice::<Value>(&response.body).unwrap(), expected);
    }
    spans.request("case=types");
    assert!(!spans.all().iter().any(|span| span.name() == "never"));
}

#[test]
fn spans_end_whatever_ends_their_request() {
    for is_worker in IS_WORKER {
        let spans = Spans::collect();
        let svc = start(&spans, is_worker, &[]);
        let (answer, request) = spans.case(&svc, "exit");
        assert_eq!(answer, json!("exited"));
        let exits = spans.beside(&request, "exits");
        assert!(!exits.is_error() && exits.says("svc.unfinished") == true && exits.events().is_empty());
        let (_, request) = spans.case(&svc, "suspended");
        for name in ["freed", "around freed", "left", "around left", "held", "around held"] {
            let span = spans.beside(&request, name);
            assert_eq!((span.says("svc.unfinished"), span.is_error()), (json!(true), false), "{name}");
        }
        let (_, request) = spans.case(&svc, "memory");
        assert_eq!(spans.beside(&request, "exhausts").says("svc.unfinished"), true);
        assert_eq!(request.exceptions()[0][0], "E_ERROR");
        let (_, request) = spans.case(&svc, "shutdown");
        assert_eq!(spans.beside(&request, "at shutdown").parent(), request.id());
        let (answer, request) = spans.case(&svc, "shutdown-fatal");
        assert_eq!(answer, json!(500));
        assert_eq!(spans.beside(&request, "after the jump").parent(), request.id());
        assert_eq!(spans.beside(&request, "jumped out of").says("svc.unfinished"), true);
    }
}

#[cfg(feature = "worker")]
#[test]
fn a_destructor_after_the_reply_has_no_spans_and_does_no_harm() {
    let spans = Spans::collect();
    let svc = start(&spans, true, &[]);
    let (answer, _) = spans.case(&svc, "destructor");
    assert_eq!(answer, json!("doomed"));
    eventually("the destructor has run", || {
        svc.log().of("php").iter().any(|record| {
            record["fields"]["message"].as_str().is_some_and(|text| text.starts_with("destructed in "))
        })
    });
    spans.case(&svc, "nested");
}

#[cfg(feature = "worker")]
#[test]
fn spans_of_other_requests_are_inaccessible() {
    let spans = Spans::collect();
    let svc = start(&spans, true, &[]);
    assert_eq!(spans.case(&svc, "boot").0, json!(""));
    spans.case(&svc, "keep");
    assert_eq!(spans.case(&svc, "steal").0, json!([false, true]));
    spans.case(&svc, "nested");
    let all = spans.all();
    assert!(all.iter().all(|span| span.says("stolen").is_null() && span.name() != "boot"));
    assert!(
        all.iter().all(|span| span.events().iter().all(|(name, _)| name != "stolen") && !span.is_error())
    );
}

#[cfg(feature = "async")]
#[test]
fn a_fiber_that_outlives_its_request_continues_in_the_trace_of_the_next() {
    let spans = Spans::collect();
    let svc = start(&spans, true, &[("ASYNC_WORKERS", "1")]);
    let (_, first) = spans.case(&svc, "keep-fiber");
    assert_eq!(spans.beside(&first, "of the first").says("svc.unfinished"), true);
    let (answer, second) = spans.case(&svc, "resume-fiber");
    let inside = spans.beside(&second, "of the second");
    assert_eq!(inside.parent(), second.id());
    let ids: Vec<&str> = answer.as_array().unwrap().iter().map(id_in).collect();
    assert_eq!(ids, [second.id(), inside.id(), second.id(), second.id()]);
    assert_eq!(svc.log().expect("in the second")["fields"]["span_id"], second.id());
}

#[cfg(feature = "worker")]
#[test]
fn a_request_that_waits_keeps_its_span() {
    let spans = Spans::collect();
    let svc = start(&spans, true, &[]);
    let mut clients: Vec<_> = (0..8).map(|_| svc.client()).collect();
    for client in &mut clients {
        client.send("GET /?case=park HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "true");
    }
    let is_request = |span: &&svc_testing::spans::ExportedSpan| span.is_server();
    eventually("all are exported", || spans.all().iter().filter(is_request).count() == 8);
    let mut longest = 0;
    for request in spans.all().iter().filter(is_request) {
        assert_eq!(spans.beside(request, "parked").parent(), request.id());
        let parked_us = request.says("svc.parked_us").as_u64().unwrap();
        let [began, ended] = request.times();
        assert!((1..=(ended - began) / 1000).contains(&parked_us), "{parked_us}");
        longest = longest.max(parked_us);
    }
    // A thread that loses its processor between reading the clock and parking parks for less; that does not happen to all
    // of them.
    assert!(longest >= 20_000, "{longest}");
}

#[test]
fn a_request_has_so_many_spans_and_a_span_holds_so_much() {
    let spans = Spans::collect();
    let svc = start(&spans, false, &[("OTEL_BSP_MAX_QUEUE_SIZE", "20000")]);
    let (_, request) = spans.case(&svc, "bounds");
    let run = spans.beside(&request, "PHP run");
    let made =
        spans.all().iter().filter(|span| ["open", "big", "again", "many"].contains(&span.name())).count();
    assert_eq!((made, run.says("svc.spans_dropped")), (10_000, json!(300 + 2 + 12_000 - 10_000)));
    let big = spans.beside(&request, "big");
    let held: usize = big.attributes().values().map(|value| value.as_str().unwrap().len()).sum();
    assert!((32 * 1024..=64 * 1024).contains(&held), "{held}");
    assert_eq!(big.attributes_dropped() as usize, 500 - big.attributes().len());
    // The last value wins and takes no more room than the first one; a list is truncated like a string.
    let again = spans.beside(&request, "again");
    assert_eq!(
        (again.says("rows"), again.says("done"), again.attributes_dropped()),
        (json!(1999), json!(true), 0)
    );
    assert_eq!(again.says("list").as_array().unwrap().len(), 2048);
    // Each of these bytes became three.
    assert_eq!(request.says("key 0").as_str().unwrap().len(), 16 * 1024 / 3 * 3);
    assert_eq!(request.attributes_dropped(), 5);
}

/// A task continues its requester's trace, wherever it was dispatched.
#[cfg(feature = "async")]
const TASKS: &str = r#"<?php
use function Svc\Trace\{current, span, start, traceparent};
$task = static fn () => [traceparent(), span('in the task', fn () => traceparent()), start('forgotten in the task')::class, current()::class];
$seen = span('dispatching', fn () => [traceparent(), Svc\async($task)->await()]);
try { Svc\async(static fn ($span) => 1, current()); } catch (Svc\Async\TransferException $error) { $seen[] = 'refused'; }
try { Svc\async(static fn () => span('failing', fn () => throw new LogicException('in a task')))->await(); } catch (Svc\Async\TaskException $error) { $seen[] = $error->getMessage(); }
echo json_encode($seen);"#;

#[cfg(feature = "async")]
#[test]
fn a_task_continues_the_trace_of_its_requester() {
    let spans = Spans::collect();
    let svc = spans.svc(&[("index.php", TASKS)], &[("ASYNC_WORKERS", "1")]);
    let answer: Value = serde_json::from_slice(&svc.get("/?q").body).unwrap();
    let request = spans.request("q");
    let dispatching = spans.beside(&request, "dispatching");
    assert_eq!(answer[0], answer[1][0]);
    assert_eq!(
        (id_in(&answer[0]), &answer[2], &answer[3]),
        (dispatching.id(), &json!("refused"), &json!("in a task"))
    );
    let inside = spans.beside(&request, "in the task");
    assert_eq!((inside.parent(), inside.id()), (dispatching.id(), id_in(&answer[1][1])));
    assert_eq!(spans.beside(&request, "forgotten in the task").says("svc.unfinished"), true);
    assert_eq!(spans.beside(&request, "failing").exceptions()[0][1], "in a task");
}

#[test]
fn an_unrecorded_trace_is_propagated() {
    let spans = Spans::collect();
    let mut svc = start(&spans, false, &[("OTEL_TRACES_SAMPLER", "always_off")]);
    let response = svc.get("/?case=nested");
    let seen: Value = serde_json::from_slice(&response.body).unwrap();
    let told = response.field("traceparent").unwrap();
    assert_eq!(seen, json!([told, told, told, true, true, true]));
    svc.get("/?case=uncaught");
    svc.get("/?case=memory");
    svc.stop();
    assert!(spans.all().is_empty());
}
