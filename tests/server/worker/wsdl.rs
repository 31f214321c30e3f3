//! Descriptions of services in PHP's memory, which objects go on using when PHP replaces them.

use std::path::Path;

use svc_testing::Svc;
use svc_testing::client::{becomes, eventually};
use svc_testing::skip::skipped;

/// A description with this many further messages, which make it long.
fn description(messages: usize) -> String {
    let more: String = (0..messages)
        .map(|number| format!("<message name=\"m{number}\"><part name=\"x\" type=\"xsd:string\"/></message>\n<!-- {number} -->"))
        .collect();
    let types: String = (0..messages)
        .map(|number| format!("<xsd:complexType name=\"T{number}\"><xsd:sequence><xsd:element name=\"e\" type=\"xsd:string\"/></xsd:sequence></xsd:complexType>"))
        .collect();
    format!(
        r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/"
    xmlns:tns="urn:t" xmlns:xsd="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t" name="T">
<types><xsd:schema targetNamespace="urn:t">{types}</xsd:schema></types>
<message name="aIn"><part name="x" type="xsd:string"/></message><message name="aOut"><part name="r" type="xsd:string"/></message>{more}
<portType name="P"><operation name="a"><input message="tns:aIn"/><output message="tns:aOut"/></operation></portType>
<binding name="B" type="tns:P"><soap:binding style="rpc" transport="http://schemas.xmlsoap.org/soap/http"/>
<operation name="a"><soap:operation soapAction="urn:t#a"/><input><soap:body use="literal" namespace="urn:t"/></input>
<output><soap:body use="literal" namespace="urn:t"/></output></operation></binding>
<service name="S"><port name="p" binding="tns:B"><soap:address location="http://127.0.0.1:1/"/></port></service>
</definitions>"#
    )
}

/// `kept` is a client of the boot script. `slow:NAME` is a description that is read when the file `go-NAME` exists.
const WORKER: &str = r#"<?php
if (!extension_loaded('soap')) {
    $none = fn () => print 'none';
    isset($_SERVER['FRANKENPHP_WORKER']) ? Svc\Worker::serve($none) : $none();
    return;
}
class Slow {
    public $context;
    private $file;
    function stream_open($path) {
        $name = substr($path, 7);
        touch(__DIR__ . "/inside-" . uniqid($name, true));
        while (!file_exists(__DIR__ . "/go-$name")) { Svc\sleep(0.01); clearstatcache(); }
        return (bool) $this->file = fopen(__DIR__ . '/a.wsdl', 'r');
    }
    function stream_read($count) { return fread($this->file, $count); }
    function stream_eof() { return feof($this->file); }
    function stream_stat() { return fstat($this->file); }
    function url_stat($path) { return stat(__DIR__ . '/a.wsdl'); }
    function stream_set_option() { return false; }
}
stream_wrapper_register('slow', 'Slow');
class Client extends SoapClient {
    public string $request = '';
    function __doRequest($request, $location, $action, $version, $one = false): ?string {
        $this->request = $request;
        return '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><t:aResponse xmlns:t="urn:t"><r>' .
            'back</r></t:aResponse></s:Body></s:Envelope>';
    }
}
function client(string $name) {
    return new Client($name, ['cache_wsdl' => WSDL_CACHE_MEMORY]);
}
function server(string $name) {
    $server = new SoapServer($name, ['cache_wsdl' => WSDL_CACHE_MEMORY]);
    $server->addFunction('a');
    return $server;
}
function a($x) { return "$x!"; }
/** Uses all that a client knows of its description. */
function used($client): string {
    $result = $client instanceof SoapServer
        ? handled($client)
        : [$client->__getFunctions(), count($client->__getTypes()), $client->a('to'), str_contains($client->request, '>to<')];
    return json_encode($result);
}
function handled($server): string {
    ob_start();
    $server->handle('<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><t:a xmlns:t="urn:t"><x>to</x>' .
        '</t:a></s:Body></s:Envelope>');
    header('Content-Type: text/plain');
    return strstr(strstr(ob_get_clean(), "<r>"), "</ns1", true);
}
$kept = isset($_SERVER['FRANKENPHP_WORKER']) ? [client(__DIR__ . '/a.wsdl'), server(__DIR__ . '/a.wsdl')] : [];
function serve(): void {
    global $kept;
    eval($_GET['code']);
}
isset($_SERVER['FRANKENPHP_WORKER']) ? Svc\Worker::serve(serve(...)) : serve();
"#;

const CLIENT: &str = r#"[["string a(string $x)"],0,"back",true]"#;
const SERVER: &str = r#""<r>to!<\/r>""#;

/// Returns `None` if this PHP has no soap.
fn start(mode: &str, messages: usize, directives: &[&str]) -> Option<Svc> {
    let settings = [("PHP_WORKERS", "1"), ("WORKER_MODE_ENABLED", mode), ("ENTRY_FILE", "worker.php")];
    let wsdl = description(messages);
    let files = ["a.wsdl", "b.wsdl", "c.wsdl"].map(|name| (name, wsdl.as_str()));
    let svc = Svc::start_with(&[&files[..], &[("worker.php", WORKER)]].concat(), &settings, directives);
    if run(&svc, "") == "none" {
        skipped("this PHP has no soap");
        return None;
    }
    Some(svc)
}

fn path(code: &str) -> String {
    let code: String = code.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("/worker.php?code={code}")
}

fn run(svc: &Svc, code: &str) -> String {
    svc.get(&path(code)).text()
}

fn inside(root: &Path) -> usize {
    let names = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("inside-")).count()
}

#[test]
fn requests_that_load_the_same_description_at_once_all_use_theirs() {
    let Some(svc) = start("true", 0, &[]) else { return };
    let code = path("$c = client('slow://x'); Svc\\sleep(0.05); echo used($c);");
    let mut clients: Vec<_> = (0..4).map(|_| svc.client()).collect();
    for client in &mut clients {
        client.send(format!("GET {code} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    eventually("all are loading", || inside(svc.root()) == clients.len());
    std::fs::write(svc.root().join("go-x"), "").unwrap();
    for client in &mut clients {
        assert_eq!(client.response().text(), CLIENT);
    }
    assert_eq!(run(&svc, "echo used(client('slow://x'));"), CLIENT);
}

#[test]
fn a_description_that_has_expired_stays_with_its_objects() {
    // Each use is later than that.
    let expired = "soap.wsdl_cache_ttl=-10";
    let Some(svc) = start("true", 0, &[expired]) else { return };
    let code = "client(__DIR__ . '/a.wsdl'); server(__DIR__ . '/a.wsdl'); gc_collect_cycles();";
    for _ in 0..5 {
        assert_eq!(run(&svc, &format!("{code} echo used($kept[0]);")), CLIENT);
        assert_eq!(run(&svc, &format!("{code} echo used($kept[1]);")), SERVER);
    }
    // PHP itself frees what the first one uses, within a single request.
    let Some(classic) = start("false", 0, &[expired]) else { return };
    let twice = "$a = client(__DIR__ . '/a.wsdl'); $b = client(__DIR__ . '/a.wsdl'); $c = server(__DIR__ . '/a.wsdl');
        $d = client(__DIR__ . '/a.wsdl'); echo used($a), used($b), used($d);";
    for _ in 0..5 {
        assert_eq!(run(&classic, twice), CLIENT.repeat(3));
    }
}

#[test]
fn a_description_beyond_the_limit_stays_with_its_objects() {
    let Some(svc) = start("true", 0, &["soap.wsdl_cache_limit=1"]) else { return };
    // PHP replaces those of an earlier second.
    let later = "$t = time(); while (time() === $t) usleep(1000);";
    for name in ["b", "c", "a", "b"] {
        let code =
            format!("{later} $other = client(__DIR__ . '/{name}.wsdl'); echo used($kept[0]), used($other);");
        assert_eq!(run(&svc, &code), CLIENT.repeat(2));
    }
}

#[test]
fn unused_descriptions_are_freed() {
    const MIB: f64 = 1024.0 * 1024.0;
    let Some(svc) = start("true", 1500, &["soap.wsdl_cache_ttl=-10"]) else { return };
    let resident = || svc.metric("process_resident_memory_bytes");
    let code = "for ($i = 0; $i < 3; $i++) { client(__DIR__ . '/a.wsdl'); }";
    assert_eq!(run(&svc, code), "");
    let first = resident();
    for _ in 0..15 {
        assert_eq!(run(&svc, code), "");
    }
    assert!(becomes(|| resident() - first < 20.0 * MIB), "{} MiB more", (resident() - first) / MIB);
}
