<?php
// Holds descriptors of each kind, and starts programs that list or use theirs.
require_once 'programs.php';

const LOOK = 'ls -l /proc/self/fd';

function wait_for(string $name): void
{
    while (!file_exists(__DIR__ . "/$name")) {
        usleep(1000);
        clearstatcache();
    }
}

function lock(): array
{
    $file = fopen(__DIR__ . '/lock', 'c');
    return [$file, flock($file, LOCK_EX | LOCK_NB)];
}

/** One open resource of each kind. */
function kinds(): array
{
    $server = stream_socket_server('tcp://127.0.0.1:0');
    $client = stream_socket_client('tcp://' . stream_socket_get_name($server, false));
    $pipes = [[], []];
    $temporary = fopen('php://temp/maxmemory:0', 'w');
    fwrite($temporary, 'on disk');
    $kinds = [
        lock(), tmpfile(), $temporary, opendir(__DIR__), new SplFileObject(__FILE__),
        $server, $client, stream_socket_accept($server), stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0),
        stream_socket_server('udp://127.0.0.1:0', $code, $message, STREAM_SERVER_BIND),
        popen('cat', 'r'), popen('cat', 'w'),
        proc_open('cat', [['pipe', 'r'], ['pipe', 'w']], $pipes[0]),
        proc_open('cat', [['socket'], ['socket']], $pipes[1]), $pipes,
    ];
    if (extension_loaded('pdo_sqlite')) {
        $kinds[] = $database = new PDO('sqlite:' . __DIR__ . '/database');
        $database->exec('create table if not exists t (a int); begin immediate');
    }
    if (extension_loaded('session')) {
        session_save_path(__DIR__);
        $kinds[] = session_start();
    }
    if (extension_loaded('zlib')) {
        $kinds[] = gzopen(__DIR__ . '/file.gz', 'w');
    }
    return $kinds;
}

/** Returns the lowest number that no descriptor has. */
function lowest_free(): int
{
    // The directory itself was open, too: its number is free again.
    $taken = array_map('intval', array_filter(scandir('/proc/self/fd'), fn ($name) => @readlink("/proc/self/fd/$name")));
    for ($number = 3; in_array($number, $taken, true);) {
        $number++;
    }
    return $number;
}

/** Returns what a program and its parent said through a descriptor of this kind, and the list of the program's. */
function passed(string $kind): string
{
    $own = fopen(__FILE__, 'r');
    [$near, $far] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    // The end of a pipe that already has the requested number is not duplicated.
    $number = $kind === 'same' ? lowest_free() : 40;
    $specification = match ($kind) {
        'pipe' => [$number => ['pipe', 'w'], 45 => ['null']],
        'socket' => [$number => ['socket'], 45 => ['null']],
        'file' => [$number => ['file', __DIR__ . '/passed', 'w'], 45 => ['null']],
        'stream' => [$number => $far, 45 => ['null']],
        'redirect' => [45 => $far, $number => ['redirect', 45]],
        'null' => [$number => ['null'], 45 => ['null']],
        'terminal' => [['pty'], ['pty'], $number => ['null'], 45 => ['null']],
        'same' => [$number => ['pipe', 'r'], $number + 20 => ['null']],
    };
    $use = $kind === 'same' ? "cat <&$number > passed" : "printf passed >&$number";
    $process = proc_open(
        command: ['bash', '-c', "$use; " . LOOK . ' > listing'],
        pipes: $pipes,
        descriptor_spec: $specification,
        cwd: __DIR__,
    );
    fclose($far);
    if ($kind === 'same') {
        fwrite($pipes[$number], 'passed');
        fclose($pipes[$number]);
    }
    $said = match ($kind) {
        'pipe', 'socket' => stream_get_contents($pipes[$number]),
        'stream', 'redirect' => stream_get_contents($near),
        default => '',
    };
    $status = proc_close($process);
    if ($kind === 'same' || $kind === 'file') {
        $said = file_get_contents(__DIR__ . '/passed');
    }
    return $status === 0 ? "$said|" . file_get_contents(__DIR__ . '/listing') : "status $status";
}

function act(): void
{
    $act = $_GET['act'];
    if ($act === 'hold') {
        $kinds = kinds();
        touch(__DIR__ . '/inside');
        wait_for('go');
        echo count($kinds);
    } elseif ($act === 'look') {
        $own = fopen(__FILE__, 'r');
        echo json_encode(array_map(fn (Closure $way) => $way(LOOK), ways()), JSON_THROW_ON_ERROR);
    } elseif ($act === 'lock') {
        echo lock()[1] ? 'free' : 'held';
    } elseif ($act === 'start') {
        exec('cd ' . __DIR__ . '; (while [ -e script.php ] && [ ! -e end ]; do sleep 0.05; done; touch ended) > /dev/null 2>&1 &');
        echo 'started';
    } elseif ($act === 'replace') {
        $own = fopen(__FILE__, 'r');
        $child = pcntl_fork();
        $child === 0 && pcntl_exec('/bin/sh', ['-c', LOOK . ' > replaced']);
        pcntl_waitpid($child, $status);
        echo file_get_contents(__DIR__ . '/replaced');
    } elseif ($act === 'far') {
        // The largest number is valid; one above it, and very large ones, are not.
        $limit = posix_getrlimit()['soft openfiles'];
        foreach ([min($limit - 1, 65535), 65536, PHP_INT_MAX >> 40] as $number) {
            $seen[] = is_resource(@proc_open(['true'], [$number => ['null']], $pipes));
        }
        echo json_encode($seen);
    } else {
        echo passed($_GET['kind']);
    }
}

if (getenv('WORKER_MODE_ENABLED')) {
    Svc\Worker::serve(act(...));
} else {
    act();
}
