//! Text in HTML.

use std::fmt;

/// Displays text so that it is text wherever HTML allows text, and in quoted attributes. Control characters, which
/// browsers interpret or drop, become visible.
pub(super) struct Text<'a>(pub(super) &'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut plain_from = 0;
        for (at, character) in self.0.char_indices() {
            let replacement = match character {
                '&' => "&amp;",
                '<' => "&lt;",
                '>' => "&gt;",
                '"' => "&quot;",
                '\'' => "&#39;",
                '\n' | '\t' => continue,
                // Text that turns its direction could show other code than there is.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => "\u{fffd}",
                character if character.is_control() => "\u{fffd}",
                _ => continue,
            };
            f.write_str(&self.0[plain_from..at])?;
            f.write_str(replacement)?;
            plain_from = at + character.len_utf8();
        }
        f.write_str(&self.0[plain_from..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let hostile = "<script>alert('a' & \"b\")</script>\0\u{1b}\u{85}\u{202e}é\n\t";
        let shown = Text(hostile).to_string();
        assert_eq!(
            shown,
            "&lt;script&gt;alert(&#39;a&#39; &amp; &quot;b&quot;)&lt;/script&gt;\u{fffd}\u{fffd}\u{fffd}\u{fffd}é\n\t"
        );
        assert_eq!(Text("").to_string(), "");
    }
}
