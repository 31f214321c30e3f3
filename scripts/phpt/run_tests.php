<?php
// The suites that PHP's own run-tests.php drives, on a copy of the tests.

declare(strict_types=1);

namespace Phpt;

final class RunTests
{
    /** Sections that only make sense with a web server; what run-tests.php takes to php-cgi. */
    private const WEB = '~^--(CGI|GET|POST|GZIP_POST|DEFLATE_POST|POST_RAW|PUT|COOKIE|EXPECTHEADERS)--~m';

    private readonly string $source;

    public function __construct(private readonly string $work)
    {
        $this->source = getenv('PHP_SOURCE');
    }

    /** The tests of PHP's development server, with svc in its place. */
    public function serverTests(string $filter): array
    {
        $this->copy('sapi/cli/tests');
        if (Server::isSvc()) {
            copy(__DIR__ . '/php_cli_server.inc', "$this->work/sapi/cli/tests/php_cli_server.inc");
        }
        $uses = fn (string $test): bool => str_contains(file_get_contents("$this->source/$test"), 'php_cli_server_start(');
        return $this->run(array_filter($this->find(['sapi/cli/tests'], $filter), $uses));
    }

    /** Every test of PHP with a section for web servers. */
    public function webTests(string $filter): array
    {
        $folders = ['tests/basic', 'tests/lang', 'Zend/tests', 'sapi/cgi/tests'];
        foreach (glob("$this->source/ext/*/tests", GLOB_ONLYDIR) as $folder) {
            $folders[] = substr($folder, strlen($this->source) + 1);
        }
        $is_web = fn (string $test): bool => preg_match(self::WEB, file_get_contents("$this->source/$test")) === 1;
        $tests = array_filter($this->find($folders, $filter), $is_web);
        foreach ($folders as $folder) {
            if (preg_grep('~^' . preg_quote("$folder/") . '~', $tests)) {
                $this->copy($folder);
            }
        }
        return $this->run($tests);
    }

    /** @return list<string> paths of tests below the source */
    private function find(array $folders, string $filter): array
    {
        $tests = [];
        foreach ($folders as $folder) {
            $files = new \RecursiveDirectoryIterator("$this->source/$folder", \FilesystemIterator::SKIP_DOTS);
            foreach (new \RecursiveIteratorIterator($files) as $file) {
                $path = substr((string) $file, strlen($this->source) + 1);
                if ($file->getExtension() === 'phpt' && ($filter === '' || str_contains($path, $filter))) {
                    $tests[] = $path;
                }
            }
        }
        sort($tests);
        return $tests;
    }

    private function copy(string $folder): void
    {
        $target = "$this->work/" . dirname($folder);
        is_dir($target) || mkdir($target, recursive: true);
        is_dir("$this->work/$folder") ||
            proc_close(proc_open(['cp', '-r', "$this->source/$folder", $target], [], $pipes));
    }

    /** Runs the tests and returns their results by path. */
    private function run(array $tests): array
    {
        if ($tests === []) {
            return [];
        }
        $cgi = "$this->work/php-cgi";
        file_put_contents($cgi, sprintf("#!/bin/sh\nexec '%s' -n '%s/php-cgi.php' \"\$@\"\n", getenv('PHP'), __DIR__));
        chmod($cgi, 0o755);
        $list = "$this->work/list";
        file_put_contents($list, implode("\n", $tests) . "\n");
        $environment = [
            'PATH' => getenv('PATH'), 'PHP' => getenv('PHP'), 'SVC' => getenv('SVC'),
            'PHPT_SERVER' => getenv('PHPT_SERVER'), 'PHPT_HOME' => __DIR__, 'PHPT_FASTCGI' => (string) getenv('PHPT_FASTCGI'),
            'TEST_PHP_EXECUTABLE' => getenv('PHP'), 'TEST_PHP_CGI_EXECUTABLE' => $cgi,
            'TEST_PHP_SRCDIR' => $this->work, 'TEST_PHP_JUNIT' => "$this->work/junit.xml", 'NO_INTERACTION' => '1',
            'TEST_TIMEOUT' => '300',
        ];
        // PHP's own word for slow machines and builds: leaves out what takes minutes there.
        if (getenv('SKIP_PERF_SENSITIVE')) {
            $environment['SKIP_PERF_SENSITIVE'] = '1';
        }
        $words = [getenv('PHP'), '-n', "$this->source/run-tests.php", '-q', '-n', '--no-progress', '--no-color', '-j4', '-r', $list,
            '-W', "$this->work/results"];
        $log = ['file', "$this->work/log", 'w'];
        proc_close(proc_open($words, [['file', '/dev/null', 'r'], $log, $log], $pipes, $this->work, $environment));
        return $this->readResults($tests);
    }

    private function readResults(array $tests): array
    {
        $xml = @simplexml_load_file("$this->work/junit.xml");
        $xml !== false || throw new \RuntimeException(file_get_contents("$this->work/log"));
        $details = [];
        foreach ($xml->xpath('//testcase') as $case) {
            $test = explode(' (', (string) $case['name'], 2)[0];
            $details[$test] = (string) ($case->failure[0] ?? $case->error[0] ?? $case->skipped[0] ?? '');
        }
        $results = array_fill_keys($tests, ['result' => 'failed', 'reason' => 'it was not run']);
        foreach (file("$this->work/results", FILE_IGNORE_NEW_LINES) as $line) {
            [$verdict, $test] = explode("\t", $line);
            $results[$test] = match ($verdict) {
                'PASSED', 'XFAILED', 'XLEAKED' => ['result' => 'passed', 'reason' => ''],
                'SKIPPED' => ['result' => 'skipped', 'reason' => $details[$test] ?? 'an extension is missing'],
                default => ['result' => 'failed', 'reason' => '', 'details' => $details[$test] ?? $verdict],
            };
        }
        return $results;
    }
}
