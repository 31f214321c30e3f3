//! The table of commands as text: the help of svc and of each command, and the manual page.
//!
//! Every command and option of the table appears in the help of its command and in the manual page. Settings are
//! described by the core's table only.

use std::fmt::Write as _;

use svc_core::config::key::Section;
use svc_core::config::keys::KEYS;
use svc_core::config::page::{self, unlinked};

use crate::build_features;
use crate::cli::HelpTopic;
use crate::command_table::{COMMANDS, COMMON_OPTIONS, CliCommand, CommandOption, EXAMPLES, Task};

/// Returns the text of a topic.
pub fn help(topic: HelpTopic) -> String {
    match topic {
        HelpTopic::Command(name) => {
            let command = COMMANDS.iter().find(|command| command.name == name);
            command.map(command_help).unwrap_or_default()
        }
        HelpTopic::Commands => overview(),
        HelpTopic::Settings => page::help(),
        HelpTopic::SettingsMarkdown => page::markdown(),
    }
}

fn overview() -> String {
    let mut text = String::from(
        "svc: a PHP application server\n\nUsage: svc [COMMAND] [OPTIONS] [ARGUMENT]\n\nStart here:\n",
    );
    for (line, purpose) in EXAMPLES {
        let _ = writeln!(text, "  {line:46}  {purpose}");
    }
    for task in Task::ALL {
        let _ = writeln!(text, "\n{}:", task.title());
        for command in COMMANDS.iter().filter(|command| command.task == task) {
            let _ = writeln!(text, "  {:12}  {}", command.name, command.summary);
        }
    }
    text.push_str("\nOptions of serve, which may be left out:\n");
    put_options(&mut text, CliCommand::unnamed().all_options());
    text.push_str(
        "\nRun 'svc help COMMAND' for the options of a command.\n\
         svc is configured with environment variables; run 'svc help settings' for a list.\n\
         Exit codes: 0 success; 1 runtime failure or forced stop; 2 invalid usage or settings.\n",
    );
    text + "This build has the " + &build_features::line()
}

fn command_help(command: &CliCommand) -> String {
    let mut text = format!("Usage: svc {}\n\n{}.\n", command.usage(), command.summary);
    for paragraph in command.details {
        text.push('\n');
        for line in page::wrapped(paragraph, 100) {
            text = text + &line + "\n";
        }
    }
    if command.all_options().next().is_some() {
        text.push_str("\nOptions:\n");
        put_options(&mut text, command.all_options());
    }
    text
}

fn put_options(text: &mut String, options: impl Iterator<Item = &'static CommandOption>) {
    for option in options {
        // Aligns the long names.
        let usage = option.usage();
        let indent = if option.short.is_some() { "" } else { "    " };
        let _ = writeln!(text, "  {:24}  {}", format!("{indent}{usage}"), option.summary);
    }
}

/// Returns the manual page in roff.
pub fn manual() -> String {
    let mut page = format!(
        ".TH SVC 1 \"\" \"svc {}\" \"User Commands\"\n.SH NAME\nsvc \\- a PHP application server\n.SH SYNOPSIS\n",
        env!("CARGO_PKG_VERSION")
    );
    for command in COMMANDS {
        let _ = writeln!(page, ".B svc\n{}\n.br", escaped(&command.usage()));
    }
    page.push_str(
        ".SH DESCRIPTION\nsvc serves PHP applications and static files over HTTP in a single process. Without a command, it \
         serves.\n.SH COMMANDS\n",
    );
    for command in COMMANDS {
        let _ = writeln!(page, ".SS svc {}\n{}.", escaped(&command.usage()), escaped(command.summary));
        for paragraph in command.details {
            let _ = writeln!(page, ".PP\n{}", escaped(paragraph));
        }
        command
            .options
            .iter()
            .flat_map(|options| options.iter())
            .for_each(|option| put_tagged(&mut page, option));
    }
    page.push_str(".SH OPTIONS OF ALL COMMANDS\n");
    COMMON_OPTIONS.iter().for_each(|option| put_tagged(&mut page, option));
    page.push_str(
        ".SH ENVIRONMENT\nEach variable is also read with the prefix\n.BR SVC_ ,\nwhich takes precedence. An empty variable \
         counts as unset.\n",
    );
    for section in Section::ALL {
        let _ = writeln!(page, ".SS {}", escaped(section.title()));
        for key in KEYS.iter().filter(|key| key.section == section) {
            let summary = escaped(&unlinked(key.summary).replace('`', ""));
            let _ = writeln!(
                page,
                ".TP\n.B {}\n{summary}\nAccepted: {}.",
                key.variable,
                escaped(&key.accepted().replace('`', ""))
            );
        }
    }
    page.push_str(
        ".SH SIGNALS\n.TP\n.BR SIGTERM \", \" SIGINT \", \" SIGQUIT\nStop, after requests in progress are finished; a second one stops at once.\n\
         .TP\n.B SIGHUP\nReload.\n.SH EXIT STATUS\n.TP\n.B 0\nSuccess.\n.TP\n.B 1\nRuntime failure or forced stop.\n.TP\n.B \
         2\nInvalid usage or settings.\n.SH SEE ALSO\n.BR php (1)\n.PP\nThe pages that are named here, such as settings.md, are in share/doc/svc/docs \
         below the prefix of the installation, /usr with the package.\n",
    );
    page
}

fn put_tagged(page: &mut String, option: &CommandOption) {
    let _ = writeln!(page, ".TP\n.B {}\n{}.", escaped(&option.usage()), escaped(option.summary));
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line that begins with these would be a roff request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_fits_a_terminal() {
        let topics = COMMANDS.iter().map(|command| HelpTopic::Command(command.name));
        for topic in topics.chain([HelpTopic::Commands]) {
            let text = help(topic);
            assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
        }
    }

    #[test]
    fn each_command_tells_all_its_options() {
        for command in COMMANDS {
            let text = help(HelpTopic::Command(command.name));
            assert!(help(HelpTopic::Commands).contains(&format!("\n  {} ", command.name)));
            assert!(text.contains(command.summary));
            assert!(command.all_options().all(|option| text.contains(&option.usage())), "{text}");
        }
    }

    #[test]
    fn the_manual_has_every_command_option_and_setting() {
        let manual = manual();
        for command in COMMANDS {
            assert!(manual.contains(&format!(".SS svc {}\n", escaped(&command.usage()))));
            let own = command.options.iter().flat_map(|options| options.iter());
            assert!(own.into_iter().all(|option| manual.contains(&escaped(&option.usage()))));
        }
        assert!(KEYS.iter().all(|key| manual.contains(&format!(".B {}\n", key.variable))));
        assert!(!manual.contains("](") && !manual.contains('`'), "Markdown");
    }

    #[test]
    fn text_is_no_request() {
        assert_eq!(escaped(".svcdeny -x \\"), "\\&.svcdeny \\-x \\e");
    }
}
