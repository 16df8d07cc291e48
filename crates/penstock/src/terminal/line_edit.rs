//! A line of text that a user edits by keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Longest line, in characters. Further ones are ignored.
const CHARACTERS_MAX: usize = 4096;

/// The text and the place of the cursor in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEdit {
    text: Vec<char>,
    cursor: usize,
}

impl LineEdit {
    /// Returns a line with the cursor at its end.
    pub(crate) fn new(text: &str) -> Self {
        let text: Vec<char> = text.chars().collect();
        Self { cursor: text.len(), text }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> String {
        self.text.iter().collect()
    }

    /// Takes a key as readline(3) does; returns whether it is one of editing.
    pub(crate) fn handle_key(&mut self, key: KeyEvent) -> bool {
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return self.handle_control(key.code);
        }
        match key.code {
            KeyCode::Char(new) if self.text.len() < CHARACTERS_MAX && !new.is_control() => {
                self.text.insert(self.cursor, new);
                self.cursor += 1;
            }
            KeyCode::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.text.remove(self.cursor);
            }
            KeyCode::Delete if self.cursor < self.text.len() => drop(self.text.remove(self.cursor)),
            KeyCode::Left => self.cursor = self.cursor.saturating_sub(1),
            KeyCode::Right => self.cursor = (self.cursor + 1).min(self.text.len()),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            KeyCode::Char(_) | KeyCode::Backspace | KeyCode::Delete => {}
            _ => return false,
        }
        true
    }

    fn handle_control(&mut self, code: KeyCode) -> bool {
        match code {
            KeyCode::Char('a') => self.cursor = 0,
            KeyCode::Char('e') => self.cursor = self.text.len(),
            KeyCode::Char('k') => self.text.truncate(self.cursor),
            KeyCode::Char('u') => {
                self.text.drain(..self.cursor);
                self.cursor = 0;
            }
            KeyCode::Char('w') => {
                let before = &self.text[..self.cursor];
                let word = before.iter().rposition(|c| *c != ' ').map_or(0, |end| end + 1);
                let start = before[..word].iter().rposition(|c| *c == ' ').map_or(0, |at| at + 1);
                self.text.drain(start..self.cursor);
                self.cursor = start;
            }
            _ => return false,
        }
        true
    }

    /// Returns the part of the text that fits into `columns` with the cursor in it, as the texts
    /// before, at and behind the cursor.
    pub(crate) fn window(&self, columns: usize) -> [String; 3] {
        let width = |text: &[char]| {
            let text: String = text.iter().collect();
            console::measure_text_width(&text)
        };
        let mut start = 0;
        // One column is for the cursor at the end of the text.
        while start < self.cursor && width(&self.text[start..self.cursor]) + 1 > columns {
            start += 1;
        }
        let before: String = self.text[start..self.cursor].iter().collect();
        let at = self.text.get(self.cursor).map_or_else(|| " ".to_owned(), char::to_string);
        let behind: String = self.text.iter().skip(self.cursor + 1).collect();
        [before, at, behind]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &mut LineEdit, keys: &str) {
        keys.chars().for_each(|c| assert!(line.handle_key(KeyCode::Char(c).into())));
    }

    fn control(line: &mut LineEdit, key: char) -> bool {
        line.handle_key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL))
    }

    /// Promise: a line is edited as readline does it; keys that are none of editing are left to
    /// others.
    #[test]
    fn a_line_is_edited() {
        let mut line = LineEdit::new("raw=/data/a");
        typed(&mut line, "bß");
        assert!(line.handle_key(KeyCode::Backspace.into()));
        assert!(line.handle_key(KeyCode::Home.into()));
        assert!(line.handle_key(KeyCode::Backspace.into()));
        assert!(line.handle_key(KeyCode::Delete.into()));
        typed(&mut line, "dr");
        assert_eq!(line.text(), "draw=/data/ab");
        assert!(control(&mut line, 'e'));
        typed(&mut line, ", two  ");
        assert!(control(&mut line, 'w'));
        assert_eq!(line.text(), "draw=/data/ab, ");
        for _ in 0..2 {
            assert!(line.handle_key(KeyCode::Left.into()));
        }
        assert!(control(&mut line, 'k'));
        assert_eq!(line.text(), "draw=/data/ab");
        assert!(control(&mut line, 'u') && line.text().is_empty());
        assert!(!control(&mut line, 'c') && !line.handle_key(KeyCode::Enter.into()));
        assert!(!line.handle_key(KeyCode::Tab.into()));
    }

    /// Promise: however narrow the field, the cursor is in it.
    #[test]
    fn the_cursor_is_always_seen() {
        let mut line = LineEdit::new("0123456789");
        assert_eq!(line.window(5), ["6789", " ", ""]);
        assert_eq!(line.window(20), ["0123456789", " ", ""]);
        assert_eq!(line.window(0), ["", " ", ""]);
        line.handle_key(KeyCode::Home.into());
        assert_eq!(line.window(5), ["", "0", "123456789"]);
    }
}
