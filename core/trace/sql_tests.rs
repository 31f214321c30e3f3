use super::*;
use SqlDialect::{Loose, MySql, MySqlPlain, PostgreSql, PostgreSqlEscapes, Standard};

const ALL: [SqlDialect; 6] = [MySql, MySqlPlain, PostgreSql, PostgreSqlEscapes, Standard, Loose];

fn mask(sql: &str, dialect: SqlDialect) -> String {
    String::from_utf8(without_literals(sql.as_bytes(), dialect)).unwrap()
}

#[test]
fn values_are_replaced_in_every_dialect() {
    for dialect in ALL {
        for (sql, expected) in [
            ("select 1", "select ?"),
            ("SELECT * FROM t WHERE a = 'x' AND b=-1.5e-3", "SELECT * FROM t WHERE a = ? AND b=?"),
            ("select 'it''s', ''", "select ?, ?"),
            ("select a-1, (b)-2, -3, t1.c2 from t1", "select a-?, (b)-?, ?, t1.c2 from t1"),
            ("insert into t values (1,'a',NULL,0xFF,x'0f',N'n')", "insert into t values (?,?,NULL,?,?,?)"),
            ("select ?, :name, $1, @v, a::int", "select ?, :name, $1, @v, a::int"),
            ("select 1 -- secret 'x'\n, 2", "select ? \n, ?"),
            ("select /* secret */ 3 /* open", "select  ?"),
            ("select 'open", "select ?"),
            ("select `a b`, .5", "select `a b`, ?"),
            ("", ""),
            ("'", "?"),
            ("limit 10 offset 20;", "limit ? offset ?;"),
            ("select e1, 1e5, 1_000 from é1", "select e1, ?, ? from é1"),
        ] {
            assert_eq!(mask(sql, dialect), expected, "{dialect:?}: {sql}");
        }
    }
}

#[test]
fn each_dialect_has_its_quotes() {
    let text = r#"select "a", 'b\' , 'secret' -- '"#;
    assert_eq!(mask(text, MySql), "select ?, ???", "what is between two literals may be one");
    assert_eq!(mask(text, PostgreSql), r#"select "a", ? , ?"#);
    assert_eq!(mask("select $$secret$$, $x$ $$ $x$, $1", PostgreSql), "select ?, ?, $1");
    assert_eq!(mask(r"select E'a\'secret', 'x\', 1", PostgreSql), "select ?, ?, ?");
    assert_eq!(mask("select /* a /* b */ secret */ 1", PostgreSql), "select  ?");
    assert_eq!(mask(text, Standard), r#"select "a", ? , ?"#);
    assert_eq!(mask(r#"select "se""cret", 'b\', "open"#, Loose), "select ?, ?, ?");
    for dialect in [Standard, Loose] {
        assert_eq!(mask("select [a b], arr[1]", dialect), "select [a b], arr[?]");
    }
    assert_eq!(mask("select array[ 'secret', 1 ]", Standard), "select array[ ?, ? ]");
    assert_eq!(mask("select a # secret\n, _utf8'x'", MySql), "select a \n, ?");
    assert_eq!(mask("select a #> '{b}'", PostgreSql), "select a #> ?");
}

#[test]
fn servers_differ_about_backslashes() {
    let of_backslash = r#"select 'a\', 'my secret is', "b\", "my secret is", _utf8'\', N'\', 1"#;
    assert_eq!(mask(of_backslash, MySqlPlain), "select ?, ?, ?, ?, ?, ?, ?");
    let of_quote = r"select 'a\'my secret', E'b\'my secret', N'c\'my secret', $$\$$, 1";
    assert_eq!(mask(of_quote, PostgreSqlEscapes), "select ?, ?, ?, ?, ?");
    assert_eq!(mask(r"select /*! 'a\' */ 'my secret'", MySqlPlain), "select  ?");
    for (dialect, other) in
        [(MySql, MySqlPlain), (PostgreSql, PostgreSqlEscapes), (Standard, Standard), (Loose, Loose)]
    {
        assert_eq!((dialect.with_other_backslash(), other.with_other_backslash()), (other, dialect));
    }
}

#[test]
fn every_value_of_a_dialect_is_masked() {
    // MySQL starts a comment at two minus signs only if white space follows.
    assert_eq!(
        mask("select 5--1, 1--'a\nsecret b', 2 -- secret\n, 3 --", MySql),
        "select ?-?, ?--?, ? \n, ?"
    );
    assert_eq!(mask("select 1--/* ' */'a\nsecret b'", MySql), "select ??");
    // A comment that MySQL executes ends where its values allow; one that it skips ends earlier.
    assert_eq!(mask("select /*! 'a*/secret b' */, 'secret c'", MySql), "select ?");
    assert_eq!(mask("select /*!99999 it's */ 'secret b'", MySql), "select ?");
    assert_eq!(mask("select /*!50000 # it's */ \n */ 'secret b'", MySql), "select ?");
    assert_eq!(mask("select /*M!100100 'a' */ 'b' /* it's */, 1", MySql), "select  ? , ?");
    // `E'…'` continues on the next line, with its escapes.
    assert_eq!(mask("select E'a' -- it's\n'b\\'secret c', 'd\\', 1", PostgreSql), "select ? \n?, ?, ?");
    assert_eq!(mask("select E'a'\n, 'd\\', 1", PostgreSql), "select ?\n, ?, ?");
    // A carriage return ends a comment in PostgreSQL.
    assert_eq!(mask("select 1 -- x\r, 'a\nsecret b'", PostgreSql), "select ? \r, ?");
    // A name in brackets may begin with any character.
    for text in ["select 1 as [ it's], 'secret b'", "select 1 as [1 -- x], 'a\nsecret b'"] {
        assert_eq!(mask(text, Loose), "select ? as ?");
    }
    // These are no placeholders in PostgreSQL.
    assert_eq!(mask("select @5, a[1:2], a[:3], $4", PostgreSql), "select @?, a[?:?], a[:?], $4");
}

fn summary(sql: &str) -> (String, String, Option<String>) {
    let summary = summarize(sql.as_bytes(), PostgreSql);
    (summary.text, summary.operation.into_owned(), summary.collection)
}

#[test]
fn one_table_is_the_collection() {
    for (sql, text, operation, table) in [
        ("select * from users where id = 1", "SELECT users", "SELECT", "users"),
        ("  /* c */ Select * From `users` u", "SELECT users", "SELECT", "users"),
        ("INSERT INTO a.orders (x) VALUES (1)", "INSERT a.orders", "INSERT", "a.orders"),
        ("update \"Users\" set from_x = 1 where a in (1)", "UPDATE Users", "UPDATE", "Users"),
        ("delete from only logs", "DELETE logs", "DELETE", "logs"),
        ("REPLACE INTO t VALUES (1)", "REPLACE t", "REPLACE", "t"),
        ("create temp table if not exists t (id int)", "CREATE TABLE t", "CREATE", "t"),
        ("DROP TABLE t", "DROP TABLE t", "DROP", "t"),
        ("TRUNCATE orders", "TRUNCATE orders", "TRUNCATE", "orders"),
        ("select extract(year from d), trim('x' from y) from t", "SELECT t", "SELECT", "t"),
        ("select a is distinct from b from t", "SELECT t", "SELECT", "t"),
        ("insert into t (a) values (1) on conflict (a) do update set a = 2", "INSERT t", "INSERT", "t"),
        ("select * from t for update", "SELECT t", "SELECT", "t"),
        ("with x as (select 1) delete from t", "SELECT DELETE t", "SELECT", ""),
    ] {
        let table = (!table.is_empty()).then(|| table.to_owned());
        assert_eq!(summary(sql), (text.to_owned(), operation.to_owned(), table), "{sql}");
    }
}

#[test]
fn several_tables_and_operations_are_in_the_summary_alone() {
    for (sql, text, operation) in [
        ("select * from a, b x, c", "SELECT a b c", "SELECT"),
        ("select * from a left join b on a.i = b.i, c where x", "SELECT a b", "SELECT"),
        ("insert into a select * from b", "INSERT a SELECT b", "INSERT"),
        ("select * from (select 1 from b) q join c on 1=1", "SELECT SELECT b c", "SELECT"),
        (
            "with q as (select * from t), r(x) as (select 2) select * from q, u",
            "SELECT t SELECT SELECT u",
            "SELECT",
        ),
        ("create index i on t (a)", "CREATE INDEX i", "CREATE"),
        ("call p(1)", "CALL p", "CALL"),
        ("begin", "BEGIN", "BEGIN"),
        ("set password = 'x'", "SET", "SET"),
        ("select 1; drop table t", "SELECT DROP TABLE t", "SELECT"),
        ("explain analyze select * from t", "EXPLAIN SELECT t", "EXPLAIN"),
        ("(select 1 from a) union (select 2 from b)", "SELECT a SELECT b", "SELECT"),
        ("", "", ""),
        ("'x'", "", ""),
        ("select 1", "SELECT", "SELECT"),
    ] {
        assert_eq!(summary(sql), (text.to_owned(), operation.to_owned(), None), "{sql}");
    }
}

#[test]
fn a_summary_is_bounded_and_ends_between_words() {
    let sql = format!("select * from {}", vec!["a_rather_long_name"; 100].join(", "));
    let text = summarize(sql.as_bytes(), MySql).text;
    assert!(text.len() <= SUMMARY_BYTES_MAX && text.ends_with(" a_rather_long_name"), "{text}");
    let long = "x".repeat(100_000);
    assert!(summarize(long.as_bytes(), MySql).text.len() <= WORD_BYTES_MAX);
    let deep = "(".repeat(100_000) + "select 1 from t";
    let _ = summarize(deep.as_bytes(), MySql);
    let balanced = "(".repeat(70) + "select 1 from x" + &")".repeat(90) + "; delete from t";
    assert!(summarize(balanced.as_bytes(), MySql).text.ends_with("DELETE t"));
}

/// Generates texts that concatenate `count` of these parts in any order.
fn texts<'a>(parts: &'a [&'a str], count: usize) -> impl Iterator<Item = String> + 'a {
    let mut state = 7_u32;
    let mut draw = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    (0..count).map(move |_| (0..=draw(24)).map(|_| parts[draw(parts.len())]).collect())
}

const PARTS: [&str; 40] = [
    "a", "t", "1", "'", "\"", "`", "$", "\\", "/", "*", "-", "[", "]", "(", ")", ":", ";", ".", ",", "#",
    "?", "@", "=", " ", "\n", "é", "E", "_x", "--", "/*", "*/", "/**/", "'x'", "1.5", "from ", "select ",
    "update ", "join ", "with ", "into ",
];

#[test]
fn any_text_has_an_end_and_no_value() {
    for text in texts(&PARTS, 5000) {
        for dialect in ALL {
            let masked = without_literals(text.as_bytes(), dialect);
            assert!(masked.len() <= text.len());
            assert_eq!(without_literals(&masked, dialect), masked, "{dialect:?}: {text}");
        }
    }
}

#[test]
fn a_text_without_its_values_has_the_same_summary() {
    let mut told = 0;
    for text in texts(&PARTS, ROUNDS) {
        for dialect in ALL {
            let mut masked = Vec::new();
            if super::mask(text.as_bytes(), dialect, &mut masked) {
                told += 1;
                assert_eq!(
                    summarize(&masked, dialect),
                    summarize(text.as_bytes(), dialect),
                    "{dialect:?}: {text}"
                );
            }
        }
    }
    assert!(told > ROUNDS, "{told}");
}

#[test]
fn tokens_that_are_passed_over_are_those_that_are_read() {
    for text in texts(&PARTS, ROUNDS) {
        for dialect in ALL {
            let mut skipping = Tokens::of(text.as_bytes(), dialect);
            let mut reading = skipping.clone();
            loop {
                skipping.skip_plain();
                while reading.bytes_left() > skipping.bytes_left() {
                    let token = reading.next();
                    let is_plain = matches!(token, Some(Token::Space(_) | Token::Symbol(_) | Token::Word(_)));
                    assert!(is_plain, "{token:?} in {dialect:?}: {text}");
                }
                assert_eq!(format!("{skipping:?}"), format!("{reading:?}"), "{dialect:?}: {text}");
                if (skipping.next(), reading.next()) == (None, None) {
                    break;
                }
            }
        }
    }
}

const ROUNDS: usize = 5_000;
