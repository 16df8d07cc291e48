//! Which paths of a data set are wanted: patterns over bytes, and rules of which the first that
//! matches decides.
//!
//! Patterns mean what they mean in a `.gitignore` file (gitignore(5)), byte for byte:
//!
//! | pattern | matches |
//! |---|---|
//! | `*.tmp` | without a slash: the last component of a path, at any depth |
//! | `/raw` | with a slash at its front or within: the whole path from the data set's root |
//! | `raw/*.h5` | the same: `raw/a.h5`, neither `x/raw/a.h5` nor `raw/x/a.h5` |
//! | `cache/` | with a slash at its end: directories only |
//! | `*` `?` | any bytes, one byte, but never `/` |
//! | `[a-z]` `[!a-z]` `[[:digit:]]` | one byte of a set, or not of it; never `/` |
//! | `**/x` `a/**/b` `a/**` | any number of directories; all that lies in `a`; `/**`: everything |
//! | `\*` | the byte after the backslash as it is |
//!
//! Matching takes time of at most the product of both lengths, whatever the pattern: it may come
//! from another site.

use crate::name;
use crate::units::FileTime;

/// Longest pattern in bytes.
pub const GLOB_BYTES_MAX: usize = 4096;
/// Most rules of one selection. A longer list of paths is what `--files-from` is for.
pub const RULES_MAX: usize = 10_000;

/// Why a pattern cannot be read.
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
    /// It has no slash but at its end: the last component of a path decides.
    any_depth: bool,
    directories_only: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Component {
    /// Any number of components, also none.
    Deep,
    /// One component.
    Name(Vec<Token>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// Any one byte.
    One,
    /// Any number of bytes, also none.
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
    /// It is empty, too long, or can never match; a `[` or a final backslash stands open.
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
                    // What lies in a directory is not the directory itself.
                    if at + 1 == texts.len() {
                        components.push(Component::Name(vec![Token::Many]));
                    }
                }
                text => components.push(Component::Name(read_name(text).map_err(error)?)),
            }
        }
        Ok(Self { components, any_depth, directories_only })
    }

    /// Whether a path, relative to the data set's root, is meant. The empty path never is.
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

    /// Tries again behind the last `**` only: what stands before it has matched as early as it can.
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

/// Whether the text ends within an escape: in an odd number of backslashes.
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
                    .ok_or("nothing stands behind its last backslash; `\\\\` means a backslash")?;
                tokens.push(Token::Byte(escaped));
                at += 1;
            }
            plain => tokens.push(Token::Byte(plain)),
        }
    }
    Ok(tokens)
}

const OPEN: &str = "a `[` is not closed; `\\[` means the character itself";

/// Reads a set from behind its `[`; gives it and where the text goes on.
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

/// The classes of POSIX in the C locale (isalpha(3)).
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
        _ => return Err("there is no such class; `[[:digit:]]`, `[[:alpha:]]` … exist"),
    })
}

/// Whether one component is meant. Tries again behind the last `*` only.
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

/// What a rule says of the paths that it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// They are wanted; else they are not.
    pub include: bool,
    /// Which paths.
    pub glob: Glob,
}

/// Whether a path belongs to the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Included,
    /// It does not, by a rule.
    Excluded,
}

/// Decides what of a tree is wanted. Pure: the same at the source, which lists by it, and at the
/// target, which must not take for missing what was only left out.
///
/// Paths are relative to the data set's root. The first rule that matches decides; what none
/// matches is wanted. What lies in an excluded directory is excluded, whatever other rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// In the order of the command line.
    pub rules: Vec<Rule>,
    /// Files below this many bytes are left out.
    pub size_min: Option<u64>,
    /// Files above this many bytes are left out.
    pub size_max: Option<u64>,
    /// Files whose content is as old as this or older are left out.
    pub newer_than: Option<FileTime>,
    /// What is mounted within the source is not descended into.
    pub one_file_system: bool,
}

impl Selector {
    /// Whether a path is wanted, by the rules; `directory` says what it is.
    pub fn verdict(&self, path: &[u8], directory: bool) -> Verdict {
        let within = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        for (at, _) in within {
            if self.verdict_here(&path[..at], true) == Verdict::Excluded {
                return Verdict::Excluded;
            }
        }
        self.verdict_here(path, directory)
    }

    /// The same for who has come down to `path` and knows that its directories are wanted.
    pub fn verdict_here(&self, path: &[u8], directory: bool) -> Verdict {
        match self.rules.iter().find(|rule| rule.glob.matches(path, directory)) {
            Some(rule) if !rule.include => Verdict::Excluded,
            _ => Verdict::Included,
        }
    }

    /// Whether the rules can tell files and directories of one name apart.
    pub fn asks_for_kind(&self) -> bool {
        self.rules.iter().any(|rule| rule.glob.directories_only)
    }

    /// Whether a file is within the limits of size and time.
    pub fn takes_file(&self, size: u64, mtime: FileTime) -> bool {
        self.size_min.is_none_or(|min| size >= min)
            && self.size_max.is_none_or(|max| size <= max)
            && self.newer_than.is_none_or(|time| mtime > time)
    }
}

#[cfg(test)]
mod tests;
