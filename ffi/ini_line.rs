//! Directives of PHP in the syntax of php.ini, which its `-d` has, too.

/// Formats one line of php.ini; quotes characters that have a meaning in its syntax.
pub fn ini_line(name: &str, value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.,/-".contains(c);
    // `E_ALL & ~E_DEPRECATED` must be evaluated, as in php.ini and by PHP's own -d.
    let term = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || "_ &|~^()".contains(c);
    let is_expression = value.contains(['&', '|', '~', '^']) && value.chars().all(term);
    if is_expression
        || value.chars().all(plain)
        || (value.starts_with('"') && value.ends_with('"') && value.len() > 1)
    {
        format!("{name}={value}\n")
    } else {
        format!("{name}=\"{}\"\n", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ini_values_are_quoted_where_the_syntax_needs_it() {
        assert_eq!(ini_line("memory_limit", "64M"), "memory_limit=64M\n");
        assert_eq!(ini_line("error_log", "/tmp/a.log"), "error_log=/tmp/a.log\n");
        assert_eq!(
            ini_line("date.timezone", "Europe/Berlin; evil=1"),
            "date.timezone=\"Europe/Berlin; evil=1\"\n"
        );
        assert_eq!(ini_line("a", "E_ALL & ~E_NOTICE"), "a=E_ALL & ~E_NOTICE\n");
        assert_eq!(ini_line("a", "Tom & Jerry"), "a=\"Tom & Jerry\"\n");
        assert_eq!(ini_line("a", "x\"y\nb=1"), "a=\"x\\\"y b=1\"\n");
    }
}
