<?php
// A call that waits 50 ms, with a connection of its own; waits.sh measures how many of them one thread waits for.
function call_that_waits(string $name): string
{
    [$http, $mysql, $pgsql, $redis] = explode(' ', getenv('WAITS_PORTS'));
    switch ($name) {
        case 'hello':
            return 'hello';
        case 'sleep':
            usleep(50_000);
            return 'slept';
        case 'curl':
            $curl = curl_init("http://127.0.0.1:$http/");
            curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
            return curl_exec($curl);
        case 'fgc':
            return file_get_contents("http://127.0.0.1:$http/");
        case 'pdo_mysql':
            $pdo = new PDO("mysql:host=127.0.0.1;port=$mysql", 'waits', 'waits');
            return 'row ' . $pdo->query('SELECT SLEEP(0.05)')->fetchColumn();
        case 'mysqli':
            $mysqli = new mysqli('127.0.0.1', 'waits', 'waits', null, (int) $mysql);
            return 'row ' . $mysqli->query('SELECT SLEEP(0.05)')->fetch_row()[0];
        case 'pdo_pgsql':
            $pdo = new PDO("pgsql:host=127.0.0.1;port=$pgsql;dbname=postgres", 'waits');
            return 'row ' . $pdo->query('SELECT pg_sleep(0.05)')->fetchColumn();
        case 'pgsql':
            $pgsql = pg_connect("host=127.0.0.1 port=$pgsql dbname=postgres user=waits", PGSQL_CONNECT_FORCE_NEW);
            return 'row ' . pg_fetch_result(pg_query($pgsql, 'SELECT pg_sleep(0.05)'), 0, 0);
        case 'redis':
            $client = new Redis();
            $client->connect('127.0.0.1', (int) $redis);
            $client->rawCommand('BLPOP', 'nothing', '0.05');
            return 'nothing';
        case 'exec':
            return exec('sleep 0.05; echo done');
    }
}
