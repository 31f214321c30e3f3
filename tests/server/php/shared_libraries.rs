//! Libraries that keep state for the process or the thread: fonts of libgd, options of libldap, flags of libxml2 and soap,
//! memory of libraries that write output, and descriptors of sockets.

use svc_testing::client::eventually;
use svc_testing::tasks::{TaskServer, TaskSvc};

/// Sends requests from several clients at once; each must get this text.
fn ask_concurrently(server: &TaskSvc, clients: usize, requests: usize, function: &str, expected: &str) {
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                for _ in 0..requests {
                    assert_eq!(server.tell(function), expected, "{function}");
                }
            });
        }
    });
}

// ---- fonts ----

const FONTS: &str = r"
function calls(string $font): array
{
    $image = imagecreatetruecolor(100, 30);
    return [
        @imagettftext($image, 12, 0, 5, 20, 0xffffff, $font, 'text'), @imagettfbbox(12, 0, $font, 'text'),
        @imagefttext($image, 12, 0, 5, 20, 0xffffff, $font, 'text'), @imageftbbox(12, 0, $font, 'text'),
    ];
}
function bad(string $n): array { return calls(DIR . '/bad.ttf'); }
function missing(string $n): array { return calls(DIR . '/missing.ttf'); }
function plain(string $n): string { return 'plain'; }
function waits(string $n): mixed { mark('waits'); return @imagettfbbox(12, 0, DIR . '/font.gate', 'text'); }
function limited(string $n): mixed { set_time_limit(1); return @imagettfbbox(12, 0, DIR . '/bad.ttf', 'text'); }
";

fn font_server() -> TaskServer {
    TaskServer::new(FONTS).set("PHP_WORKERS", "4").file("bad.ttf", "not a font")
}

#[test]
fn a_font_that_cannot_be_read_costs_only_its_call() {
    const FAILURES: &str = "[false,false,false,false]";
    font_server().in_each_mode(|running| {
        // The end of any request used to free the cache of fonts.
        std::thread::scope(|scope| {
            scope.spawn(|| ask_concurrently(running, 4, 150, "bad", FAILURES));
            scope.spawn(|| ask_concurrently(running, 4, 150, "plain", "\"plain\""));
        });
        assert_eq!(running.tell("missing"), FAILURES);
        #[cfg(feature = "async")]
        ask_concurrently(running, 4, 10, "bad&task", FAILURES);
    });
}

#[test]
fn a_font_that_blocks_holds_up_only_requests_that_draw_text() {
    font_server().in_each_mode(|running| {
        running.close_gate("font");
        let mut waiting = running.send("waits", "1");
        running.until("waits");
        eventually("a request waits for the lock until its limit", || {
            running.send("limited", "1").response().status == 504
        });
        ask_concurrently(running, 2, 8, "plain", "\"plain\"");
        running.open_gate("font");
        assert_eq!(waiting.response().text(), "false");
        assert_eq!(running.tell("bad"), "[false,false,false,false]");
    });
}

