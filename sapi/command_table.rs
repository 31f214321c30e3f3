//! The table of commands and options.
//!
//! Parsing, help, the manual page and shell completions are derived from it, so that they cannot disagree. Rows contain
//! no code; the action of an option is its [`Effect`].

/// A command.
#[derive(Debug)]
pub struct CliCommand {
    /// The name.
    pub name: &'static str,
    /// Its group in the help.
    pub task: Task,
    /// The argument after the name and the options.
    pub argument: Argument,
    /// A one-line summary.
    pub summary: &'static str,
    /// The detailed description, in paragraphs.
    pub details: &'static [&'static str],
    /// The options, besides those of all commands.
    pub options: &'static [&'static [CommandOption]],
}

/// The task that a command serves. The help lists commands by task, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Task {
    /// To serve an application.
    Serve,
    /// To operate a server.
    Operate,
    /// To write an application.
    Write,
    /// To look something up.
    LookUp,
}

/// The argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// All words, options included, for another program; with their placeholder.
    Foreign(&'static str),
    /// Zero or one word; with its placeholder and completion.
    Optional(&'static str, Completion),
    /// One word; with its placeholder and completion.
    Required(&'static str, Completion),
}

/// An option.
#[derive(Debug)]
pub struct CommandOption {
    /// The letter of `-x`.
    pub short: Option<char>,
    /// The name of `--name`.
    pub long: Option<&'static str>,
    /// The placeholder of its value and the completion; `None` if it has no value.
    pub value: Option<(&'static str, Completion)>,
    /// A one-line summary.
    pub summary: &'static str,
    /// The action.
    pub effect: Effect,
}

/// The completion of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Anything.
    Anything,
    /// A directory.
    Directory,
    /// A file.
    File,
    /// One of these.
    Words(&'static [&'static str]),
}

/// The action of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Shows only values that differ from the default.
    Changed,
    /// Sets a PHP directive.
    Directive,
    /// Reads variables from a file.
    EnvFile,
    /// Prints help.
    Help,
    /// Listens on this address for development.
    Host,
    /// Prints JSON.
    Json,
    /// Prints Markdown.
    Markdown,
    /// Returns without waiting.
    NoWait,
    /// Listens on this port for development.
    Port,
    /// Overrides the setting of this variable.
    Setting(&'static str),
    /// Limits the wait.
    Timeout,
    /// Prints the versions.
    Version,
    /// Watches the code.
    Watch,
    /// Chooses worker mode and its script.
    Worker,
}

/// Every command, in the order of the help.
pub static COMMANDS: &[CliCommand] = &[
    CliCommand {
        name: "serve",
        task: Task::Serve,
        argument: DIR,
        summary: "Serve DIR (default: DOCUMENT_ROOT); the word serve may be left out",
        details: &[
            "Options take precedence over the environment, and that over the files of --env-file. To serve a directory that \
             has the name of a command, write ./NAME.",
        ],
        options: &[COMMON_SETTING_OPTIONS, SCRIPT_OPTIONS],
    },
    CliCommand {
        name: "dev",
        task: Task::Serve,
        argument: Argument::Optional("DIR", Completion::Directory),
        summary: "Serve DIR (default: DOCUMENT_ROOT) for development",
        details: &[
            "Code is reloaded as soon as it changes, browsers reload, errors are displayed, and a failure of a script is \
             answered with a page that shows its code and its stack, or with JSON. Of a project with a folder public or web, \
             that folder is served. The URLs are printed, and a line for each request with PHP's messages below it.",
            "It listens on 127.0.0.1, because its pages show code and the environment: only --host makes it reachable from \
             other machines. If a port is in use, the next free one is used. RUN_AS is refused.",
        ],
        options: &[DEV_OPTIONS, COMMON_SETTING_OPTIONS, SCRIPT_OPTIONS],
    },
    CliCommand {
        name: "octane",
        task: Task::Serve,
        argument: Argument::Optional("DIR", Completion::Directory),
        summary: "Serve the Laravel application in DIR (default: .) with Octane",
        details: &[
            "Octane must be installed in the application; nothing else has to be set. Serves DIR/public in worker mode, with \
             the worker script that Octane has for FrankenPHP, which is created in DIR/public if it is missing. Workers are \
             restarted after about 500 requests, or WORKER_MAX_REQUESTS.",
        ],
        options: &[COMMON_SETTING_OPTIONS, OCTANE_OPTIONS],
    },
    CliCommand {
        name: "check",
        task: Task::Operate,
        argument: DIR,
        summary: "Validate the configuration, then print it",
        details: &[
            "Prints each setting with its value and source, the ini files that PHP has read and its extensions. Errors in the \
             settings, in the files that they name, in ini files, PHP directives, extensions or plugins, and unavailable ports, \
             are printed instead, with exit code 2. The ports of a server that runs with the same PID_FILE or \
             INTERNAL_ADDR are a warning. Nothing is served, and plugins are loaded but not initialised.",
        ],
        options: &[COMMON_SETTING_OPTIONS, SCRIPT_OPTIONS, CHECK_OPTIONS],
    },
    CliCommand {
        name: "reload",
        task: Task::Operate,
        argument: Argument::None,
        summary: "Make the server of PID_FILE reload, as SIGHUP does, and wait for the outcome",
        details: &[
            "Certificates, rules and error pages are reloaded, OPcache is emptied, and persistent workers are replaced one after \
             another. Exits with 0 once every worker that takes requests runs the code on disk, and with 1 if a file cannot be \
             read, if a worker fails to boot (with the message, file and line), or after the timeout. Settings and ini files \
             are read only at the start.",
        ],
        options: &[RELOAD_OPTIONS, PID_OPTIONS],
    },
    CliCommand {
        name: "stop",
        task: Task::Operate,
        argument: Argument::None,
        summary: "Stop the server of PID_FILE, and wait for its end",
        details: &["Requests in progress are finished first, as with SIGTERM."],
        options: &[PID_OPTIONS],
    },
    CliCommand {
        name: "healthcheck",
        task: Task::Operate,
        argument: Argument::Optional("PROBE", Completion::Words(&["readiness", "liveness", "startup"])),
        summary: "Query the operations port; exit with 0 if healthy, else 1",
        details: &[
            "PROBE is readiness (default), liveness or startup. The operations port is at INTERNAL_ADDR.",
        ],
        options: &[PROBE_OPTIONS],
    },
    CliCommand {
        name: "php",
        task: Task::Write,
        argument: Argument::Foreign("[ARGS]..."),
        summary: "Run the command-line PHP of the same build",
        details: &[
            "It has the same ini files and extensions as the server. All arguments are PHP's, as in 'svc php -r CODE' or \
             'svc php bin/console'.",
        ],
        options: &[],
    },
    CliCommand {
        name: "stubs",
        task: Task::Write,
        argument: Argument::Required("DIR", Completion::Directory),
        summary: "Write declarations of svc's functions and classes into DIR, for editors",
        details: &[
            "Writes DIR/svc.php, which editors and static analysis read: PhpStorm and Intelephense find it anywhere in the \
             project, PHPStan with scanFiles, Psalm with stubs. Nothing loads it.",
        ],
        options: &[],
    },
    CliCommand {
        name: "version",
        task: Task::LookUp,
        argument: Argument::None,
        summary: "Print the versions of svc and PHP, and how PHP was built",
        details: &[],
        options: &[],
    },
    CliCommand {
        name: "completions",
        task: Task::LookUp,
        argument: Argument::Required("SHELL", Completion::Words(&["bash", "zsh", "fish"])),
        summary: "Print the completions for a shell: bash, zsh or fish",
        details: &[
            "For bash, write 'source <(svc completions bash)' into ~/.bashrc. For zsh, save them as _svc in a directory of \
             $fpath; for fish, as ~/.config/fish/completions/svc.fish.",
        ],
        options: &[],
    },
    CliCommand {
        name: "man",
        task: Task::LookUp,
        argument: Argument::None,
        summary: "Print the manual page; svc man | man -l -",
        details: &[],
        options: &[],
    },
    CliCommand {
        name: "help",
        task: Task::LookUp,
        argument: Argument::Optional("TOPIC", Completion::Words(TOPICS)),
        summary: "Print help: this page, a command, or the settings",
        details: &["TOPIC is a command, or settings."],
        options: &[HELP_OPTIONS],
    },
];

/// The options of all commands, except those that pass their arguments on.
pub static COMMON_OPTIONS: &[CommandOption] = &[
    option(Some('h'), "help", None, "Print help", Effect::Help),
    option(Some('V'), "version", None, "Print the versions", Effect::Version),
];

/// The topics of the help.
const TOPICS: &[&str] = &[
    "settings",
    "serve",
    "dev",
    "octane",
    "check",
    "reload",
    "stop",
    "healthcheck",
    "php",
    "stubs",
    "version",
    "completions",
    "man",
    "help",
];

/// Names of commands in other servers, and their equivalents here.
pub static OTHER_COMMANDS: &[(&str, &str)] = &[
    ("start", "serve"),
    ("run", "serve"),
    ("server", "serve"),
    ("up", "serve"),
    ("configtest", "check"),
    ("test", "check"),
    ("validate", "check"),
    ("health", "healthcheck"),
    ("status", "healthcheck"),
    ("quit", "stop"),
    ("shutdown", "stop"),
    ("restart", "reload"),
];

/// Names of options in other servers, without dashes, and their equivalents here.
pub static OTHER_OPTIONS: &[(&str, &str)] = &[
    ("port", "--listen :PORT"),
    ("p", "--listen :PORT"),
    ("host", "--listen HOST:PORT"),
    ("addr", "--listen HOST:PORT"),
    ("address", "--listen HOST:PORT"),
    ("bind", "--listen HOST:PORT"),
    ("S", "--listen HOST:PORT"),
    ("root", "svc serve DIR"),
    ("docroot", "svc serve DIR"),
    ("document-root", "svc serve DIR"),
    ("t", "svc serve DIR, or svc check"),
    ("config", "--env-file FILE"),
    ("c", "--env-file FILE"),
    ("threads", "--workers N"),
    ("num-threads", "--workers N"),
    ("pid", "--pid-file FILE"),
    ("v", "--version"),
];

const DIR: Argument = Argument::Optional("DIR", Completion::Directory);

const FILE: Completion = Completion::File;

static COMMON_SETTING_OPTIONS: &[CommandOption] = &[
    setting(
        "listen",
        "ADDR",
        Completion::Anything,
        "LISTEN_ADDR",
        "Listen on this address: host:port, or :port",
    ),
    setting("ops", "ADDR", Completion::Anything, "INTERNAL_ADDR", "Open the operations port on this address"),
    setting(
        "workers",
        "N",
        Completion::Anything,
        "PHP_WORKERS",
        "Run PHP on this number of threads, or MIN:MAX",
    ),
    ENV_FILE,
    PID_FILE,
    option(None, "watch", None, "Reload code as soon as it changes, for development", Effect::Watch),
    CommandOption {
        short: Some('d'),
        long: None,
        value: Some(("KEY=VALUE", Completion::Anything)),
        summary: "Set a PHP directive, as in php.ini",
        effect: Effect::Directive,
    },
];

static DEV_OPTIONS: &[CommandOption] = &[
    option(
        None,
        "host",
        Some(("ADDRESS", Completion::Anything)),
        "Listen on this address, which other machines may reach",
        Effect::Host,
    ),
    option(
        None,
        "port",
        Some(("PORT", Completion::Anything)),
        "Listen on this port, or on the next free one (default: 8080)",
        Effect::Port,
    ),
];

static SCRIPT_OPTIONS: &[CommandOption] = &[
    setting("entry", "FILE", FILE, "ENTRY_FILE", "Handle paths that match no file with this file below DIR"),
    option(
        None,
        "worker",
        Some(("FILE", FILE)),
        "Keep this script below DIR loaded (worker mode)",
        Effect::Worker,
    ),
];

static OCTANE_OPTIONS: &[CommandOption] = &[setting(
    "max-requests",
    "N",
    Completion::Anything,
    "WORKER_MAX_REQUESTS",
    "Restart each worker after about this number of requests (default: 500)",
)];

static CHECK_OPTIONS: &[CommandOption] = &[
    option(None, "changed", None, "Print only settings that differ from their defaults", Effect::Changed),
    option(None, "json", None, "Print a JSON object", Effect::Json),
];

static RELOAD_OPTIONS: &[CommandOption] = &[
    option(None, "no-wait", None, "Exit immediately, without waiting for the outcome", Effect::NoWait),
    option(
        None,
        "timeout",
        Some(("SECONDS", Completion::Anything)),
        "Wait no longer than this for the outcome (default: 60)",
        Effect::Timeout,
    ),
];

static PID_OPTIONS: &[CommandOption] = &[PID_FILE, ENV_FILE];

static PROBE_OPTIONS: &[CommandOption] =
    &[setting("ops", "ADDR", Completion::Anything, "INTERNAL_ADDR", "Query this address"), ENV_FILE];

static HELP_OPTIONS: &[CommandOption] =
    &[option(None, "markdown", None, "Print the settings as the reference page", Effect::Markdown)];

const ENV_FILE: CommandOption = option(
    None,
    "env-file",
    Some(("FILE", FILE)),
    "Read variables from a file, with NAME=value lines",
    Effect::EnvFile,
);

const PID_FILE: CommandOption =
    setting("pid-file", "FILE", FILE, "PID_FILE", "The file with the server's process ID");

const fn option(
    short: Option<char>,
    long: &'static str,
    value: Option<(&'static str, Completion)>,
    summary: &'static str,
    effect: Effect,
) -> CommandOption {
    CommandOption { short, long: Some(long), value, summary, effect }
}

const fn setting(
    long: &'static str,
    value: &'static str,
    completion: Completion,
    variable: &'static str,
    summary: &'static str,
) -> CommandOption {
    option(None, long, Some((value, completion)), summary, Effect::Setting(variable))
}

impl Task {
    /// All tasks.
    pub const ALL: [Self; 4] = [Self::Serve, Self::Operate, Self::Write, Self::LookUp];

    /// Returns its title in the help.
    pub fn title(self) -> &'static str {
        match self {
            Self::Serve => "Serve an application",
            Self::Operate => "Operate a server",
            Self::Write => "Write an application",
            Self::LookUp => "Look something up",
        }
    }
}

/// Command lines for what people do first, with what they do.
pub static EXAMPLES: &[(&str, &str)] = &[
    ("svc dev", "develop the application in this directory"),
    ("svc public", "serve a directory with .php files"),
    ("svc --entry index.php public", "the same, with a front controller"),
    ("svc --worker worker.php public", "keep the application loaded"),
    ("EXECUTOR=fastcgi FASTCGI_ADDR=unix:/run/php/php-fpm.sock svc public", "use a php-fpm that runs"),
    ("svc --listen :80 --ops 127.0.0.1:9090 public", "with a port for operators"),
    ("svc check", "validate the configuration"),
];

impl CliCommand {
    /// Returns the command of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// Returns the command that runs if none is named.
    pub fn unnamed() -> &'static Self {
        &COMMANDS[0]
    }

    /// Returns all its options.
    pub fn all_options(&self) -> impl Iterator<Item = &'static CommandOption> + use<> {
        let common = if matches!(self.argument, Argument::Foreign(_)) { &[][..] } else { COMMON_OPTIONS };
        self.options.iter().flat_map(|options| options.iter()).chain(common)
    }

    /// Returns the usage without the name of the program.
    pub fn usage(&self) -> String {
        let mut usage = self.name.to_owned();
        if self.options.iter().any(|options| !options.is_empty()) {
            usage += " [OPTIONS]";
        }
        match self.argument {
            Argument::None => {}
            Argument::Foreign(name) => usage = usage + " " + name,
            Argument::Optional(name, _) => usage += &format!(" [{name}]"),
            Argument::Required(name, _) => usage = usage + " " + name,
        }
        usage
    }
}

impl CommandOption {
    /// Returns the preferred spelling: `--listen`, or `-d` if it has no long name.
    pub fn name(&self) -> String {
        match (self.long, self.short) {
            (Some(long), _) => format!("--{long}"),
            (None, Some(short)) => format!("-{short}"),
            (None, None) => String::new(),
        }
    }

    /// Returns all spellings with the value's placeholder, as shown in help.
    pub fn usage(&self) -> String {
        let short = self.short.map(|short| format!("-{short}"));
        let long = self.long.map(|long| format!("--{long}"));
        let names: Vec<String> = short.into_iter().chain(long).collect();
        match self.value {
            Some((value, _)) => format!("{} {value}", names.join(", ")),
            None => names.join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use svc_core::config::keys::KEYS;

    use super::*;

    #[test]
    fn names_are_unique_and_options_set_known_settings() {
        let names: BTreeSet<_> = COMMANDS.iter().map(|command| command.name).collect();
        assert_eq!(names.len(), COMMANDS.len());
        for command in COMMANDS {
            let options: Vec<_> = command.all_options().collect();
            let names: BTreeSet<_> = options.iter().map(|option| option.name()).collect();
            assert_eq!(names.len(), options.len(), "{}", command.name);
            for option in options {
                assert!(!option.name().is_empty());
                if let Effect::Setting(variable) = option.effect {
                    assert!(KEYS.iter().any(|key| key.variable == variable), "{variable}");
                    assert!(option.value.is_some() && option.long.is_some());
                }
            }
        }
    }

    #[test]
    fn every_command_is_a_topic_of_the_help() {
        let mut topics: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        topics.insert(0, "settings");
        assert_eq!(TOPICS, topics);
    }

    #[test]
    fn commands_are_in_the_order_of_their_tasks() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.task));
        assert!(Task::ALL.is_sorted());
        assert!(Task::ALL.iter().all(|task| COMMANDS.iter().any(|command| command.task == *task)));
    }

    #[test]
    fn the_unnamed_command_serves() {
        assert_eq!(CliCommand::unnamed().name, "serve");
    }
}
