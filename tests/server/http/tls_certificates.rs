//! Certificates of the main port: their keys, names and validity, and their exchange.

use std::process::Command;

use rustls::NamedGroup;
use rustls::crypto::SupportedKxGroup;

use crate::http::tls::{NAME, make_rsa, one, sample, start};
use rustix::process::Signal;
use svc_testing::client::{Client, eventually};
use svc_testing::command;
use svc_testing::tls::{Certificates, s_client};

#[test]
fn keys_come_in_three_forms() {
    let certificates = Certificates::new(&[&[NAME], &[NAME], &[NAME], &[NAME]]);
    make_rsa(&certificates, 1, &["-traditional"]);
    make_rsa(&certificates, 2, &[]);
    // The curve's parameters and then the key, in OpenSSL's order.
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

/// Runs `openssl` in the folder of the certificates.
#[track_caller]
fn openssl(certificates: &Certificates, words: &str) {
    let mut command = Command::new("openssl");
    command.args(words.split(' ')).current_dir(certificates.dir());
    let output = command.output().unwrap();
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Replaces the first certificate with a self-signed one for the key in `0.key`.
fn sign(certificates: &Certificates) {
    openssl(
        certificates,
        "req -x509 -key 0.key -out 0.pem -subj /CN=a -addext subjectAltName=DNS:a.example -days 9",
    );
}

/// Asserts that `0.pem` and `0.key` are served over both versions of TLS; `signature` is the name that OpenSSL's client
/// prints for the server's signature.
#[track_caller]
fn is_served(certificates: &Certificates, form: &str, signature: &str) {
    let svc = start(certificates, 1, &[], &[]);
    for version in ["-tls1_3", "-tls1_2"] {
        let said = s_client(svc.main(), &[version]);
        assert!(said.contains(&format!("Peer signature type: {signature}")), "{form}, {version}: {said}");
    }
}

#[test]
fn keys_of_every_kind_are_served() {
    const LARGE: &str = include_str!("../../keys/rsa_8192.key");
    for (form, make, signature) in [
        ("P-256", "ecparam -name prime256v1 -genkey -noout -out 0.key", "ECDSA"),
        ("P-384, PKCS#8", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out 0.key", "ECDSA"),
        ("P-521", "ecparam -name secp521r1 -genkey -noout -out 0.key", "ECDSA"),
        ("P-521, PKCS#8", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-521 -out 0.key", "ECDSA"),
        ("Ed25519", "genpkey -algorithm ED25519 -out 0.key", "ed25519"),
        ("RSA 3072", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out 0.key", "RSA-PSS"),
        ("RSA 8192", "", "RSA-PSS"),
    ] {
        let certificates = one();
        match make {
            "" => std::fs::write(certificates.key(0), LARGE).unwrap(),
            make => openssl(&certificates, make),
        }
        sign(&certificates);
        is_served(&certificates, form, signature);
    }
}

#[test]
fn certificates_of_every_form_are_served() {
    let certificates = one();
    openssl(&certificates, "req -new -key 0.key -subj /CN=a -out request");
    openssl(&certificates, "x509 -req -in request -signkey 0.key -days 9 -out version1.pem");
    openssl(&certificates, "x509 -in version1.pem -trustout -addtrust serverAuth -out trusted.pem");
    let mut shown = Command::new("openssl");
    shown.args(["x509", "-noout", "-text", "-in", "version1.pem"]).current_dir(certificates.dir());
    let version = shown.output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).contains("Version: 1 (0x0)"));
    let read = |name: &str| std::fs::read_to_string(certificates.dir().join(name)).unwrap();
    let (plain, trusted) = (read("version1.pem"), read("trusted.pem"));
    assert!(trusted.contains("-----BEGIN TRUSTED CERTIFICATE-----"), "{trusted}");
    let crlf = plain.replace('\n', "\r\n");
    for (form, text) in [
        ("version 1", plain.clone()),
        ("trusted", trusted),
        ("X509", plain.replace(" CERTIFICATE-----", " X509 CERTIFICATE-----")),
        ("a file of Windows", format!("\u{feff}{crlf}")),
        ("with text in front", format!("subject=CN = a\n\n{plain}")),
    ] {
        std::fs::write(certificates.cert(0), text).unwrap();
        is_served(&certificates, form, "ECDSA");
    }
}

/// Unsupported formats: the message names the format, and the command that converts it.
#[test]
fn files_in_another_format_have_an_error_with_advice() {
    let certificates = one();
    let dir = certificates.dir();
    for words in [
        "pkey -in 0.key -aes256 -passout pass:secret -out encrypted8.key",
        "ec -in 0.key -aes256 -passout pass:secret -out encrypted1.key",
        "pkey -in 0.key -outform der -out der.key",
        "x509 -in 0.pem -outform der -out der.pem",
        "pkcs12 -export -in 0.pem -inkey 0.key -passout pass:secret -out both.p12",
        "pkey -in 0.key -pubout -out public.key",
        "ecparam -name secp256k1 -genkey -noout -out koblitz.key",
        "genpkey -algorithm ED448 -out ed448.key",
        "genrsa -out short.key 1024",
    ] {
        openssl(&certificates, words);
    }
    let decrypt = "contains an encrypted private key; decrypt it with 'openssl pkey -in OLD -out NEW'";
    let archive = "is a PKCS#12 archive; convert it with 'openssl pkcs12 -in OLD -nodes -out NEW'";
    let kinds = "RSA of 2048 to 8192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519";
    for (cert, key, variable, parts) in [
        (
            "0.pem",
            "encrypted8.key",
            "TLS_KEY",
            [decrypt, "accepted: a PEM file with an unencrypted private key"],
        ),
        ("0.pem", "encrypted1.key", "TLS_KEY", [decrypt, kinds]),
        (
            "0.pem",
            "der.key",
            "TLS_KEY",
            ["is binary; convert it with 'openssl pkey -inform der -in OLD -out NEW'", kinds],
        ),
        (
            "der.pem",
            "0.key",
            "TLS_CERT",
            ["is binary; convert it with 'openssl x509 -inform der -in OLD -out NEW'", "chain"],
        ),
        ("both.p12", "0.key", "TLS_CERT", [archive, "serves as TLS_CERT and as TLS_KEY"]),
        ("0.pem", "both.p12", "TLS_KEY", [archive, "serves as TLS_CERT and as TLS_KEY"]),
        ("0.pem", "public.key", "TLS_KEY", ["contains no private key, but PUBLIC KEY", kinds]),
        ("0.key", "0.key", "TLS_CERT", ["contains no certificate, but PRIVATE KEY", "chain"]),
        ("0.pem", "koblitz.key", "TLS_KEY", ["contains an unusable private key", kinds]),
        ("0.pem", "ed448.key", "TLS_KEY", ["contains an unusable private key", kinds]),
        ("0.pem", "short.key", "TLS_KEY", ["contains an unusable private key", kinds]),
    ] {
        let place = |name: &str| dir.join(name).display().to_string();
        let settings = [("TLS_CERT", place(cert)), ("TLS_KEY", place(key))];
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for words in [&[][..], &["check"]] {
            let output = command(dir, &settings).args(words).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let file = place(if variable == "TLS_KEY" { key } else { cert });
            assert!(said.contains(&format!("{variable}: {file:?} ")), "{cert} {key}: {said}");
            assert!(parts.iter().all(|part| said.contains(part)), "{cert} {key}: {said}");
            assert!(!output.status.success() && !said.contains("secret"), "{said}");
        }
    }
    // The recommendations of the messages work.
    openssl(&certificates, "pkey -in encrypted8.key -passin pass:secret -out 0.key");
    is_served(&certificates, "decrypted", "ECDSA");
    openssl(&certificates, "pkcs12 -in both.p12 -passin pass:secret -nodes -out both.pem");
    for file in [certificates.cert(0), certificates.key(0)] {
        std::fs::copy(dir.join("both.pem"), file).unwrap();
    }
    is_served(&certificates, "converted", "ECDSA");
}

#[test]
fn keys_are_exchanged_as_clients_can() {
    let certificates = one();
    let svc = start(&certificates, 1, &[("a.txt", "a")], &[]);
    for (offered, expected) in [
        (&[NamedGroup::X25519MLKEM768, NamedGroup::X25519][..], NamedGroup::X25519MLKEM768),
        (&[NamedGroup::X25519, NamedGroup::secp256r1], NamedGroup::X25519),
        (&[NamedGroup::secp256r1], NamedGroup::secp256r1),
        (&[NamedGroup::secp384r1], NamedGroup::secp384r1),
    ] {
        let mut client = Client::connect_tls(svc.main(), certificates.session_with(offered, NAME));
        assert_eq!(client.get("/a.txt").text(), "a", "{offered:?}");
        let group = client.session().negotiated_key_exchange_group().map(SupportedKxGroup::name);
        assert_eq!(group, Some(expected), "{offered:?}");
    }
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
fn a_reload_of_broken_files_keeps_the_old_ones_and_logs_it() {
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
