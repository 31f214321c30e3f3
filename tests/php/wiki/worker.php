<?php
// DokuWiki in a worker, as far as possible: doku.php, which guards its declarations, runs once for each request.
//
// inc/init.php declares functions and constants, so it runs once, in the boot. Its work for each request is done
// here: all global variables are restored, then session, input, plugins (which keep their findings about the
// request), language and user are set up again. Two kinds of pages need classic mode on a real site. Pages
// below lib/exe declare functions without a guard and cannot be included twice; the media manager loads one of
// them by require_once, which works once per worker. The trail of visited pages and the selected administrator's
// page are in static variables of functions, out of reach: the trail must be off, and the administrator's pages
// need classic mode too. Footnotes are counted in such a variable: those of a page that is rendered again continue
// the numbers of the previous page.
$_SERVER['SCRIPT_NAME'] = '/doku.php';
$_SERVER['REQUEST_URI'] = '/';
$_SERVER['REMOTE_ADDR'] = '127.0.0.1';
require __DIR__ . '/inc/init.php';
require_once __DIR__ . '/inc/parser/parser.php';
session_destroy();
$_SESSION = [];

$globals = $GLOBALS;
foreach (['_GET', '_POST', '_COOKIE', '_FILES', '_SERVER', '_REQUEST', '_ENV', '_SESSION', 'globals', 'argv', 'argc', 'PARSER_MODES', 'DOKU_PLUGINS', 'auth'] as $name) {
    unset($globals[$name]);
}

function wiki(array $globals): void
{
    foreach (array_keys($GLOBALS) as $name) {
        // A static variable of a function goes with the parser's modes.
        if (!str_starts_with($name, '_') && !in_array($name, ['globals', 'PARSER_MODES'], true)) {
            unset($GLOBALS[$name]);
        }
    }
    foreach ($globals as $name => $value) {
        $GLOBALS[$name] = $value;
    }
    set_up();
    extract($GLOBALS, EXTR_REFS | EXTR_SKIP);
    include __DIR__ . '/doku.php';
}

/** The part of inc/init.php that belongs to a request. */
function set_up(): void
{
    header('Vary: Cookie');
    init_session();
    if (isset($_SESSION[DOKU_COOKIE]['msg'])) {
        $GLOBALS['MSG'] = $_SESSION[DOKU_COOKIE]['msg'];
        unset($_SESSION[DOKU_COOKIE]['msg']);
    }
    $_REQUEST = array_merge($_GET, $_POST);
    $GLOBALS['ACT'] = null;
    $GLOBALS['INPUT'] = new dokuwiki\Input\Input();
    // It reads its configuration with include_once: a new object would not know which plugins are off.
    $GLOBALS['plugin_controller'] = clone $GLOBALS['plugin_controller'];
    (new ReflectionProperty(dokuwiki\ActionRouter::class, 'instance'))->setValue(null, null);
    $GLOBALS['EVENT_HANDLER'] = new dokuwiki\Extension\EventHandler();
    $language = $GLOBALS['conf']['lang'];
    dokuwiki\Extension\Event::createAndTrigger('INIT_LANG_LOAD', $language, 'init_lang', true);
    auth_setup();
    mail_setup();
    $nothing = null;
    dokuwiki\Extension\Event::createAndTrigger('DOKUWIKI_INIT_DONE', $nothing, null, false);
}

Svc\Worker::serve(static fn () => wiki($globals));
