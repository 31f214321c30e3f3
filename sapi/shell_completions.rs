//! Shell completions, derived from the table of commands.
//!
//! Every command and option of the table is completed, and so are their values. No running server is queried.

use std::fmt::Write as _;

use crate::cli::Shell;
use crate::command_table::{Argument, COMMANDS, CliCommand, CommandOption, Completion};

/// Returns the script that a shell reads.
pub fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Fish => fish(),
        Shell::Zsh => zsh(),
    }
}

fn bash() -> String {
    let mut cases = String::new();
    for command in COMMANDS {
        let options: Vec<String> = command.all_options().flat_map(spellings).collect();
        let argument = match command.argument {
            Argument::Optional(_, completion) | Argument::Required(_, completion) => bash_words(completion),
            Argument::None => String::new(),
            Argument::Foreign(_) => "compopt -o default; return".to_owned(),
        };
        let values = command.all_options().filter_map(|option| {
            let (_, completion) = option.value?;
            Some(format!(
                "            {}) {} ;;\n",
                spellings(option).join(" | "),
                or_nothing(bash_words(completion))
            ))
        });
        let _ = write!(
            cases,
            "    {name})\n        case $previous in\n{values}            *) case $current in\n                -*) \
             COMPREPLY=($(compgen -W '{options}' -- \"$current\")) ;;\n                *) {argument} ;;\n            esac ;;\n        \
             esac ;;\n",
            name = command.name,
            values = values.collect::<String>(),
            options = options.join(" "),
            argument = or_nothing(argument),
        );
    }
    let names = names();
    format!(
        "# Completions of svc for bash; made by `svc completions bash`.\n\
         _svc() {{\n    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=serve\n    \
         COMPREPLY=()\n    case ${{COMP_WORDS[1]}} in\n    {alternatives}) [ \"$COMP_CWORD\" = 1 ] || command=${{COMP_WORDS[1]}} \
         ;;\n    esac\n    if [ \"$COMP_CWORD\" = 1 ] && [[ $current != -* ]]; then\n        compopt -o filenames 2>/dev/null\n        \
         COMPREPLY=($(compgen -W '{names}' -- \"$current\") $(compgen -d -- \"$current\"))\n        return\n    fi\n    case \
         $command in\n{cases}    esac\n}}\ncomplete -F _svc svc\n",
        alternatives = names.join(" | "),
        names = names.join(" "),
    )
}

fn bash_words(completion: Completion) -> String {
    match completion {
        Completion::Anything => String::new(),
        Completion::Directory => {
            "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$current\"))".to_owned()
        }
        Completion::File => {
            "compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$current\"))".to_owned()
        }
        Completion::Words(words) => {
            format!("COMPREPLY=($(compgen -W '{}' -- \"$current\"))", words.join(" "))
        }
    }
}

fn or_nothing(words: String) -> String {
    if words.is_empty() { ":".to_owned() } else { words }
}

fn zsh() -> String {
    let mut cases = String::new();
    for command in COMMANDS {
        let mut arguments: Vec<String> = command.all_options().flat_map(zsh_option).collect();
        match command.argument {
            Argument::None => {}
            Argument::Foreign(_) => arguments.push("'*::arguments: _normal'".to_owned()),
            Argument::Optional(name, completion) => {
                arguments.push(format!("'::{name}:{}'", zsh_action(completion)));
            }
            Argument::Required(name, completion) => {
                arguments.push(format!("':{name}:{}'", zsh_action(completion)));
            }
        }
        let _ = writeln!(cases, "        {}) _arguments -s {} ;;", command.name, arguments.join(" "));
    }
    let commands: String =
        COMMANDS.iter().map(|command| format!(" '{}:{}'", command.name, zsh_text(command.summary))).collect();
    format!(
        "#compdef svc\n# Completions of svc for zsh; made by `svc completions zsh`.\n_svc() {{\n    local command=serve\n    local \
         -a commands\n    commands=({commands} )\n    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then\n        _describe \
         command commands\n        _files -/\n        return\n    fi\n    if [[ -n ${{commands[(r)$words[2]:*]}} ]]; then\n        \
         command=$words[2]\n        shift words\n        (( CURRENT-- ))\n    fi\n    case $command in\n{cases}    esac\n}}\nif [ \
         \"$funcstack[1]\" = _svc ]; then _svc \"$@\"; else compdef _svc svc; fi\n"
    )
}

fn zsh_option(option: &'static CommandOption) -> Vec<String> {
    let summary = zsh_text(option.summary);
    let value = option.value.map(|(name, completion)| format!(":{name}:{}", zsh_action(completion)));
    let value = value.unwrap_or_default();
    // Each spelling is offered once, which is enough even for an option that may be repeated.
    spellings(option).into_iter().map(|name| format!("'{name}[{summary}]{value}'")).collect()
}

fn zsh_action(completion: Completion) -> String {
    match completion {
        Completion::Anything => " ".to_owned(),
        Completion::Directory => "_files -/".to_owned(),
        Completion::File => "_files".to_owned(),
        Completion::Words(words) => format!("({})", words.join(" ")),
    }
}

/// Escapes text between single quotes, where colons and brackets are special.
fn zsh_text(text: &str) -> String {
    text.replace('\'', "'\\''").replace(':', "\\:").replace('[', "\\[").replace(']', "\\]")
}

fn fish() -> String {
    let names = names().join(" ");
    let no_command = format!("not __fish_seen_subcommand_from {names}");
    let mut script =
        String::from("# Completions of svc for fish; made by `svc completions fish`.\ncomplete -c svc -f\n");
    let _ = writeln!(script, "complete -c svc -n '{no_command}' -a '(__fish_complete_directories)'");
    for command in COMMANDS {
        let summary = fish_text(command.summary);
        let _ = writeln!(script, "complete -c svc -n '{no_command}' -a {} -d '{summary}'", command.name);
        let is_unnamed = std::ptr::eq(command, CliCommand::unnamed());
        let mut conditions = vec![format!("__fish_seen_subcommand_from {}", command.name)];
        if is_unnamed {
            conditions.push(no_command.clone());
        }
        for condition in conditions {
            for option in command.all_options() {
                let short = option.short.map(|short| format!(" -s {short}")).unwrap_or_default();
                let long = option.long.map(|long| format!(" -l {long}")).unwrap_or_default();
                let value = option.value.map(|(_, completion)| format!(" -r{}", fish_words(completion)));
                let (value, summary) = (value.unwrap_or_default(), fish_text(option.summary));
                let _ =
                    writeln!(script, "complete -c svc -n '{condition}'{short}{long}{value} -d '{summary}'");
            }
        }
        let words = match command.argument {
            Argument::Optional(_, completion) | Argument::Required(_, completion) => fish_words(completion),
            Argument::Foreign(_) => " -F".to_owned(),
            Argument::None => String::new(),
        };
        if !words.is_empty() {
            let _ =
                writeln!(script, "complete -c svc -n '__fish_seen_subcommand_from {}'{words}", command.name);
        }
    }
    script
}

fn fish_words(completion: Completion) -> String {
    match completion {
        Completion::Anything => String::new(),
        Completion::Directory => " -a '(__fish_complete_directories)'".to_owned(),
        Completion::File => " -F".to_owned(),
        Completion::Words(words) => format!(" -a '{}'", words.join(" ")),
    }
}

fn fish_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

/// Returns all spellings of an option.
fn spellings(option: &'static CommandOption) -> Vec<String> {
    let short = option.short.map(|short| format!("-{short}"));
    short.into_iter().chain(option.long.map(|long| format!("--{long}"))).collect()
}

fn names() -> Vec<&'static str> {
    COMMANDS.iter().map(|command| command.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_knows_every_command_and_option() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let script = script(shell);
            for command in COMMANDS {
                assert!(script.contains(command.name));
                for option in command.all_options().filter_map(|option| option.long) {
                    let spelt =
                        if shell == Shell::Fish { format!("-l {option}") } else { format!("--{option}") };
                    assert!(script.contains(&spelt), "{shell:?}: {spelt}");
                }
            }
        }
    }
}
