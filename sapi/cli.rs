//! Command line parsing: the command and its options.
//!
//! Parsing is pure: words become a [`Subcommand`] or one [`UsageError`], which names what is accepted or where to look.
//! The table defines the commands and options; the core's table validates the settings.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::time::Duration;

use lexopt::{Arg, Parser};

use svc_core::config::spelling::{nearest, tolerance};

use crate::command_table::{
    Argument, COMMANDS, CliCommand, CommandOption, Completion, Effect, OTHER_COMMANDS, OTHER_OPTIONS,
};
use crate::overrides::Overrides;

/// The requested command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subcommand {
    /// Print every setting, or the errors in the settings.
    Check(Overrides, CheckStyle),
    /// Print the completions for a shell.
    Completions(Shell),
    /// Serve for development.
    Dev(Overrides),
    /// Query a probe of a running server.
    Healthcheck(ProbeKind, Overrides),
    /// Print help.
    Help(HelpTopic),
    /// Print the manual page.
    Man,
    /// Serve an application of Laravel Octane.
    Octane(Overrides),
    /// Run the command-line PHP with these arguments.
    Php(Vec<OsString>),
    /// Make a running server reload, and wait this long for the outcome, if at all.
    Reload(Overrides, Option<Duration>),
    /// Run the server.
    Serve(Overrides),
    /// Write the declarations for editors into this directory.
    Stubs(OsString),
    /// Stop a running server.
    Stop(Overrides),
    /// Print the versions.
    Version,
}

/// The output style of `svc check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckStyle {
    /// Only settings that differ from the default.
    pub is_changed_only: bool,
    /// A JSON object.
    pub is_json: bool,
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

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// Bash.
    Bash,
    /// Fish.
    Fish,
    /// Zsh.
    Zsh,
}

/// A help topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelpTopic {
    /// The command of this name.
    Command(&'static str),
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
    /// An argument that the command requires is missing: the command, the argument, and what is accepted.
    MissingArgument(&'static str, &'static str, String),
    /// An option without its required value, with the name of that value.
    MissingValue(String, &'static str),
    /// An unexpected argument.
    TooManyWords(String),
    /// A value for an option that does not take one.
    UnexpectedValue(String),
    /// The first of several words is not a command; with the closest command.
    UnknownCommand(String, &'static str),
    /// An unknown option, or one that the command does not support, with the closest option.
    UnknownOption(String, Option<String>),
    /// An unknown help topic, with the closest topic.
    UnknownPage(String, Option<String>),
    /// An unknown probe.
    UnknownProbe(String),
    /// An unknown shell.
    UnknownShell(String),
    /// An invalid timeout.
    WrongTimeout(String),
}

/// Parses the words after the name of the program.
///
/// # Errors
///
/// For the first word that is not valid.
///
/// # Examples
///
/// ```
/// use svc::cli::{Subcommand, parse};
///
/// assert_eq!(parse(["man"]), Ok(Subcommand::Man));
/// assert!(parse(["--loud"]).is_err());
/// ```
pub fn parse<W>(words: impl IntoIterator<Item = W>) -> Result<Subcommand, UsageError>
where
    W: Into<OsString>,
{
    let mut words = words.into_iter().map(Into::into).peekable();
    let named = words.peek().and_then(|word: &OsString| CliCommand::named(word.to_str()?));
    if named.is_some() {
        words.next();
    }
    let command = named.unwrap_or_else(CliCommand::unnamed);
    if matches!(command.argument, Argument::Foreign(_)) {
        return Ok(Subcommand::Php(words.collect()));
    }
    let first = words.peek().filter(|_| named.is_none()).cloned();
    let (command, parsed) =
        read(command, named.is_some(), &mut Parser::from_args(words)).map_err(|error| {
            let meant = first.as_deref().and_then(meant_command);
            match (&error, first.as_ref().zip(meant)) {
                (UsageError::TooManyWords(_), Some((word, meant))) => {
                    UsageError::UnknownCommand(lossy(word), meant)
                }
                _ => error,
            }
        })?;
    match parsed.shortcut {
        Some(Effect::Version) => Ok(Subcommand::Version),
        Some(_) if !parsed.is_named => Ok(Subcommand::Help(HelpTopic::Commands)),
        Some(_) => Ok(Subcommand::Help(HelpTopic::Command(command.name))),
        None => parsed.subcommand(command),
    }
}

/// Returns the command closest to this word.
fn meant_command(word: &OsStr) -> Option<&'static str> {
    // A path is not a misspelt command.
    let word = word.to_str().filter(|word| !word.contains(['/', '.']))?;
    let of_others = OTHER_COMMANDS.iter().find(|(other, _)| *other == word).map(|(_, own)| *own);
    of_others.or_else(|| near_command(word))
}

fn near_command(word: &str) -> Option<&'static str> {
    nearest(word, COMMANDS.iter().map(|command| command.name), tolerance)
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

/// The words after a command.
#[derive(Default)]
struct ParsedWords {
    options: Vec<(&'static CommandOption, OsString)>,
    argument: Option<OsString>,
    /// A word names the command.
    is_named: bool,
    /// An option that replaces the command.
    shortcut: Option<Effect>,
}

/// Reads the options and the argument of a command. Without a name so far, the first word that is no option may name it,
/// as in `svc -d memory_limit=1G serve public`.
fn read(
    mut command: &'static CliCommand,
    is_named: bool,
    parser: &mut Parser,
) -> Result<(&'static CliCommand, ParsedWords), UsageError> {
    let mut parsed = ParsedWords { is_named, ..ParsedWords::default() };
    loop {
        let name = match parser.next() {
            Ok(None) => return Ok((command, parsed)),
            Ok(Some(Arg::Short(letter))) => format!("-{letter}"),
            Ok(Some(Arg::Long(name))) => format!("--{name}"),
            // An empty word comes from an unset variable in a script; it must not serve the wrong directory.
            Ok(Some(Arg::Value(word))) => {
                if let Some(named) = parsed.late_name(&word) {
                    command = named;
                    parsed.is_named = true;
                    parsed.check_options(command)?;
                    continue;
                }
                if parsed.argument.is_some() || word.is_empty() || command.argument == Argument::None {
                    return Err(UsageError::TooManyWords(lossy(&word)));
                }
                parsed.argument = Some(word);
                continue;
            }
            Err(lexopt::Error::UnexpectedValue { option, .. }) => {
                return Err(UsageError::UnexpectedValue(option));
            }
            Err(other) => return Err(UsageError::UnknownOption(other.to_string(), None)),
        };
        let Some(option) = command.all_options().find(|option| option.is_called(&name)) else {
            return Err(unknown_option(command, name));
        };
        match option.value {
            Some((value, _)) => {
                let missing = |_| UsageError::MissingValue(option.name(), value);
                parsed.options.push((option, parser.value().map_err(missing)?));
            }
            None if parser.optional_value().is_some() => {
                return Err(UsageError::UnexpectedValue(option.name()));
            }
            None if matches!(option.effect, Effect::Help | Effect::Version) => {
                parsed.shortcut = Some(option.effect);
                return Ok((command, parsed));
            }
            None => parsed.options.push((option, OsString::new())),
        }
    }
}

impl ParsedWords {
    /// Returns the command that a word after options names.
    fn late_name(&self, word: &OsStr) -> Option<&'static CliCommand> {
        let is_expected = !self.is_named && self.argument.is_none();
        word.to_str().filter(|_| is_expected).and_then(CliCommand::named)
    }

    /// Checks that the options before the name of the command are among its options.
    fn check_options(&self, command: &'static CliCommand) -> Result<(), UsageError> {
        let is_known = |given: &CommandOption| command.all_options().any(|own| own.effect == given.effect);
        let unknown = self.options.iter().find(|(given, _)| !is_known(given));
        unknown.map_or(Ok(()), |(given, _)| Err(unknown_option(command, given.name())))
    }

    fn subcommand(self, command: &'static CliCommand) -> Result<Subcommand, UsageError> {
        Ok(match command.name {
            "check" => {
                let style = CheckStyle {
                    is_changed_only: self.has(Effect::Changed),
                    is_json: self.has(Effect::Json),
                };
                Subcommand::Check(self.overrides(), style)
            }
            "completions" => Subcommand::Completions(self.shell(command)?),
            "dev" => Subcommand::Dev(Overrides { is_watching: true, ..self.overrides() }),
            "healthcheck" => {
                let probe = match self.argument.as_ref().map(lossy).as_deref() {
                    None | Some("readiness") => ProbeKind::Readiness,
                    Some("liveness") => ProbeKind::Liveness,
                    Some("startup") => ProbeKind::Startup,
                    Some(other) => return Err(UsageError::UnknownProbe(other.to_owned())),
                };
                Subcommand::Healthcheck(probe, Self { argument: None, ..self }.overrides())
            }
            "help" => Subcommand::Help(self.topic()?),
            "man" => Subcommand::Man,
            "octane" => Subcommand::Octane(self.overrides()),
            "reload" => {
                let patience = self.patience()?;
                Subcommand::Reload(self.overrides(), patience)
            }
            "stubs" => Subcommand::Stubs(self.required(command)?),
            "stop" => Subcommand::Stop(self.overrides()),
            "version" => Subcommand::Version,
            _ => Subcommand::Serve(self.overrides()),
        })
    }

    fn has(&self, effect: Effect) -> bool {
        self.options.iter().any(|(option, _)| option.effect == effect)
    }

    fn overrides(self) -> Overrides {
        // The first word may be a misspelt command.
        let meant = self.argument.as_deref().filter(|_| !self.is_named).and_then(meant_command);
        let mut overrides = Overrides { document_root: self.argument, meant, ..Overrides::default() };
        for (option, value) in self.options {
            match option.effect {
                Effect::Directive => overrides.directives.push(value),
                Effect::EnvFile => overrides.env_files.push(value.into()),
                Effect::Setting(variable) => overrides.options.push((option.name(), variable, value)),
                Effect::Worker => {
                    overrides.options.push((option.name(), "ENTRY_FILE", value));
                    overrides.options.push((option.name(), "WORKER_MODE_ENABLED", "true".into()));
                }
                Effect::Host => overrides.host = Some(value),
                Effect::Port => overrides.port = Some(value),
                Effect::Watch => overrides.is_watching = true,
                Effect::Changed
                | Effect::Help
                | Effect::Json
                | Effect::Markdown
                | Effect::NoWait
                | Effect::Timeout
                | Effect::Version => {}
            }
        }
        overrides
    }

    /// Returns how long to wait for the outcome of a reload; `None` does not wait.
    fn patience(&self) -> Result<Option<Duration>, UsageError> {
        let given = self.options.iter().rev().find(|(option, _)| option.effect == Effect::Timeout);
        let seconds = match given {
            None => PATIENCE_SECONDS,
            Some((_, value)) => {
                let seconds = value.to_str().and_then(|text| text.parse().ok());
                let seconds = seconds.filter(|seconds| (1..=PATIENCE_SECONDS_MAX).contains(seconds));
                seconds.ok_or_else(|| UsageError::WrongTimeout(lossy(value)))?
            }
        };
        Ok((!self.has(Effect::NoWait)).then_some(Duration::from_secs(seconds)))
    }

    fn required(self, command: &'static CliCommand) -> Result<OsString, UsageError> {
        let Argument::Required(name, _) = command.argument else { return Ok(OsString::new()) };
        self.argument.ok_or_else(|| UsageError::MissingArgument(command.name, name, "a directory".to_owned()))
    }

    fn shell(&self, command: &'static CliCommand) -> Result<Shell, UsageError> {
        match self.argument.as_ref().map(lossy).as_deref() {
            Some("bash") => Ok(Shell::Bash),
            Some("fish") => Ok(Shell::Fish),
            Some("zsh") => Ok(Shell::Zsh),
            Some(other) => Err(UsageError::UnknownShell(other.to_owned())),
            None => {
                let Argument::Required(name, Completion::Words(words)) = command.argument else {
                    return Err(UsageError::UnknownShell(String::new()));
                };
                Err(UsageError::MissingArgument(command.name, name, words.join(", ")))
            }
        }
    }

    fn topic(&self) -> Result<HelpTopic, UsageError> {
        let is_markdown = self.has(Effect::Markdown);
        match self.argument.as_ref().map(lossy).as_deref() {
            Some("settings") if is_markdown => Ok(HelpTopic::SettingsMarkdown),
            _ if is_markdown => Err(UsageError::UnknownOption("--markdown".to_owned(), None)),
            None => Ok(HelpTopic::Commands),
            Some("settings") => Ok(HelpTopic::Settings),
            Some(name) => match CliCommand::named(name) {
                Some(command) => Ok(HelpTopic::Command(command.name)),
                None => {
                    let topics = COMMANDS.iter().map(|command| command.name).chain(["settings"]);
                    let meant = nearest(name, topics, tolerance).map(str::to_owned);
                    Err(UsageError::UnknownPage(name.to_owned(), meant))
                }
            },
        }
    }
}

impl CommandOption {
    fn is_called(&self, name: &str) -> bool {
        let is_short =
            self.short.is_some_and(|short| name.strip_prefix('-') == Some(short.encode_utf8(&mut [0; 4])));
        is_short || self.long.is_some_and(|long| name.strip_prefix("--") == Some(long))
    }
}

fn unknown_option(command: &'static CliCommand, name: String) -> UsageError {
    let bare = name.trim_start_matches('-');
    if let Some((_, own)) = OTHER_OPTIONS.iter().find(|(other, own)| {
        // The command may lack the equivalent option.
        let option = own.split(' ').next().unwrap_or_default();
        *other == bare && (option == "svc" || command.all_options().any(|known| known.is_called(option)))
    }) {
        return UsageError::UnknownOption(name, Some((*own).to_owned()));
    }
    let names: Vec<String> = command.all_options().map(CommandOption::name).collect();
    // Single letters are not compared: all are equally close.
    let long = names.iter().map(String::as_str).filter(|other| other.starts_with("--"));
    let meant = name.starts_with("--").then(|| nearest(&name, long, tolerance).map(str::to_owned)).flatten();
    UsageError::UnknownOption(name, meant)
}

/// The default of `--timeout`.
const PATIENCE_SECONDS: u64 = 60;

/// The maximum of `--timeout`.
const PATIENCE_SECONDS_MAX: u64 = 86_400;

fn lossy(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

impl std::error::Error for UsageError {}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_help = |meant: &Option<String>| match meant {
            Some(meant) => format!("did you mean {meant}?"),
            None => "see svc help".to_owned(),
        };
        match self {
            Self::MissingArgument(command, name, accepted) => {
                write!(f, "{command}: requires {name}; accepted: {accepted}")
            }
            Self::MissingValue(option, value) => {
                let value = if *value == "KEY=VALUE" { "key=value" } else { value };
                write!(f, "{option}: requires a value; accepted: {option} {value}")
            }
            Self::TooManyWords(word) => write!(f, "{word:?}: unexpected argument; see svc help"),
            Self::UnexpectedValue(option) => write!(f, "{option}: does not take a value"),
            Self::UnknownCommand(word, meant) => {
                write!(f, "{word:?}: unknown command; did you mean {meant}?")
            }
            Self::UnknownOption(option, meant) => {
                write!(f, "{option}: unknown option; {}", or_help(meant))
            }
            Self::UnknownPage(page, Some(meant)) => {
                write!(f, "{page:?}: unknown help topic; did you mean {meant}?")
            }
            Self::UnknownPage(page, None) => {
                write!(f, "{page:?}: unknown help topic; accepted: settings, or a command")
            }
            Self::UnknownProbe(probe) => {
                write!(f, "{probe:?}: unknown probe; accepted: readiness, liveness, startup")
            }
            Self::WrongTimeout(text) => write!(
                f,
                "--timeout: {text:?} is not a time; accepted: an integer from 1 to {PATIENCE_SECONDS_MAX}, in seconds"
            ),
            Self::UnknownShell(shell) => write!(f, "{shell:?}: unknown shell; accepted: bash, zsh, fish"),
        }
    }
}

#[cfg(test)]
#[path = "cli_tests.rs"]
mod tests;
