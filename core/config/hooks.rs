//! The list of runtime hooks in a setting.
//!
//! A list names each hook once, in the order of the table. The calls of each hook are defined where they are
//! intercepted.

use svc_types::RuntimeHook;

use super::problem::Fault;

/// Returns the hooks named by `words`.
pub(super) fn named(words: &[String]) -> Vec<RuntimeHook> {
    RuntimeHook::ALL.into_iter().filter(|hook| words.iter().any(|word| word == hook.as_str())).collect()
}

/// Returns the words of a list such as `sleep,net`, of `none`, or of `all`.
pub(super) fn words(text: &str) -> Result<Vec<String>, Fault> {
    let entries: Vec<_> = text
        .split(',')
        .map(|entry| entry.trim().to_ascii_lowercase())
        .filter(|entry| !entry.is_empty())
        .collect();
    let all = || RuntimeHook::ALL.map(|hook| hook.as_str().to_owned()).to_vec();
    match entries.as_slice() {
        [] => Err(Fault::EmptyList),
        [word] if word == "none" => Ok(Vec::new()),
        [word] if word == "all" => Ok(all()),
        _ if entries.iter().any(|word| !all().contains(word)) => Err(Fault::UnknownWord),
        _ => Ok(all().into_iter().filter(|word| entries.contains(word)).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_a_set_of_hooks_or_one_word_for_none_or_all() {
        assert_eq!(words("none"), Ok(vec![]));
        assert_eq!(words(" ALL ").unwrap().join(","), "sleep,net,dns,process");
        assert_eq!(words("process, net,,net").unwrap().join(","), "net,process");
        for wrong in ["curl", "none,net", "all,net", "sleep net"] {
            assert_eq!(words(wrong), Err(Fault::UnknownWord), "{wrong}");
        }
        assert_eq!(words(","), Err(Fault::EmptyList));
    }

    #[test]
    fn words_name_hooks() {
        assert_eq!(named(&words("dns,sleep").unwrap()), [RuntimeHook::Sleep, RuntimeHook::Dns]);
        assert_eq!(named(&words("all").unwrap()), RuntimeHook::ALL);
    }
}
