//! The page about a failure.
//!
//! It is complete in itself and asks for nothing else. Everything in it that comes from the application or the request
//! passes through [`Text`].

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use super::document::SCRIPT_HASH;
use super::excerpt::Excerpt;
use super::failure::{Failure, Location};
use super::failure_report::FailureReport;
use super::html::Text;
use super::masking::{MASK, masked, masked_query};
use super::{Development, ShownRequest};
use crate::http::{Head, status};

const STYLE: &str = include_str!("page.css");

/// The policy of the page: nothing but its own style and script, and requests to its own origin.
pub(super) const POLICY: &str = concat!(
    "default-src 'none'; style-src 'unsafe-inline'; script-src '",
    "sha256-gU77509yZbuLA7ex201Tum5N6vHJVVzNa0ZRrxeBfiw=",
    "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
);

/// The number of places that are shown.
const LOCATIONS_MAX: usize = 200;

/// Renders the page as a document.
pub(super) fn render(development: &Development, report: &FailureReport, request: ShownRequest<'_>) -> String {
    debug_assert!(POLICY.contains(SCRIPT_HASH), "the policy permits another script");
    let mut page = String::with_capacity(32 * 1024);
    let failure = &report.failure;
    let title = failure.message.lines().next().unwrap_or_default();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}: {}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}body{{margin:0}}\n</style>\n</head>\n<body>\n",
        Text(&failure.class),
        Text(title),
    );
    put_content(&mut page, development, report, request);
    page.push_str("</body>\n</html>\n");
    page
}

/// Renders the page as elements that cover an unfinished document. Whatever element is open is closed first, as far as
/// HTML allows; a shadow tree keeps the style of the document away.
pub(super) fn overlay(
    development: &Development,
    report: &FailureReport,
    request: ShownRequest<'_>,
) -> String {
    let mut page = format!(
        "\n--></script></style></textarea></title></select></template></noscript></iframe></svg></math>\
         <div role=\"alertdialog\" aria-label=\"The script has failed\" \
         style=\"all:initial;position:fixed;inset:0;overflow:auto;z-index:2147483647;background:Canvas\">\
         <template shadowrootmode=\"open\"><style>\n{STYLE}</style>\n"
    );
    put_content(&mut page, development, report, request);
    page.push_str("</template></div>\n");
    page
}

fn put_content(
    page: &mut String,
    development: &Development,
    report: &FailureReport,
    request: ShownRequest<'_>,
) {
    page.push_str("<div class=\"page\" role=\"main\">\n");
    for (number, one) in report.failure.chain().enumerate() {
        put_failure(page, &development.project, report, one, number == 0);
    }
    put_request(page, request);
    put_environment(page, development, request.head);
    page.push_str("</div>\n");
}

/// Writes the environment, unless the page was requested under a name that others may own: the owner of a name can make
/// it lead to this machine, and a page under that name can then read this one.
fn put_environment(page: &mut String, development: &Development, head: &Head) {
    page.push_str("<h2>Environment</h2>\n");
    let host = String::from_utf8_lossy(head.host().unwrap_or_default()).to_ascii_lowercase();
    if !is_own_name(&host) {
        page.push_str("<p>Shown at addresses, localhost, and names in .localhost and .test.</p>\n");
        return;
    }
    let variables = &development.environment;
    let _ = writeln!(page, "<details><summary>{} variables</summary>", variables.len());
    put_table(page, variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    page.push_str("</details>\n");
}

/// Returns whether no one else can own a host's name: it is an address, has no dot, or is in a domain that is reserved for
/// such use (RFC 6761).
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<IpAddr>().is_ok()
        || !name.contains('.')
        || [".localhost", ".test"].iter().any(|domain| name.ends_with(domain))
}

fn put_failure(page: &mut String, project: &Path, report: &FailureReport, failure: &Failure, is_first: bool) {
    if !is_first {
        page.push_str("<h2>Caused by</h2>\n");
    }
    let _ = writeln!(
        page,
        "<h1>{}</h1>\n<p class=\"message\">{}</p>",
        Text(&failure.class),
        Text(&failure.message)
    );
    let locations: Vec<_> = failure.locations().take(LOCATIONS_MAX).collect();
    let (own, other): (Vec<Location<'_>>, Vec<Location<'_>>) =
        locations.iter().partition(|location| location.is_of_application(project));
    if let Some(origin) = locations.first() {
        put_place(page, project, origin);
        // A failure in a dependency is seldom its fault: the code that has called it is shown.
        let shown = own.first().unwrap_or(origin);
        if shown != origin {
            page.push_str("<p>");
            put_place(page, project, shown);
            page.push_str("</p>");
        }
        if let Some(excerpt) = report.source_at(shown) {
            put_excerpt(page, excerpt, shown.line);
        }
    }
    if own.iter().any(|location| Some(location) != locations.first()) {
        page.push_str("<h2>Application</h2>\n");
        put_locations(page, project, report, &own);
    }
    if !other.is_empty() {
        let noun = if other.len() == 1 { "place" } else { "places" };
        let _ = writeln!(
            page,
            "<h2>Dependencies and PHP</h2>\n<details><summary>{} {noun}</summary>",
            other.len()
        );
        put_locations(page, project, report, &other);
        page.push_str("</details>\n");
    }
}

/// Writes a list of places, with their code.
fn put_locations(page: &mut String, project: &Path, report: &FailureReport, locations: &[Location<'_>]) {
    page.push_str("<ol>\n");
    for location in locations {
        page.push_str("<li>");
        match report.source_at(location) {
            Some(excerpt) => {
                page.push_str("<details><summary>");
                put_place(page, project, location);
                page.push_str("</summary>");
                put_excerpt(page, excerpt, location.line);
                page.push_str("</details>");
            }
            None => put_place(page, project, location),
        }
        page.push_str("</li>\n");
    }
    page.push_str("</ol>\n");
}

/// Writes the function, and the file below the project with its line.
fn put_place(page: &mut String, project: &Path, location: &Location<'_>) {
    let Some(file) = location.file else {
        let _ =
            writeln!(page, "<span class=\"place\"><b>{}</b> called by PHP</span>", Text(location.function));
        return;
    };
    let below = Path::new(file).strip_prefix(project).ok().and_then(Path::to_str);
    let _ = writeln!(
        page,
        "<span class=\"place\" title=\"{}:{}\"><b>{}</b> {}:{}</span>",
        Text(file),
        location.line,
        Text(location.function),
        Text(below.unwrap_or(file)),
        location.line
    );
}

fn put_excerpt(page: &mut String, excerpt: &Excerpt, line: u32) {
    page.push_str("<pre>");
    for (number, text) in (excerpt.first..).zip(&excerpt.lines) {
        let mark = if number == line { " class=\"here\" aria-current=\"true\"" } else { "" };
        let _ = write!(page, "<span{mark}><i>{number}</i>{}\n</span>", Text(text));
    }
    page.push_str("</pre>\n");
}

fn put_request(page: &mut String, request: ShownRequest<'_>) {
    let head = request.head;
    let (path, query) = head.path_and_query();
    let mut target = String::from_utf8_lossy(path).into_owned();
    if let Some(query) = query {
        target = target + "?" + &masked_query(&String::from_utf8_lossy(query));
    }
    let status = format!("{} {}", request.status, status::reason(request.status));
    let _ = writeln!(
        page,
        "<h2>Request</h2>\n<p class=\"place\"><b>{}</b> {}</p>",
        Text(head.method()),
        Text(&target)
    );
    let client = request.client.to_canonical().to_string();
    let mut rows = vec![("Response".to_owned(), status), ("Client".to_owned(), client)];
    rows.extend(head.headers().map(|(name, value)| {
        let (name, value) =
            (String::from_utf8_lossy(name).into_owned(), String::from_utf8_lossy(value).into_owned());
        let value = match name.to_ascii_lowercase().as_str() {
            "cookie" => masked_cookies(&value),
            "referer" => value
                .split_once('?')
                .map_or_else(|| value.clone(), |(url, query)| url.to_owned() + "?" + &masked_query(query)),
            _ => masked(&name, &value).into_owned(),
        };
        (name, value)
    }));
    put_table(page, rows.iter().map(|(name, value)| (name.as_str(), value.as_str())));
}

/// Keeps the names of cookies, whose values may identify a session whatever they are called.
fn masked_cookies(value: &str) -> String {
    let names = value.split(';').filter_map(|cookie| Some(cookie.split_once('=')?.0.trim()));
    names.map(|name| format!("{name}={MASK}")).collect::<Vec<_>>().join("; ")
}

fn put_table<'a>(page: &mut String, rows: impl Iterator<Item = (&'a str, &'a str)>) {
    page.push_str("<table>\n");
    for (name, value) in rows {
        let _ = writeln!(page, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", Text(name), Text(value));
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv4Addr;

    use super::*;
    use crate::config::DevelopmentConfig;
    use crate::http::{HeadReader, Parsed};
    use crate::sync::primitive::Arc;

    fn development(project: &Path) -> Arc<Development> {
        let environment =
            [("APP_ENV", "<local>"), ("DB_PASSWORD", "hunter2"), ("DB", "pgsql://u:hunter2@h/d")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Development::new(
            &DevelopmentConfig { project: project.to_owned(), environment, ..Default::default() },
            1,
        )
    }

    fn head(text: &str) -> Head {
        match HeadReader::default().read(text.as_bytes()) {
            Ok(Parsed::Complete { head, .. }) => head,
            other => panic!("{other:?}"),
        }
    }

    fn rendered(failure: Failure, project: &Path) -> String {
        let head = head(
            "GET /a<b>?q=<i>&token=hunter2 HTTP/1.1\r\nHost: a\r\nCookie: sid=hunter2; theme=hunter2\r\n\
             Authorization: Bearer hunter2\r\nReferer: http://a/?password=hunter2\r\nX-Odd: <script>\"'\r\n\r\n",
        );
        let request = ShownRequest { head: &head, client: Ipv4Addr::LOCALHOST.into(), status: 500 };
        let report = FailureReport::read(failure);
        let page = render(&development(project), &report, request);
        let overlay = overlay(&development(project), &report, request);
        assert!(overlay.contains("<div class=\"page\"") && !overlay.contains("hunter2"));
        page
    }

    #[test]
    fn nothing_of_the_application_is_markup_and_no_secret_is_shown() {
        let hostile = "<script>alert(1)</script>'\"&";
        let trace = format!(
            "/x/{hostile}.php:1\n#0 /y/{hostile}(2): {hostile}()\n#1 {{main}}\n\nCaused by: {hostile}: {hostile}\n/z:1\n#0 {{main}}"
        );
        let page =
            rendered(Failure::new(hostile.as_bytes(), hostile.as_bytes(), trace.as_bytes()), Path::new("/p"));
        let own_scripts = page.matches("<script").count();
        assert_eq!(own_scripts, 0, "{page}");
        assert!(!page.contains("alert(1)</script>") && !page.contains("q=<i>") && !page.contains("/a<b>"));
        assert!(!page.contains("hunter2"), "{page}");
        for shown in [
            "APP_ENV",
            "&lt;local&gt;",
            "sid=••",
            "theme=••",
            "pgsql://u:••",
            "token=••",
            "Caused by",
            "127.0.0.1",
        ] {
            assert!(page.contains(shown), "{shown}: {page}");
        }
    }

    #[test]
    fn the_line_is_marked_and_the_application_comes_first() {
        let project = tempfile::tempdir().unwrap();
        let root = project.path();
        fs::create_dir_all(root.join("vendor/lib")).unwrap();
        fs::write(root.join("index.php"), "<?php\n\nrun(\"<x>\");\n").unwrap();
        fs::write(root.join("vendor/lib/run.php"), "<?php\nthrow $library;\n").unwrap();
        let trace = format!(
            "{0}/vendor/lib/run.php:2\n#0 {0}/index.php(3): run()\n#1 [internal function]: main()\n#2 {{main}}",
            root.display()
        );
        let page = rendered(Failure::new(b"E", b"m", trace.as_bytes()), root);
        assert!(
            page.contains("<span class=\"here\" aria-current=\"true\"><i>3</i>run(&quot;&lt;x&gt;&quot;);"),
            "{page}"
        );
        let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(place("<h2>Application</h2>") < place("<h2>Dependencies and PHP</h2>"));
        assert!(place("throw $library") > place("<h2>Dependencies and PHP</h2>"), "its code is folded away");
        assert!(page.contains("called by PHP") && page.contains("vendor/lib/run.php:2"));
    }

    #[test]
    fn names_that_others_may_own_do_not_see_the_environment() {
        for (host, expected) in [
            ("127.0.0.1:8080", true),
            ("[::1]:8080", true),
            ("localhost", true),
            ("app:80", true),
            ("shop.test", true),
            ("a.localhost:8080", true),
            ("evil.example", false),
            ("127.0.0.1.evil.example:8080", false),
            ("test.evil:80", false),
        ] {
            assert_eq!(is_own_name(host), expected, "{host}");
        }
    }

    #[test]
    fn a_failure_without_a_place_is_shown() {
        let page = rendered(Failure::of_message(b"no memory", b"", 0), Path::new("/p"));
        assert!(page.contains("Fatal error") && page.contains("no memory"));
    }
}
