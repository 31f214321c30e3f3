<?php

// The application of the traffic: `k` is the number of a page, and `k % 26` decides how it may be cached. Each response
// says what it is, for whom and when it was made, in X-Body and in its first line. `v<k>` has the version of a page;
// while `e<k>` exists, the script fails.

const KINDS = 26;

function say(int $k, string $variant, string $user, int $version, float $made, int $length): void
{
    $kind = $k % KINDS;
    $name = implode('|', [
        $k, $_SERVER['HTTP_HOST'], $variant, $user, $kind === 21 ? $_SERVER['HTTP_X_FORWARDED_HOST'] ?? '' : '',
        $version, sprintf('%.6F', $made), bin2hex(random_bytes(6)), $length,
    ]);
    header('X-Body: ' . $name);
    $body = $name . "\n" . str_repeat(chr(97 + $version % 26), $length);
    if ($kind === 10) {
        header('Set-Cookie: visit=' . explode('|', $name)[7]);
    }
    if ($kind === 12 && random_int(0, 2) === 0) {
        echo substr($body, 0, intdiv(strlen($body), 2));
        flush();
        throw new Exception('in the middle');
    }
    if ($kind === 20) {
        header('Content-Length: ' . strlen($body) + 10);
    } elseif ($k % 3 === 0) {
        header('Content-Length: ' . strlen($body));
    }
    if ($k % 5 === 0) {
        foreach (str_split($body, 8192) as $piece) {
            echo $piece;
            flush();
        }
        return;
    }
    echo $body;
}

function page(): void
{
    $made = microtime(true);
    $k = (int) ($_GET['k'] ?? 0);
    $kind = $k % KINDS;
    header('X-Made: ' . sprintf('%.6F', $made));
    if ($_SERVER['REQUEST_METHOD'] !== 'GET' && $_SERVER['REQUEST_METHOD'] !== 'HEAD') {
        foreach (['Location', 'Content-Location'] as $field) {
            if (isset($_GET[$field])) {
                header($field . ': /page.php?k=' . $_GET[$field]);
            }
        }
        http_response_code((int) ($_GET['status'] ?? 201));
        echo 'done';
        return;
    }
    if (($kind === 7 || $kind === 8) && is_file(__DIR__ . '/e' . $k)) {
        match (random_int(0, 3)) {
            0 => http_response_code(500),
            1 => http_response_code(503),
            2 => throw new Exception('on purpose'),
            3 => (function () { header('Cache-Control: max-age=5'); echo 'x'; throw new Exception('after output'); })(),
        };
        return;
    }
    if ($kind === 12 && random_int(0, 2) === 0) {
        header('Cache-Control: max-age=2');
        throw new Exception('at the beginning');
    }
    $version = (int) file_get_contents(__DIR__ . '/v' . $k);
    $user = $_COOKIE['PHPSESSID'] ?? $_COOKIE['wordpress_logged_in_1'] ?? '';
    if ($user === '' && !in_array($kind, [6, 8, 15], true)) {
        $user = $_SERVER['HTTP_AUTHORIZATION'] ?? '';
    }
    $length = 20 + ($k * 7919 + $version * 104729) % ($kind === 11 ? 1600000 : 40000);
    $variant = '';
    header($k % 2 ? 'Content-Type: text/html' : 'Content-Type: image/png');
    $tag = '"' . $k . '-' . $version . '-' . ($user === '' ? '' : md5($user)) . '"';
    $cached = match ($kind) {
        0 => 'max-age=1',
        1 => 'max-age=1, stale-while-revalidate=2',
        2 => 'no-cache',
        3 => 'private, max-age=60',
        4 => 'max-age=1',
        5 => 'max-age=60',
        6 => 'max-age=60, s-maxage=1',
        7 => 'max-age=1, stale-if-error=4',
        8 => 'max-age=1, must-revalidate',
        9 => 'no-store',
        10 => 'max-age=60',
        11, 12 => 'max-age=2',
        13 => 'max-age=1',
        14 => 'no-store',
        15 => 'public, max-age=2',
        16 => 'max-age=2',
        17, 18 => '',
        19 => 'max-age=1',
        20 => 'max-age=60',
        21 => 'max-age=2',
        22 => 'max-age=2, immutable',
        23 => 'max-age=60',
        24 => $version % 2 ? 'private' : 'max-age=2',
        25 => 'max-age=60',
    };
    if ($cached !== '') {
        header('Cache-Control: ' . $cached);
    }
    if (in_array($kind, [1, 2, 6, 7, 15], true)) {
        header('ETag: ' . $tag);
        if (str_contains($_SERVER['HTTP_IF_NONE_MATCH'] ?? '', $tag)) {
            http_response_code(304);
            return;
        }
    }
    switch ($kind) {
        case 4:
            header('Vary: X-Color, Accept-Language');
            $variant = ($_SERVER['HTTP_X_COLOR'] ?? '') . '/' . ($_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? '');
            break;
        case 5:
            header($k % 4 === 1 ? "Cache-Tag: page-$k, five" : "Surrogate-Key: page-$k five");
            break;
        case 8:
            header('Last-Modified: ' . gmdate('D, d M Y H:i:s', 1500000000 + $version) . ' GMT');
            if (strtotime($_SERVER['HTTP_IF_MODIFIED_SINCE'] ?? '') >= 1500000000 + $version) {
                http_response_code(304);
                return;
            }
            break;
        case 13:
            usleep(300000);
            break;
        case 14:
            header($k % 4 < 2 ? 'SVC-Cache-Control: max-age=2' : 'CDN-Cache-Control: max-age=2');
            break;
        case 17:
            header('Expires: ' . gmdate('D, d M Y H:i:s', (int) $made + 2) . ' GMT');
            break;
        case 19:
            http_response_code($k % 2 ? 404 : 410);
            break;
        case 22:
            header('Age: 1');
            break;
        case 23:
            header('Vary: *');
            break;
    }
    say($k, $variant, $user, $version, $made, $length);
}

function purge(): void
{
    header('Cache-Control: no-store');
    echo match ($_GET['by']) {
        'tag' => Svc\Cache\purge_tags('page-' . $_GET['k']),
        'all-five' => Svc\Cache\purge_tags('five', 'other'),
        'url' => Svc\Cache\purge_url('/page.php?k=' . $_GET['k']),
        'clear' => Svc\Cache\clear(),
    };
}

function answer(): void
{
    str_starts_with($_SERVER['REQUEST_URI'], '/purge') ? purge() : page();
}
