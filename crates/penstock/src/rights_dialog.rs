//! Questions on a terminal for the rights of paired sites.
//!
//! `site init` and `site pair` ask where no flag has answered. The answers are the same words that
//! the flags take. Without a terminal nobody is asked, and nothing is granted.

use std::io::{self, BufRead};

use penstock_proto::id::ParseIdError;

use crate::consent;
use crate::exit::{self, Failure};

/// Wrong answers to one question before it counts as answered with nothing.
const TRIES: usize = 3;

/// The names that may write, and those that may also replace and delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) write: Vec<String>,
    pub(crate) delete: Vec<String>,
}

/// The reason why a word is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrongWord {
    /// It can be no name of a site.
    #[error(transparent)]
    Name(#[from] ParseIdError),
    /// Nobody may write there.
    #[error("`{0}` is no store here that is written to")]
    NoStore(String),
    /// The right to write was not given before.
    #[error("`{0}` may not write")]
    MayNotWrite(String),
}

/// The two questions, and the names that answer them.
pub(crate) struct Questions<'a> {
    pub(crate) write: String,
    pub(crate) delete: String,
    /// Checks that a word is an answer.
    pub(crate) check: &'a dyn Fn(&str) -> Result<(), WrongWord>,
}

impl Questions<'_> {
    /// Asks on the terminal, if standard input and standard error are one; else nobody is asked.
    /// Blocks until the user has answered.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) fn ask(&self) -> Result<Rights, Failure> {
        if !consent::can_ask() {
            return Ok(Rights::default());
        }
        let mut say = |text: &str| match text.strip_suffix('\n') {
            Some(line) => exit::warn(line),
            None => exit::prompt(text),
        };
        let asked = self.ask_by(&mut io::stdin().lock(), &mut say);
        asked.map_err(|error| Failure::io("read the answer", error))
    }

    fn ask_by(&self, from: &mut dyn BufRead, say: &mut dyn FnMut(&str)) -> io::Result<Rights> {
        let write = names(&self.write, self.check, from, say)?;
        if write.is_empty() {
            return Ok(Rights::default());
        }
        let listed = |word: &str| match write.iter().any(|one| one == word || one == "*") {
            true => (self.check)(word),
            false => Err(WrongWord::MayNotWrite(word.to_owned())),
        };
        let delete = names(&self.delete, &listed, from, say)?;
        Ok(Rights { write, delete })
    }
}

/// Asks until the answer is a list of names, or empty.
fn names(
    question: &str,
    check: &dyn Fn(&str) -> Result<(), WrongWord>,
    from: &mut dyn BufRead,
    say: &mut dyn FnMut(&str),
) -> io::Result<Vec<String>> {
    for _ in 0..TRIES {
        say(&format!("{question} [none]: "));
        let mut line = String::new();
        from.read_line(&mut line)?;
        let words = line.split([',', ' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
        let words: Vec<String> = words.filter(|word| *word != "none").map(str::to_owned).collect();
        match words.iter().try_for_each(|word| check(word)) {
            Ok(()) => return Ok(words),
            Err(why) => say(&format!("{why}\n")),
        }
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(text: &str) -> (Rights, String) {
        let check = |word: &str| match word {
            "data" | "scratch" => Ok(()),
            other => Err(WrongWord::NoStore(other.to_owned())),
        };
        let questions =
            Questions { write: "write?".into(), delete: "delete?".into(), check: &check };
        let mut said = String::new();
        let mut from = text.as_bytes();
        let rights = questions.ask_by(&mut from, &mut |text| said.push_str(text)).unwrap();
        (rights, said)
    }

    /// Promise: rights are given only by name; an empty answer, the end of the input and wrong
    /// answers give none, and who may not write is not asked about more.
    #[test]
    fn rights_are_given_by_name() {
        let rights = |write: &[&str], delete: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            Rights { write: owned(write), delete: owned(delete) }
        };
        for text in ["", "\n", "none\n", "x\ny\nz\ndata\n"] {
            let (given, said) = answered(text);
            assert_eq!(given, Rights::default(), "{text:?}");
            assert!(!said.contains("delete?"), "{said}");
        }
        assert_eq!(answered("data, scratch\n\n").0, rights(&["data", "scratch"], &[]));
        assert_eq!(
            answered("data scratch\nscratch\n").0,
            rights(&["data", "scratch"], &["scratch"])
        );
        let (given, said) = answered("dat\ndata\nscratch\n");
        assert_eq!(given, rights(&["data"], &[]), "what may not write may not delete");
        assert!(said.contains("`dat` is no store"), "{said}");
        assert!(said.contains("`scratch` may not write"), "{said}");
    }
}
