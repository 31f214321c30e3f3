//! Command line parsing: the command and its overrides.
//!
//! Promises: parsing is pure; words become a [`Subcommand`] or one [`UsageError`], which names what is accepted or where
//! to look. Refuses: it validates no settings (the table in the core does) and runs no command.

use std::ffi::OsString;
use std::fmt;

use lexopt::{Arg, Parser};

use svc_core::config::RawConfig;

/// The requested command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subcommand {
    /// Print every setting, or the errors in the settings.
    Check(Overrides),
    /// Query a probe of a running server.
    Healthcheck(ProbeKind),
    /// Print help.
    Help(HelpTopic),
    /// Run the server.
    Serve(Overrides),
    /// Print the versions.
    Version,
}

/// Settings from the command line, which override the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The directory to serve.
    pub document_root: Option<OsString>,
    /// PHP directives, `key=value`.
    pub directives: Vec<OsString>,
}

/// A probe of the operations port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// The liveness probe.
    Liveness,
    /// The readiness probe.
    Readiness,
    /// The startup probe.
    Startup,
}

/// A help topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpTopic {
    /// The commands.
    Commands,
    /// The settings, for a terminal.
    Settings,
    /// The settings, as the reference page.
    SettingsMarkdown,
}

/// An error in the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsageError {
    /// An option without its required value.
    MissingValue(String),
    /// An unexpected argument.
    TooManyWords(String),
    /// A value for an option that does not take one.
    UnexpectedValue(String),
    /// An unknown option, or one that the command does not support.
    UnknownOption(String),
    /// An unknown help topic.
    UnknownPage(String),
    /// An unknown probe.
    UnknownProbe(String),
}

/// Parses the words after the name of the program.
///
/// # Errors
///
/// The first word that is not valid.
///
/// # Examples
///
/// ```
/// use svc::cli::{Subcommand, ProbeKind, parse};
///
/// assert_eq!(parse(["healthcheck", "liveness"]), Ok(Subcommand::Healthcheck(ProbeKind::Liveness)));
/// assert!(parse(["--loud"]).is_err());
/// ```
pub fn parse<W>(words: impl IntoIterator<Item = W>) -> Result<Subcommand, UsageError>
where
    W: Into<OsString>,
{
    let mut words = words.into_iter().map(Into::into).peekable();
    let verb = words.peek().and_then(|word: &OsString| Verb::named(word));
    if verb.is_some() {
        words.next();
    }
    let mut parser = Parser::from_args(words);
    match verb.unwrap_or(Verb::Serve) {
        Verb::Check => overrides(&mut parser, Subcommand::Check),
        Verb::Healthcheck => healthcheck(&mut parser),
        Verb::Help => help(&mut parser),
        Verb::Serve => overrides(&mut parser, Subcommand::Serve),
        Verb::Version => version(&mut parser),
    }
}

impl Overrides {
    /// Applies the overrides to the settings from the environment.
    pub fn apply(self, raw: RawConfig) -> RawConfig {
        let raw = match self.document_root {
            Some(directory) => raw.with_document_root(directory),
            None => raw,
        };
        self.directives.into_iter().fold(raw, RawConfig::with_directive)
    }
}

impl ProbeKind {
    /// Returns the path of the probe on the operations port.
    pub fn path(self) -> &'static str {
        match self {
            Self::Liveness => "/health/liveness",
            Self::Readiness => "/health/readiness",
            Self::Startup => "/health/startup",
        }
    }
}

impl HelpTopic {
    /// Returns the text of the topic.
    pub fn text(self) -> String {
        match self {
            Self::Commands => COMMANDS.to_owned(),
            Self::Settings => svc_core::config::page::help(),
            Self::SettingsMarkdown => svc_core::config::page::markdown(),
        }
    }
}

impl std::error::Error for UsageError {}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingValue(option) => {
                write!(f, "{option}: requires a value; accepted: {option} key=value")
            }
            Self::TooManyWords(word) => write!(f, "{word:?}: unexpected argument; see svc help"),
            Self::UnexpectedValue(option) => write!(f, "{option}: does not take a value"),
            Self::UnknownOption(option) => {
                write!(f, "{option}: unknown option; see svc help")
            }
            Self::UnknownPage(page) => write!(f, "{page:?}: unknown help topic; accepted: settings"),
            Self::UnknownProbe(probe) => {
                write!(f, "{probe:?}: unknown probe; accepted: readiness, liveness, startup")
            }
        }
    }
}

enum Verb {
    Check,
    Healthcheck,
    Help,
    Serve,
    Version,
}

impl Verb {
    fn named(word: &OsString) -> Option<Self> {
        match word.to_str()? {
            "check" => Some(Self::Check),
            "healthcheck" => Some(Self::Healthcheck),
            "help" => Some(Self::Help),
            "serve" => Some(Self::Serve),
            "version" => Some(Self::Version),
            _ => None,
        }
    }
}

fn overrides(parser: &mut Parser, command: fn(Overrides) -> Subcommand) -> Result<Subcommand, UsageError> {
    let mut overrides = Overrides::default();
    while let Some(arg) = next(parser)? {
        match arg {
            Word::Help => return Ok(Subcommand::Help(HelpTopic::Commands)),
            Word::Version => return Ok(Subcommand::Version),
            Word::Directive => {
                let value = parser.value().map_err(|_| UsageError::MissingValue("-d".to_owned()))?;
                overrides.directives.push(value);
            }
            // An empty word comes from an unset variable in a script; it must not serve the wrong directory.
            Word::Plain(word) if overrides.document_root.is_none() && !word.is_empty() => {
                overrides.document_root = Some(word);
            }
            Word::Plain(word) => return Err(UsageError::TooManyWords(lossy(&word))),
            Word::Other(option) => return Err(UsageError::UnknownOption(option)),
        }
    }
    Ok(command(overrides))
}

fn healthcheck(parser: &mut Parser) -> Result<Subcommand, UsageError> {
    let mut probe = None;
    while let Some(arg) = next(parser)? {
        match arg {
            Word::Help => return Ok(Subcommand::Help(HelpTopic::Commands)),
            Word::Plain(word) if probe.is_none() => {
                probe = Some(match word.to_str() {
                    Some("liveness") => ProbeKind::Liveness,
                    Some("readiness") => ProbeKind::Readiness,
                    Some("startup") => ProbeKind::Startup,
                    _ => return Err(UsageError::UnknownProbe(lossy(&word))),
                });
            }
            other => return Err(other.unwanted()),
        }
    }
    Ok(Subcommand::Healthcheck(probe.unwrap_or(ProbeKind::Readiness)))
}

fn help(parser: &mut Parser) -> Result<Subcommand, UsageError> {
    let mut page = HelpTopic::Commands;
    while let Some(arg) = next(parser)? {
        page = match (arg, page) {
            (Word::Help, page) => page,
            (Word::Plain(word), HelpTopic::Commands) if word == "settings" => HelpTopic::Settings,
            (Word::Plain(word), HelpTopic::Commands) => return Err(UsageError::UnknownPage(lossy(&word))),
            (Word::Other(option), HelpTopic::Settings) if option == "--markdown" => {
                HelpTopic::SettingsMarkdown
            }
            (other, _) => return Err(other.unwanted()),
        };
    }
    Ok(Subcommand::Help(page))
}

fn version(parser: &mut Parser) -> Result<Subcommand, UsageError> {
    match next(parser)? {
        None | Some(Word::Version) => Ok(Subcommand::Version),
        Some(Word::Help) => Ok(Subcommand::Help(HelpTopic::Commands)),
        Some(other) => Err(other.unwanted()),
    }
}

/// A word of the command line.
enum Word {
    Directive,
    Help,
    Other(String),
    Plain(OsString),
    Version,
}

impl Word {
    fn unwanted(self) -> UsageError {
        match self {
            Self::Directive => UsageError::UnknownOption("-d".to_owned()),
            Self::Help => UsageError::UnknownOption("--help".to_owned()),
            Self::Version => UsageError::UnknownOption("--version".to_owned()),
            Self::Other(option) => UsageError::UnknownOption(option),
            Self::Plain(word) => UsageError::TooManyWords(lossy(&word)),
        }
    }
}

fn next(parser: &mut Parser) -> Result<Option<Word>, UsageError> {
    match parser.next() {
        Ok(None) => Ok(None),
        Ok(Some(Arg::Short('d'))) => Ok(Some(Word::Directive)),
        Ok(Some(Arg::Short('h') | Arg::Long("help"))) => alone(parser, "--help", Word::Help),
        Ok(Some(Arg::Short('V') | Arg::Long("version"))) => alone(parser, "--version", Word::Version),
        Ok(Some(Arg::Short(letter))) => Ok(Some(Word::Other(format!("-{letter}")))),
        Ok(Some(Arg::Long(name))) => Ok(Some(Word::Other(format!("--{name}")))),
        Ok(Some(Arg::Value(word))) => Ok(Some(Word::Plain(word))),
        Err(lexopt::Error::UnexpectedValue { option, .. }) => Err(UsageError::UnexpectedValue(option)),
        Err(other) => Err(UsageError::UnknownOption(other.to_string())),
    }
}

fn alone(parser: &mut Parser, option: &str, word: Word) -> Result<Option<Word>, UsageError> {
    match parser.optional_value() {
        None => Ok(Some(word)),
        Some(_) => Err(UsageError::UnexpectedValue(option.to_owned())),
    }
}

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

const COMMANDS: &str = "\
svc: a PHP application server

Usage:
  svc [serve] [DIR] [-d key=value]...   Serve DIR (default: DOCUMENT_ROOT)
  svc check [DIR] [-d key=value]...     Validate the settings and print each with its value and source;
                                        exit with 2 if one is invalid
  svc healthcheck [PROBE]               Query the operations port at INTERNAL_ADDR; exit with 0 if healthy,
                                        else 1; PROBE is readiness (default), liveness or startup
  svc version                           Print the versions of svc and PHP, and how PHP was built
  svc help [settings [--markdown]]      Print this help, or the list of settings

Options:
  -d key=value     Set a PHP directive, as in php.ini
  -h, --help       Print this help
  -V, --version    Print the versions

svc is configured with environment variables; run 'svc help settings' for a list.
To serve a directory that has the name of a command, write ./NAME.
Exit codes: 0 success; 1 runtime failure or forced stop; 2 invalid usage or settings.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(document_root: Option<&str>, directives: &[&str]) -> Result<Subcommand, UsageError> {
        Ok(Subcommand::Serve(Overrides {
            document_root: document_root.map(Into::into),
            directives: directives.iter().map(Into::into).collect(),
        }))
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
    fn directives_come_apart_or_together_and_keep_their_order() {
        assert_eq!(
            parse(["-d", "a=1", "site", "-db=2", "-d=c=3"]),
            serve(Some("site"), &["a=1", "b=2", "c=3"])
        );
        assert_eq!(parse(["-d"]), Err(UsageError::MissingValue("-d".to_owned())));
    }

    #[test]
    fn check_takes_what_serve_takes() {
        let overrides = Overrides { document_root: Some("site".into()), directives: vec!["a=1".into()] };
        assert_eq!(parse(["check", "site", "-d", "a=1"]), Ok(Subcommand::Check(overrides)));
    }

    #[test]
    fn healthcheck_asks_readiness_unless_told() {
        assert_eq!(parse(["healthcheck"]), Ok(Subcommand::Healthcheck(ProbeKind::Readiness)));
        assert_eq!(parse(["healthcheck", "startup"]), Ok(Subcommand::Healthcheck(ProbeKind::Startup)));
        assert_eq!(parse(["healthcheck", "mood"]), Err(UsageError::UnknownProbe("mood".to_owned())));
    }

    #[test]
    fn help_and_version_have_words_and_letters() {
        for words in [&["help"][..], &["-h"], &["--help"], &["serve", "-h"], &["healthcheck", "--help"]] {
            assert_eq!(parse(words), Ok(Subcommand::Help(HelpTopic::Commands)), "{words:?}");
        }
        assert_eq!(parse(["help", "settings"]), Ok(Subcommand::Help(HelpTopic::Settings)));
        assert_eq!(
            parse(["help", "settings", "--markdown"]),
            Ok(Subcommand::Help(HelpTopic::SettingsMarkdown))
        );
        for words in [["version"], ["-V"], ["--version"]] {
            assert_eq!(parse(words), Ok(Subcommand::Version), "{words:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (words, line) in [
            (&["--loud"][..], "--loud: unknown option; see svc help"),
            (&["a", "b"], r#""b": unexpected argument; see svc help"#),
            (&[""], r#""": unexpected argument; see svc help"#),
            (&["version", "-d", "a=1"], "-d: unknown option; see svc help"),
            (&["help", "poetry"], r#""poetry": unknown help topic; accepted: settings"#),
            (&["--help=yes"], "--help: does not take a value"),
        ] {
            assert_eq!(parse(words).expect_err("these words are wrong").to_string(), line);
        }
    }

    #[test]
    fn the_page_of_commands_fits_a_terminal() {
        assert!(COMMANDS.lines().all(|line| line.len() <= 110));
    }
}
