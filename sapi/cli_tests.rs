use super::*;

fn overrides(document_root: Option<&str>, directives: &[&str]) -> Overrides {
    Overrides {
        document_root: document_root.map(Into::into),
        directives: directives.iter().map(Into::into).collect(),
        ..Overrides::default()
    }
}

fn serve(document_root: Option<&str>, directives: &[&str]) -> Result<Subcommand, UsageError> {
    Ok(Subcommand::Serve(overrides(document_root, directives)))
}

fn line(words: &[&str]) -> String {
    parse(words).expect_err("these words are wrong").to_string()
}

#[test]
fn serving_needs_no_word() {
    assert_eq!(parse::<&str>([]), serve(None, &[]));
    assert_eq!(parse(["serve"]), serve(None, &[]));
    assert_eq!(parse(["site"]), serve(Some("site"), &[]));
    assert_eq!(parse(["serve", "check"]), serve(Some("check"), &[]));
    assert_eq!(parse(["./check"]), serve(Some("./check"), &[]));
    assert_eq!(parse(["--", "-odd"]), serve(Some("-odd"), &[]));
}

#[test]
fn a_directory_that_resembles_a_command_may_be_a_mistake() {
    let meant = |words: &[&str]| match parse(words) {
        Ok(Subcommand::Serve(overrides)) => overrides.meant,
        other => panic!("{other:?}"),
    };
    assert_eq!(meant(&["chekc"]), Some("check"));
    assert_eq!(meant(&["verison"]), Some("version"));
    assert_eq!(meant(&["public"]), None);
    assert_eq!(meant(&["serve", "chekc"]), None, "said to be a directory");
}

#[test]
fn directives_come_apart_or_together_and_keep_their_order() {
    assert_eq!(parse(["-d", "a=1", "site", "-db=2", "-d=c=3"]), serve(Some("site"), &["a=1", "b=2", "c=3"]));
    assert_eq!(line(&["-d"]), "-d: requires a value; accepted: -d key=value");
}

#[test]
fn options_override_settings() {
    let words = ["--listen", ":80", "--ops=:90", "--workers", "2:4", "--entry", "a.php", "site"];
    let Ok(Subcommand::Serve(found)) = parse(words) else { panic!("{words:?}") };
    let option = |name: &str, variable, value: &str| (name.to_owned(), variable, OsString::from(value));
    assert_eq!(
        found.options,
        [
            option("--listen", "LISTEN_ADDR", ":80"),
            option("--ops", "INTERNAL_ADDR", ":90"),
            option("--workers", "PHP_WORKERS", "2:4"),
            option("--entry", "ENTRY_FILE", "a.php"),
        ]
    );
    let Ok(Subcommand::Check(found, _)) = parse(["check", "--worker", "w.php", "--env-file", "e"]) else {
        panic!("a worker's script is an option of check too");
    };
    let worker =
        [option("--worker", "ENTRY_FILE", "w.php"), option("--worker", "WORKER_MODE_ENABLED", "true")];
    assert_eq!((found.options.as_slice(), found.env_files.as_slice()), (&worker[..], &["e".into()][..]));
    assert_eq!(line(&["--listen"]), "--listen: requires a value; accepted: --listen ADDR");
}

#[test]
fn check_accepts_the_arguments_of_serve() {
    let style = CheckStyle::default();
    assert_eq!(
        parse(["check", "site", "-d", "a=1"]),
        Ok(Subcommand::Check(overrides(Some("site"), &["a=1"]), style))
    );
    let style = CheckStyle { is_changed_only: true, is_json: true };
    assert_eq!(parse(["check", "--json", "--changed"]), Ok(Subcommand::Check(overrides(None, &[]), style)));
}

#[test]
fn healthcheck_queries_readiness_by_default() {
    let ask = |probe| Ok(Subcommand::Healthcheck(probe, Overrides::default()));
    assert_eq!(parse(["healthcheck"]), ask(ProbeKind::Readiness));
    assert_eq!(parse(["healthcheck", "startup"]), ask(ProbeKind::Startup));
    assert_eq!(parse(["healthcheck", "mood"]), Err(UsageError::UnknownProbe("mood".to_owned())));
}

#[test]
fn everything_after_php_is_its_own() {
    let words = ["-v", "--help", "serve", "--", "-d", "a=1", ""];
    let all = ["php"].into_iter().chain(words);
    assert_eq!(parse(all), Ok(Subcommand::Php(words.iter().map(OsString::from).collect())));
}

#[test]
fn help_and_version_have_words_and_letters() {
    for words in [&["help"][..], &["-h"], &["--help"], &["site", "-h"]] {
        assert_eq!(parse(words), Ok(Subcommand::Help(HelpTopic::Commands)), "{words:?}");
    }
    for words in [&["help", "serve"][..], &["serve", "-h"], &["serve", "site", "--help"]] {
        assert_eq!(parse(words), Ok(Subcommand::Help(HelpTopic::Command("serve"))), "{words:?}");
    }
    assert_eq!(parse(["man", "--help"]), Ok(Subcommand::Help(HelpTopic::Command("man"))));
    assert_eq!(parse(["help", "settings"]), Ok(Subcommand::Help(HelpTopic::Settings)));
    assert_eq!(parse(["help", "settings", "--markdown"]), Ok(Subcommand::Help(HelpTopic::SettingsMarkdown)));
    for words in [["version"], ["-V"], ["--version"]] {
        assert_eq!(parse(words), Ok(Subcommand::Version), "{words:?}");
    }
}

#[test]
fn unknown_arguments_are_named() {
    for (words, expected) in [
        (&["--loud"][..], "--loud: unknown option; see svc help"),
        (&["--listn", ":80"], "--listn: unknown option; did you mean --listen?"),
        (&["serve", "--worker-s=2"], "--worker-s: unknown option; did you mean --workers?"),
        (&["a", "b"], r#""b": unexpected argument; see svc help"#),
        (&["chek", "b"], r#""chek": unknown command; did you mean check?"#),
        (&[""], r#""": unexpected argument; see svc help"#),
        (&["man", "svc"], r#""svc": unexpected argument; see svc help"#),
        (&["version", "-d", "a=1"], "-d: unknown option; see svc help"),
        (&["help", "poetry"], r#""poetry": unknown help topic; accepted: settings, or a command"#),
        (&["help", "setings"], r#""setings": unknown help topic; did you mean settings?"#),
        (&["help", "--markdown"], "--markdown: unknown option; see svc help"),
        (&["--help=yes"], "--help: does not take a value"),
        (&["check", "--json=yes"], "--json: does not take a value"),
        (&["completions"], "completions: requires SHELL; accepted: bash, zsh, fish"),
        (&["completions", "tcsh"], r#""tcsh": unknown shell; accepted: bash, zsh, fish"#),
    ] {
        assert_eq!(line(words), expected);
    }
}

#[test]
fn options_may_precede_the_command() {
    assert_eq!(parse(["-d", "a=1", "serve", "site"]), serve(Some("site"), &["a=1"]));
    assert_eq!(parse(["-d", "a=1", "serve", "-d", "b=2"]), serve(None, &["a=1", "b=2"]));
    assert_eq!(parse(["-d", "a=1", "serve", "check"]), serve(Some("check"), &["a=1"]));
    assert_eq!(parse(["-d", "a=1", "./check"]), serve(Some("./check"), &["a=1"]));
    assert_eq!(parse(["-d", "a=1", "site"]), serve(Some("site"), &["a=1"]));
    assert_eq!(
        parse(["-d", "a=1", "check", "--json", "site"]),
        Ok(Subcommand::Check(
            overrides(Some("site"), &["a=1"]),
            CheckStyle { is_json: true, ..CheckStyle::default() }
        ))
    );
    assert_eq!(line(&["-d", "a=1", "stubs", "out"]), "-d: unknown option; see svc help");
    assert_eq!(line(&["-d", "a=1", "php", "x.php"]), "-d: unknown option; see svc help");
    assert_eq!(line(&["-d", "a=1", "site", "serve"]), "\"serve\": unexpected argument; see svc help");
}
