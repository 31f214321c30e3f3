//! Values on their way to another thread: which are transferred, which are refused and how, and the effects of script code
//! during the transfer.
//!
//! An extension of the test calls the transfer functions directly.

use std::process::Command;
use std::sync::OnceLock;

use svc_testing::client::{Response, eventually};
use svc_testing::{Svc, c};

const VALUES: &str = include_str!("../../php/async_transfer.php");

fn extension() -> String {
    static LIBRARY: OnceLock<String> = OnceLock::new();
    let extension = LIBRARY.get_or_init(|| {
        let library = std::env::temp_dir().join(format!("svc-async-transfer-{}.so", std::process::id()));
        c::extension(&(addresses() + include_str!("../../php/async_transfer.c")), &library);
        format!("extension={}", library.display())
    });
    extension.clone()
}

/// Returns the addresses of functions that the server does not export.
fn addresses() -> String {
    let symbols = Command::new("nm").arg(env!("CARGO_BIN_EXE_svc")).output().expect("nm is there").stdout;
    let symbols = String::from_utf8(symbols).unwrap();
    let is_ours = |name: &str| {
        // Skips parts that the compiler has moved elsewhere, such as shim_pack_value.cold.
        !name.contains('.')
            && ["shim_pack", "shim_unpack", "shim_throw_failure"].iter().any(|it| name.starts_with(it))
    };
    let define = |line: &str| {
        let mut words = line.split(' ');
        let (address, name) = (words.next()?, words.nth(1)?);
        is_ours(name).then(|| format!("#define {} 0x{address}\n", name.to_uppercase()))
    };
    symbols.lines().filter_map(define).collect()
}

/// Starts a server that does what its requests ask for: `cases` are the cases of a `switch`.
fn start(cases: &str, settings: &[(&str, &str)], ini: &[&str]) -> Svc {
    let script = format!(
        "<?php require __DIR__ . '/values.php';
        $serve = function () use ($cases) {{ switch ($_GET['do']) {{ case 'run': eval(hex2bin($_GET['code'])); return; {cases} }} }};
        Svc\\Worker::serve($serve);"
    );
    let worker = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", "true"), ("ENTRY_FILE", "worker.php")];
    let extension = extension();
    let files = [("worker.php", script.as_str()), ("values.php", VALUES)];
    Svc::start_with(&files, &[&worker, settings].concat(), &[&[extension.as_str()], ini].concat())
}

/// Returns the output of the code.
fn run(svc: &Svc, code: &str) -> String {
    let response = send(svc, code);
    assert_eq!(response.status, 200, "{code}: {}", response.text());
    response.text()
}

fn send(svc: &Svc, code: &str) -> Response {
    svc.get(&format!("/?do=run&code={}", hex(code)))
}

fn hex(code: &str) -> String {
    code.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn tell(svc: &Svc, what: &str) -> String {
    let response = svc.get(&format!("/?do={what}"));
    assert_eq!(response.status, 200, "{what}: {}", response.text());
    response.text()
}

const CROSS: &str = r"
    case 'same':
        $payload = test_pack(array_column($cases, 0));
        $wrong = compare($cases, test_unpack($payload));
        test_free($payload);
        echo count($cases) >= 60 ? implode('|', $wrong) : 'too few';
        return;
    case 'pack':
        echo test_pack(array_column($cases, 0)), ' ', Svc\Worker::current()->id();
        return;
    case 'unpack':
        $wrong = compare($cases, test_unpack((int) $_GET['payload']));
        echo Svc\Worker::current()->id(), implode('|', $wrong);
        return;
    case 'payloads':
        echo test_payloads();
        return;
    case 'free':
        test_free((int) $_GET['payload']);
        return;
";

#[test]
fn values_are_the_same_on_the_other_side() {
    let svc = start(CROSS, &[], &["serialize_precision=5"]);
    for _ in 0..3 {
        assert_eq!(tell(&svc, "same"), "");
    }
    assert_eq!(tell(&svc, "payloads"), "0");
}

#[test]
fn values_packed_by_one_thread_are_unpacked_by_others() {
    let svc = start(CROSS, &[("PHP_WORKERS", "2")], &[]);
    let packed = tell(&svc, "pack");
    let (payload, by) = packed.split_once(' ').unwrap();
    let mut others = 0;
    eventually("both threads have unpacked it", || {
        // Two at a time: with requests in sequence, one thread could take them all.
        let mut asked = [(); 2].map(|()| {
            let mut client = svc.client();
            client.send(format!("GET /?do=unpack&payload={payload} HTTP/1.1\r\nHost: x\r\n\r\n"));
            client
        });
        for seen in asked.each_mut().map(|client| client.response().text()) {
            assert!(["0", "1"].contains(&seen.as_str()), "{seen}");
            others |= if seen == by { 1 } else { 2 };
        }
        others == 3
    });
    assert_eq!(tell(&svc, "payloads"), "1");
    tell(&svc, &format!("free&payload={payload}"));
    assert_eq!(tell(&svc, "payloads"), "0");
}

/// Refused values: the expression, and the message.
const REFUSED: &[(&str, &str)] = &[
    ("[fopen('php://memory', 'r')]", "argument 1: a resource cannot be sent to a task"),
    (
        "[1, ['user' => ['photo' => fopen('php://memory', 'r')]]]",
        "argument 2 ['user']['photo']: a resource cannot be sent to a task",
    ),
    ("[[1, 2, 3, closed()]]", "argument 1 [3]: a resource cannot be sent to a task"),
    ("[[-4 => [fn () => 1]]]", "argument 1 [-4][0]: a closure cannot be sent to a task"),
    ("[plain_with(['x' => strlen(...)])]", "argument 1 ->self['x']: a closure cannot be sent to a task"),
    ("[(function () { yield 1; })()]", "argument 1: a generator cannot be sent to a task"),
    (
        "[plain_with(new Point(1, null)), plain_with(closed())]",
        "argument 2 ->self: a resource cannot be sent to a task",
    ),
    ("[[new class {}]]", "argument 1 [0]: an object of an anonymous class cannot be sent to a task"),
    (
        "[plain_with(Svc\\Request::current())]",
        "argument 1 ->self: an object of the class Svc\\Request cannot be sent to a task",
    ),
    ("[Svc\\Worker::current()]", "argument 1: an object of the class Svc\\Worker cannot be sent to a task"),
    ("[new Fiber(fn () => 1)]", "argument 1: an object of the class Fiber cannot be sent to a task"),
    ("[new WeakMap()]", "argument 1: an object of the class WeakMap cannot be sent to a task"),
    (
        "[new ReflectionClass('Plain')]",
        "argument 1: an object of the class ReflectionClass cannot be sent to a task",
    ),
    (
        "[unserialize('O:7:\"Missing\":0:{}')]",
        "argument 1: an object of a class that is not loaded cannot be sent to a task",
    ),
    // A value in an object's own serialization is reported at the object's place.
    (
        "['x' => ['y' => new Magic(['z' => fn () => 1])]]",
        "argument 1 ['y']: a closure cannot be sent to a task",
    ),
    ("[new ArrayObject([closed()])]", "argument 1: a resource cannot be sent to a task"),
    (
        "[(function () { $p = new Child(); $p->next = new Child(); $p->next->extra = fn () => 1; return $p; })()]",
        "argument 1 ->next->extra: a closure cannot be sent to a task",
    ),
    ("[dynamic_closed()]", "argument 1 ->more[1]: a resource cannot be sent to a task"),
    (
        "[(function () { $a = [1]; $a['a'] = &$a; return $a; })()]",
        "argument 1 ['a']: an array that contains itself cannot be sent to a task",
    ),
    (
        "[['x' => (function () { $a = [1]; $a['b'] = [&$a]; return $a; })()]]",
        "argument 1 ['x']['b'][0]: an array that contains itself cannot be sent to a task",
    ),
    ("[deep_array(1000000)]", "argument 1: the value is nested too deeply"),
    ("[deep_object(300000)]", "argument 1: the value is nested too deeply"),
    ("[deep_mixed(300000)]", "argument 1: the value is nested too deeply"),
    (
        "[str_repeat('x', 65 << 20)]",
        "argument 1: the values of a task take more than 67108864 bytes (ASYNC_MAX_VALUE_BYTES)",
    ),
    // One string a thousand times: the copies would take 10 GB.
    (
        "[1, array_fill(0, 10000, str_repeat('x', 1 << 20))]",
        "argument 2: the values of a task take more than 67108864 bytes (ASYNC_MAX_VALUE_BYTES)",
    ),
    (
        "[array_fill(0, 1000, plain_with(1)), array_map(fn () => plain_with($GLOBALS['mega'] ??= str_repeat('y', 1 << 20)), range(1, 1000))]",
        "argument 2: the values of a task take more than 67108864 bytes (ASYNC_MAX_VALUE_BYTES)",
    ),
    (
        "[array_fill(0, 30, [array_fill(0, 30, [array_fill(0, 30, array_fill(0, 3000, 'x'))])])]",
        "argument 1: the values of a task take more than 67108864 bytes (ASYNC_MAX_VALUE_BYTES)",
    ),
    (
        "[[str_repeat('k', 100) => closed()]]",
        "argument 1 ['kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk...']: a resource cannot be sent to a task",
    ),
];

#[test]
fn untransferable_values_are_refused_with_their_place() {
    let svc = start("", &[], &["memory_limit=1G"]);
    for (values, message) in REFUSED {
        assert_eq!(run(&svc, &format!("echo caught(fn () => test_pack({values}));")), *message, "{values}");
    }
    assert_eq!(run(&svc, "echo test_payloads();"), "0");
}

const CALLBACKS: &[&str] =
    &["__serialize", "__sleep", "serialize", "autoload", "__unserialize", "__wakeup", "unserialize"];

/// Returns code that packs and unpacks objects with every callback; the callback at `place` executes `fault`.
fn with_fault(place: &str, fault: &str) -> String {
    let values = if place == "autoload" { "" } else { "$payload = test_pack(faulty());" };
    let payload = if place == "autoload" { "missing(new Plain())" } else { "$payload" };
    format!(
        "Fault::$at = ['{place}' => '{fault}']; $payload = null;
        echo caught(function () use (&$payload) {{ {values} $payload = {payload}; test_unpack($payload); }});
        if ($payload) {{ test_free($payload); }} Fault::$at = [];"
    )
}

#[test]
fn an_exception_of_a_callback_is_the_previous_of_the_refusal() {
    let svc = start("", &[], &[]);
    let argument = |callback: &str| match callback {
        "__serialize" => "argument 1: an object of the class FaultyMagic could not be serialized",
        "__sleep" => "argument 2: an object of the class FaultySleep could not be serialized",
        "serialize" => "argument 3: an object of the class FaultyOld could not be serialized",
        "autoload" => "class \"Ghost\" cannot be loaded in the task's thread",
        _ => "An object cannot be unserialized in the task's thread",
    };
    for callback in CALLBACKS {
        let expected = format!("{} < DomainException: at {callback}", argument(callback));
        assert_eq!(run(&svc, &with_fault(callback, "throw")), expected, "{callback}");
        assert_eq!(run(&svc, "echo test_payloads();"), "0", "{callback}");
    }
}

#[test]
fn an_exit_in_a_callback_ends_the_request() {
    let svc = start("", &[], &[]);
    for callback in CALLBACKS {
        assert_eq!(run(&svc, &with_fault(callback, "exit")), "exited", "{callback}");
        assert_eq!(
            run(&svc, "Fault::$at = []; echo caught(fn () => test_free(test_pack(faulty())));"),
            "nothing"
        );
    }
}

#[test]
fn a_fatal_error_in_a_callback_ends_the_request() {
    let svc = start("", &[], &[]);
    for callback in CALLBACKS {
        assert_eq!(send(&svc, &with_fault(callback, "fatal")).status, 500, "{callback}");
        eventually("it continues", || {
            send(&svc, "echo caught(fn () => test_free(test_pack(faulty())));").text() == "nothing"
        });
    }
}

#[test]
fn requests_that_wait_in_callbacks_do_not_mix() {
    let svc = start("", &[], &[]);
    let code = r"
        foreach (['__serialize', '__sleep', 'serialize', '__unserialize', '__wakeup', 'unserialize'] as $place) {
            Fault::$at[$place] = 'sleep';
        }
        for ($i = 0; $i < 5; $i++) {
            $payload = test_pack([...faulty(), serialize(faulty())]);
            [$magic, $asleep, $old, $shared, $text] = test_unpack($payload);
            test_free($payload);
            if ($magic->v !== $shared || $asleep->v !== $shared || $old->v->x !== 1 || count(unserialize($text)) !== 4) {
                echo 'mixed';
            }
        }
        echo 'done';";
    let mut clients: Vec<_> = (0..16).map(|_| svc.client()).collect();
    for client in &mut clients {
        client.send(format!("GET /?do=run&code={} HTTP/1.1\r\nHost: x\r\n\r\n", hex(code)));
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "done");
    }
    assert_eq!(run(&svc, "Fault::$at = []; echo test_payloads();"), "0");
}

#[test]
fn fibers_that_are_suspended_in_callbacks_go_on_or_are_destroyed() {
    let svc = start("", &[], &[]);
    let code = r"
        foreach (['__serialize', '__sleep', 'serialize', '__unserialize', '__wakeup', 'unserialize'] as $place) {
            Fault::$at[$place] = 'fiber';
        }
        $work = function () {
            $payload = test_pack(faulty());
            [$magic, $asleep, , $shared] = test_unpack($payload);
            test_free($payload);
            return $magic->v === $shared && $asleep->v === $shared;
        };
        $fibers = array_map(fn () => new Fiber($work), range(1, 8));
        foreach ($fibers as $fiber) { $fiber->start(); }
        for ($round = 0; $round < 6; $round++) {
            foreach ($fibers as $i => $fiber) {
                if ($i >= 6 && $round >= $i - 4) { unset($fibers[$i], $fiber); continue; }
                $fiber->resume();
            }
        }
        foreach ($fibers as $fiber) { echo $fiber->isTerminated() && $fiber->getReturn() ? 'y' : 'n'; }
        Fault::$at = [];
        unset($fibers, $fiber);
        gc_collect_cycles();
        $payload = test_pack(faulty());
        echo count(test_unpack($payload));
        test_free($payload);";
    for _ in 0..3 {
        assert_eq!(run(&svc, code), "yyyyyy4");
    }
}

#[test]
fn a_class_that_is_missing_there_is_never_incomplete() {
    let svc = start("", &[], &[]);
    let unpacked = |value: &str| {
        let code = format!(
            "$payload = missing({value}); echo caught(fn () => test_unpack($payload)); test_free($payload);"
        );
        run(&svc, &code)
    };
    for value in [
        "new Plain()",
        "[[1, new Plain()]]",
        "plain_with(['x' => new Plain()])",
        "storage()",
        "new ArrayObject([new Plain()])",
        "new Magic()",
    ] {
        assert_eq!(unpacked(value), "class \"Ghost\" cannot be loaded in the task's thread", "{value}");
    }
    for value in ["Suit::Hearts", "plain_with([Suit::Hearts])"] {
        assert_eq!(unpacked(value), "enum \"Suit\" has no case \"Horses\" in the task's thread", "{value}");
    }
}

#[test]
fn structures_of_any_depth_end_in_an_exception_at_most() {
    for limit in ["0", "-1"] {
        no_overflow(&start("", &[], &["memory_limit=2G", &format!("zend.max_allowed_stack_size={limit}")]));
    }
}

fn no_overflow(svc: &Svc) {
    for kind in ["deep_array", "deep_object", "deep_mixed"] {
        for place in ["$walk();", "(new Fiber($walk))->start();"] {
            let code = format!(
                "$seen = [];
                $walk = function () use (&$seen) {{
                    for ($n = 200; $n < 200000; $n = (int) ($n * 1.3)) {{
                        $value = {kind}($n);
                        $seen[caught(function () use ($value) {{
                            $payload = test_pack([$value]);
                            try {{ test_unpack($payload); }} finally {{ test_free($payload); }}
                        }})] = true;
                    }}
                }};
                {place} echo implode('|', array_keys($seen));"
            );
            let seen = run(svc, &code);
            let depths =
                ["nothing", "The value is nested too deeply", "argument 1: the value is nested too deeply"];
            assert!(seen.split('|').all(|text| depths.contains(&text)), "{kind} {place}: {seen}");
            assert!(seen.starts_with("nothing|"), "{kind} {place}: {seen}");
        }
    }
    assert_eq!(run(svc, "echo test_payloads();"), "0");
}

#[test]
fn damaged_payloads_are_refused_and_read_no_further() {
    let svc = start("", &[], &["log_errors=0", "error_reporting=0"]);
    let code = r"
        $values = [[1, 300, -2, 1.5, 'text', 'é', true, null], holes(), ['k' => 'v', 5 => [Suit::Hearts]], cyclic(), new Magic([1.5]),
            storage(), new Sleeper(), thrown(), referring(), new Old(), plain_with([new DateTime('2020-01-01 UTC'), Level::Low])];
        [$payload, $ends] = [test_pack($values), [0, 0]];
        $bytes = test_bytes($payload);
        test_free($payload);
        $read = function (string $bytes) use (&$ends) {
            try { test_read($bytes); $ends[0]++; } catch (Throwable $e) { $ends[1]++; }
        };
        for ($length = 0; $length < strlen($bytes); $length++) {
            $read(substr($bytes, 0, $length));
        }
        if ($ends[0] !== 0) { echo 'a part was taken for the whole;'; }
        mt_srand(SEED);
        for ($i = 0; $i < 30000; $i++) {
            $damaged = $bytes;
            for ($flips = mt_rand(1, 3); $flips > 0; $flips--) {
                $at = mt_rand(0, strlen($bytes) - 1);
                $damaged[$at] = mt_rand(0, 3) ? chr(ord($damaged[$at]) ^ (1 << mt_rand(0, 7))) : chr(mt_rand(0, 255));
            }
            $read($damaged);
        }
        echo $ends[0] > 0 && $ends[1] > strlen($bytes) ? 'read' : 'not damaged';";
    for seed in [1, 2] {
        assert_eq!(run(&svc, &code.replace("SEED", &seed.to_string())), "read", "seed {seed}");
    }
    assert_eq!(run(&svc, "echo test_payloads();"), "0");
}

#[test]
fn nothing_is_left_of_transfers() {
    let svc = start("", &[], &[]);
    let code = r"
        $works = [
            function () { $p = test_pack(faulty()); test_unpack($p); test_free($p); },
            function () { $p = test_pack([['id' => 1, 'name' => 'x', 'tags' => [1, 2, 3]], thrown(), storage()]); test_unpack($p); test_free($p); },
            fn () => caught(fn () => test_pack([['a' => plain_with(fn () => 1)], 1])),
            fn () => caught(fn () => test_pack([1, new Magic(closed())])),
            fn () => caught(fn () => test_pack([str_repeat('x', 1000)], 100)),
            fn () => caught(fn () => test_read('')),
            function () { $p = missing([cyclic(), new Plain()]); caught(fn () => test_unpack($p)); test_free($p); },
            fn () => task_exception(thrown()),
        ];
        $rss = fn () => (int) explode(' ', file_get_contents('/proc/self/statm'))[1] * 4096;
        foreach ($works as $index => $work) {
            for ($i = 0; $i < 2500; $i++) { $work(); }
            gc_collect_cycles();
            [$before, $resident] = [memory_get_usage(), $rss()];
            for ($i = 0; $i < 2500; $i++) { $work(); }
            gc_collect_cycles();
            if (memory_get_usage() > $before + 1000 || $rss() > $resident + (4 << 20)) {
                echo $index, ': ', memory_get_usage() - $before, ' ', $rss() - $resident, ';';
            }
        }
        echo test_payloads();";
    assert_eq!(run(&svc, code), "0");
}

#[test]
fn the_exceptions_are_as_the_contract_has_them() {
    let svc = start("", &[], &[]);
    let code = r"
        foreach (['Rejected', 'Transfer', 'Task', 'Timeout', 'Cancelled', 'Aggregate', ''] as $name) {
            $class = new ReflectionClass('Svc\\Async\\' . $name . 'Exception');
            $parents = implode(',', class_parents($class->getName()));
            $expected = ($name ? 'Svc\\Async\\Exception,' : '') . 'RuntimeException,Exception';
            if ($parents !== $expected || $class->isFinal() || $class->isAbstract() || !$class->isInstantiable()) { echo $name, $parents, ';'; }
            $made = $class->newInstance('text', 3, new Error('before'));
            $copy = unserialize(serialize($made));
            if ($copy->getMessage() !== 'text' || $copy->getCode() !== 3 || $copy->getPrevious()->getMessage() !== 'before') { echo $name, ' copy;'; }
        }
        $own = fn ($class) => implode(' ', array_map(fn ($m) => ($m->isPublic() ? 'public ' : '') . $m->getName() . ':' . $m->getReturnType() . $m->getNumberOfParameters(),
            array_filter((new ReflectionClass($class))->getMethods(), fn ($m) => $m->class === $class)));
        echo $own('Svc\Async\TaskException'), '|', $own('Svc\Async\AggregateException'), '|';
        $task = new Svc\Async\TaskException('x');
        $all = new Svc\Async\AggregateException();
        echo json_encode([$task->getTaskClass(), $task->getTaskTrace(), $all->getErrors()]);
        eval('class Mine extends Svc\Async\TaskException { public $more = 1; }');
        echo (new Mine('own'))->getMessage();";
    assert_eq!(
        run(&svc, code),
        "public getTaskClass:string0 public getTaskTrace:string0|public getErrors:array0|[\"\",\"\",[]]own"
    );
}

#[test]
fn a_failure_is_complete_and_contains_the_original_if_transferable() {
    let svc = start("", &[], &[]);
    let told = |failure: &str| {
        let code = format!(
            "$e = task_exception({failure}); $o = $e->getPrevious();
            echo json_encode([get_class($e), $e->getTaskClass(), $e->getMessage(), $e->getCode(),
                $o ? get_class($o) . ' ' . $o->getMessage() . ' ' . ($o->getPrevious() ? get_class($o->getPrevious()) : '') : null]);"
        );
        run(&svc, &code)
    };
    let expected = |class: &str, message: &str, code: i32, original: &str| {
        let original = if original.is_empty() { "null".to_owned() } else { format!("\"{original}\"") };
        format!(r#"["Svc\\Async\\TaskException","{class}","{message}",{code},{original}]"#)
    };
    // The arguments of calls, among them a closure, are not transferred, and so do not prevent the transfer.
    assert_eq!(told("thrown()"), expected("LogicException", "why", 7, "LogicException why Error"));
    assert_eq!(told("new TypeError('t', 2)"), expected("TypeError", "t", 2, "TypeError t "));
    let code = "(function () { $e = new PDOException('db'); (new ReflectionProperty('Exception', 'code'))->setValue($e, 'HY000'); return $e; })()";
    let told_code = told(&code.replace("PDOException", "RuntimeException"));
    assert_eq!(told_code, expected("RuntimeException", "db", 0, "RuntimeException db "));
    // An exception with a value that cannot be transferred, also further down the chain, is not transferred at all.
    let holding = "(function () { $e = new HoldingError('h', 1); $e->held = fn () => 1; return $e; })()";
    assert_eq!(told(holding), expected("HoldingError", "h", 1, ""));
    assert_eq!(
        told(&format!("new LogicException('l', 4, {holding})")),
        expected("LogicException", "l", 4, "")
    );
    // A class that the other side does not have.
    assert_eq!(
        told("new HoldingError('h', 1), ['HoldingError' => 'MissingError']"),
        expected("MissingError", "h", 1, "")
    );
    assert_eq!(told("'Out of memory'"), expected("", "Out of memory", 0, ""));
    // Failures of the object's own serialization methods never replace the exception.
    for place in ["__serialize", "__unserialize"] {
        for fault in ["throw", "exit"] {
            let code = format!(
                "(function () {{ Fault::$at = ['{place}' => '{fault}']; return new FaultyError('f'); }})()"
            );
            let is_exit_there = place == "__unserialize" && fault == "exit";
            let seen = told(&code);
            let message = expected("FaultyError", "f", 0, "");
            let ended = if is_exit_there {
                "exited".to_owned()
            } else if fault == "exit" {
                format!("exited{message}")
            } else {
                message
            };
            assert_eq!(seen, ended, "{place} {fault}");
            run(&svc, "Fault::$at = [];");
        }
    }
    // The payload of the request that exited is still there.
    assert_eq!(run(&svc, "echo test_payloads();"), "1");
}

#[test]
fn the_trace_of_a_failure_is_text_without_arguments() {
    let svc = start("", &[], &["zend.exception_ignore_args=0", "zend.exception_string_param_max_len=15"]);
    let code = r"
        function called(string $secret) { throw new LogicException('x'); }
        try { called('the secret'); } catch (LogicException $e) { }
        if (!str_contains($e->getTraceAsString(), 'the secret')) { echo 'not there before;'; }
        $task = task_exception($e);
        $trace = $task->getTaskTrace();
        echo str_contains($trace, 'called()') && str_contains($trace, '{main}') ? 'told' : $trace;
        echo str_contains($trace . $task->getPrevious()->getTraceAsString(), 'secret') ? ' secret' : '';";
    assert_eq!(run(&svc, code), "told");
}

#[test]
fn a_failure_too_long_for_a_transfer_is_still_reported() {
    let svc = start("", &[], &[]);
    let code = r"
        $payload = test_pack_failure(new LogicException(str_repeat('m', 100000), 9), 4000);
        try { test_throw_failure($payload); } catch (Svc\Async\TaskException $e) {
            echo get_debug_type($e->getPrevious()), strlen($e->getMessage()), $e->getTaskClass(), $e->getCode();
        }
        test_free($payload);";
    assert_eq!(run(&svc, code), "null1000LogicException9");
}
