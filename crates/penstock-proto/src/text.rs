//! Text that another host, another user or a file has chosen, as people may see it.
//!
//! A control character steers a terminal, a line feed forges a line, and a bidirectional control or
//! a character without a width shows another text than the bytes hold. All of them are escaped: as
//! `\n`, `\t` and `\r`, else as JSON escapes one, `\uXXXX`, so that filtered JSON stays the same.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Most characters of one field that comes from another host.
pub const FIELD_CHARS_MAX: usize = 1_000;

/// Returns whether a character may be shown as it is: it is neither a control nor invisible, and
/// does not change the order or the lines of the characters around it.
pub fn is_shown(character: char) -> bool {
    match character {
        ' '..='~' => true,
        '\u{0}'..='\u{9f}' => false,
        // Soft hyphen, joiners and fillers, which have no width.
        '\u{ad}' | '\u{34f}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' => false,
        '\u{180b}'..='\u{180f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => false,
        // Bidirectional controls, zero-width characters, separators of lines and paragraphs.
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => false,
        '\u{2060}'..='\u{206f}' | '\u{fff0}'..='\u{fffb}' => false,
        // Beams and slurs of music, tags and all that is unassigned beside them.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => false,
        '\u{e0000}'..='\u{e0fff}' => false,
        _ => true,
    }
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(|character| !keeps(character)) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        if keeps(character) {
            out.push(character);
        } else {
            escape_into(&mut out, character);
        }
    }
    Cow::Owned(out)
}

fn escape_into(out: &mut String, character: char) {
    match character {
        '\n' => out.push_str("\\n"),
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                // A string takes all that is written to it.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
}

/// Returns the text with all characters escaped that may not be shown as they are, except line
/// feeds.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| character == '\n' || is_shown(character))
}

/// Returns the text in one line: line feeds are escaped too.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_shown)
}

/// Returns a text of another host as a field: one line, of [`FIELD_CHARS_MAX`] characters at most.
/// A longer field ends with `…`. The field of a field is the field.
pub fn field(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(FIELD_CHARS_MAX));
    let mut count = 0;
    let mut part = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        part.clear();
        if is_shown(character) {
            part.push(character);
        } else {
            escape_into(&mut part, character);
        }
        let length = part.chars().count();
        let last = rest.as_str().is_empty();
        if count + length > FIELD_CHARS_MAX - usize::from(!last) {
            out.push('…');
            return out;
        }
        out.push_str(&part);
        count += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A character of each kind that attacks a screen or a log.
    const HOSTILE: &str = "\x1b[2J\x07\x00\x7f\u{9b}31m\r\n\t\u{202e}\u{2066}\u{2069}\u{200e}\
                           \u{200f}\u{61c}\u{2028}\u{2029}\u{200b}\u{200d}\u{feff}\u{e0041}\u{ad}";

    /// Promise: no character of a text from afar steers a terminal, forges a line or hides.
    #[test]
    fn hostile_text_is_escaped() {
        assert!(HOSTILE.chars().filter(|c| !c.is_ascii_graphic()).all(|c| !is_shown(c)));
        for text in [line(HOSTILE).into_owned(), field(HOSTILE)] {
            assert!(text.chars().all(is_shown), "{text}");
        }
        assert_eq!(lines("a\nb\tc"), "a\nb\\tc");
        assert_eq!(line("exe\u{202e}gnp\n"), "exe\\u202egnp\\n");
        assert_eq!(line("grün 数据 😀"), "grün 数据 😀");
    }

    /// Promise: JSON that is filtered on its way out means the same.
    #[test]
    fn filtered_json_stays_the_same() {
        let json = serde_json::to_string(HOSTILE).unwrap();
        let shown = line(&json);
        assert!(shown.chars().all(is_shown), "{shown}");
        assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), HOSTILE);
    }

    proptest! {
        /// Promise: a field is short, has one line, and stays as it is when it is passed on.
        #[test]
        fn fields_are_short_and_settled(text in "\\PC{0,20}[\\x00-\\x1f\u{202e}a]{0,1200}") {
            let once = field(&text);
            prop_assert!(once.chars().count() <= FIELD_CHARS_MAX);
            prop_assert!(once.chars().all(is_shown));
            prop_assert_eq!(field(&once), once);
        }
    }
}
