//! The functions and classes of the async pool as scripts see them: signatures, results, refusals.

use svc_testing::tasks::{TaskServer, everywhere};

const REFLECTION: &str = r#"
function type(?ReflectionType $type): string
{
    $names = explode('|', (string) $type);
    if (!array_diff(['Traversable', 'array'], $names)) { $names = ['iterable', ...array_diff($names, ['Traversable', 'array'])]; }
    sort($names);
    return implode('|', $names);
}
function signature(ReflectionFunctionAbstract $function): string
{
    $parameters = array_map(fn ($parameter) => type($parameter->getType()) . ' '
        . ($parameter->isPassedByReference() ? '&' : '') . ($parameter->isVariadic() ? '...' : '') . '$' . $parameter->getName()
        . ($parameter->isDefaultValueAvailable() ? ' = ' . json_encode($parameter->getDefaultValue()) : ''), $function->getParameters());
    $modifiers = $function instanceof ReflectionMethod ? implode(' ', Reflection::getModifierNames($function->getModifiers())) . ' ' : '';
    return $modifiers . $function->getName() . '(' . implode(', ', $parameters) . '): ' . type($function->getReturnType());
}
"#;

#[test]
fn signatures_are_those_of_the_contract() {
    let server = TaskServer::new(REFLECTION);
    let signature = |expected: &'static str| {
        let name = expected.split('(').next().unwrap().rsplit(' ').next().unwrap();
        let target = if expected.starts_with("Svc\\") {
            format!("new ReflectionFunction('{name}')")
        } else {
            format!("new ReflectionMethod('Svc\\Task', '{name}')")
        };
        (format!("return signature({target});"), serde_json::to_string(expected).unwrap())
    };
    let expected = [
        r"Svc\async(Closure $task, mixed ...$arguments): Svc\Task",
        r"Svc\await_all(iterable $tasks, ?float $timeout = null): array",
        r"Svc\await_any(iterable $tasks, ?float $timeout = null, int|null|string &$key = null): mixed",
        r"Svc\await_race(iterable $tasks, ?float $timeout = null, int|null|string &$key = null): mixed",
        "public await(?float $timeout = null): mixed",
        "public isSettled(): bool",
        "public cancel(): bool",
        "public detach(): static",
        "public static isCancelled(): bool",
    ];
    let cases = expected.map(signature);
    let cases = cases.each_ref().map(|(body, text)| (body.as_str(), text.as_str()));
    everywhere(&server, &cases);
}

#[test]
fn a_task_is_a_final_object_with_an_id_and_nothing_else() {
    let task = r"$task = Svc\async(fn () => 1); ";
    let cases = [
        (r"$class = new ReflectionClass('Svc\Task'); return [$class->isFinal(), $class->isCloneable(), $class->isInstantiable()];", "[true,false,false]"),
        (r"$id = new ReflectionProperty('Svc\Task', 'id'); return [$id->isPublic(), $id->isReadOnly(), (string) $id->getType()];", r#"[true,true,"int"]"#),
        ("$other = Svc\\async(fn () => 2); return [is_int($task->id), $task->id > 0, $task->id !== $other->id];", "[true,true,true]"),
        ("$task->id = 7;", r"Error: Cannot modify *Svc\Task::$id"),
        ("unset($task->id);", r"Error: Cannot unset *Svc\Task::$id"),
        ("$task->other = 7;", r"Error: Cannot create dynamic property Svc\Task::$other"),
        ("clone $task;", "Error: *clone*"),
        ("serialize($task);", r"Exception: *Svc\Task*"),
        (r#"unserialize('O:8:"Svc\Task":0:{}');"#, r"Exception: *Svc\Task*"),
        (r"new Svc\Task();", "Error: *"),
        (r"(new ReflectionClass('Svc\Task'))->newInstanceWithoutConstructor();", "*Exception: *"),
        ("ob_start(); var_dump($task); $text = ob_get_clean(); return [str_contains($text, 'object(Svc\\Task)#'), (bool) preg_match('/\\[\"id\"\\]=>\\s+int\\(' . $task->id . '\\)/', $text)];", "[true,true]"),
        ("return json_encode($task) === json_encode(['id' => $task->id]);", "true"),
        ("return $task instanceof Svc\\Task && (bool) $task;", "true"),
    ]
    .map(|(body, expected)| (format!("{task}{body}"), expected));
    let cases: Vec<_> = cases.iter().map(|(body, expected)| (body.as_str(), *expected)).collect();
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn a_result_is_returned_by_each_await() {
    let cases = [
        (r"return Svc\async(fn (int $a, int $b) => $a + $b, 1, 2)->await();", "3"),
        (r"return Svc\async(function () { })->await();", "null"),
        (
            r"$task = Svc\async(fn () => [1, 'x']); return [$task->await(), $task->await(), $task->await(0.0)];",
            r#"[[1,"x"],[1,"x"],[1,"x"]]"#,
        ),
        (
            r"$task = settled(Svc\async(fn () => 5)); return [$task->isSettled(), $task->await(0.0), $task->await()];",
            "[true,5,5]",
        ),
        (r"$task = Svc\async(never(...)); return $task->isSettled();", "false"),
        // The same exception object, not an equal one.
        (
            r"$task = Svc\async(fn () => throw new DomainException('no', 7));
           foreach ([1, 2] as $i) { try { $task->await(); } catch (Svc\Async\TaskException $e) { $seen[] = $e->getMessage() . $e->getCode(); } }
           return $seen;",
            r#"["no7","no7"]"#,
        ),
        // Several calls for one task: each returns its result.
        (
            r"$a = Svc\async(fn () => 1); $b = Svc\async(fn () => 2);
           return [Svc\await_all([$a, $b]), Svc\await_race([$a]), Svc\await_any(['k' => $b], null, $key), $key, Svc\await_all(['x' => $a, 'y' => $a])];",
            r#"[[1,2],1,2,"k",{"x":1,"y":1}]"#,
        ),
        (r"return Svc\async('strlen', 'x');", "TypeError: *"),
        (
            r"return (function () { return Svc\async(...func_get_args())->await(); })(strlen(...), 'four');",
            "4",
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn invalid_lists_of_tasks_are_refused() {
    const FUNCTIONS: [&str; 3] = ["await_all", "await_any", "await_race"];
    let cases = FUNCTIONS.iter().flat_map(|function| {
        [
            (format!(r"return Svc\{function}([1]);"), "TypeError: *"),
            (format!(r"return Svc\{function}(['a' => Svc\async(never(...)), 'b' => null]);"), "TypeError: *"),
            (format!(r"return Svc\{function}([fn () => 1]);"), "TypeError: *"),
            (format!(r"return Svc\{function}(Svc\async(never(...)));"), "TypeError: *"),
            (format!(r"return Svc\{function}((function () {{ yield 1.5 => Svc\async(fn () => 1); }})());"), "TypeError: *"),
            (format!(r"return Svc\{function}((function () {{ yield null => Svc\async(fn () => 1); }})());"), "TypeError: *"),
            (format!(r"return Svc\{function}((function () {{ yield new stdClass => Svc\async(fn () => 1); }})());"), "TypeError: *"),
            // The whole iterable is read before anything is awaited: an exception of the iterable comes before a failed
            // task.
            (format!(r"$fails = settled(Svc\async(fn () => throw new Exception('task')));
                return Svc\{function}((function () use ($fails) {{ yield $fails; throw new LogicException('iterator'); }})());"), "LogicException: iterator"),
            (format!(r"return Svc\{function}((function () use ($n) {{ yield Svc\async(fn ($n) => [until($n), 1][1], $n); mark($n); yield Svc\async(fn () => 1); }})(), 20) > 0;"), "true"),
        ]
    });
    let cases: Vec<_> = cases.collect();
    let cases: Vec<_> = cases.iter().map(|(body, expected)| (body.as_str(), *expected)).collect();
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn exceptions_are_one_family() {
    let cases = [
        (
            r"return array_values(class_parents('Svc\Async\Exception'));",
            r#"["RuntimeException","Exception"]"#,
        ),
        (
            r"return array_map(fn ($kind) => get_parent_class('Svc\Async\\' . $kind . 'Exception'), ['Rejected', 'Transfer', 'Task', 'Timeout', 'Cancelled', 'Aggregate']) === array_fill(0, 6, 'Svc\Async\Exception');",
            "true",
        ),
        (
            r"return [method_exists('Svc\Async\TaskException', 'getTaskClass'), method_exists('Svc\Async\TaskException', 'getTaskTrace'), method_exists('Svc\Async\AggregateException', 'getErrors')];",
            "[true,true,true]",
        ),
        (r"return Svc\Task::isCancelled();", "false"),
    ];
    everywhere(&TaskServer::new(""), &cases);
}
