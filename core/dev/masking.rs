//! Masks secrets in names and values of a request and of the environment.
//!
//! A page about a failure ends up in screenshots and bug reports. Names decide. A value is masked whole, except a connection
//! string, whose other parts are useful.

use std::borrow::Cow;

/// Replaces a secret of any length.
pub(super) const MASK: &str = "••••••••";

/// Parts of names, in upper case, whose values are secret.
const SECRET: [&str; 14] = [
    "PASS",
    "PWD",
    "SECRET",
    "TOKEN",
    "KEY",
    "CREDENTIAL",
    "AUTH",
    "SALT",
    "PRIVATE",
    "COOKIE",
    "SESS",
    "SIGNATURE",
    "DSN",
    "CSRF",
];

/// Names that contain such a part and are not secret.
const PUBLIC: [&str; 5] = ["PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY", "SESSION_MANAGER"];

/// Returns whether the value under this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    !PUBLIC.contains(&name.as_str()) && SECRET.iter().any(|part| name.contains(part))
}

/// Returns the value to show under this name.
pub(super) fn masked<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if value.is_empty() {
        return Cow::Borrowed(value);
    }
    if is_secret(name) {
        return Cow::Borrowed(MASK);
    }
    without_assignments(value, without_user_info(value))
}

/// Masks the values of a query whose names say that they are secret.
pub(super) fn masked_query(query: &str) -> String {
    without_assignments(query, Cow::Borrowed(query)).into_owned()
}

/// Masks the password in `scheme://user:password@host`, wherever it occurs.
fn without_user_info(value: &str) -> Cow<'_, str> {
    let (mut text, mut rest, mut is_masked) = (String::new(), value, false);
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        text.push_str(before);
        rest = after;
        let authority = &after[..after.find(['/', '?', '#', ' ', ',', '"', '\'']).unwrap_or(after.len())];
        // A password may contain @, so the last one counts.
        let Some((user_info, _)) = authority.rsplit_once('@') else { continue };
        let Some((user, _)) = user_info.split_once(':') else { continue };
        text = text + user + ":" + MASK;
        rest = &after[user_info.len()..];
        is_masked = true;
    }
    if is_masked { Cow::Owned(text + rest) } else { Cow::Borrowed(value) }
}

/// Masks the values of `name=value` with such a name, in a query or a connection string.
fn without_assignments<'a>(original: &'a str, value: Cow<'a, str>) -> Cow<'a, str> {
    if !value.contains('=') {
        return value;
    }
    let is_separator = |c: char| matches!(c, '&' | ';' | '?' | ' ' | ',');
    let mut text = String::with_capacity(value.len());
    for piece in value.split_inclusive(is_separator) {
        let end = piece.chars().next_back().filter(|last| is_separator(*last));
        let assignment = piece.strip_suffix(is_separator).unwrap_or(piece);
        match assignment.split_once('=') {
            Some((name, value)) if !value.is_empty() && is_secret(name) => text = text + name + "=" + MASK,
            _ => text.push_str(assignment),
        }
        text.extend(end);
    }
    if text == original { Cow::Borrowed(original) } else { Cow::Owned(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide() {
        for name in [
            "DB_PASSWORD",
            "APP_KEY",
            "app_secret",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "Authorization",
            "Cookie",
            "SENTRY_DSN",
            "PGPASSWORD",
            "MYSQL_PWD",
            "X-Api-Key",
            "PHPSESSID",
            "X-CSRF-Token",
            "OAUTH_CLIENT",
            "_token",
        ] {
            assert_eq!(masked(name, "hunter2"), MASK, "{name}");
        }
        for name in ["PATH", "HOME", "PWD", "OLDPWD", "SSH_AUTH_SOCK", "APP_ENV", "Host", "Accept", "LANG"] {
            assert_eq!(masked(name, "value"), "value", "{name}");
        }
        assert_eq!(masked("DB_PASSWORD", ""), "", "an empty value is no secret");
    }

    #[test]
    fn connection_strings_keep_all_but_the_password() {
        for (value, shown) in [
            ("mysql://app:hunter2@db:3306/shop?x=1", "mysql://app:••••••••@db:3306/shop?x=1"),
            ("redis://:hun@ter2@cache", "redis://:••••••••@cache"),
            ("a://u:p@h,b://v:q@i", "a://u:••••••••@h,b://v:••••••••@i"),
            ("https://example.org/a:b@c", "https://example.org/a:b@c"),
            ("https://user@example.org/", "https://user@example.org/"),
            (
                "mysql:host=db;dbname=shop;password=hunter2;charset=utf8",
                "mysql:host=db;dbname=shop;password=••••••••;charset=utf8",
            ),
            ("http://h/?page=2&token=hunter2", "http://h/?page=2&token=••••••••"),
            ("smtp://h", "smtp://h"),
        ] {
            assert_eq!(masked("DATABASE_URL", value), shown);
        }
    }

    #[test]
    fn a_query_keeps_its_order_and_its_odd_parts() {
        for (query, shown) in [
            ("a=1&password=x&b=2", "a=1&password=••••••••&b=2"),
            ("api_key=x", "api_key=••••••••"),
            ("token=&&=x&b", "token=&&=x&b"),
            ("", ""),
        ] {
            assert_eq!(masked_query(query), shown);
        }
    }
}
