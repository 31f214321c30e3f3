<?php
// A worker whose requests change the state of extensions, each in a different way (?as=...), and print that state before
// and after a wait.
libxml_use_internal_errors(true);
libxml_set_external_entity_loader(fn ($public, $system) => of_text("<!ENTITY who 'boot'>"));
libxml_set_streams_context(stream_context_create(['http' => ['user_agent' => 'boot']]));
mysqli_report(MYSQLI_REPORT_OFF);
mb_regex_encoding('EUC-JP');
intl_error('boot');
openssl_pkey_get_public('boot');

function of_text(string $text)
{
    $stream = fopen('php://memory', 'w+');
    fwrite($stream, $text);
    rewind($stream);
    return $stream;
}

/** Changes everything in the way of `$who`: 'a' or 'b'. */
function change(string $who): void
{
    $is_a = $who === 'a';
    mb_regex_encoding($is_a ? 'UTF-8' : 'ASCII');
    mb_regex_set_options($is_a ? 'ix' : 'mz');
    mb_ereg_search_init("$who 12 345 6789", '([0-9])[0-9]*');
    for ($i = 0; $i < ($is_a ? 1 : 2); $i++) {
        mb_ereg_search();
    }
    // The same expression with other options.
    mb_ereg_match('x+', 'xx', $is_a ? 'i' : 'x');
    intl_error($who);
    $is_a ? openssl_pkey_get_private('nonsense') : @openssl_x509_read('nonsense');
    libxml_set_external_entity_loader(fn ($public, $system) => of_text("<!ENTITY who '$who'>"));
    libxml_use_internal_errors(false);
    @simplexml_load_string($is_a ? '<a>' : '<b></c>');
    libxml_use_internal_errors($is_a);
    @simplexml_load_string($is_a ? '<a>' : '<b></c>');
    date_create($is_a ? 'nonsense' : '2001-02-31 x y z');
    $is_a ? posix_kill(PHP_INT_MAX >> 33, 0) : posix_access('/nonexistent');
    @socket_create($is_a ? AF_INET : AF_UNIX, SOCK_STREAM, $is_a ? 77 : -5);
    mysqli_report($is_a ? MYSQLI_REPORT_INDEX : MYSQLI_REPORT_ERROR);
    try {
        @mysqli_connect($is_a ? '127.0.0.1' : 'localhost', 'x', 'x', 'x', 1, $is_a ? null : '/nonexistent');
    } catch (mysqli_sql_exception) {
    }
    if (function_exists('gmp_random_seed')) {
        gmp_random_seed($is_a ? 1 : 2);
    }
}

function intl_error(string $who): void
{
    $who === 'a' ? IntlDateFormatter::create('en', 99, 99) : collator_create(str_repeat($who, 999));
}

/** State that can be read repeatedly. */
function see(): array
{
    $document = new DOMDocument();
    // If the request collects no errors, libxml2 keeps the last one per thread.
    $last = libxml_get_last_error();
    $collects = libxml_use_internal_errors(true);
    $errors = libxml_get_errors();
    if (!$collects) {
        libxml_use_internal_errors(false);
    }
    @$document->loadXML('<!DOCTYPE x SYSTEM "x.dtd"><x>&who;</x>', LIBXML_DTDLOAD | LIBXML_NOENT);
    $entity = $document->textContent;
    return [
        'regex' => [mb_regex_encoding(), mb_regex_set_options(), mb_ereg_search_getpos(), mb_ereg_search_getregs()],
        'intl' => [intl_get_error_code(), intl_get_error_message()],
        'libxml' => [$collects, count($errors), $last ? $last->message : null, $entity],
        'date' => date_get_last_errors(),
        'posix' => posix_get_last_error(),
        'sockets' => socket_last_error(),
        'mysqli' => [mysqli_connect_errno(), mysqli_connect_error(), (new mysqli_driver())->report_mode],
    ];
}

/** State that reading removes. */
function take(): array
{
    $openssl = [];
    while (($error = openssl_error_string()) !== false) {
        $openssl[] = $error;
    }
    return [
        'openssl' => $openssl,
        'next' => mb_ereg_search_getregs() ? mb_ereg_search_regs() : null,
        'gmp' => function_exists('gmp_random_bits') ? (string) gmp_random_bits(64) : null,
    ];
}

function stay(string $name): void
{
    touch(__DIR__ . "/inside-$name");
    while (!file_exists(__DIR__ . "/go-$name")) {
        Svc\sleep(0.002);
        clearstatcache();
    }
}

Svc\Worker::serve(function () {
    $who = $_GET['as'] ?? null;
    if ($who !== null) {
        change($who);
    }
    $seen = see();
    if (isset($_GET['stay'])) {
        stay($_GET['stay']);
    }
    $again = see();
    $taken = $who === null ? array_slice(take(), 0, 1) : take();
    echo json_encode([$again === $seen ? 'still' : $seen, $again, $taken], JSON_PARTIAL_OUTPUT_ON_ERROR | JSON_PRETTY_PRINT);
});
