//! Certificates of the main port: their keys, their names, their time, and how they are exchanged.

use std::process::Command;

use crate::support::client::eventually;
use crate::support::tls::{Certificates, s_client};
use crate::tls::{NAME, make_rsa, one, sample, start};
use rustix::process::Signal;

#[test]
fn keys_come_in_three_forms() {
    let certificates = Certificates::new(&[&[NAME], &[NAME], &[NAME], &[NAME]]);
    make_rsa(&certificates, 1, &["-traditional"]);
    make_rsa(&certificates, 2, &[]);
    // Parameters of the curve and then the key, as OpenSSL writes them.
    let sec1 = Command::new("openssl")
        .args(["ecparam", "-name", "prime256v1", "-genkey", "-out", "3.key"])
        .current_dir(certificates.dir())
        .status();
    assert!(sec1.unwrap().success());
    let signed = Command::new("openssl")
        .args(["req", "-x509", "-key", "3.key", "-out", "3.pem", "-subj", "/CN=b", "-days", "9"])
        .current_dir(certificates.dir())
        .status();
    assert!(signed.unwrap().success());
    let forms = ["PRIVATE KEY", "RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY"];
    for (index, form) in forms.iter().enumerate() {
        let text = std::fs::read_to_string(certificates.key(index)).unwrap();
        assert!(text.contains(&format!("-----BEGIN {form}-----")), "{text}");
    }
    let svc = start(&certificates, 4, &[], &[]);
    assert!(s_client(svc.main(), &["-tls1_3"]).contains("TLSv1.3"));
}

#[test]
fn clients_are_shown_the_certificate_for_their_name() {
    let certificates = Certificates::new(&[&["first.example"], &["*.b.example"], &["www.b.example"]]);
    let svc = start(&certificates, 3, &[], &[]);
    for (name, index) in
        [("first.example", 0), ("img.b.example", 1), ("www.b.example", 2), ("other.example", 0)]
    {
        let said = s_client(svc.main(), &["-servername", name]);
        let pem = std::fs::read_to_string(certificates.cert(index)).unwrap();
        assert!(said.contains(pem.trim().lines().nth(3).unwrap()), "{name}");
    }
    assert_eq!(certificates.client(svc.main(), "img.b.example").get("/").status, 404);
}

#[test]
fn a_reload_is_for_new_connections_and_disturbs_no_old_one() {
    let mut certificates = one();
    let body = String::from_utf8(sample(8 << 20).iter().map(|byte| byte % 26 + b'a').collect()).unwrap();
    let svc = start(&certificates, 1, &[("a.txt", "a"), ("big.txt", &body)], &[]);
    let mut kept = certificates.client(svc.main(), NAME);
    assert_eq!(kept.get("/a.txt").text(), "a");
    let before = kept.session().peer_certificates().unwrap()[0].clone().into_owned();
    let mut loading = certificates.client(svc.main(), NAME);
    loading.send("GET /big.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = loading.head_only();
    let after = certificates.renew(0, &[NAME]);
    svc.signal(Signal::HUP);
    eventually("it has reloaded", || svc.log().find("reload finished").is_some());
    let mut new = certificates.client(svc.main(), NAME);
    assert_eq!(new.get("/a.txt").text(), "a");
    assert_eq!(new.session().peer_certificates().unwrap()[0], after);
    assert_ne!(before, after);
    assert_eq!(kept.get("/a.txt").text(), "a");
    assert!(loading.body_of(head).text() == body);
    svc.assert_metric("svc_config_last_reload_successful", 1.0);
}

#[test]
fn a_reload_of_broken_files_leaves_the_old_ones_and_says_so() {
    let mut certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    let at_start = svc.metric("svc_config_last_reload_success_timestamp_seconds");
    std::fs::write(certificates.cert(0), "nothing").unwrap();
    svc.signal(Signal::HUP);
    let message = "reload failed; the previous state stays in effect";
    eventually("it has refused", || svc.log().find(message).is_some());
    let record = svc.log().expect(message);
    let error = record["fields"]["error"].as_str().unwrap();
    assert_eq!(record["level"], "ERROR");
    assert!(error.starts_with("TLS_CERT: ") && error.contains("contains no certificate"), "{error}");
    svc.assert_metric("svc_config_last_reload_successful", 0.0);
    svc.assert_metric("svc_config_last_reload_success_timestamp_seconds", at_start);
    assert_eq!(certificates.client(svc.main(), NAME).get("/a.txt").text(), "a");
    certificates.renew(0, &[NAME]);
    svc.signal(Signal::HUP);
    eventually("it has recovered", || svc.metric("svc_config_last_reload_successful") == 1.0);
    assert!(svc.metric("svc_config_last_reload_success_timestamp_seconds") > at_start);
}

#[test]
fn a_certificate_out_of_its_time_is_a_warning() {
    let mut certificates = Certificates::new(&[&[NAME], &[NAME], &[NAME]]);
    certificates.write(1, &[NAME], (1990, 1999));
    certificates.write(2, &[NAME], (4000, 4001));
    let svc = start(&certificates, 3, &[], &[]);
    let early = svc.log().expect("certificate is not valid yet");
    assert_eq!(
        (&early["level"], &early["fields"]["path"]),
        (&"WARN".into(), &certificates.cert(2).to_str().unwrap().into(),)
    );
    let expired = svc.log().expect("certificate has expired");
    assert_eq!(expired["fields"]["not_after"], "1999-01-01T00:00:00.000000Z");
    svc.assert_metric("svc_tls_certificate_expiry_timestamp_seconds", 915_148_800.0);
}
