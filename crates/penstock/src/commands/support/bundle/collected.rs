//! The texts of a bundle, and what could not be had.

/// Longest part of one file; the end of a longer text counts most.
const FILE_BYTES_MAX: usize = 8 << 20;

/// What a bundle is made of, before secrets are taken out.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) files: Vec<CollectedFile>,
    /// Facts that could not be had, with the reasons.
    pub(super) missing: Vec<(String, String)>,
}

/// A file of a bundle.
#[derive(Debug)]
pub(super) struct CollectedFile {
    pub(super) name: String,
    pub(super) about: &'static str,
    pub(super) text: String,
    /// True if it tells of files and users, and not of the host and its settings alone.
    pub(super) names_items: bool,
}

impl Collected {
    /// Adds a file about the host, its site or its settings.
    pub(super) fn add(&mut self, name: impl Into<String>, about: &'static str, text: String) {
        self.push(name.into(), about, text, false);
    }

    /// Adds a file that tells of files and users.
    pub(super) fn add_items(&mut self, name: impl Into<String>, about: &'static str, text: String) {
        self.push(name.into(), about, text, true);
    }

    fn push(&mut self, name: String, about: &'static str, mut text: String, names_items: bool) {
        let surplus = text.len().saturating_sub(FILE_BYTES_MAX);
        if surplus > 0 {
            let cut = (surplus..text.len()).find(|at| text.is_char_boundary(*at));
            let rest = text.split_off(cut.unwrap_or(text.len()));
            text = format!("[the first {surplus} bytes are left out]\n{rest}");
        }
        self.files.push(CollectedFile { name, about, text, names_items });
    }

    /// Records a fact that could not be had.
    pub(super) fn lack(&mut self, name: impl Into<String>, why: impl std::fmt::Display) {
        self.missing.push((name.into(), why.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: of a very long text the end is taken.
    #[test]
    fn the_end_of_a_long_text_is_taken() {
        let mut collected = Collected::default();
        let text = format!("{}the end", "é".repeat(FILE_BYTES_MAX / 2));
        collected.add("log.txt", "", text);
        let text = &collected.files[0].text;
        assert!(text.len() <= FILE_BYTES_MAX + 60 && text.ends_with("the end"));
        assert!(text.starts_with("[the first "), "{}", &text[..40]);
    }
}
