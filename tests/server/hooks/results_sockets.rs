//! With the runtime hook `net`, calls of the extension sockets have the same results as without it.

use svc_testing::results::{Call, assert_same_with_hook};

const CALLS: &[Call] = &[
    (
        "sockets",
        r#"
        return kinds(fn (string $kind) => received(asking($kind)));"#,
    ),
    (
        "whole_messages",
        r#"
        return [kinds(fn (string $kind) => received(asking($kind), 80, MSG_WAITALL)), kinds(fn (string $kind) => received(asking($kind), 1000, MSG_WAITALL))];"#,
    ),
    (
        "whole_messages_in_time",
        r#"
        $socket = asking('drip');
        socket_recv($socket, $first, 1, MSG_PEEK);
        socket_set_option($socket, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 0, 'usec' => 500000]);
        return seen(fn () => is_int(socket_recv($socket, $bytes, 1000000, MSG_WAITALL)), 400);"#,
    ),
    (
        "peeks",
        r#"
        $socket = asking('trickle');
        $results = [@socket_recv($socket, $peeked, 3, MSG_PEEK | MSG_WAITALL), $peeked, socket_recv($socket, $bytes, 3, MSG_WAITALL), $bytes];
        $other = asking('half');
        $results[] = [@socket_recv($other, $peeked, 100, MSG_PEEK | MSG_WAITALL), $peeked];
        $third = asking('hang');
        limit($third, SO_RCVTIMEO);
        return [...$results, seen(fn () => @socket_recv($third, $bytes, 9, MSG_PEEK | MSG_WAITALL), 59), socket_last_error($third)];"#,
    ),
    (
        "socket_limits",
        r#"
        $socket = asking('hang');
        $results = [@socket_recv($socket, $bytes, 1, MSG_DONTWAIT), socket_last_error($socket)];
        limit($socket, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, 0), 59), socket_last_error($socket), socket_last_error()];
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, MSG_WAITALL), 59), socket_last_error($socket)];
        $results[] = [seen(fn () => @socket_recvfrom($socket, $bytes, 9, 0, $name), 59), socket_last_error($socket)];
        socket_set_nonblock($socket);
        $results[] = [seen(fn () => @socket_recv($socket, $bytes, 1, 0)), socket_last_error($socket)];
        foreach ([NOBODY, FULL] as $to) {
            $results[] = [seen(function () use ($to, &$other) {
                return @over_tcp($to, function ($socket) use (&$other) { $other = $socket; limit($socket, SO_SNDTIMEO); }) && false;
            }), socket_last_error($other), socket_last_error()];
        }
        $unix = socket_create(AF_UNIX, SOCK_STREAM, 0);
        limit($unix, SO_SNDTIMEO);
        $results[] = [seen(fn () => @socket_connect($unix, FULL_PATH), 50), socket_last_error($unix)];
        $listening = socket_create_listen(0);
        limit($listening, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_accept($listening), 59), socket_last_error($listening)];
        socket_set_nonblock($listening);
        $results[] = [seen(fn () => @socket_accept($listening)), socket_last_error($listening)];
        return $results;"#,
    ),
    (
        "full_sockets",
        r#"
        $results = [];
        foreach (['socket_write', 'socket_send'] as $function) {
            socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
            limit($pair[0], SO_SNDTIMEO);
            $text = str_repeat('x', 1 << 20);
            $send = fn () => $function === 'socket_write' ? socket_write($pair[0], $text) : socket_send($pair[0], $text, strlen($text), 0);
            $results[] = seen(fn () => $send() > 4096, 59);
            $results[] = [seen(fn () => @$send(), 59), socket_last_error($pair[0])];
            $results[] = [@socket_send($pair[0], $text, 100, MSG_DONTWAIT), socket_last_error($pair[0])];
            socket_close($pair[1]);
            $results[] = [@$send(), socket_last_error($pair[0])];
        }
        return $results;"#,
    ),
    (
        "much_to_a_slow_reader",
        r#"
        $text = str_repeat('wombat..', 1 << 21);
        $stream = stream_socket_client('tcp://' . SLOW);
        $results = [seen(fn () => fwrite($stream, "POST / HTTP/1.1\r\nContent-Length: " . strlen($text) . "\r\n\r\n$text")), stream_get_contents($stream)];
        $socket = over_tcp(SLOW);
        $rest = "POST / HTTP/1.1\r\nContent-Length: " . strlen($text) . "\r\n\r\n$text";
        return [...$results, socket_write($socket, $rest) === strlen($rest), received($socket)];"#,
    ),
    (
        "much_to_one_who_leaves",
        r#"
        $text = str_repeat('wombat..', 1 << 21);
        $stream = stream_socket_client('tcp://' . LEAVES);
        $first = seen(fn () => fwrite($stream, $text));
        $first[0] = $first[0] < strlen($text);
        $first[1] = array_map(fn (string $note) => preg_replace('/of \d+ bytes/', '', $note), $first[1]);
        $results = [$first];
        foreach (['socket_write', 'socket_send'] as $function) {
            $socket = over_tcp(LEAVES);
            $send = fn () => $function === 'socket_write' ? @socket_write($socket, $text) : @socket_send($socket, $text, strlen($text), 0);
            $results[] = [$send() < strlen($text), socket_last_error($socket), $send(), socket_last_error($socket), $send(), socket_last_error($socket)];
        }
        return $results;"#,
    ),
    (
        "datagrams",
        r#"
        $one = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
        socket_bind($one, '127.0.0.1', 0);
        socket_getsockname($one, $host, $port);
        $other = socket_create(AF_INET, SOCK_DGRAM, SOL_UDP);
        $results = [];
        foreach (['wombat', '', str_repeat('x', 60000)] as $text) {
            $results[] = socket_sendto($other, $text, strlen($text), 0, $host, $port);
            $results[] = [socket_recvfrom($one, $bytes, 70000, 0, $from, $at), $bytes === $text, $from, $at > 0];
        }
        $results[] = [@socket_sendto($other, str_repeat('x', 70000), 70000, 0, $host, $port), socket_last_error($other)];
        socket_sendto($other, 'wombat', 6, 0, $host, $port);
        $results[] = [socket_recvfrom($one, $bytes, 3, MSG_WAITALL, $from, $at), $bytes];
        socket_connect($other, $host, $port);
        $results[] = [socket_write($other, 'quokka'), socket_read($one, 100)];
        limit($one, SO_RCVTIMEO);
        $results[] = [seen(fn () => @socket_recvfrom($one, $bytes, 10, 0, $from, $at), 59), socket_last_error($one)];
        socket_close($one);
        $results[] = [@socket_write($other, 'x'), @socket_write($other, 'x'), socket_last_error($other)];
        $stream = stream_socket_server('udp://127.0.0.1:0', $errno, $error, STREAM_SERVER_BIND);
        $client = stream_socket_client('udp://' . stream_socket_get_name($stream, false));
        $results[] = [fwrite($client, 'wombat'), stream_socket_recvfrom($stream, 100), stream_socket_sendto($client, 'again'), fread($stream, 100)];
        return $results;"#,
    ),
    (
        "socket_select",
        r#"
        $select = function (?array $reads, ?array $writes, ?array $excepts, ?int $s, int $us = 0) {
            return [socket_select($reads, $writes, $excepts, $s, $us), array_map(fn ($set) => $set === null ? null : array_keys($set), [$reads, $writes, $excepts]), socket_last_error()];
        };
        socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $pair);
        [$a, $b] = $pair;
        $closed = socket_create_listen(0);
        socket_close($closed);
        return [
            seen(fn () => $select(['x' => $a], null, null, 0, 50000), 49), seen(fn () => $select([$a], [$b], [], null)),
            seen(fn () => $select([], null, null, 0, 50000)), seen(fn () => $select(null, null, null, 0, 50000)),
            seen(fn () => $select([$closed], null, null, 0, 50000)), socket_write($b, 'x'), seen(fn () => $select([$a, $b], null, [$a], null)),
            socket_shutdown($b), seen(fn () => $select([$a], [$b], null, 1)), socket_read($a, 9), socket_read($a, 9), @socket_write($a, 'x'), socket_last_error($a),
        ];"#,
    ),
    (
        "flags",
        r#"
        $flags = fn () => array_filter(array_map(fn ($file) => @readlink("/proc/self/fd/" . basename($file)) ? explode("\n", @file_get_contents($file))[1] ?? '' : '', glob('/proc/self/fdinfo/*')));
        $socket = asking('late');
        $before = count($flags());
        received($socket);
        $stream = stream_socket_client('tcp://' . PAGES);
        fwrite($stream, question('late'));
        $other = socket_import_stream($stream);
        stream_get_contents($stream);
        return [socket_get_option($socket, SOL_SOCKET, SO_ERROR), socket_get_option($socket, SOL_SOCKET, SO_RCVTIMEO), stream_get_meta_data($stream)['blocked'], $before > 0];"#,
    ),
];

#[test]
fn sockets_answer_as_without_the_hook() {
    assert_same_with_hook(CALLS);
}
