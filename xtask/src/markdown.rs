//! The width of Markdown text, as in rustfmt.toml.
//!
//! Tables, code, headings, quotes, HTML and definitions of links cannot be wrapped, and count as
//! they are. A paragraph or an item of a list that is too wide is wrapped as a whole; all others
//! keep their lines.

/// Columns of a line.
const COLUMNS_MAX: usize = 100;
/// Columns of the longest code span that is kept on one line.
const SPAN_COLUMNS_MAX: usize = 60;

/// Lines that belong together.
#[derive(Default)]
struct Block<'a> {
    /// Its lines, without line breaks.
    lines: Vec<&'a str>,
    /// Columns of the marker of a list's item and the blanks before and after it; of a paragraph,
    /// those before its text. Lines after the first one begin there.
    indent: usize,
    /// True if the block is text, which can be wrapped.
    is_text: bool,
}

/// Returns the places of `text` that are too wide and can be wrapped, as `line: what`.
pub(crate) fn complain(text: &str) -> Vec<String> {
    let mut line = 1;
    let mut complaints = Vec::new();
    for block in blocks(text) {
        let wide = block.lines.iter().position(|one| columns(one) > COLUMNS_MAX);
        if let Some(at) = wide.filter(|_| block.is_text && wrap_block(&block) != block.lines) {
            let columns = columns(block.lines[at]);
            complaints.push(format!(
                "{}: {columns} columns, at most {COLUMNS_MAX}; `cargo xtask wrap` mends it",
                line + at
            ));
        }
        line += block.lines.len();
    }
    complaints
}

/// Returns `text` with the blocks wrapped that are too wide.
pub(crate) fn wrap(text: &str) -> String {
    let mut wrapped = String::with_capacity(text.len() + text.len() / 50);
    for block in blocks(text) {
        let too_wide = block.is_text && block.lines.iter().any(|one| columns(one) > COLUMNS_MAX);
        if too_wide {
            for line in wrap_block(&block) {
                wrapped.push_str(&line);
                wrapped.push('\n');
            }
        } else {
            for line in &block.lines {
                wrapped.push_str(line);
                wrapped.push('\n');
            }
        }
    }
    wrapped
}

/// Returns for each line of `text` whether it is within a fenced block of code, fences included.
pub(crate) fn fenced(text: &str) -> Vec<bool> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        found.push(fence.is_some() || mark.is_some());
        fence = match (fence, mark) {
            (None, _) => mark,
            (Some(open), Some(close)) if open == close => None,
            (Some(_), _) => fence,
        };
    }
    found
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // Where the text of the enclosing item begins.
    let mut item = 0;
    for (line, is_fenced) in text.lines().zip(fenced(text)) {
        let indent = line.len() - line.trim_start().len();
        let in_text = blocks.last().is_some_and(|block| block.is_text);
        let is_code = is_fenced || (!in_text && indent >= item + 4);
        if is_code || line.trim().is_empty() || is_rigid(line.trim_start()) {
            blocks.push(Block { lines: vec![line], ..Block::default() });
            continue;
        }
        let marker = marker_columns(line.trim_start());
        match blocks.last_mut() {
            Some(block) if in_text && marker == 0 => block.lines.push(line),
            _ => {
                let indent = indent + marker;
                if marker > 0 || indent < item {
                    item = indent;
                }
                blocks.push(Block { lines: vec![line], indent, is_text: true });
            }
        }
    }
    blocks
}

/// Returns whether a line, without its indentation, is of a kind that cannot be wrapped.
fn is_rigid(line: &str) -> bool {
    let is_definition = line.starts_with('[') && line.contains("]: ");
    is_definition || line.starts_with(['|', '#', '<', '>'])
}

/// Columns of the marker that a list's item begins with, and of the blanks after it; 0 if `line`
/// begins none.
fn marker_columns(line: &str) -> usize {
    let word = line.split(' ').next().unwrap_or_default();
    if !is_marker(word) || word.len() == line.len() {
        return 0;
    }
    let rest = &line[word.len()..];
    word.len() + (rest.len() - rest.trim_start().len())
}

fn is_marker(word: &str) -> bool {
    let number = word.trim_end_matches(['.', ')']);
    let is_number = number.len() + 1 == word.len()
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number || matches!(word, "-" | "+" | "*")
}

fn wrap_block(block: &Block<'_>) -> Vec<String> {
    let text = block.lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let first = block.lines.first().copied().unwrap_or_default();
    let start = &first[..block.indent.min(first.len())];
    let body = text.get(start.trim_start().len()..).unwrap_or_default();
    let mut lines = Vec::new();
    let mut line = start.to_owned();
    let mut is_empty = true;
    for word in words(body) {
        if !is_empty && columns(&line) + 1 + columns(&word) > COLUMNS_MAX {
            lines.push(std::mem::replace(&mut line, " ".repeat(block.indent)));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Returns the parts of `text` that a line may not break within: words, short code spans, and what
/// would begin a block of another kind together with the word before it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = word_end(rest);
        let word = &rest[..end];
        let begins_block = is_marker(word) || is_rigid(word) || word.starts_with(['=', '~']);
        match words.last_mut() {
            Some(last) if begins_block => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
        rest = rest[end..].trim_start();
    }
    words
}

/// Returns the length of the first word of `text`; blanks of a short code span do not end it.
fn word_end(text: &str) -> usize {
    let mut at = 0;
    while let Some(character) = text[at..].chars().next() {
        if character.is_whitespace() {
            break;
        }
        let ticks = text[at..].bytes().take_while(|&byte| byte == b'`').count();
        at += match span_length(&text[at..], ticks) {
            Some(length) => length,
            None => ticks.max(character.len_utf8()),
        };
    }
    at
}

/// Returns the length of the code span that `text` begins with, if it is short enough to be kept
/// whole.
fn span_length(text: &str, ticks: usize) -> Option<usize> {
    if ticks == 0 {
        return None;
    }
    let inner = text[ticks..].find(&text[..ticks])?;
    let length = ticks + inner + ticks;
    (columns(&text[..length]) <= SPAN_COLUMNS_MAX).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(words: usize) -> String {
        vec!["word"; words].join(" ")
    }

    /// Promise: text of more than 100 columns is reported with its line, and wrapping mends it.
    #[test]
    fn wide_text_is_wrapped() {
        let text = format!("# A\n\nshort\n\n- {}\n  more\n1. {}\n", long(30), long(3));
        assert_eq!(complain(&text).len(), 1);
        assert!(complain(&text)[0].starts_with("5: 151 columns"), "{:?}", complain(&text));
        let wrapped = wrap(&text);
        assert!(complain(&wrapped).is_empty(), "{wrapped}");
        assert!(wrapped.lines().all(|line| columns(line) <= 100));
        assert_eq!(wrapped.matches("\n  word").count(), 1, "{wrapped}");
        assert_eq!(wrapped.split_whitespace().count(), text.split_whitespace().count());
        assert_eq!(wrap(&wrapped), wrapped);
    }

    /// Promise: text that cannot be wrapped, or is narrow enough, keeps its lines.
    #[test]
    fn the_rest_is_kept() {
        let word = "x".repeat(120);
        let kept = [
            format!("| {} |\n", long(30)),
            format!("```\n{}\n```\n", long(30)),
            format!("a\n\n    {}\n", long(30)),
            format!("## {}\n", long(30)),
            format!("{word}\n"),
            format!("- a\n\n      {}\n", long(30)),
            "a\nb\n- c\n  d\n".to_owned(),
        ];
        for text in kept {
            assert!(complain(&text).is_empty(), "{text}");
            assert_eq!(wrap(&text), text);
        }
    }

    /// Promise: a wrapped line begins no list, heading or table, and cuts no short code span.
    #[test]
    fn a_line_begins_nothing_new() {
        for mark in ["-", "+", "12.", "#", "|", "`a b c d e f g`"] {
            for words in 15..25 {
                let text = format!("{} {mark} {}\n", long(words), long(20));
                let wrapped = wrap(&text);
                assert!(complain(&wrapped).is_empty());
                let begins = |line: &str| line.starts_with(mark) && !mark.starts_with('`');
                assert!(!wrapped.lines().any(begins), "{wrapped}");
                assert!(wrapped.contains(mark), "{wrapped}");
            }
        }
    }

    /// Promise: text that belongs to an item stays within it.
    #[test]
    fn a_paragraph_of_an_item_keeps_its_indent() {
        let text = format!("1. a\n\n   {}\n\n{}\n", long(30), long(30));
        let wrapped = wrap(&text);
        assert_eq!(wrapped.matches("\n   word").count(), 2, "{wrapped}");
        assert_eq!(wrapped.matches("\nword").count(), 2, "{wrapped}");
    }
}
