//! Response fields that the operator adds: `.svcheaders` and `HSTS`.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use svc_testing::Svc;
use svc_testing::client::eventually;
use svc_testing::tls::Certificates;

const RULES: &str = "/**\n  X-Frame-Options: DENY\n\n/assets/**\n  Cache-Control: max-age=31536000, immutable\n  X-Frame-Options: SAMEORIGIN\n";

#[test]
fn fields_are_added_by_path() {
    let files = [(".svcheaders", RULES), ("a.txt", "a"), ("assets/a.css", "a {}")];
    let svc = Svc::start(&files, &[("STATIC_MAX_AGE", "60")]);
    let mut client = svc.client();
    let plain = client.get("/a.txt");
    assert_eq!(plain.field("x-frame-options"), Some("DENY"));
    assert_eq!(plain.field("cache-control"), Some("max-age=60"));
    let asset = client.get("/assets/a.css");
    assert_eq!(asset.field("x-frame-options"), Some("SAMEORIGIN"));
    assert_eq!(
        asset.field("cache-control"),
        Some("max-age=31536000, immutable"),
        "in the place of the server's"
    );
    let missing = client.get("/assets/none");
    assert_eq!((missing.status, missing.field("x-frame-options")), (404, Some("SAMEORIGIN")));
    assert_eq!(client.get("/.svcheaders").status, 404);
    let report: serde_json::Value = serde_json::from_slice(&svc.ask("/config").body).unwrap();
    assert_eq!(report["headers_file"]["loaded"], true);
}

#[cfg(feature = "php")]
#[test]
fn a_script_has_the_last_word() {
    let script = "<?php if (isset($_GET['own'])) { header('x-frame-options: ALLOW'); } echo 'x';";
    let svc = Svc::start(&[(".svcheaders", RULES), ("a.php", script)], &[]);
    assert_eq!(svc.get("/a.php").field("x-frame-options"), Some("DENY"));
    assert_eq!(svc.get("/a.php?own").field("x-frame-options"), Some("ALLOW"));
}

#[test]
fn a_reload_replaces_them_or_changes_nothing() {
    let svc = Svc::start(&[("a.txt", "a")], &[]);
    let path = svc.root().join(".svcheaders");
    let value = || svc.get("/a.txt").field("x-a").map(str::to_owned);
    assert_eq!(value(), None);
    fs::write(&path, "/**\n  X-A: 1\n").unwrap();
    svc.signal(Signal::HUP);
    eventually("they are loaded", || value().as_deref() == Some("1"));
    fs::write(&path, "/**\n  X-A: 2\nnonsense\n").unwrap();
    svc.signal(Signal::HUP);
    let record = svc.log().expect("reload failed; the previous state stays in effect");
    let error = record["fields"]["error"].as_str().unwrap();
    assert!(error.contains(".svcheaders:3: \"nonsense\" is not a valid rule"), "{error}");
    assert_eq!((record["level"].as_str(), value().as_deref()), (Some("ERROR"), Some("1")));
    fs::remove_file(&path).unwrap();
    svc.signal(Signal::HUP);
    eventually("they are gone", || value().is_none());
}

#[test]
fn a_malformed_file_stops_the_start_and_the_check() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join(".svcheaders"), "/**\n  Content-Length: 1\n").unwrap();
    for command in ["serve", "check"] {
        let output = svc_testing::command(root.path(), &[]).arg(command).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(".svcheaders:2: ") && text.contains("the server sets this field"), "{text}");
    }
}

#[test]
fn hsts_is_for_tls_only() {
    let certificates = Certificates::new(&[&["a.test"]]);
    let (cert, key) = (certificates.cert(0), certificates.key(0));
    let value = "max-age=31536000; includeSubDomains; preload";
    let tls = [("TLS_CERT", cert.to_str().unwrap()), ("TLS_KEY", key.to_str().unwrap()), ("HSTS", value)];
    let svc = Svc::start(&[("a.txt", "a")], &tls);
    for path in ["/a.txt", "/none"] {
        let response = certificates.client(svc.main(), "a.test").get(path);
        assert_eq!(response.field("strict-transport-security"), Some(value));
    }
    let plain = Svc::start(&[("a.txt", "a")], &[("HSTS", "300")]);
    assert_eq!(plain.get("/a.txt").field("strict-transport-security"), None);
}

#[test]
fn hsts_has_a_form() {
    for value in
        ["", "max-age", "max-age=x", "includeSubDomains", "max-age=1; max-age=2", "max-age=1; x", "-1"]
    {
        let output = svc_testing::command(Path::new("/"), &[("HSTS", value)]).arg("check").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            value.is_empty() || (output.status.code() == Some(2) && text.contains("HSTS: ")),
            "{value}: {text}"
        );
    }
}
