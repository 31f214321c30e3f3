//! The page of the operations port: one document that shows `/status` live.
//!
//! The page is self-contained, and may connect to this port only; each nonce is used once, so that markup injected
//! into the page is not executed. The document contains no figures; its script requests them.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The security headers of an answer for browsers.
#[derive(Debug)]
pub(super) enum PageGuard {
    /// Data: other sites must not embed it.
    Data,
    /// The policy of a page.
    Page(String),
}

/// The page for one request.
#[derive(Debug)]
pub(super) struct OpsPage {
    /// The document.
    pub(super) html: String,
    /// Its `Content-Security-Policy`.
    pub(super) policy: String,
}

impl OpsPage {
    /// Makes the page with a fresh nonce.
    pub(super) fn new() -> Self {
        let nonce = nonce();
        let html = HTML.replace("{style}", STYLE).replace("{script}", SCRIPT).replace("{nonce}", &nonce);
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        );
        Self { html, policy }
    }
}

/// Returns 128 unpredictable bits: each hasher has its own keys, from the randomness of the system.
fn nonce() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

const HTML: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_all_that_it_needs_and_its_policy_allows_nothing_else() {
        let page = OpsPage::new();
        for absent in [
            "http:",
            "https:",
            "src=",
            "url(",
            "@import",
            "{nonce}",
            "{style}",
            "{script}",
            " style=\"",
            "onclick",
        ] {
            let rest = page.html.replace("http://www.w3.org/2000/svg", "");
            assert!(!rest.contains(absent), "{absent}");
        }
        let nonce = page.policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
        assert_eq!(nonce.len(), 32);
        assert_eq!(page.html.matches(&format!(" nonce=\"{nonce}\"")).count(), 2, "one style, one script");
        assert_eq!(page.html.matches("<style").count() + page.html.matches("<script").count(), 2);
        for part in ["default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'", "base-uri 'none'"]
        {
            assert!(page.policy.contains(part), "{part}");
        }
    }

    #[test]
    fn no_nonce_comes_twice() {
        let mut all: Vec<_> = (0..1000).map(|_| nonce()).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1000);
    }

    #[test]
    fn the_page_is_small() {
        assert!(OpsPage::new().html.len() < 40_000);
    }
}
