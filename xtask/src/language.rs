//! How plainly the production code speaks, and how it is divided: figures, not single faults.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::Context;

/// First words that make the comment of an item a relative clause or a bare pronoun.
const HEADLESS: [&str; 28] = [
    "What",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Whatever",
    "Whether",
    "That",
    "Where",
    "How",
    "Why",
    "Of",
    "Which",
    "As",
    "The same",
    "When",
    "From where",
    "Those",
    "It",
    "They",
    "One",
    "Since",
    "So",
    "Nobody",
    "Nothing",
    "Another",
    "Anybody",
    "These",
];
/// Most words of a sentence.
const SENTENCE_WORDS_MAX: usize = 30;

/// The figures of all crates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Comments of items.
    pub(crate) item_docs: usize,
    /// Comments of items that begin with one of [`HEADLESS`].
    pub(crate) headless: usize,
    /// Sentences of comments.
    pub(crate) sentences: usize,
    /// Sentences of more than [`SENTENCE_WORDS_MAX`] words.
    pub(crate) long: usize,
    /// Most source files directly in one folder, and the folder.
    pub(crate) largest_folder: (usize, String),
    /// Most files of a crate with an inherent `impl` of one type, and the type.
    pub(crate) spread: (usize, String),
    /// Places of headless comments and long sentences, as `path:line: text`.
    pub(crate) places: Vec<String>,
}

/// Measures the sources of all crates below `crates`; tests do not count.
///
/// # Errors
/// A source file cannot be read.
pub(crate) fn measure(root: &Path) -> anyhow::Result<Figures> {
    let mut files = Vec::new();
    super::tidy::collect(&root.join("crates"), &mut files)?;
    files.retain(|file| is_production(file));
    files.sort();
    let mut figures = Figures::default();
    let mut folders = BTreeMap::<String, usize>::new();
    let mut types = BTreeMap::<String, BTreeSet<&Path>>::new();
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let text = text.split("#[cfg(test)]\nmod test").next().unwrap_or_default();
        let name = file.strip_prefix(root).unwrap_or(file);
        let folder = name.parent().unwrap_or(name).display().to_string();
        *folders.entry(folder).or_default() += 1;
        let crate_name = name.iter().nth(1).unwrap_or_default().to_string_lossy().into_owned();
        for kind in text.lines().filter_map(inherent_impl) {
            types.entry(format!("{crate_name}::{kind}")).or_default().insert(file);
        }
        figures.add(&name.display().to_string(), text);
    }
    let folders = folders.into_iter().map(|(name, count)| (count, name));
    figures.largest_folder = folders.max().unwrap_or_default();
    let types = types.into_iter().map(|(name, files)| (files.len(), name));
    figures.spread = types.max().unwrap_or_default();
    Ok(figures)
}

fn is_production(file: &Path) -> bool {
    let has = |name: &str| file.iter().any(|part| part == name);
    has("src") && !["tests", "tests.rs", "benches", "examples"].into_iter().any(has)
}

/// Returns the type of a line that opens an inherent `impl` at the outermost level.
fn inherent_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once('>')?.1,
        None => rest,
    };
    let rest = rest.strip_prefix(' ')?.strip_suffix('{')?.trim_end();
    if rest.contains(" for ") {
        return None;
    }
    let name = rest.split('<').next()?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(name)
}

impl Figures {
    /// Counts the comments of one file. Pictures and tables are no sentences.
    fn add(&mut self, name: &str, text: &str) {
        let (mut block, mut before_is_doc, mut is_picture) = (Vec::new(), false, false);
        for (number, line) in (1..).zip(text.lines().chain([""])) {
            let line = line.trim();
            let doc = line.strip_prefix("///").map(str::trim);
            if let Some(doc) = doc.filter(|doc| !doc.is_empty() && !before_is_doc) {
                self.item_docs += 1;
                if is_headless(doc) {
                    self.headless += 1;
                    self.places.push(format!("{name}:{number}: headless: {doc}"));
                }
            }
            before_is_doc = line.starts_with("///");
            if line.starts_with("//") {
                let line = line.trim_start_matches(['/', '!']).trim();
                is_picture ^= line.starts_with("```");
                let is_prose = !is_picture && !line.starts_with("```") && !line.starts_with('|');
                block.push(if is_prose { line } else { "." });
            } else if !block.is_empty() {
                self.add_sentences(name, number, &std::mem::take(&mut block).join(" "));
                is_picture = false;
            }
        }
    }

    /// Counts the sentences of one comment, which ends before the line `number`.
    fn add_sentences(&mut self, name: &str, number: usize, comment: &str) {
        let mut words = 0;
        for word in comment.split_whitespace().chain(["."]) {
            words += 1;
            if !word.ends_with(['.', '!', '?', ':']) {
                continue;
            }
            self.sentences += usize::from(words > 2);
            if words > SENTENCE_WORDS_MAX {
                self.long += 1;
                self.places.push(format!("{name}:{number}: {words} words, the comment before"));
            }
            words = 0;
        }
    }
}

fn is_headless(doc: &str) -> bool {
    HEADLESS.iter().any(|first| {
        doc.strip_prefix(first).is_some_and(|rest| {
            rest.chars().next().is_none_or(|next| !next.is_alphanumeric() && next != '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a comment without a subject, a long sentence and nothing else is counted.
    #[test]
    fn comments_are_counted() {
        let mut figures = Figures::default();
        let long = format!("// {}end.", "word ".repeat(30));
        let text = format!(
            "/// What it does.\n/// Which is more.\nfn a() {{}}\n\n/// Returns one. It waits.\nfn \
             b() {{}}\n/// Whatsoever.\nfn c() {{}}\n{long}\n// Short one here.\n"
        );
        figures.add("x.rs", &text);
        assert_eq!((figures.item_docs, figures.headless, figures.long), (3, 1, 1));
        assert_eq!(figures.places[0], "x.rs:1: headless: What it does.");
    }

    /// Promise: inherent implementations are distinguished from those of traits.
    #[test]
    fn inherent_implementations_are_found() {
        assert_eq!(inherent_impl("impl Run {"), Some("Run"));
        assert_eq!(inherent_impl("impl<'a, T: Ord> Run<'a, T> {"), Some("Run"));
        assert_eq!(inherent_impl("impl Iterator for Run {"), None);
        assert_eq!(inherent_impl("impl From<io::Error> for Run {"), None);
        assert_eq!(inherent_impl("    impl Run {"), None);
    }
}
