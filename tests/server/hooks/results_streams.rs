//! With the runtime hook `net`, calls of streams, curl and database drivers have the same results as without it.

use svc_testing::results::{Call, assert_same_with_hook};

const CALLS: &[Call] = &[
    (
        "curl",
        r#"
        return kinds(function (string $kind) {
            $curl = curl_init('http://' . PAGES . "/$kind");
            curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true]);
            return [curl_exec($curl), curl_errno($curl), preg_replace('/\d+ ms/', '', curl_error($curl)), curl_getinfo($curl, CURLINFO_HTTP_CODE)];
        });"#,
    ),
    (
        "curl_multi",
        r#"
        return kinds(function (string $kind) {
            $many = curl_multi_init();
            $curl = curl_init('http://' . PAGES . "/$kind");
            curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
            curl_multi_add_handle($many, $curl);
            do { $code = curl_multi_exec($many, $running); } while ($running && curl_multi_select($many, 10) >= 0);
            return [curl_multi_getcontent($curl), $code, curl_multi_info_read($many)['result'] ?? null];
        });"#,
    ),
    (
        "curl_limits",
        r#"
        $limited = function (string $to, int $option, int $limit = 80) {
            $curl = curl_init("http://$to/hang");
            curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, $option => $limit]);
            return [curl_exec($curl), curl_errno($curl)];
        };
        return [
            seen(fn () => $limited(PAGES, CURLOPT_TIMEOUT_MS), 79), seen(fn () => $limited(FULL, CURLOPT_TIMEOUT_MS), 79),
            seen(fn () => $limited(FULL, CURLOPT_CONNECTTIMEOUT_MS), 79), seen(fn () => $limited(NOBODY, CURLOPT_TIMEOUT_MS, 60000)),
        ];"#,
    ),
    (
        "curl_select",
        r#"
        $many = curl_multi_init();
        return [seen(fn () => curl_multi_select($many, 0.05)), seen(fn () => curl_multi_select($many, 0)), seen(fn () => curl_multi_select($many, -1))];"#,
    ),
    (
        "pages",
        r#"
        return kinds(fn (string $kind) => file_get_contents('http://' . PAGES . "/$kind"));"#,
    ),
    (
        "page_limits",
        r#"
        ini_set('default_socket_timeout', '1');
        $limit = stream_context_create(['http' => ['timeout' => 0.08]]);
        return [
            seen(fn () => file_get_contents('http://' . PAGES . '/hang', false, $limit), 79),
            seen(fn () => file_get_contents('http://' . FULL . '/', false, $limit), 79),
            seen(fn () => file_get_contents('http://' . PAGES . '/hang'), 999),
            seen(fn () => file_get_contents('http://' . NOBODY . '/')),
            seen(fn () => file_get_contents('https://' . PAGES . '/hang', false, stream_context_create(['http' => ['timeout' => 0.2]]))),
        ];"#,
    ),
    (
        "streams",
        r#"
        return kinds(function (string $kind) {
            $stream = stream_socket_client('tcp://' . PAGES);
            $written = fwrite($stream, question($kind));
            for ($text = ''; ($piece = fread($stream, 1)) !== false && $piece !== ''; $text .= $piece);
            $facts = stream_get_meta_data($stream);
            return [$written, $text, $piece, feof($stream), $facts['timed_out'], $facts['blocked'], fclose($stream)];
        });"#,
    ),
    (
        "stream_limits",
        r#"
        $stream = stream_socket_client('tcp://' . PAGES);
        stream_set_timeout($stream, 0, 60000);
        fwrite($stream, question('hang'));
        $results = [seen(fn () => fread($stream, 10), 59), stream_get_meta_data($stream), seen(fn () => fgets($stream), 59)];
        stream_set_timeout($stream, 0, 0);
        $results[] = [seen(fn () => fread($stream, 10)), stream_get_meta_data($stream)['timed_out']];
        stream_set_blocking($stream, false);
        return [...$results, seen(fn () => fread($stream, 10)), stream_get_meta_data($stream),
            seen(fn () => @stream_socket_client('tcp://' . FULL, $errno, $error, 0.08) . "$errno $error", 79),
            seen(fn () => @stream_socket_client('tcp://' . NOBODY, $errno, $error, 0.08) . "$errno $error"),
            seen(fn () => @stream_socket_client('unix://' . FULL_PATH, $errno, $error, 0.08) . "$errno $error"),
            seen(fn () => @fsockopen('unix://' . FULL_PATH . '.not', -1, $errno, $error, 0.08) . "$errno $error"),
        ];"#,
    ),
    (
        "stream_select",
        r#"
        $select = function (?array $reads, ?array $writes, ?array $excepts, ?int $s, ?int $us = null) {
            return [stream_select($reads, $writes, $excepts, $s, $us), array_map(fn ($set) => $set === null ? null : array_keys($set), [$reads, $writes, $excepts])];
        };
        [$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $file = fopen(__FILE__, 'r');
        $null = fopen('/dev/null', 'r+');
        $closed = fopen(__FILE__, 'r');
        fclose($closed);
        $results = [
            seen(fn () => $select(['x' => $a], null, null, 0, 50000), 49), seen(fn () => $select(['x' => $a, 'y' => $file], ['z' => $b], [], 5)),
            seen(fn () => $select([$file], null, null, null)), seen(fn () => $select([], [], [], 0, 50000)), seen(fn () => $select(null, null, null, 0, 50000)),
            seen(fn () => $select([$closed], null, null, 0, 50000)), seen(fn () => $select([$a, $closed], null, null, 0, 50000)),
            seen(fn () => $select(null, null, [$null], 0, 50000), 49), seen(fn () => $select(null, null, [$file, $a], 0, 50000), 49),
            seen(fn () => $select([$null], null, [$a], 1)), seen(fn () => $select([$a], null, null, -1)), seen(fn () => $select([$a], null, null, 0, 0)),
            seen(fn () => $select([$a, $a], null, [$a], 0, 50000), 49), seen(fn () => $select([$a], null, null, null, 5)),
        ];
        fwrite($b, 'x');
        $results[] = seen(fn () => $select([$a, $a], [$a], [$a], null));
        fread($a, 1);
        stream_socket_shutdown($b, STREAM_SHUT_WR);
        return [...$results, seen(fn () => $select([$a], null, null, null)), fread($a, 10), feof($a), fclose($b), @fwrite($a, 'x'), seen(fn () => $select([$a], [$a], null, null))];"#,
    ),
    (
        "hosts_that_do_not_answer",
        r#"
        [$host, $port] = explode(':', HANGS);
        $full = explode(':', FULL)[1];
        $mysqli = function (int $port) use ($host) {
            mysqli_report(MYSQLI_REPORT_OFF);
            $db = mysqli_init();
            $db->options(MYSQLI_OPT_CONNECT_TIMEOUT, 1);
            $db->options(MYSQLI_OPT_READ_TIMEOUT, 1);
            return [@$db->real_connect($host, 'x', 'x', 'x', $port), mysqli_connect_errno(), mysqli_connect_error()];
        };
        return [
            seen(fn () => @new PDO("mysql:host=$host;port=$full", 'x', 'x', [PDO::ATTR_TIMEOUT => 1]), 999),
            seen(fn () => $mysqli((int) $port), 999), seen(fn () => $mysqli((int) $full), 999),
            seen(fn () => @pg_connect("host=$host port=$port connect_timeout=2"), 1900), seen(fn () => @pg_connect('host=127.0.0.1 port=' . explode(':', NOBODY)[1])),
            seen(fn () => new PDO("pgsql:host=$host;port=$port", options: [PDO::ATTR_TIMEOUT => 2]), 1900),
        ];"#,
    ),
];

#[test]
fn streams_and_curl_answer_as_without_the_hook() {
    assert_same_with_hook(CALLS);
}
