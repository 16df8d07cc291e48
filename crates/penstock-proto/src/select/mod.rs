//! Selection of paths of a data set: patterns over bytes, and rules of which the first that matches
//! decides.
//!
//! Patterns have the meaning of a `.gitignore` file (gitignore(5)), byte for byte:
//!
//! | pattern | matches |
//! |---|---|
//! | `*.tmp` | without a slash: the last component of a path, at any depth |
//! | `/raw` | with a slash at its front or within: the whole path from the data set's root |
//! | `raw/*.h5` | the same: `raw/a.h5`, neither `x/raw/a.h5` nor `raw/x/a.h5` |
//! | `cache/` | with a slash at its end: directories only. |
//! | `*` `?` | any bytes, one byte, but never `/`. |
//! | `[a-z]` `[!a-z]` `[[:digit:]]` | one byte of a set, or not of it; never `/`. |
//! | `**/x` `a/**/b` `a/**` | any number of directories; all that lies in `a`; `/**`: everything |
//! | `\*` | the byte after the backslash as it is |
//!
//! Matching takes at most time proportional to the product of both lengths, for any pattern: it may
//! come from another site.

use crate::name;
use crate::units::FileTime;

/// Longest pattern in bytes.
pub const GLOB_BYTES_MAX: usize = 4096;
/// Most rules of one selection; `--files-from` serves longer lists of paths.
pub const RULES_MAX: usize = 10_000;

/// Error: a pattern cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` cannot be read: {why}")]
pub struct ParseGlobError {
    pattern: String,
    why: &'static str,
}

/// A pattern for paths; see the module's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    components: Vec<Component>,
    /// True if it has no slash but at its end: the last component of a path decides.
    any_depth: bool,
    directories_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Component {
    /// Any number of components, including none.
    Deep,
    /// A single component.
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any one byte.
    One,
    /// Any number of bytes, including none.
    Many,
    Set(Box<ByteSet>),
}

/// A set of bytes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }

    fn holds(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1
    }

    fn invert(&mut self) {
        self.0 = self.0.map(|bits| !bits);
    }
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The pattern is empty, too long, or can never match; or a `[` or a final backslash is not
    /// closed.
    pub fn parse(pattern: &[u8]) -> Result<Self, ParseGlobError> {
        let error = |why| ParseGlobError { pattern: name::escape(pattern), why };
        if pattern.len() > GLOB_BYTES_MAX {
            return Err(error("it is longer than 4096 bytes"));
        }
        if pattern.contains(&0) {
            return Err(error("no name holds a NUL"));
        }
        let body = pattern.strip_prefix(b"/").unwrap_or(pattern);
        let (body, directories_only) = match body.strip_suffix(b"/") {
            Some(inner) if !ends_in_escape(inner) => (inner, true),
            _ => (body, false),
        };
        if body.is_empty() {
            return Err(error("it is empty; `*` matches every name"));
        }
        let any_depth = !pattern.starts_with(b"/") && !body.contains(&b'/');
        let texts: Vec<&[u8]> = body.split(|&byte| byte == b'/').collect();
        let mut components = Vec::with_capacity(texts.len() + 1);
        for (at, &text) in texts.iter().enumerate() {
            match text {
                b"" => return Err(error("it has two slashes in a row")),
                b"." | b".." => return Err(error("`.` and `..` are no names, it never matches")),
                b"**" if !any_depth => {
                    if components.last() != Some(&Component::Deep) {
                        components.push(Component::Deep);
                    }
                    // The content of a directory excludes the directory itself.
                    if at + 1 == texts.len() {
                        components.push(Component::Name(vec![Token::Many]));
                    }
                }
                text => components.push(Component::Name(read_name(text).map_err(error)?)),
            }
        }
        Ok(Self { components, any_depth, directories_only })
    }

    /// Returns whether the pattern matches a path, relative to the data set's root. The empty path
    /// never matches.
    pub fn matches(&self, path: &[u8], directory: bool) -> bool {
        if path.is_empty() || self.directories_only && !directory {
            return false;
        }
        if self.any_depth {
            let leaf = name::split(path).map_or(path, |(_, leaf)| leaf);
            let [Component::Name(tokens)] = &self.components[..] else { return false };
            return is_name(tokens, leaf);
        }
        self.matches_whole(path)
    }

    /// Retries after the last `**` only: the components before it have matched as early as they
    /// can.
    fn matches_whole(&self, path: &[u8]) -> bool {
        let mut wanted = self.components.iter();
        let mut rest = Some(path);
        let mut again: Option<(std::slice::Iter<'_, Component>, &[u8])> = None;
        loop {
            let mut trial = wanted.clone();
            match (trial.next(), rest) {
                (None, None) => return true,
                (Some(Component::Deep), _) => {
                    let Some(here) = rest else { return false };
                    again = Some((trial.clone(), here));
                    wanted = trial;
                    continue;
                }
                (Some(Component::Name(tokens)), Some(here)) => {
                    let (first, behind) = first_component(here);
                    if is_name(tokens, first) {
                        (wanted, rest) = (trial, behind);
                        continue;
                    }
                }
                _ => {}
            }
            let Some((behind_deep, from)) = again.take() else { return false };
            let (_, Some(next)) = first_component(from) else { return false };
            wanted = behind_deep.clone();
            rest = Some(next);
            again = Some((behind_deep, next));
        }
    }
}

fn first_component(path: &[u8]) -> (&[u8], Option<&[u8]>) {
    match path.iter().position(|&byte| byte == b'/') {
        Some(at) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

/// Returns whether the text ends within an escape: in an odd number of backslashes.
fn ends_in_escape(text: &[u8]) -> bool {
    text.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

fn read_name(text: &[u8]) -> Result<Vec<Token>, &'static str> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        at += 1;
        match byte {
            b'*' if tokens.last() == Some(&Token::Many) => {}
            b'*' => tokens.push(Token::Many),
            b'?' => tokens.push(Token::One),
            b'[' => {
                let (set, end) = read_set(text, at)?;
                tokens.push(Token::Set(Box::new(set)));
                at = end;
            }
            b'\\' => {
                let escaped = *text
                    .get(at)
                    .ok_or("no character follows its last backslash; `\\\\` means a backslash")?;
                tokens.push(Token::Byte(escaped));
                at += 1;
            }
            plain => tokens.push(Token::Byte(plain)),
        }
    }
    Ok(tokens)
}

const OPEN: &str = "a `[` is not closed; `\\[` means the character itself";

/// Reads a set from after its `[`; returns it and the position after it.
fn read_set(text: &[u8], begin: usize) -> Result<(ByteSet, usize), &'static str> {
    let mut set = ByteSet::default();
    let negated = matches!(text.get(begin), Some(b'!' | b'^'));
    let first = begin + usize::from(negated);
    let mut at = first;
    loop {
        let byte = *text.get(at).ok_or(OPEN)?;
        if byte == b']' && at > first {
            break;
        }
        if text[at..].starts_with(b"[:") {
            let inside = &text[at + 2..];
            let end = inside.windows(2).position(|pair| pair == b":]").ok_or(OPEN)?;
            let class = class_of(&inside[..end])?;
            (0..=u8::MAX).filter(class).for_each(|byte| set.insert(byte));
            at += 2 + end + 2;
            continue;
        }
        let (low, behind) = set_byte(text, at)?;
        at = behind;
        let range = text.get(at) == Some(&b'-') && text.get(at + 1).is_some_and(|&end| end != b']');
        if !range {
            set.insert(low);
            continue;
        }
        let (high, behind) = set_byte(text, at + 1)?;
        at = behind;
        if low > high {
            return Err("a range in `[…]` runs backwards");
        }
        (low..=high).for_each(|byte| set.insert(byte));
    }
    if negated {
        set.invert();
    }
    Ok((set, at + 1))
}

fn set_byte(text: &[u8], at: usize) -> Result<(u8, usize), &'static str> {
    match text.get(at).ok_or(OPEN)? {
        b'\\' => Ok((*text.get(at + 1).ok_or(OPEN)?, at + 2)),
        &byte => Ok((byte, at + 1)),
    }
}

/// Returns the classes of POSIX in the C locale (isalpha(3)).
fn class_of(class: &[u8]) -> Result<fn(&u8) -> bool, &'static str> {
    Ok(match class {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, 0x20..=0x7e),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | 0x09..=0x0d),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return Err("the class does not exist; `[[:digit:]]`, `[[:alpha:]]` … do"),
    })
}

/// Returns whether one component matches. Retries after the last `*` only.
fn is_name(tokens: &[Token], text: &[u8]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut again = None;
    while at < text.len() {
        let fits = match tokens.get(token) {
            Some(Token::Many) => {
                again = Some((token + 1, at));
                token += 1;
                continue;
            }
            Some(Token::Byte(byte)) => *byte == text[at],
            Some(Token::One) => true,
            Some(Token::Set(set)) => set.holds(text[at]),
            None => false,
        };
        if fits {
            (token, at) = (token + 1, at + 1);
            continue;
        }
        let Some((behind, from)) = again else { return false };
        again = Some((behind, from + 1));
        (token, at) = (behind, from + 1);
    }
    tokens[token..].iter().all(|token| *token == Token::Many)
}

/// A rule on paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// True if the paths that it matches are wanted, else they are not.
    pub include: bool,
    /// Pattern of the paths.
    pub glob: Glob,
}

/// Decision on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The path belongs to the data set.
    Included,
    /// The path is excluded by a rule.
    Excluded,
}

/// Decides which paths of a tree are wanted. Pure, and the same at both sites. The source lists by
/// these rules; the target must not regard an excluded path as missing.
///
/// Paths are relative to the data set's root. The first rule that matches decides; a path that no
/// rule matches is wanted. The content of an excluded directory is excluded, whatever other rules
/// match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Rules, in the order of the command line.
    pub rules: Vec<Rule>,
    /// Files below this many bytes are left out.
    pub size_min: Option<u64>,
    /// Files above this many bytes are left out.
    pub size_max: Option<u64>,
    /// Files whose content is as old as this, or older, are left out.
    pub newer_than: Option<FileTime>,
    /// True if file systems mounted within the source are not descended into.
    pub one_file_system: bool,
}

impl Selector {
    /// Returns whether a path is wanted by the rules; `directory` says whether it is one.
    pub fn verdict(&self, path: &[u8], directory: bool) -> Verdict {
        let within = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (at, _) in within {
            if self.verdict_here(&path[..at], true) == Verdict::Excluded {
                return Verdict::Excluded;
            }
        }
        self.verdict_here(path, directory)
    }

    /// Returns whether a path is wanted, for a caller that has walked down to `path` and knows that
    /// its directories are wanted.
    pub fn verdict_here(&self, path: &[u8], directory: bool) -> Verdict {
        match self.rules.iter().find(|rule| rule.glob.matches(path, directory)) {
            Some(rule) if !rule.include => Verdict::Excluded,
            _ => Verdict::Included,
        }
    }

    /// Returns whether the rules can distinguish files and directories of one name.
    pub fn asks_for_kind(&self) -> bool {
        self.rules.iter().any(|rule| rule.glob.directories_only)
    }

    /// Returns whether a file is within the limits of size and time.
    pub fn takes_file(&self, size: u64, mtime: FileTime) -> bool {
        self.size_min.is_none_or(|min| size >= min)
            && self.size_max.is_none_or(|max| size <= max)
            && self.newer_than.is_none_or(|time| mtime > time)
    }
}

#[cfg(test)]
mod tests;
