<?php

declare(strict_types=1);

$operations = getenv('INTERNAL_ADDR') ?: '';
$opcache = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
$facts = [
    'PHP' => PHP_VERSION . (PHP_ZTS ? ', thread-safe' : ''),
    'Interface' => PHP_SAPI,
    'OPcache' => ($opcache['opcache_enabled'] ?? false)
        ? 'on, ' . $opcache['opcache_statistics']['num_cached_scripts'] . ' scripts cached'
        : 'off',
    'Memory limit' => (string) ini_get('memory_limit'),
    'Document root' => $_SERVER['DOCUMENT_ROOT'] ?? '',
    'Request' => trim(($_SERVER['REQUEST_METHOD'] ?? '') . ' ' . ($_SERVER['REQUEST_URI'] ?? '')
        . ' ' . ($_SERVER['SERVER_PROTOCOL'] ?? '')),
    'Your address' => $_SERVER['REMOTE_ADDR'] ?? '',
];
$endpoints = [
    '/health' => 'how the parts of the server are',
    '/health/liveness' => 'whether the process can answer',
    '/health/readiness' => 'whether it should get requests',
    '/health/startup' => 'whether it has started',
    '/metrics' => 'what it did, for collectors',
    '/config' => 'what it was told',
];
$escape = static fn (string $text): string => htmlspecialchars($text, ENT_QUOTES | ENT_SUBSTITUTE);

?>
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc is running</title>
<link rel="icon" href="data:,">
<style>
  :root { color-scheme: light dark; --quiet: #777; --line: #8884; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 42rem; margin: 4rem auto; padding: 0 1.25rem; }
  h1 { font-size: 1.6rem; margin: 0 0 .25rem; }
  h2 { font-size: 1rem; margin: 2.5rem 0 .5rem; color: var(--quiet); font-weight: 600; }
  p { margin: 0 0 1rem; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid var(--line); }
  th { font-weight: 400; color: var(--quiet); white-space: nowrap; width: 10rem; }
  td { overflow-wrap: anywhere; }
  code { font: .9em ui-monospace, monospace; }
</style>
</head>
<body>
<h1>svc is running</h1>
<p>This page came from PHP. Serve your own application with <code>svc path/to/public</code>.</p>

<h2>This request</h2>
<table>
<?php foreach ($facts as $name => $fact): ?>
  <tr><th><?= $escape($name) ?></th><td><?= $escape($fact) ?></td></tr>
<?php endforeach ?>
</table>

<h2>Operations port</h2>
<?php if ($operations === ''): ?>
<p>There is none: set <code>INTERNAL_ADDR</code>, for example to <code>127.0.0.1:9090</code>.</p>
<?php else: ?>
<?php $base = 'http://' . preg_replace('/^(0\.0\.0\.0|\[::\])?:/', '127.0.0.1:', $operations) ?>
<table>
<?php foreach ($endpoints as $path => $meaning): ?>
  <tr><th><a href="<?= $escape($base . $path) ?>"><code><?= $escape($path) ?></code></a></th><td><?= $escape($meaning) ?></td></tr>
<?php endforeach ?>
</table>
<?php endif ?>
</body>
</html>
