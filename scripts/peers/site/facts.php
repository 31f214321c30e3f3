<?php

// What runs here, in one line; then every directive that php.ini of this benchmark sets, as this server sees it.
$cache = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
echo 'PHP ', PHP_VERSION, PHP_ZTS ? ' ZTS' : ' NTS', ', OPcache ', ($cache['opcache_enabled'] ?? false) ? 'on' : 'off', "\n";
foreach (parse_ini_file(__DIR__ . '/../php.ini', false, INI_SCANNER_RAW) as $key => $value) {
    echo $key, '=', ini_get($key), "\n";
}
