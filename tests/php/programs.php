<?php
// Starts programs in every way that PHP has, and prints the environment and the command line that each of them got.
function capture(callable $print): string
{
    ob_start();
    $print();
    return ob_get_clean();
}

function run(array|string $command): string
{
    $process = proc_open($command, [1 => ['pipe', 'w']], $pipes);
    $output = stream_get_contents($pipes[1]);
    proc_close($process);
    return $output;
}

function lines(string $command): string
{
    exec($command, $lines);
    return implode("\n", $lines);
}

function piped(string $command): string
{
    $pipe = popen($command, 'r');
    $output = stream_get_contents($pipe);
    pclose($pipe);
    return $output;
}

/** mail()'s program reports in a file. */
function mailed(string $command): string
{
    $name = tempnam(__DIR__, 'mail');
    file_put_contents("$name.sh", "cat > $name.mail; { $command; } > $name");
    ini_set('mail.force_extra_parameters', '');
    mail('someone@example.org', 'subject', 'text', '', "$name.sh") || throw new LogicException('mail() fails');
    $output = file_get_contents($name);
    str_contains(file_get_contents("$name.mail"), 'Subject: subject') || throw new LogicException('no mail');
    array_map('unlink', [$name, "$name.sh", "$name.mail"]);
    return $output;
}

function ways(): array
{
    return [
        'proc_open' => fn (string $command) => run(['sh', '-c', $command]),
        'proc_open_shell' => fn (string $command) => run($command),
        'shell_exec' => fn (string $command) => shell_exec($command),
        'exec' => fn (string $command) => lines($command),
        'popen' => fn (string $command) => piped($command),
        'system' => fn (string $command) => capture(fn () => system($command)),
        'passthru' => fn (string $command) => capture(fn () => passthru($command)),
        'mail' => fn (string $command) => mailed($command),
    ];
}

/** The raw environment that a program starts with: shells pass on less than they got. */
function environment(callable $way): array
{
    // exec() and system() remove spaces from the ends of lines.
    $bytes = hex2bin(preg_replace('~\s~', '', $way('od -An -v -tx1 /proc/$$/environ; true')));
    $settings = explode("\0", rtrim($bytes, "\0"));
    sort($settings);
    return $settings;
}

function command_line(callable $way): string
{
    return $way('tr "\\0" " " < /proc/$$/cmdline; true');
}

function put(): void
{
    putenv('TEST_PLAIN=plain');
    putenv("TEST_QUOTES=it's \"a\" \$secret; `echo`");
    putenv("TEST_LINES=one\ntwo\n");
    putenv('TEST-no.name=3');
    putenv('TEST_EMPTY=');
    putenv('TEST_TWICE=first');
    putenv('TEST_TWICE=second');
    putenv('TEST_BOTH=request');
    putenv('TEST_UNPUT');
    // A variable of the process.
    putenv('TEST_GONE');
}

function report(string $what): void
{
    header('Content-Type: application/json');
    echo json_encode(match ($what) {
        'environments' => array_map('environment', ways()),
        'lines' => array_map('command_line', ways()),
    }, JSON_THROW_ON_ERROR);
}
