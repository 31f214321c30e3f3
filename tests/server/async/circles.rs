//! Circular structures of scripts: code that follows them terminates.

use svc_testing::tasks::{MODES, TaskServer, everywhere};

const CODE: &str = r#"
class Textual extends RuntimeException { public function __construct(string $message) { parent::__construct($message); $this->code = 'HY000'; } }
function tie(Throwable $one, ?Throwable $previous): void
{
    (new ReflectionProperty($one instanceof Exception ? Exception::class : Error::class, 'previous'))->setValue($one, $previous);
}
/** A chain: the first exceptions lead to a circle of the others. */
function chain(int $lead, int $circle): Throwable
{
    $all = [];
    for ($i = 0; $i < $lead + $circle; $i++) {
        $all[] = match ($i % 3) { 0 => new Textual("$i"), 1 => new LogicException("$i"), default => new Error("$i") };
        if ($i > 0) { tie($all[$i - 1], $all[$i]); }
    }
    tie($all[count($all) - 1], $circle > 0 ? $all[$lead] : null);
    return $all[0];
}
/** The failure as the awaiter sees it, with the first ten exceptions of the chain. */
function learnt(Svc\Task $task): array
{
    try { return ['returned', $task->await()]; } catch (Svc\Async\TaskException $e) {
        $learnt = [$e->getTaskClass(), $e->getMessage()];
        for ($p = $e->getPrevious(); $p && count($learnt) < 12; $p = $p->getPrevious()) { $learnt[] = $p->getMessage() . ($p->getCode() ? ':' . $p->getCode() : ''); }
        return $learnt;
    }
}
function uncaught() { throw chain(2, 3); }
function uncaught_over() { try { throw chain(0, 2); } finally { throw new LogicException('over'); } }
function forever() { set_time_limit(1); return Svc\await_all(new InfiniteIterator(new ArrayIterator([Svc\async(fn () => 1)]))); }
"#;

#[test]
fn a_chain_of_exceptions_that_is_a_circle_ends() {
    let cases = [
        (r"return learnt(Svc\async(fn () => throw chain(3, 0)));", r#"["Textual","0","0:HY000","1","2"]"#),
        (
            r"return learnt(Svc\async(fn () => throw chain(0, 1)));",
            r#"["Textual","0","0:HY000","0:HY000",*]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => throw chain(0, 2)));",
            r#"["Textual","0","0:HY000","1","0:HY000","1",*]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => throw chain(3, 5)));",
            r#"["Textual","0","0:HY000","1","2","3:HY000","4","5","6:HY000","7","3:HY000","4"]"#,
        ),
        (
            r"return learnt(Svc\async(fn () => throw unserialize(serialize(chain(1, 2)))));",
            r#"["Textual","0",*]"#,
        ),
        (
            r"return array_slice(learnt(Svc\async(fn () => throw chain(1000, 1000))), 0, 3);",
            r#"["Textual","0","0:HY000"]"#,
        ),
        // As an argument, as a result, and in a list of errors.
        (
            r"return Svc\async(fn ($e) => $e->getPrevious()->getPrevious()->getMessage(), chain(1, 1))->await();",
            r#""1""#,
        ),
        (
            r"return Svc\async(fn () => chain(1, 1))->await()->getPrevious()->getPrevious()->getMessage();",
            r#""1""#,
        ),
        (
            r"try { Svc\await_any([Svc\async(fn () => throw chain(0, 2))]); } catch (Svc\Async\AggregateException $e) { return count($e->getErrors()); }",
            "1",
        ),
        // Exceptions thrown during the transfer.
        (
            r"try { try { throw chain(2, 3); } finally { throw new LogicException('over'); } } catch (LogicException $e) { return $e->getMessage(); }",
            r#""over""#,
        ),
        (
            r"try { try { throw new LogicException('under'); } finally { throw chain(2, 3); } } catch (Textual $e) { return $e->getMessage(); }",
            r#""0""#,
        ),
        (
            r"class Destructs { public function __destruct() { throw chain(0, 2); } } try { (function () { $d = new Destructs; throw new LogicException('under'); })(); } catch (Throwable $e) { return get_class($e); }",
            r#""Textual""#,
        ),
        (
            r"try { try { throw new LogicException('under'); } finally { throw new DomainException('over'); } } catch (DomainException $e) { return $e->getPrevious()->getMessage(); }",
            r#""under""#,
        ),
        (
            r"return Svc\Trace\span('x', fn ($span) => Svc\Trace\current()->recordException(chain(1, 2)) !== null);",
            "true",
        ),
        (r"return substr_count((string) chain(1, 2), 'Stack trace');", "3"),
    ];
    everywhere(&TaskServer::new(CODE), &cases);
}

#[test]
fn an_uncaught_exception_ends_only_its_request() {
    for mode in MODES {
        let server = TaskServer::new(CODE).start(mode);
        for function in ["uncaught", "uncaught_over"] {
            let response = server.svc.get(&format!("/?do={function}&raw"));
            assert_eq!(response.status, 500, "{function}: {}", response.text());
        }
        assert_eq!(server.svc.get("/?do=strrev&n=alive").text(), "\"evila\"");
    }
}

#[test]
fn an_iterable_without_an_end_is_left_at_the_time_limit() {
    for mode in MODES {
        let server = TaskServer::new(CODE).start(mode);
        let response = server.svc.get("/?do=forever");
        assert_eq!(response.status, 504, "{mode:?}: {}", response.text());
        assert_eq!(server.svc.get("/?do=strrev&n=alive").text(), "\"evila\"");
    }
}
