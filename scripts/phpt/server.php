<?php
// One server under test: svc, or PHP's own development server as the yardstick.
//
// Promises: when the constructor returns, the server answers on $address; when stop() returns, its process is gone.
// Environment: SVC (the binary), PHP (the CLI), PHPT_SERVER=svc|fastcgi|cli-server, and for fastcgi
// PHPT_FASTCGI (the php-cgi).

declare(strict_types=1);

namespace Phpt;

final class Server
{
    /** Patience with a server that starts or ends; nothing passes because of it. */
    private const PATIENCE_SECONDS = 30;

    /** What PHP has built in, where svc's defaults (those of php.ini-production) differ: tests expect `php -n`. */
    private const BUILT_IN = [
        'display_errors' => '1', 'display_startup_errors' => '1', 'error_reporting' => '32767', 'log_errors' => '0',
        'html_errors' => '1', 'max_execution_time' => '30', 'output_buffering' => '0',
        'register_argc_argv' => PHP_VERSION_ID < 80500 ? '1' : '0',
        'request_order' => 'GPC', 'session.gc_divisor' => '100', 'short_open_tag' => '1', 'variables_order' => 'EGPCS',
        'zend.assertions' => '1', 'zend.exception_ignore_args' => '0', 'zend.exception_string_param_max_len' => '15',
        'opcache.file_update_protection' => '0', 'opcache.revalidate_freq' => '0',
    ];

    public readonly string $address;
    /** @var resource */
    public readonly mixed $process;
    /** @var resource */
    private mixed $output;
    private string $said = '';

    /**
     * @param array<string, string> $ini directives on top of PHP's built-in values
     * @param array<string, string> $environment settings and variables for the server
     */
    public function __construct(string $root, array $ini = [], array $environment = [], ?string $entry = null)
    {
        $words = [];
        foreach ($ini + self::BUILT_IN as $name => $value) {
            array_push($words, '-d', "$name=$value");
        }
        if (self::isSvc()) {
            $words = [getenv('SVC'), 'serve', $root, ...$words];
            $environment += [
                'LISTEN_ADDR' => '127.0.0.1:0', 'PHP_WORKERS' => '2', 'IO_WORKERS' => '1', 'LOG_LEVEL' => 'info',
                // The tests compare whole heads, and what could be coded says so in Vary.
                'BROTLI_LEVEL' => '0', 'ZSTD_LEVEL' => '0', 'GZIP_LEVEL' => '0',
                // Processes start more slowly than threads, and a request waits for them.
                'QUEUE_WAIT_TIMEOUT_MS' => '60000',
                'KEEPALIVE_TIMEOUT_SECONDS' => '1', 'MAX_BODY_BYTES' => '4G', 'SPOOL_MAX_BYTES' => '5G', 'ENTRY_FILE' => (string) $entry,
            ];
            if (getenv('PHPT_SERVER') === 'fastcgi') {
                $environment += ['EXECUTOR' => 'fastcgi', 'FASTCGI_COMMAND' => getenv('PHPT_FASTCGI')];
            }
        } else {
            $words = [getenv('PHP'), '-n', ...$words, '-t', $root, '-S', '127.0.0.1:0', ...(array) $entry];
        }
        $process = proc_open($words, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $root,
            $environment + ['PATH' => getenv('PATH')]);
        $process !== false || throw new \RuntimeException('the server cannot be run');
        $this->process = $process;
        $this->output = $pipes[1];
        $this->address = $this->readAddress();
    }

    public static function isSvc(): bool
    {
        return getenv('PHPT_SERVER') !== 'cli-server';
    }

    /** Whether the process is still there. */
    public function isRunning(): bool
    {
        return proc_get_status($this->process)['running'];
    }

    /** Asks the process to end, waits for its end, and returns its exit code. */
    public function stop(): int
    {
        if (!is_resource($this->process)) {
            return 0;
        }
        proc_terminate($this->process);
        // The end of its output is the end of the process.
        while (($line = $this->readLine()) !== null) {
            $this->said = $line;
        }
        if ($this->isRunning() && !feof($this->output)) {
            proc_terminate($this->process, 9);
        }
        fclose($this->output);
        return proc_close($this->process);
    }

    private function readAddress(): string
    {
        while (($line = $this->readLine()) !== null) {
            $this->said .= $line;
            if (!self::isSvc()) {
                if (preg_match('~Development Server \(http://(.*?)\) started~', $line, $match)) {
                    return $match[1];
                }
                continue;
            }
            $fields = json_decode($line, true)['fields'] ?? [];
            if (($fields['message'] ?? '') === 'main port is listening') {
                return $fields['addr'];
            }
        }
        proc_terminate($this->process, 9);
        throw new \RuntimeException("the server does not start: $this->said");
    }

    /** The next line of output; null at its end, or when patience ends. */
    private function readLine(): ?string
    {
        $ready = [$this->output];
        $none = null;
        if (stream_select($ready, $none, $none, self::PATIENCE_SECONDS) !== 1) {
            return null;
        }
        $line = fgets($this->output);
        return $line === false ? null : $line;
    }
}
