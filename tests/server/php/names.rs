//! Name lookups of PHP, with a DNS server that answers when the test lets it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use serde_json::json;

use svc_testing::Svc;
use svc_testing::answering::{answer, script};
use svc_testing::backend::Backend;
use svc_testing::dns::{DnsServer, Manner, Record};

const LOOK_UP: &str = r#"
function answer(): mixed
{
    return gethostbyname($_GET['name']);
}
"#;

const RECORDS: &str = r#"
function answer(): array
{
    $types = ['A' => DNS_A, 'AAAA' => DNS_AAAA, 'MX' => DNS_MX, 'TXT' => DNS_TXT];
    $records = fn (int $type): array => dns_get_record('all.example', $type)[0] ?? [];
    return array_map(fn (int $type) => array_diff_key($records($type), ['host' => 0, 'class' => 0, 'type' => 0, 'ttl' => 0, 'entries' => 0]), $types);
}
"#;

const FETCH: &str = r#"
function answer(): array
{
    $curl = curl_init('http://here.example:' . PORT . '/');
    curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
    return [curl_exec($curl), file_get_contents('http://here.example:' . PORT . '/')];
}
"#;

const NAMES: [(&str, &[Record]); 3] = [
    ("here.example", &[Record::A(Ipv4Addr::LOCALHOST)]),
    ("one.example", &[Record::A(Ipv4Addr::new(192, 0, 2, 1))]),
    (
        "all.example",
        &[
            Record::A(Ipv4Addr::new(192, 0, 2, 2)),
            Record::Aaaa(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
            Record::Mx(10, "mail.example"),
            Record::Txt("a wombat"),
        ],
    ),
];

fn start(dns: &DnsServer, options: &str) -> Svc {
    let nothing = json!({});
    let files = [("index.php", &*script(LOOK_UP, &nothing)), ("records.php", &script(RECORDS, &nothing))];
    dns.svc(options, &files, &[("PHP_WORKERS", "4")])
}

#[test]
fn records_of_all_types_are_found() {
    let Some(dns) = DnsServer::start(&NAMES) else { return };
    let svc = start(&dns, "timeout:30");
    assert_eq!(answer(&svc, "/?name=one.example"), json!("192.0.2.1"));
    let records = json!({
        "A": {"ip": "192.0.2.2"},
        "AAAA": {"ipv6": "2001:db8::1"},
        "MX": {"pri": 10, "target": "mail.example"},
        "TXT": {"txt": "a wombat"},
    });
    assert_eq!(answer(&svc, "/records.php"), records);
    assert_eq!(answer(&svc, "/?name=none.example"), json!("none.example"));
    let outside = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert!(!outside.contains("timeout:30"), "only libcurl asks this server: {outside}");
}

#[test]
fn curl_and_streams_find_servers_by_name() {
    let Some(dns) = DnsServer::start(&NAMES) else { return };
    let backend = Backend::tcp(|visit| {
        visit.request()?;
        visit.answer("wombat")
    });
    let constants = json!({"PORT": backend.address().port()});
    let svc = dns.svc("timeout:30", &[("index.php", &script(FETCH, &constants))], &[]);
    assert_eq!(answer(&svc, "/"), json!(["wombat", "wombat"]));
    // libcurl queries both address families, and so do streams.
    assert!(dns.asked("here.example", false) >= 3);
}

#[test]
fn questions_are_held_until_the_test_lets_them_go() {
    let Some(dns) = DnsServer::start(&NAMES) else { return };
    dns.answer("one.example", Manner::Hold);
    let svc = start(&dns, "timeout:30");
    std::thread::scope(|scope| {
        let requests: Vec<_> = (0..4).map(|_| scope.spawn(|| answer(&svc, "/?name=one.example"))).collect();
        dns.gate().wait_until_held(4);
        dns.gate().open();
        for request in requests {
            assert_eq!(request.join().unwrap(), json!("192.0.2.1"));
        }
    });
    assert_eq!(dns.asked("one.example", false), 4);
}

#[test]
fn answers_come_late_or_over_tcp_or_not_at_all() {
    let Some(dns) = DnsServer::start(&NAMES) else { return };
    let late = Manner::Pause(Duration::from_millis(20));
    for (options, manners, answered) in [
        ("timeout:30 attempts:1", [late, Manner::Truncate], "192.0.2.1"),
        ("timeout:1 attempts:1", [Manner::Fail, Manner::Silent], "one.example"),
    ] {
        let svc = start(&dns, options);
        for manner in manners {
            dns.answer("one.example", manner);
            assert_eq!(answer(&svc, "/?name=one.example"), json!(answered), "{manner:?}");
        }
    }
    assert_eq!(dns.asked("one.example", true), 1);
}
