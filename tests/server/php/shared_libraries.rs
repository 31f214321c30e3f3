//! Libraries that keep state for the process or the thread: fonts of libgd, options of libldap, flags of libxml2 and soap,
//! memory of libraries that write output, and descriptors of sockets.

use std::io::Read;

use svc_testing::backend::{Backend, Visit};
use svc_testing::client::{Client, eventually};
use svc_testing::tasks::{Mode, TaskServer, TaskSvc, everywhere};
use svc_testing::tls::Certificates;

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

// ---- LDAP ----

const LDAP: &str = r"
function binds(string $n): bool
{
    $connection = ldap_connect(URL);
    ldap_set_option($connection, LDAP_OPT_PROTOCOL_VERSION, 3);
    return ldap_bind($connection, 'cn=user', 'secret');
}
function starts_again(string $n): array { return [binds($n), binds($n)]; }
function sets(string $n): int
{
    for ($i = 0; $i < 200; $i++) { ldap_set_option(null, LDAP_OPT_HOST_NAME, str_repeat('host', $i)); ldap_connect(); }
    return $i;
}
";

/// Answers each bind with success, until the client sends anything else.
fn accept_binds(visit: &mut Visit) -> std::io::Result<()> {
    const BIND_REQUEST: u8 = 0x60;
    loop {
        // A sequence of a message ID and an operation, shorter than 128 bytes.
        let length = visit.bytes(2)?[1];
        let message = visit.bytes(length.into())?;
        let (id, operation) = message.split_at(2 + usize::from(message[1]));
        if operation[0] != BIND_REQUEST {
            return Ok(());
        }
        let success = [0x61, 7, 10, 1, 0, 4, 0, 4, 0];
        let length = u8::try_from(id.len() + success.len()).unwrap();
        visit.send([&[0x30, length], id, &success].concat())?;
    }
}

fn code_for(backend: &Backend) -> String {
    format!("const URL = 'ldaps://{}';{LDAP}", backend.address())
}

#[test]
fn concurrent_connections_over_ldaps_do_not_disturb_each_other() {
    let backend = Backend::tls(&Certificates::new(&[&["127.0.0.1"]]), accept_binds);
    let code = code_for(&backend);
    let server = TaskServer::new(&code).set("PHP_WORKERS", "4").set("LDAPTLS_REQCERT", "never");
    server.in_each_mode(|running| {
        ask_concurrently(running, 8, 12, "binds", "true");
        ask_concurrently(running, 4, 4, "starts_again", "[true,true]");
        ask_concurrently(running, 4, 8, "sets", "200");
        #[cfg(feature = "async")]
        ask_concurrently(running, 4, 8, "binds&task", "true");
    });
}

#[test]
fn connections_over_ldaps_have_the_options_of_the_process() {
    let certificates = Certificates::new(&[&["127.0.0.1"]]);
    let backend = Backend::tls(&certificates, accept_binds);
    let code = code_for(&backend);
    let code = format!("{code} function refused(string $n): bool {{ return @binds($n); }}");
    let server = TaskServer::new(&code);
    server.in_each_mode(|running| assert_eq!(running.tell("refused"), "false"));
    let server = server.set("LDAPTLS_CACERT", certificates.cert(0).to_str().unwrap());
    server.in_each_mode(|running| assert_eq!(running.tell("refused"), "true"));
}

// ---- libxml2 and soap ----

const DOCUMENTS: &str = r"
class Target
{
    public $context;
    public static $act;
    public function stream_open(string $path): bool { if ($path === 'target://wsdl') { (self::$act)(); } return true; }
    public function stream_write(string $text): int { (self::$act)(); return strlen($text); }
    public function stream_read(): string { return ''; }
    public function stream_eof(): bool { return true; }
    public function stream_stat(): array { return []; }
    public function url_stat(): array { return []; }
    public function stream_flush(): bool { return true; }
}
function act(Closure $act): void
{
    in_array('target', stream_get_wrappers()) || stream_wrapper_register('target', 'Target');
    Target::$act = $act;
}
function save(Closure $act): void
{
    act($act);
    $document = new DOMDocument;
    $document->loadXML('<a><b/></a>');
    mark('saves');
    $document->save('target://x', LIBXML_NOEMPTYTAG);
}
function saves_slowly(string $n): void { save(fn () => until('go')); }
function fails_to_save(string $n): void { save(fn () => str_repeat('x', PHP_INT_MAX >> 4)); }
function text(string $n): string { return explode(PHP_EOL, simplexml_load_string('<a><b/></a>')->asXML())[1]; }
function opens(string $n): void { act(fn () => str_repeat('x', PHP_INT_MAX >> 4)); new SoapClient('target://wsdl'); }
function fetches(string $n): string { @fopen('http://127.0.0.1:1/', 'r'); return error_get_last()['message']; }
";

const SHORT: &str = r#""<a><b/></a>""#;

#[test]
fn a_bailout_leaves_no_flag_of_libxml2_behind() {
    TaskServer::new(DOCUMENTS).set("PHP_WORKERS", "1").in_each_mode(|running| {
        assert_eq!(running.tell("text"), SHORT);
        assert_eq!(running.send("fails_to_save", "1").response().status, 500);
        assert_eq!(running.tell("text"), SHORT);
    });
}

#[cfg(feature = "worker")]
#[test]
fn a_request_that_saves_a_document_shares_no_flag_with_others() {
    let running = TaskServer::new(DOCUMENTS).set("PHP_WORKERS", "1").start(Mode::Worker);
    let mut saving = running.send("saves_slowly", "1");
    running.until("saves");
    assert_eq!(running.tell("text"), SHORT);
    running.mark("go");
    assert_eq!(saving.response().status, 200);
}

#[test]
fn urls_stay_forbidden_after_a_wsdl_that_ends_its_script() {
    let server = TaskServer::new(DOCUMENTS).set("PHP_WORKERS", "1").directive("allow_url_fopen=0");
    server.in_each_mode(|running| {
        let response = running.send("opens", "1").response();
        assert!(response.status == 500 || response.text().starts_with("SoapFault"), "{response:?}");
        let message = running.tell("fetches");
        assert!(message.contains("no suitable wrapper could be found"), "{message}");
    });
}

// ---- output ----

const OUTPUT: &str = r#"
function source(): DOMDocument
{
    $source = new DOMDocument;
    $root = $source->appendChild($source->createElement('r'));
    for ($i = 0; $i < 150000; $i++) { $root->appendChild($source->createElement('u', "http://example.org/$i")); }
    return $source;
}
function left_by_client(): void
{
    echo str_repeat(' ', 100000);
    ob_flush();
    flush();
    while (!connection_aborted()) { usleep(1000); }
}
function transforms(string $n): void
{
    $sheet = new DOMDocument;
    $sheet->loadXML('<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><o>'
        . '<xsl:apply-templates/></o></xsl:template><xsl:template match="u"><loc><xsl:value-of select="."/></loc></xsl:template>'
        . '</xsl:stylesheet>');
    $processor = new XSLTProcessor;
    $processor->importStylesheet($sheet);
    $source = source();
    left_by_client();
    $processor->transformToUri($source, 'php://output');
    mark('continues');
}
function saves(string $n): void { $source = source(); left_by_client(); $source->save('php://output'); mark('continues'); }
"#;

fn resident(running: &TaskSvc) -> u64 {
    let path = format!("/proc/{}/status", running.svc.pid().as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Reads the beginning of the response, and disconnects.
fn leave_early(client: &Client) {
    let mut bytes = [0; 2048];
    client.socket().read_exact(&mut bytes).unwrap();
}

/// libxslt and libxml2 allocate about 60 MiB for this document, outside of PHP's heap.
#[test]
fn a_client_that_disconnects_costs_no_memory_of_a_library_that_writes() {
    const SLACK_BYTES: u64 = 150 << 20;
    for function in ["transforms&raw", "saves&raw"] {
        let running = TaskServer::new(OUTPUT).set("PHP_WORKERS", "1").start(Mode::Classic);
        leave_early(&running.send(function, "1"));
        running.tell("strrev");
        let before = resident(&running);
        for _ in 0..6 {
            leave_early(&running.send(function, "1"));
            // The only thread has ended the request before it answers another one.
            running.tell("strrev");
        }
        let after = resident(&running);
        assert!(after < before + SLACK_BYTES, "{function}: {before} -> {after}");
        assert!(running.lines("continues").is_empty(), "the script ends when its client has gone");
    }
}

// ---- sockets ----

#[test]
fn a_socket_whose_stream_is_closed_is_closed() {
    const PAIR: &str = "[$a, $b] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);";
    let closed = "Error: *has already been closed";
    let cases = [
        ("$s = socket_import_stream($a); fclose($a); return socket_write($s, 'x');", closed),
        ("$s = socket_import_stream($a); fclose($a); return socket_read($s, 1);", closed),
        ("$s = socket_import_stream($a); $c = $a; fclose($c); return socket_recv($s, $x, 1, 0);", closed),
        ("$s = socket_import_stream($a); socket_close($s); return fwrite($a, 'x');", "TypeError: *"),
        (
            "socket_create_pair(AF_UNIX, SOCK_STREAM, 0, $p); fclose(socket_export_stream($p[0])); return socket_write($p[0], 'x');",
            closed,
        ),
        ("$s = socket_import_stream($a); socket_write($s, 'x'); return fread($b, 1);", "\"x\""),
        ("$s = socket_import_stream($a); fclose($b); return socket_read($s, 1);", "\"\""),
    ]
    .map(|(body, expected)| (format!("{PAIR} {body}"), expected));
    let cases: Vec<_> = cases.iter().map(|(body, expected)| (body.as_str(), *expected)).collect();
    everywhere(&TaskServer::new(""), &cases);
}
