//! Content-Security-Policy: lets a page run the script of the reload, without any other change of its policy.

use crate::http::Fields;

/// The name of the field.
const FIELD: &[u8] = b"Content-Security-Policy";

/// Amends the policies of a page so that they permit an inline script with this hash, and requests to the same origin.
pub(super) fn permit(fields: &mut Fields, hash: &str) {
    let policies: Vec<Vec<u8>> = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(FIELD))
        .map(|(_, value)| value.to_vec())
        .collect();
    if policies.is_empty() {
        return;
    }
    fields.remove(FIELD);
    for policy in policies {
        let amended = std::str::from_utf8(&policy).ok().map(|policy| amended(policy, hash));
        // Each policy was valid before, and what is added is.
        let _ = fields.push(FIELD, amended.as_deref().map_or(&policy[..], str::as_bytes));
    }
}

/// A field may contain several policies, separated by commas; a page must satisfy them all.
fn amended(policies: &str, hash: &str) -> String {
    policies.split(',').map(|policy| amended_policy(policy, hash)).collect::<Vec<_>>().join(",")
}

fn amended_policy(policy: &str, hash: &str) -> String {
    let directives: Vec<&str> = policy.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
    let find = |name: &str| {
        directives.iter().copied().find(|text| {
            text.split_ascii_whitespace().next().is_some_and(|first| first.eq_ignore_ascii_case(name))
        })
    };
    let mut amended: Vec<String> = directives.iter().map(|&text| text.to_owned()).collect();
    let mut amend = |names: &[&str], add: &dyn Fn(&[&str]) -> Option<String>| {
        // Of these, the first one that exists applies.
        let Some(found) = names.iter().find_map(|name| find(name)) else { return };
        let sources: Vec<&str> = found.split_ascii_whitespace().skip(1).collect();
        let Some(source) = add(&sources) else { return };
        let kept = sources.into_iter().filter(|source| !source.eq_ignore_ascii_case("'none'"));
        let words: Vec<&str> = std::iter::once(names[0]).chain(kept).chain([source.as_str()]).collect();
        let directive = words.join(" ");
        match amended.iter_mut().find(|text| {
            text.split_ascii_whitespace().next().is_some_and(|first| first.eq_ignore_ascii_case(names[0]))
        }) {
            Some(own) => *own = directive,
            None => amended.push(directive),
        }
    };
    amend(&["script-src-elem", "script-src", "default-src"], &|sources| {
        let has = |part: &str| sources.iter().any(|source| source.to_ascii_lowercase().starts_with(part));
        // A hash would disable 'unsafe-inline' for the scripts of the page.
        let permits_all =
            has("'unsafe-inline'") && !has("'nonce-") && !has("'sha") && !has("'strict-dynamic'");
        (!permits_all).then(|| format!("'{hash}'"))
    });
    amend(&["connect-src", "default-src"], &|sources| {
        let permits = sources.iter().any(|source| *source == "*" || source.eq_ignore_ascii_case("'self'"));
        (!permits).then(|| "'self'".to_owned())
    });
    amended.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_widened_by_the_script_alone() {
        for (policy, expected) in [
            ("default-src 'self'", "default-src 'self'; script-src-elem 'self' 'sha256-x'"),
            ("default-src 'none'", "default-src 'none'; script-src-elem 'sha256-x'; connect-src 'self'"),
            (
                "script-src 'nonce-a' 'strict-dynamic'",
                "script-src 'nonce-a' 'strict-dynamic'; script-src-elem 'nonce-a' 'strict-dynamic' 'sha256-x'",
            ),
            ("script-src 'self' 'unsafe-inline'", "script-src 'self' 'unsafe-inline'"),
            (
                "Script-Src-Elem 'self'; connect-src https://api",
                "script-src-elem 'self' 'sha256-x'; connect-src https://api 'self'",
            ),
            ("default-src *", "default-src *; script-src-elem * 'sha256-x'"),
            ("img-src 'self'", "img-src 'self'"),
            ("frame-ancestors 'none';", "frame-ancestors 'none'"),
            (
                "default-src 'self', script-src 'none'",
                "default-src 'self'; script-src-elem 'self' 'sha256-x',script-src 'none'; script-src-elem 'sha256-x'",
            ),
            ("", ""),
        ] {
            assert_eq!(amended(policy, "sha256-x"), expected, "{policy}");
        }
    }

    #[test]
    fn all_fields_are_amended_and_no_others() {
        let mut fields = Fields::new();
        fields.push(b"X-A", b"default-src 'self'").unwrap();
        fields.push(b"content-security-policy", b"default-src 'self'").unwrap();
        fields.push(FIELD, b"img-src *").unwrap();
        permit(&mut fields, "sha256-x");
        let seen = String::from_utf8(fields.as_bytes().to_vec()).unwrap();
        assert_eq!(
            seen,
            "X-A: default-src 'self'\r\nContent-Security-Policy: default-src 'self'; script-src-elem 'self' 'sha256-x'\r\n\
             Content-Security-Policy: img-src *\r\n"
        );
    }
}
