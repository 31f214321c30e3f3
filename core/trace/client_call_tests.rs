use super::*;

#[derive(Default)]
struct Recorded(String, Vec<(&'static str, String)>);

impl SpanRecorder for Recorded {
    fn set_name(&mut self, name: String) {
        self.0 = name;
    }

    fn set_attribute(&mut self, key: &'static str, value: AttributeValue) {
        let value = match value {
            AttributeValue::Text(text) => text.into_owned(),
            AttributeValue::Int(number) => number.to_string(),
            other => format!("{other:?}"),
        };
        self.1.push((key, value));
    }
}

fn recorded(call: ClientCall<'_>) -> (String, Vec<(&'static str, String)>) {
    let mut span = Recorded::default();
    record_call(&call, &["sig".to_owned()], &mut Statements::default(), &mut span);
    span.1.sort_unstable();
    (span.0, span.1)
}

fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    expected.iter().map(|&(key, value)| (key, value.to_owned())).collect()
}

#[test]
fn a_query_is_named_by_its_summary() {
    let call = ClientCall {
        system: b"mysql",
        text: b"select * from users where name = 'joe'",
        source: b"host=db;port=3307;dbname=shop;charset=utf8mb4",
        ..ClientCall::default()
    };
    let expected = pairs(&[
        ("db.collection.name", "users"),
        ("db.namespace", "shop"),
        ("db.operation.name", "SELECT"),
        ("db.query.summary", "SELECT users"),
        ("db.query.text", "select * from users where name = ?"),
        ("db.system.name", "mysql"),
        ("server.address", "db"),
        ("server.port", "3307"),
    ]);
    assert_eq!(recorded(call), ("SELECT users".to_owned(), expected));
    let (_, prepared) =
        recorded(ClientCall { is_prepared: true, text: b"select 'x' from t where a = ?", ..call });
    assert!(prepared.contains(&("db.query.text", "select 'x' from t where a = ?".to_owned())));
}

#[test]
fn without_a_text_the_operation_and_its_target_are_the_name() {
    let call = ClientCall { system: b"pgsql", operation: b"BEGIN", ..ClientCall::default() };
    assert_eq!(recorded(call).0, "BEGIN");
    let on = |source| recorded(ClientCall { source, ..call }).0;
    assert_eq!(on(b"host=/run port=5433 dbname='shop' user=me password=secret"), "BEGIN shop");
    assert_eq!(on(b"host=db"), "BEGIN db:5432");
    assert_eq!(on(b"host=db password='x dbname=secret'"), "BEGIN db:5432");
    assert_eq!(recorded(ClientCall { operation: b"", ..call }).0, "postgresql");
    let socket = ClientCall { system: b"mysql", source: b"unix_socket=/run/my.sock;port=9", ..call };
    let password = ClientCall { source: b"host=db;password=x dbname=secret", ..socket };
    assert_eq!(recorded(password).0, "BEGIN db:3306");
    assert_eq!(recorded(socket).1.last(), Some(&("server.address", "/run/my.sock".to_owned())));
    let store = ClientCall {
        kind: ClientKind::Store,
        system: b"redis",
        operation: b"GET",
        host: b"::1",
        database: b"3",
        ..call
    };
    let expected = pairs(&[
        ("db.namespace", "3"),
        ("db.operation.name", "GET"),
        ("db.system.name", "redis"),
        ("server.address", "::1"),
        ("server.port", "6379"),
    ]);
    assert_eq!(recorded(store), ("GET 3".to_owned(), expected));
}

#[test]
fn a_file_is_the_namespace_of_sqlite() {
    let call = ClientCall {
        system: b"sqlite",
        source: b"/a;b=c d.db",
        operation: b"COMMIT",
        ..ClientCall::default()
    };
    let expected = pairs(&[
        ("db.namespace", "/a;b=c d.db"),
        ("db.operation.name", "COMMIT"),
        ("db.system.name", "sqlite"),
    ]);
    assert_eq!(recorded(call), ("COMMIT /a;b=c d.db".to_owned(), expected));
    for (source, namespace) in [
        ("file:x?key=secret", "file:x"),
        ("file:/a/b.db?mode=ro&hexkey=secret#f", "file:/a/b.db"),
        ("file:x#?key=secret", "file:x"),
        ("file:x", "file:x"),
        // A file with this name.
        ("x?key=1", "x?key=1"),
        (":memory:", ":memory:"),
    ] {
        let call = ClientCall { system: b"sqlite", source: source.as_bytes(), ..ClientCall::default() };
        let expected = pairs(&[("db.namespace", namespace), ("db.system.name", "sqlite")]);
        assert_eq!(recorded(call).1, expected, "{source}");
    }
}

#[test]
fn double_quotes_enclose_values_where_they_may() {
    for (system, is_prepared, text, name) in [
        ("sqlite", false, "delete from t where a = ?", "DELETE t"),
        ("dblib", false, "delete from t where a = ?", "DELETE t"),
        ("sqlite", true, r#"delete from t where a = "secret""#, "DELETE t"),
        ("pgsql", false, r#"delete from t where a = "secret""#, "DELETE t"),
    ] {
        let sql = br#"delete from t where a = "secret""#;
        let call = ClientCall { system: system.as_bytes(), text: sql, is_prepared, ..ClientCall::default() };
        let (told_name, attributes) = recorded(call);
        assert_eq!(told_name, name, "{system}");
        assert!(attributes.contains(&("db.query.text", text.into())), "{system}: {attributes:?}");
    }
    let call = ClientCall {
        system: b"sqlite",
        text: br#"select * from "users""#,
        is_prepared: true,
        ..ClientCall::default()
    };
    assert_eq!(recorded(call).0, "SELECT users", "what is prepared is recorded anyway");
}

#[test]
fn a_url_contains_no_secrets() {
    let call = |url| recorded(ClientCall { kind: ClientKind::Http, text: url, ..ClientCall::default() });
    for (url, full, host, port) in [
        ("http://a/", "http://a/", "a", "80"),
        (
            "https://u:p@a.b:8443/x?sig=1&a=2#f",
            "https://REDACTED:REDACTED@a.b:8443/x?sig=REDACTED&a=2#f",
            "a.b",
            "8443",
        ),
        ("https://[::1]/?s%69g=x", "https://[::1]/?s%69g=REDACTED", "::1", "443"),
        ("http://a@b@c:1?q", "http://REDACTED:REDACTED@c:1?q", "c", "1"),
        ("a:90/x@y", "a:90/x@y", "a", "90"),
        ("http://[::1]/x@y", "http://[::1]/x@y", "::1", "80"),
        ("http://a/x:y@z", "http://a/x:y@z", "a", "80"),
        ("a/?u=http://b:c@d", "a/?u=http://b:c@d", "a", "80"),
        // libcurl accepts these, too.
        ("https:/u:p@a:1/x", "https:/REDACTED:REDACTED@a:1/x", "a", "1"),
        ("HTTPS:///u:p@a/x", "HTTPS:///REDACTED:REDACTED@a/x", "a", "443"),
        ("u:p@a/x", "REDACTED:REDACTED@a/x", "a", "80"),
        // libcurl rejects these.
        ("//u:p@a/x", "//REDACTED:REDACTED@a/x", "a", "80"),
        ("http:/\\u:p@a/x", "http:/\\REDACTED:REDACTED@a/x", "a", "80"),
        ("http://u:p/p@a/x", "http://REDACTED:REDACTED@a/x", "a", "80"),
        ("http://u:p?p@a:2/x", "http://REDACTED:REDACTED@a:2/x", "a", "2"),
        ("http://u:p#p@a", "http://REDACTED:REDACTED@a", "a", "80"),
    ] {
        let expected = pairs(&[("server.address", host), ("server.port", port), ("url.full", full)]);
        assert_eq!(call(url.as_bytes()), ("HTTP".to_owned(), expected), "{url}");
    }
    assert_eq!(call(b"").1, pairs(&[("url.full", "")]));
}

#[test]
fn an_end_names_the_failure() {
    let ended = |kind, end: ClientEnd<'_>| {
        let mut span = Recorded::default();
        let failed =
            record_end(&ClientEnd { kind, ..end }, &["GET".to_owned(), "PROPFIND".to_owned()], &mut span);
        (failed, span.0, span.1)
    };
    let none = ClientEnd::default();
    assert_eq!(ended(ClientKind::Sql, none), (false, String::new(), Vec::new()));
    let error = ClientEnd { is_failed: true, error: b"PDOException", ..none };
    assert_eq!(ended(ClientKind::Sql, error).2, pairs(&[("error.type", "PDOException")]));
    let coded = ClientEnd { code: b"1146", ..error };
    let expected = pairs(&[("db.response.status_code", "1146"), ("error.type", "1146")]);
    assert_eq!(ended(ClientKind::Sql, coded), (true, String::new(), expected));
    let response = ClientEnd { status: 404, method: b"GET", version: 11, ..none };
    let expected = pairs(&[
        ("http.request.method", "GET"),
        ("http.response.status_code", "404"),
        ("network.protocol.version", "1.1"),
        ("error.type", "404"),
    ]);
    assert_eq!(ended(ClientKind::Http, response), (true, "GET".to_owned(), expected));
    let odd = ClientEnd { method: b"BREW", ..none };
    assert_eq!(ended(ClientKind::Http, odd).2[0], ("http.request.method", "_OTHER".to_owned()));
    let known = ClientEnd { method: b"PROPFIND", ..none };
    let (_, name, attributes) = ended(ClientKind::Http, known);
    assert_eq!((name.as_str(), attributes), ("PROPFIND", pairs(&[("http.request.method", "PROPFIND")])));
    let nothing = ClientEnd { is_failed: true, ..none };
    assert_eq!(ended(ClientKind::Store, nothing).2, pairs(&[("error.type", "_OTHER")]));
}
