//! Just enough reading of Rust source to measure it: no parser, but one that is not fooled by
//! braces in strings and comments.

use std::ops::RangeInclusive;

/// A function with a body, and the lines from its `fn` to its closing brace, counted from 1.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) lines: RangeInclusive<usize>,
}

/// Returns `text` with the content of comments, strings and character literals replaced by spaces;
/// line breaks stay where they are.
pub(crate) fn mask(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut masked = source.clone();
    let mut at = 0;
    while at < source.len() {
        let end = match source[at] {
            '/' if source.get(at + 1) == Some(&'/') => line_comment(&source, at),
            '/' if source.get(at + 1) == Some(&'*') => block_comment(&source, at),
            '"' => string(&source, at),
            'r' if !follows_word(&source, at) => raw_string(&source, at),
            '\'' => character(&source, at),
            _ => at + 1,
        };
        if end > at + 1 {
            for character in &mut masked[at..end.min(source.len())] {
                if *character != '\n' {
                    *character = ' ';
                }
            }
        }
        at = end;
    }
    masked.into_iter().collect()
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns whether the character before `at` belongs to the same word, but for a byte string's `b`.
fn follows_word(source: &[char], at: usize) -> bool {
    match source[..at] {
        [.., before, 'b'] => is_word(before),
        ['b'] | [] => false,
        [.., before] => is_word(before),
    }
}

fn line_comment(source: &[char], at: usize) -> usize {
    source[at..].iter().position(|&c| c == '\n').map_or(source.len(), |length| at + length)
}

fn block_comment(source: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < source.len() {
        match source[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(source: &[char], mut at: usize) -> usize {
    at += 1;
    while at < source.len() {
        match source[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    at
}

/// Returns the end of `r"…"` or `r#"…"#`, or the next character if it is neither.
fn raw_string(source: &[char], at: usize) -> usize {
    let hashes = source[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if source.get(open) != Some(&'"') {
        return at + 1;
    }
    let closes = |&end: &usize| {
        source[end] == '"' && source[end + 1..].iter().take(hashes).all(|&c| c == '#')
    };
    (open + 1..source.len()).find(closes).map_or(source.len(), |end| end + 1 + hashes)
}

/// Returns the end of `'x'` or `'\n'`, or the next character if a lifetime begins here.
fn character(source: &[char], at: usize) -> usize {
    match source[at + 1..] {
        ['\\', ..] => {
            let close = source[at + 3..].iter().position(|&c| c == '\'');
            close.map_or(source.len(), |length| at + 3 + length + 1)
        }
        [_, '\'', ..] => at + 3,
        _ => at + 1,
    }
}

/// Returns every function with a body in `masked`, nested ones too, in the order of their
/// beginnings.
pub(crate) fn functions(masked: &str) -> Vec<Function> {
    let source: Vec<char> = masked.chars().collect();
    let mut found = Vec::new();
    let mut line = 1;
    for at in 0..source.len() {
        if source[at] == '\n' {
            line += 1;
        }
        let begins = at == 0 || !is_word(source[at - 1]);
        if !begins || !matches!(source[at..], ['f', 'n', ' ', ..]) {
            continue;
        }
        let name: String = source[at + 3..].iter().take_while(|&&c| is_word(c)).collect();
        let Some(end) = body_end(&source[at..]).filter(|_| !name.is_empty()) else { continue };
        let length = source[at..at + end].iter().filter(|&&c| c == '\n').count();
        found.push(Function { name, lines: line..=line + length });
    }
    found
}

/// Returns the place at which the first braces after the signature close; `None` for a declaration
/// without a body.
fn body_end(source: &[char]) -> Option<usize> {
    let (mut brackets, mut braces) = (0, 0);
    for (at, character) in source.iter().enumerate() {
        match character {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if brackets == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces -= 1;
                if braces == 0 && brackets == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: braces, quotes and words in comments, strings and characters are not code.
    #[test]
    fn what_is_not_code_is_masked() {
        for (text, code) in [
            ("a // {", "a"),
            ("a /* { /* } */ { */ b", "a b"),
            (r#"a "{\"" b"#, "a b"),
            (r###"a r#"{"{"# b"###, "a b"),
            ("a '{' '\\'' '\\u{7d}' b", "a b"),
            ("fn a<'a>(b: &'a str) {}", "fn a<'a>(b: &'a str) {}"),
            ("br\"{\" for", "b for"),
        ] {
            let masked = mask(text);
            assert_eq!(masked.len(), text.len());
            assert_eq!(masked.split_whitespace().collect::<Vec<_>>().join(" "), code, "{text}");
        }
    }

    /// Promise: a function's lines run from its `fn` to its closing brace, and declarations and
    /// function types have none.
    #[test]
    fn functions_are_measured() {
        let text = "trait A {\n fn none(&self) -> [u8; 4];\n}\nfn one(f: fn(u8)) -> [u8; 2]\n{\n \
                    if a {\n }\n}\nimpl B { fn two() { fn three() {} } }\n";
        let function = |name: &str, lines| Function { name: name.to_owned(), lines };
        let expected = [function("one", 4..=8), function("two", 9..=9), function("three", 9..=9)];
        assert_eq!(functions(&mask(text)), expected);
    }
}
