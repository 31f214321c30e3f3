//! Awaiting several tasks: keys and order, the first failure, the first success, the first to settle, and timeouts.

use svc_testing::tasks::{Mode, TaskServer, assert_laws, assert_like, everywhere};

#[test]
fn a_request_that_awaits_leaves_its_worker_to_others() {
    let code = r"
        function awaits(string $n) { return Svc\await_all([Svc\async(fn ($n) => [mark('in-' . $n), until('go-' . $n), 'awaited'][2], $n)]); }
        function other() { return 'served'; }";
    let server = TaskServer::new(code).set("PHP_WORKERS", "1").start(Mode::Worker);
    let mut awaiting: Vec<_> = (0..20).map(|n| server.send("awaits", &n.to_string())).collect();
    for n in 0..20 {
        server.until(&format!("in-{n}"));
    }
    server.svc.assert_metric(r#"svc_worker_request_fibers_active{worker="0"}"#, 20.0);
    assert_eq!(server.tell("other"), r#""served""#, "on the only thread there is");
    for n in (0..20).rev() {
        server.mark(&format!("go-{n}"));
        assert_eq!(awaiting[n].response().text(), r#"["awaited"]"#);
    }
    assert_laws(&server.svc);
}

#[test]
fn await_all_keeps_keys_and_order() {
    let cases = [
        (r"return Svc\await_all([]);", "[]"),
        (r"return Svc\await_all(new EmptyIterator());", "[]"),
        // The last task settles first.
        (
            r"$slow = Svc\async(fn ($n) => [until($n), 'slow'][1], $n);
           $fast = Svc\async(fn ($n) => [mark($n), 'fast'][1], $n);
           return array_map(null, array_keys($all = Svc\await_all([7 => $slow, 'b' => $fast, -1 => $fast])), $all);",
            r#"[[7,"slow"],["b","fast"],[-1,"fast"]]"#,
        ),
        (
            r"return Svc\await_all(new ArrayIterator(['b' => Svc\async(fn () => 1), 'a' => Svc\async(fn () => 2)]));",
            r#"{"b":1,"a":2}"#,
        ),
        (
            r"return Svc\await_all((function () { for ($i = 3; $i > 0; $i--) { yield $i => Svc\async(fn ($i) => $i * 10, $i); } })());",
            r#"{"3":30,"2":20,"1":10}"#,
        ),
        // Of equal keys, the last one wins.
        (
            r"return Svc\await_all((function () { yield 'k' => Svc\async(fn () => throw new Exception('first')); yield 'k' => Svc\async(fn () => 'last'); })());",
            r#"{"k":"last"}"#,
        ),
        // A string of digits becomes an integer key, as in any array.
        (
            r"return array_keys(Svc\await_all((function () { yield '5' => Svc\async(fn () => 1); })()));",
            "[5]",
        ),
        // Afterwards the array belongs to the caller.
        (
            r"$tasks = [Svc\async(fn () => [1])]; $all = Svc\await_all($tasks); $all[0][] = 2; return [$all, Svc\await_all($tasks)];",
            "[[[1,2]],[[1]]]",
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn await_all_throws_the_first_failure_while_other_tasks_continue() {
    let cases = [
        (
            r"$never = Svc\async(never(...));
           $fails = Svc\async(fn () => throw new DomainException('at once'));
           try { Svc\await_all(['never' => $never, 'fails' => $fails]); } catch (Svc\Async\TaskException $e) { return [$e->getMessage(), $never->isSettled()]; }",
            r#"["at once",false]"#,
        ),
        // The first in time, not in the list.
        (
            r"$late = Svc\async(fn ($n) => [until($n), throw new Exception('late')], $n);
           $early = Svc\async(fn () => throw new Exception('early'));
           $seen = tried(fn () => Svc\await_all([$late, $early]));
           mark($n);
           return [$seen, tried(fn () => Svc\await_all([$late]))];",
            r#"["Svc\\Async\\TaskException: early","Svc\\Async\\TaskException: late"]"#,
        ),
        // Tasks that still run can be awaited later.
        (
            r"$on = Svc\async(fn ($n) => [until($n), 'on'][1], $n);
           $seen = tried(fn () => Svc\await_all([$on, Svc\async(fn () => throw new Exception('no'))]));
           mark($n);
           return [$seen, $on->await()];",
            r#"["Svc\\Async\\TaskException: no","on"]"#,
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn await_any_takes_the_first_success_and_await_race_the_first_to_settle() {
    let cases = [
        (
            r"$key = 'old'; return [Svc\await_race(['never' => Svc\async(never(...)), 'fast' => Svc\async(fn () => 1)], null, $key), $key];",
            r#"[1,"fast"]"#,
        ),
        (
            r"$key = 'old'; return [Svc\await_any([Svc\async(never(...)), 7 => Svc\async(fn () => null)], null, $key), $key];",
            "[null,7]",
        ),
        (
            r"$fails = settled(Svc\async(fn () => throw new Exception('first')));
           return tried(fn () => Svc\await_race(['a' => Svc\async(never(...)), 'b' => $fails]));",
            r#""Svc\\Async\\TaskException: first""#,
        ),
        (
            r"$fails = settled(Svc\async(fn () => throw new Exception('first')));
           return [Svc\await_any(['a' => $fails, 'b' => Svc\async(fn () => 'success')], null, $key), $key];",
            r#"["success","b"]"#,
        ),
        // The key is that of the failed task.
        (
            r"try { Svc\await_race(['x' => Svc\async(fn () => throw new Exception())], null, $key); } catch (Svc\Async\TaskException) { return $key; }",
            r#""x""#,
        ),
        (
            r"$gone = Svc\async(never(...)); $gone->cancel();
           try { Svc\await_any(['a' => Svc\async(fn () => throw new DomainException('one')), 'b' => $gone, 5 => Svc\async(fn () => exit)]); }
           catch (Svc\Async\AggregateException $e) { return array_map(fn ($error) => $error::class, $e->getErrors()); }",
            r#"{"a":"Svc\\Async\\TaskException","b":"Svc\\Async\\CancelledException","5":"Svc\\Async\\TaskException"}"#,
        ),
        (
            r"$gone = Svc\async(never(...)); $gone->cancel(); return Svc\await_race([$gone]);",
            r"Svc\Async\CancelledException: *",
        ),
        (r"return Svc\await_any([]);", "ValueError: *"),
        (r"return Svc\await_race(new ArrayIterator([]));", "ValueError: *"),
        // The losing tasks continue: only the end of the request ends them.
        (
            r"$slow = Svc\async(fn ($n) => [until($n), 'slow'][1], $n); Svc\await_race([$slow, Svc\async(fn () => 1)]); mark($n); return $slow->await();",
            r#""slow""#,
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn a_timeout_is_one_deadline_for_a_call_and_cancels_unsettled_tasks() {
    let cases = [
        (r"return Svc\async(never(...))->await(0.01);", r"Svc\Async\TimeoutException: *"),
        (r"return Svc\async(never(...))->await(0.0);", r"Svc\Async\TimeoutException: *"),
        (
            r"$task = Svc\async(never(...)); tried(fn () => $task->await(0.01)); return [$task->isSettled(), tried(fn () => $task->await())];",
            r#"[true,"Svc\\Async\\CancelledException: *"]"#,
        ),
        (
            r"return Svc\await_all([Svc\async(fn () => 1), Svc\async(never(...))], 0.01);",
            r"Svc\Async\TimeoutException: *",
        ),
        (
            r"return Svc\await_any([Svc\async(fn () => throw new Exception()), Svc\async(never(...))], 0.05);",
            r"Svc\Async\TimeoutException: *",
        ),
        (
            r"return Svc\await_race([Svc\async(never(...)), Svc\async(never(...))], 0.01);",
            r"Svc\Async\TimeoutException: *",
        ),
        // All tasks of the call that have not settled, and only those.
        (
            r"[$a, $b, $c] = [Svc\async(never(...)), Svc\async(never(...)), Svc\async(never(...))]; $done = settled(Svc\async(fn () => 1));
           tried(fn () => Svc\await_all([$a, $done, $b], 0.01));
           return [$a->isSettled(), $b->isSettled(), $c->isSettled(), $done->await()];",
            "[true,true,false,1]",
        ),
        // A settled task gives its result even after the timeout.
        (
            r"$a = settled(Svc\async(fn () => 1)); return [Svc\await_all([$a], 0.0), Svc\await_any([$a], 0.0), Svc\await_race([$a], 0.0)];",
            "[[1],1,1]",
        ),
        (r"return Svc\async(fn () => 'in time')->await(60);", r#""in time""#),
        // One deadline for all: a deadline for each task would take an hour.
        (
            r"return Svc\await_all(array_map(fn () => Svc\async(never(...)), range(1, 100)), 0.05);",
            r"Svc\Async\TimeoutException: *",
        ),
    ];
    everywhere(&TaskServer::new(""), &cases);
}

#[test]
fn a_timeout_of_one_awaiter_cancels_for_all_of_them() {
    let code = r"
        function first(string $n) {
            $GLOBALS['task'] = Svc\async(never(...));
            mark('waits');
            return $GLOBALS['task']->await();
        }
        function second() { return $GLOBALS['task']->await(0.05); }";
    let server = TaskServer::new(code).set("PHP_WORKERS", "1").start(Mode::Worker);
    let mut first = server.send("first", "1");
    server.until("waits");
    // The task belongs to the first request; requests of a worker can pass objects to each other.
    assert_like(&server.tell("second"), r"Svc\Async\TimeoutException: *");
    assert_like(&first.response().text(), r"Svc\Async\CancelledException: *");
    assert_laws(&server.svc);
}

#[test]
fn a_task_that_is_detached_meanwhile_outlives_the_timeout_of_its_awaiter() {
    let code = r"
        function awaits(string $n) {
            $GLOBALS['task'] = Svc\async(function () { until('go'); mark('went-on'); });
            mark('waits');
            return $GLOBALS['task']->await(5);
        }
        function lets_go() { $GLOBALS['task']->detach(); return 1; }";
    let server = TaskServer::new(code).set("PHP_WORKERS", "1").start(Mode::Worker);
    let mut first = server.send("awaits", "1");
    server.until("waits");
    assert_eq!(server.tell("lets_go"), "1");
    assert_like(&first.response().text(), r"Svc\Async\TimeoutException: *");
    server.mark("go");
    server.until("went-on");
    assert_laws(&server.svc);
}

#[test]
fn a_detached_task_cannot_be_awaited_and_no_timeout_cancels_it() {
    let cases = [
        (r"$task = Svc\async(fn () => 1); return $task->detach() === $task;", "true"),
        (r"return Svc\async(fn () => 1)->detach()->await();", r"Svc\Async\*Exception: *detached*"),
        (
            r"return Svc\await_all([Svc\async(fn () => 1), Svc\async(fn () => 1)->detach()]);",
            r"Svc\Async\*Exception: *detached*",
        ),
        (r"return Svc\await_any([Svc\async(fn () => 1)->detach()]);", r"Svc\Async\*Exception: *detached*"),
        (r"return Svc\await_race([Svc\async(fn () => 1)->detach()]);", r"Svc\Async\*Exception: *detached*"),
        (
            r"$task = Svc\async(fn ($n) => [until($n), mark($n . '-on')], $n)->detach(); tried(fn () => $task->await(0.01)); mark($n); until($n . '-on'); return 'went on';",
            r#""went on""#,
        ),
        (
            r"$task = Svc\async(never(...))->detach(); return [$task->isSettled(), $task->cancel()];",
            "[false,true]",
        ),
        (r"return settled(Svc\async(fn () => 1)->detach())->isSettled();", "true"),
        (r"$task = Svc\async(never(...))->detach()->detach(); return $task->cancel();", "true"),
    ];
    everywhere(&TaskServer::new(""), &cases);
}
