<?php
// Requests that fork, and the fates of parent and child.
final class Bye
{
    public function __destruct()
    {
        note('destructor');
    }
}

/** The role of the process: parent or child; the process before the fork is neither. */
function role(): string
{
    return $GLOBALS['role'] ?? 'alone';
}

function note(string $what): void
{
    file_put_contents(__DIR__ . '/notes', role() . " $what\n", FILE_APPEND | LOCK_EX);
}

function wait_for(string $file): void
{
    while (is_dir(__DIR__) && !file_exists(__DIR__ . "/$file")) {
        usleep(1000);
        clearstatcache();
    }
}

/** The rest of the child's script. */
function live(string $how): void
{
    header('X-Child: 1');
    setcookie('child', '1');
    http_response_code(404);
    echo 'child ';
    ob_end_flush();
    flush();
    switch ($how) {
        case 'return':
            return;
        case 'exit':
            exit(3);
        case 'exception':
            throw new LogicException('of the child');
        case 'fatal':
            not_there();
        case 'memory':
            str_repeat('x', PHP_INT_MAX >> 1);
        case 'compiler':
            include __DIR__ . '/broken.php';
        case 'limit':
            set_time_limit(1);
            while (true) {
            }
        case 'finish':
            note(json_encode([svc_finish_request(), headers_send(103), connection_aborted(), getmypid() === posix_getpid()]));
            error_log('of the child');
            trigger_error('of the child');
            exit(4);
        case 'include':
            note(include __DIR__ . '/included.php');
            exit(5);
        case 'environment':
            putenv('TEST_CHILD=child');
            note(trim(shell_exec('echo $TEST_BEFORE $TEST_CHILD')) . getenv('TEST_BEFORE') . getenv('TEST_CHILD'));
            note((string) test_exec('/bin/false', ''));
            exit(6);
        case 'again':
            $child = test_fork();
            if ($child === 0) {
                $GLOBALS['role'] = 'grandchild';
                exit(7);
            }
            exit(test_wait($child) + 1);
        case 'sleep':
            // The child has no other requests to run meanwhile.
            Svc\sleep(0.001);
            $lock = fopen(__DIR__ . '/lock', 'w');
            flock($lock, LOCK_EX);
            echo Svc\Request::current()->path, Svc\Worker::current()->id();
            exit(9);
        case 'serve':
            try {
                Svc\Worker::serve(fn () => note('serves'));
            } catch (Error $error) {
                note('throws');
            }
            exit(10);
        case 'fiber':
            (new Fiber(function () {
                Fiber::suspend();
            }))->start();
            try {
                Fiber::suspend();
            } catch (Throwable) {
            }
            exit(11);
        case 'stay':
            file_put_contents(__DIR__ . '/child', getmypid());
            touch(__DIR__ . '/inside');
            wait_for('go');
            exit(12);
    }
}

function handle(): void
{
    if (isset($_GET['park'])) {
        touch(__DIR__ . '/parked');
        while (!file_exists(__DIR__ . '/unparked')) {
            Svc\sleep(0.001);
            clearstatcache();
        }
    }
    if (!isset($_GET['fork'])) {
        echo 'plain';
        return;
    }
    unset($GLOBALS['role']);
    $object = new Bye();
    register_shutdown_function(note(...), 'shutdown');
    putenv('TEST_BEFORE=before');
    header('X-Parent: 1');
    echo 'before ';
    if (isset($_GET['flush'])) {
        ob_flush();
        flush();
    }
    $child = test_fork();
    $GLOBALS['role'] = $child === 0 ? 'child' : 'parent';
    if ($child === 0) {
        live($_GET['fork']);
        return;
    }
    echo 'after ', $_GET['fork'] === 'stay' ? '' : test_wait($child), str_repeat('.', 100000);
}
