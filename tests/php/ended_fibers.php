
/* How the fibers of begin() end, by functions that requests call. The argument of each is the number of an entry of calls();
   '' stands for all of them. */
class Left extends Exception { }
/** Ends each fiber in this way, or keeps it for a later request. */
function finish(array $fibers, string $how): void
{
    foreach (array_keys($fibers) as $at) {
        $fiber = $fibers[$at];
        unset($fibers[$at]);
        try {
            while ($how === 'resume' && $fiber->isSuspended()) { $fiber->resume(); }
            if ($how === 'once' && $fiber->isSuspended()) { $fiber->resume(); }
            if ($how === 'throw' && $fiber->isSuspended()) { $fiber->throw(new Left); }
            if ($how === 'cycle') { $garbage = new stdClass; $garbage->self = $garbage; $garbage->fiber = $fiber; }
            if ($how === 'keep' || $how === 'once') { Held::$fibers[] = $fiber; }
            unset($fiber, $garbage);
        } catch (Throwable) { }
    }
}
function name_of(string $n): string { return $n === '' ? '' : (array_keys(calls())[(int) $n] ?? 'none'); }
function same_resume(string $n): void { finish(begin(name_of($n)), 'resume'); }
function same_throw(string $n): void { finish(begin(name_of($n)), 'throw'); }
function same_drop(string $n): void { finish(begin(name_of($n)), 'drop'); }
function same_cycle(string $n): void { finish(begin(name_of($n)), 'cycle'); gc_collect_cycles(); }
function leave(string $n): void { finish(begin(name_of($n)), 'keep'); }
function leave_resumed_once(string $n): void { finish(begin(name_of($n)), 'once'); }
function leave_garbage(string $n): void { finish(begin(name_of($n)), 'cycle'); }
function leave_exit(string $n): void { finish(begin(name_of($n)), 'keep'); exit; }
function leave_fatal(string $n): void { finish(begin(name_of($n)), 'keep'); str_repeat('x', PHP_INT_MAX >> 4); }
function leave_limit(string $n): void { set_time_limit(1); finish(begin(name_of($n)), 'keep'); while (true) { } }
function take(): array { $fibers = Held::$fibers; Held::$fibers = []; return $fibers; }
function next_resume(): void { finish(take(), 'resume'); }
function next_throw(): void { finish(take(), 'throw'); }
function next_drop(): void { finish(take(), 'drop'); }
function next_cycle(): void { finish(take(), 'cycle'); }
function collect(): void { gc_collect_cycles(); }
function none(): void { }
