<?php
// Runs PHP's own tests through a server and says whether what fails is what the list of known failures expects.
//
// Three suites: `server` (those of PHP's development server), `web` (those that need a web server anywhere in PHP)
// and `scripts` (language tests, all through one server in random order: whatever one request leaves behind shows).
// The first two are driven by PHP's own run-tests.php. Exit code 0 when nothing is unexpected, else 1.

declare(strict_types=1);

namespace Phpt;

require __DIR__ . '/server.php';
require __DIR__ . '/reply.php';
require __DIR__ . '/run_tests.php';
require __DIR__ . '/scripts.php';

const HELP = <<<'TEXT'
    scripts/phpt.sh [option...]
      --suite=LIST      of server, web, scripts, with commas between; server,web without it
      --server=KIND     svc; fastcgi: svc in front of a php-cgi of the same PHP; or cli-server: PHP's development
                        server, the yardstick
      --filter=TEXT     only tests whose path contains TEXT
      --seconds=N       how long the suite `scripts` may start tests; 60 without it
      --seed=N          the order of the suite `scripts`; by the clock without it
      --json=FILE       write every result there
      --show            print what each unexpected test expected and got

    TEXT;

/** Tests and their results are pairs; these are the results, in the order of the table. */
const RESULTS = ['passed', 'failed', 'not applicable', 'skipped'];

/**
 * The rows of the page that name a test. Those of its section on FastCGI come on top with that executor; some tests pass
 * there.
 *
 * @return array<string, array{result: string, reason: string}>
 */
function known_failures(): array
{
    $page = file_get_contents(dirname(__DIR__, 2) . '/docs/conformance.md');
    $parts = explode("\n### Through FastCGI\n", $page);
    count($parts) === 2 || exit("phpt: docs/conformance.md has no section on FastCGI\n");
    if (getenv('PHPT_SERVER') !== 'fastcgi') {
        unset($parts[1]);
    }
    $known = [];
    foreach ($parts as $part) {
        preg_match_all('~^\| `([^`|]+\.phpt)` \| (failed|not applicable|passed) \| (.+) \|$~m', $part, $rows, PREG_SET_ORDER);
        foreach ($rows as [, $test, $result, $reason]) {
            $known[$test] = ['result' => $result, 'reason' => $reason];
        }
    }
    return array_filter($known, fn (array $row): bool => $row['result'] !== 'passed');
}

/** Makes what is known part of the results, and returns what nobody expected; chance may let a listed test pass. */
function judge(array &$results, array $known, bool $hasChance): array
{
    $unexpected = [];
    foreach ($results as $test => &$outcome) {
        $row = $known[$test] ?? null;
        if ($outcome['result'] === 'failed' && $row !== null) {
            $outcome = $row + $outcome;
            $outcome['reason'] = $row['reason'];
        } elseif ($outcome['result'] === 'failed') {
            $unexpected[$test] = $outcome;
        } elseif ($outcome['result'] === 'passed' && $row !== null && !$hasChance) {
            $unexpected[$test] = ['reason' => 'it passes, and docs/conformance.md says that it does not'] + $outcome;
        }
    }
    return $unexpected;
}

function table_row(string $name, array $cells): string
{
    return sprintf("%-10s", $name) . implode('', array_map(fn ($cell): string => sprintf('%16s', $cell), $cells)) . "\n";
}

function remove(string $path): void
{
    proc_close(proc_open(['rm', '-rf', $path], [], $pipes));
}

function main(): int
{
    $options = getopt('', ['suite:', 'server:', 'filter:', 'seconds:', 'seed:', 'json:', 'show', 'help']);
    if (isset($options['help'])) {
        echo HELP;
        return 0;
    }
    putenv('PHPT_SERVER=' . ($options['server'] ?? 'svc'));
    if (Server::isSvc() && !is_executable((string) getenv('SVC'))) {
        fprintf(STDERR, "phpt: there is no server at %s; build it, or name it in SVC\n", getenv('SVC'));
        return 1;
    }
    $version = file_get_contents(getenv('PHP_SOURCE') . '/main/php_version.h');
    if (!str_contains($version, '"' . PHP_VERSION . '"')) {
        fprintf(STDERR, "phpt: the tests in %s are not those of PHP %s, which svc embeds\n", getenv('PHP_SOURCE'), PHP_VERSION);
        return 1;
    }
    $work = sys_get_temp_dir() . '/svc-phpt.' . getmypid();
    mkdir($work);
    register_shutdown_function(remove(...), $work);
    $filter = $options['filter'] ?? '';
    $known = Server::isSvc() ? known_failures() : [];
    $all = $unexpected = [];
    echo table_row('suite', RESULTS);
    foreach (explode(',', $options['suite'] ?? 'server,web') as $suite) {
        $results = match ($suite) {
            'server' => (new RunTests($work))->serverTests($filter),
            'web' => (new RunTests($work))->webTests($filter),
            'scripts' => (new Scripts($work, (int) ($options['seed'] ?? time()), (int) ($options['seconds'] ?? 60)))->run($filter),
            default => exit("phpt: there is no suite $suite\n"),
        };
        $unexpected += judge($results, $known, $suite === 'scripts');
        $counts = array_count_values(array_column($results, 'result'));
        // A suite that was not there, or left every test out, has found nothing out.
        if (($counts['passed'] ?? 0) + ($counts['failed'] ?? 0) === 0) {
            $unexpected[$suite] = ['result' => 'failed', 'reason' => 'not one of its tests was run'];
        }
        echo table_row($suite, array_map(fn (string $result): int => $counts[$result] ?? 0, RESULTS));
        $all[$suite] = $results;
    }
    if (isset($options['json'])) {
        $flags = JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE;
        file_put_contents($options['json'], json_encode($all, $flags) . "\n");
    }
    foreach ($unexpected as $test => $outcome) {
        echo "unexpected: {$outcome['result']}: $test", $outcome['reason'] === '' ? '' : " ({$outcome['reason']})", "\n";
        if (isset($options['show'])) {
            echo preg_replace('~^~m', '    ', $outcome['details'] ?? ''), "\n";
        }
    }
    return $unexpected === [] ? 0 : 1;
}

exit(main());
