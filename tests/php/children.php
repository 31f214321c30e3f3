<?php
// Starts programs in every way that PHP has, and prints what they see.
$status = 'cat /proc/self/status';
if (isset($_GET['status'])) {
    header('Content-Type: text/plain');
    echo match ($_GET['status']) {
        'proc_open' => run(['cat', '/proc/self/status']),
        'proc_open_shell' => run($status),
        'shell_exec' => shell_exec($status),
        'popen' => stream_get_contents(popen($status, 'r')),
    };
    exit;
}
if (isset($_GET['terminate'])) {
    $process = proc_open(['sleep', '1000'], [], $pipes);
    proc_terminate($process);
    do {
        $state = proc_get_status($process);
    } while ($state['running']);
    exit((string) $state['termsig']);
}
if (isset($_GET['set'])) {
    putenv("SVC_TEST={$_GET['set']}");
}
$command = 'printenv SVC_TEST || true';
$seen = [
    'shell_exec' => shell_exec($command),
    'proc_open' => run(['sh', '-c', $command]),
    'exec' => exec($command),
    'popen' => stream_get_contents(popen($command, 'r')),
    'passthru' => capture(fn () => passthru($command)),
    'system' => capture(fn () => system($command)),
    'list' => preg_match('~^SVC_TEST=(.*)$~m', run(['env']), $match) ? $match[1] : '',
];
foreach ($seen as $how => $value) {
    echo $how, ':', trim((string) $value), ' ';
}

function run(array|string $command): string
{
    $process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
    $output = stream_get_contents($pipes[1]);
    proc_close($process);
    return $output;
}

function capture(callable $print): string
{
    ob_start();
    $print();
    return ob_get_clean();
}
