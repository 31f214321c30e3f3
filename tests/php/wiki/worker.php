<?php
// DokuWiki in a worker, as far as it can be: doku.php, which only declares what is guarded, once for each request.
//
// inc/init.php declares functions and constants, so it runs once, in the boot. What it does for each request is done
// here: every global variable is put back, then session, input, plugins (which keep what they have found out about a
// request), language and user are set up again. Pages
// below lib/exe declare functions without a guard and cannot be included twice, and the media manager asks for one of
// them by require_once, which is once for the worker: a real site leaves these to a server in classic mode. The trail
// of visited pages and the choice of an administrator's page are kept in static variables of functions, out of reach:
// the one has to be off, and pages for the administrator belong to a server in classic mode too. Footnotes are counted
// in such a variable: those of a page that is rendered anew go on from the last page's.
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
        // The parser's modes are those that a static variable of a function goes with.
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
    // It reads its configuration with include_once: a new one would not know which plugins are off.
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
