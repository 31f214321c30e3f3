<?php
// Runs a service's command like systemd: as its user, with the settings of its environment file and a notification socket.
// Fails unless it becomes ready, serves, reloads and ends. Further arguments are words that page.php must answer.

[, $user, $command] = $argv;
$words = array_slice($argv, 3);

// PHP has no names for signals without its extension pcntl.
const HANGUP = 1;
const TERMINATE = 15;
const KILL = 9;

function fail(string $why): never
{
    fwrite(STDERR, "deb-test: $why\n");
    exit(1);
}

$path = '/run/notify';
$socket = socket_create(AF_UNIX, SOCK_DGRAM, 0);
socket_bind($socket, $path) || fail('no socket');
chmod($path, 0666);
socket_set_option($socket, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 60, 'usec' => 0]);

function expect(Socket $socket, string $assignment): void
{
    do {
        if (socket_recv($socket, $message, 4096, 0) === false) {
            fail("no $assignment");
        }
    } while (!in_array($assignment, explode("\n", $message), true));
    echo 'deb-test: ', str_replace("\n", ', ', $message), "\n";
}

$environment = ['NOTIFY_SOCKET' => $path, 'WATCHDOG_USEC' => '30000000', 'PATH' => '/usr/bin:/bin'];
foreach (file('/etc/svc/svc.env', FILE_IGNORE_NEW_LINES) as $line) {
    if (preg_match('/^([A-Z_]+)=(.*)$/', $line, $parts)) {
        $environment[$parts[1]] = $parts[2];
    }
}
$environment['LISTEN_ADDR'] = '127.0.0.1:18080';
$environment['INTERNAL_ADDR'] = '127.0.0.1:19090';
$command = ['setpriv', "--reuid=$user", "--regid=$user", '--init-groups', ...explode(' ', $command)];
$process = proc_open($command, [1 => ['file', '/tmp/svc.log', 'w']], $pipes, '/', $environment);
$pid = proc_get_status($process)['pid'];
// Whatever goes wrong, nothing is left.
register_shutdown_function(fn () => posix_kill($pid, KILL));
expect($socket, 'READY=1');
foreach (['http://127.0.0.1:18080/', 'http://127.0.0.1:18080/page.php', 'http://127.0.0.1:19090/readyz'] as $url) {
    $text = file_get_contents($url);
    $text !== false || fail("$url: " . error_get_last()['message']);
    echo "deb-test: $url: ", strtok($text, "\n"), "\n";
    $missing = str_ends_with($url, '/page.php') ? array_diff($words, explode(' ', $text)) : [];
    $missing === [] || fail("$url: no " . implode(', ', $missing));
}
posix_kill($pid, HANGUP);
expect($socket, 'RELOADING=1');
expect($socket, 'READY=1');
posix_kill($pid, TERMINATE);
expect($socket, 'STOPPING=1');
$status = proc_close($process);
unlink($path);
$status === 0 || fail("exit status $status: " . file_get_contents('/tmp/svc.log'));
