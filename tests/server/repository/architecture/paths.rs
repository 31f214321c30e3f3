//! The paths by which Rust code names what stands elsewhere.

use super::is_word;

/// The paths from the crate's root or from a module above, as code writes them; groups are taken apart.
pub(crate) fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            // In the middle of a longer path or word.
            if before.is_some_and(|c| is_word(c) || c == ':') {
                continue;
            }
            take_paths(&code[at..], &mut Vec::new(), &mut found);
        }
    }
    found
}

/// Reads a path, or the paths of a group; returns what follows.
fn take_paths<'a>(code: &'a str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let depth = before.len();
    let mut rest = code.trim_start();
    loop {
        if let Some(mut group) = rest.strip_prefix('{') {
            loop {
                group = take_paths(group, before, found).trim_start();
                match group.strip_prefix(',') {
                    Some(more) if !more.trim_start().starts_with('}') => group = more,
                    Some(more) => group = more.trim_start(),
                    None => {}
                }
                if let Some(after) = group.strip_prefix('}') {
                    before.truncate(depth);
                    return after;
                }
                if group.is_empty() || !group.trim_start().starts_with(|c: char| is_word(c) || c == '{') {
                    // No import: a block behind a path.
                    before.truncate(depth);
                    return group;
                }
            }
        }
        let name: String = rest.chars().take_while(|c| is_word(*c)).collect();
        rest = &rest[name.len()..];
        before.push(name);
        match rest.strip_prefix("::") {
            Some(more) if more.starts_with(|c: char| is_word(c) || c == '{') => rest = more,
            _ => break,
        }
    }
    found.push(before.clone());
    before.truncate(depth);
    // A name that is given to it.
    match rest.trim_start().strip_prefix("as ") {
        Some(alias) => alias.trim_start().trim_start_matches(is_word),
        None => rest,
    }
}
