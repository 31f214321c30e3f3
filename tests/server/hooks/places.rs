//! Where PHP cannot switch to another request.

use svc_testing::client::eventually;
use svc_testing::hooked::one_thread;
use svc_testing::tasks::Mode;
use svc_testing::waits::Pages;

const PLACES: &str = r#"
function in_output_handler()
{
    ob_start(function (string $output) { return by_file($output); });
    echo 'output';
    return ob_end_flush();
}
class Asking { public $self; function __destruct() { mark('destroyed', by_file('cycle')); } }
function in_collector()
{
    $cycle = new Asking;
    $cycle->self = $cycle;
    unset($cycle);
    return gc_collect_cycles();
}
function in_autoloader()
{
    spl_autoload_register(function (string $class) { eval('class ' . by_curl($class) . ' {}'); });
    return (new Loaded)::class;
}
"#;

#[test]
fn where_php_cannot_switch_the_thread_blocks_and_it_is_counted() {
    let pages = Pages::new();
    let server = one_thread(pages.server(PLACES), "net").start(Mode::Worker);
    for (function, answer, reason) in [
        ("in_output_handler", "outputtrue", "output_handler"),
        ("in_collector", "1", "gc"),
        ("in_autoloader", "\"Loaded\"", "loading"),
    ] {
        pages.plain.gate().close();
        let mut client = server.send(function, "1");
        let blocked = format!(r#"svc_hook_blocked_total{{hook="net",reason="{reason}"}}"#);
        eventually(reason, || server.svc.ask("/metrics").text().contains(&blocked));
        pages.plain.gate().open();
        assert_eq!(client.response().text(), answer);
    }
    assert_eq!(server.lines("destroyed"), ["cycle"]);
}
