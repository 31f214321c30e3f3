<?php
// The suite `scripts`: language tests as scripts of one server, in random order, on two PHP threads.
//
// A test that fails in the crowd is run again on a server of its own. If it passes there, something was left behind
// by another request, and the suite calls it a failure. If it fails there too, PHP's development server has the last
// word: what fails under both needs a command line and is not applicable.

declare(strict_types=1);

namespace Phpt;

final class Scripts
{
    private const FOLDERS = ['Zend/tests', 'tests/classes', 'tests/func', 'tests/lang', 'tests/output', 'tests/security', 'tests/strings'];

    /** Sections that a plain request of a script can honour. */
    private const SECTIONS = ['TEST', 'DESCRIPTION', 'CREDITS', 'FILE', 'EXPECT', 'EXPECTF', 'EXPECTREGEX', 'CLEAN'];

    /** What run-tests.php sets for every test. */
    private const INI = ['memory_limit' => '128M', 'precision' => '14', 'serialize_precision' => '-1', 'short_open_tag' => '0',
        'date.timezone' => 'UTC', 'docref_root' => '', 'html_errors' => '0', 'max_execution_time' => '20'];

    private const LANES = 2;
    private const PATIENCE_SECONDS = 60;

    private readonly string $source;
    private ?Server $server = null;
    /** @var array<string, array{result: string, reason: string}> */
    private array $results = [];

    public function __construct(private readonly string $work, private readonly int $seed, private readonly int $seconds)
    {
        $this->source = getenv('PHP_SOURCE');
    }

    public function run(string $filter): array
    {
        $tests = $this->collect($filter);
        if ($tests === []) {
            return [];
        }
        mt_srand($this->seed);
        shuffle($tests);
        fprintf(STDERR, "scripts: %d tests, --seed=%d\n", count($tests), $this->seed);
        $doubtful = $this->runCrowd($tests);
        fprintf(STDERR, "scripts: %d ran, %d differ and run again alone\n", count($this->results), count($doubtful));
        foreach ($doubtful as $test) {
            $this->results[$test] = $this->runAgain($test);
        }
        return $this->results;
    }

    /** Writes each fitting test's script beside a copy of its fixtures; returns the tests. */
    private function collect(string $filter): array
    {
        $tests = [];
        foreach (self::FOLDERS as $folder) {
            $fitting = $this->fitting($folder, $filter);
            if ($fitting !== []) {
                $target = "$this->work/scripts/" . dirname($folder);
                is_dir($target) || mkdir($target, recursive: true);
                proc_close(proc_open(['cp', '-r', "$this->source/$folder", $target], [], $pipes));
            }
            foreach ($fitting as $test => $script) {
                file_put_contents("$this->work/scripts/" . substr($test, 0, -1), $script);
                $tests[] = $test;
            }
        }
        return $tests;
    }

    /** @return array<string, string> tests that a plain request can run, and their scripts */
    private function fitting(string $folder, string $filter): array
    {
        $scripts = [];
        $files = new \RecursiveDirectoryIterator("$this->source/$folder", \FilesystemIterator::SKIP_DOTS);
        foreach (new \RecursiveIteratorIterator($files) as $file) {
            $test = substr((string) $file, strlen("$this->source/"));
            if ($file->getExtension() !== 'phpt' || ($filter !== '' && !str_contains($test, $filter))) {
                continue;
            }
            $sections = $this->sections($test);
            if (isset($sections['FILE']) && array_diff(array_keys($sections), self::SECTIONS) === []) {
                $scripts[$test] = $sections['FILE'];
            }
        }
        ksort($scripts);
        return $scripts;
    }

    /** @return array<string, string> */
    private function sections(string $test): array
    {
        $parts = preg_split('~^--([A-Z_]+)--\r?\n~m', file_get_contents("$this->source/$test"), -1, PREG_SPLIT_DELIM_CAPTURE);
        $sections = [];
        for ($i = 1; $i + 1 < count($parts); $i += 2) {
            $sections[$parts[$i]] = $parts[$i + 1];
        }
        return $sections;
    }

    /** Runs tests, a few at a time, until time is up; returns those whose output was not as expected. */
    private function runCrowd(array $tests): array
    {
        $this->server = $this->start();
        $end = time() + $this->seconds;
        $lanes = $doubtful = $started = [];
        while ($lanes !== [] || ($tests !== [] && time() < $end)) {
            while (count($lanes) < self::LANES && $tests !== [] && time() < $end) {
                $started[] = $test = array_pop($tests);
                $lanes[$test] = ['socket' => $this->send($test), 'bytes' => ''];
            }
            foreach ($this->readLanes($lanes) as $test => $bytes) {
                $this->results[$test] = ['result' => 'passed', 'reason' => ''];
                if (!$this->matches($test, $bytes)) {
                    $doubtful[] = $test;
                }
            }
            if (!$this->server->isRunning()) {
                $last = implode(', ', array_slice($started, -2 * self::LANES));
                $this->results['the server lives'] = ['result' => 'failed', 'reason' => "it died after $last"];
                $this->server = $this->start();
                $lanes = [];
            }
        }
        $this->server->stop();
        return $doubtful;
    }

    private function start(): Server
    {
        return new Server("$this->work/scripts", self::INI);
    }

    /** @return resource */
    private function send(string $test, ?Server $server = null): mixed
    {
        $server ??= $this->server;
        $socket = @stream_socket_client("tcp://$server->address");
        if ($socket !== false) {
            fwrite($socket, 'GET /' . substr($test, 0, -1) . " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        }
        return $socket;
    }

    /** Waits until something comes; takes out the lanes that have ended and returns what they got. */
    private function readLanes(array &$lanes): array
    {
        $sockets = array_filter(array_column($lanes, 'socket'));
        $none = null;
        if ($sockets === [] || stream_select($sockets, $none, $none, self::PATIENCE_SECONDS) < 1) {
            $ended = array_column($lanes, 'bytes');
            $ended = array_combine(array_keys($lanes), $ended);
            $lanes = [];
            return $ended;
        }
        $ended = [];
        foreach ($lanes as $test => &$lane) {
            if (in_array($lane['socket'], $sockets, true)) {
                $bytes = (string) fread($lane['socket'], 65536);
                $lane['bytes'] .= $bytes;
                if ($bytes === '' && feof($lane['socket'])) {
                    $ended[$test] = $lane['bytes'];
                }
            }
        }
        unset($lane);
        $lanes = array_diff_key($lanes, $ended);
        return $ended;
    }

    private function matches(string $test, string $bytes): bool
    {
        $got = trim(str_replace("\r\n", "\n", (string) Reply::parse($bytes)?->body));
        $sections = $this->sections($test);
        if (isset($sections['EXPECT'])) {
            return $got === trim(str_replace("\r\n", "\n", $sections['EXPECT']));
        }
        $pattern = isset($sections['EXPECTREGEX']) ? trim($sections['EXPECTREGEX']) : self::pattern(trim($sections['EXPECTF']));
        return preg_match("/^$pattern$/s", $got) === 1;
    }

    /** The regular expression for an EXPECTF section. */
    private static function pattern(string $format): string
    {
        $signs = ['%e' => '\/', '%s' => '[^\r\n]+', '%S' => '[^\r\n]*', '%a' => '.+?', '%A' => '.*?', '%w' => '\s*',
            '%i' => '[+-]?\d+', '%d' => '\d+', '%x' => '[0-9a-fA-F]+', '%f' => '[+-]?(?:\d+|(?=\.\d))(?:\.\d+)?(?:[Ee][+-]?\d+)?',
            '%c' => '.', '%0' => '\x00'];
        $pattern = '';
        foreach (preg_split('~%r(.*?)%r~s', str_replace("\r\n", "\n", $format), -1, PREG_SPLIT_DELIM_CAPTURE) as $i => $part) {
            $pattern .= $i % 2 === 1 ? "($part)" : strtr(preg_quote($part, '/'), $signs);
        }
        return $pattern;
    }

    /** Runs one test alone, under both servers. */
    private function runAgain(string $test): array
    {
        if ($this->passesAlone($test)) {
            return ['result' => 'failed', 'reason' => 'it passes on a server of its own: another request left something behind'];
        }
        if (!Server::isSvc()) {
            return ['result' => 'not applicable', 'reason' => 'it needs a command line'];
        }
        putenv('PHPT_SERVER=cli-server');
        $passes = $this->passesAlone($test);
        putenv('PHPT_SERVER=svc');
        return $passes
            ? ['result' => 'failed', 'reason' => 'it passes under the development server of PHP']
            : ['result' => 'not applicable', 'reason' => 'it needs a command line'];
    }

    private function passesAlone(string $test): bool
    {
        $server = $this->start();
        $socket = $this->send($test, $server);
        stream_set_timeout($socket, self::PATIENCE_SECONDS);
        $bytes = (string) stream_get_contents($socket);
        $server->stop();
        return $this->matches($test, $bytes);
    }
}
