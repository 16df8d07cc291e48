//! Attributes that a transfer preserves, and outcomes of those that it did not.

use std::fmt;
use std::str::FromStr;

use penstock_proto::attributes::{AttributeClass, ClassSet};
use serde::{Deserialize, Serialize};

/// Attributes of the entries to preserve beside their bytes and names. By default all of them, as
/// far as the target allows. Between sites only its store's configuration lets owners, special
/// modes, devices, ACLs, trusted and security attributes in (hard case D7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Preserve {
    /// Permission bits; without it new entries get the mode that the umask allows.
    pub mode: bool,
    /// User and group.
    pub owner: bool,
    /// Times of last modification.
    pub times: bool,
    /// Symbolic links; without it they are left out and counted.
    pub links: bool,
    /// Several names of one file remain names of one file; without it each becomes a file of its
    /// own.
    pub hardlinks: bool,
    /// Holes are neither sent nor allocated; without it they are written as zeros.
    pub sparse: bool,
    /// Extended attributes `user.*`, `trusted.*` and `security.*`.
    pub xattrs: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// FIFOs and device nodes; without it they are left out and counted.
    pub devices: bool,
    /// Count an entry whose attributes cannot be set as failed; without it the loss is only
    /// counted.
    pub strict: bool,
    /// Map of owners at the source to owners at the target. Other owners are mapped by name, and by
    /// number where the target does not know the name. For transfers between sites.
    pub owner_map: Vec<OwnerRule>,
}

impl Default for Preserve {
    fn default() -> Self {
        Self {
            mode: true,
            owner: true,
            times: true,
            links: true,
            hardlinks: true,
            sparse: true,
            xattrs: true,
            acls: true,
            devices: true,
            strict: false,
            owner_map: Vec::new(),
        }
    }
}

impl Preserve {
    /// The words of `--preserve`, in the order of the documentation.
    pub const WORDS: [&str; 9] =
        ["mode", "owner", "times", "links", "hardlinks", "sparse", "xattrs", "acls", "devices"];

    /// Returns options that preserve nothing but bytes and names.
    pub fn nothing() -> Self {
        let mut nothing = Self::default();
        for word in Self::WORDS {
            nothing.set(word, false);
        }
        nothing
    }

    /// Sets one of [`Preserve::WORDS`], `all` of them, or `strict`; returns whether there is such a
    /// word.
    pub fn set(&mut self, word: &str, kept: bool) -> bool {
        let field = match word {
            "mode" => &mut self.mode,
            "owner" => &mut self.owner,
            "times" => &mut self.times,
            "links" => &mut self.links,
            "hardlinks" => &mut self.hardlinks,
            "sparse" => &mut self.sparse,
            "xattrs" => &mut self.xattrs,
            "acls" => &mut self.acls,
            "devices" => &mut self.devices,
            "strict" => &mut self.strict,
            "all" => {
                for word in Self::WORDS {
                    self.set(word, kept);
                }
                return true;
            }
            _ => return false,
        };
        *field = kept;
        true
    }

    /// Returns the classes of attributes that the options ask for.
    pub fn classes(&self) -> ClassSet {
        let wished = |class: &AttributeClass| match class {
            AttributeClass::Owner => self.owner,
            AttributeClass::SpecialMode => self.mode,
            AttributeClass::Acls => self.acls,
            AttributeClass::UserXattrs
            | AttributeClass::TrustedXattrs
            | AttributeClass::SecurityXattrs => self.xattrs,
            AttributeClass::Devices => self.devices,
            // No target withholds these.
            AttributeClass::Mode | AttributeClass::Times | AttributeClass::DirectoryTimes => false,
        };
        ClassSet::of(AttributeClass::ALL.into_iter().filter(wished))
    }
}

/// A line of a map of owners: `alice:bob` or `1000:2000` for users, `@staff:@users` for groups; `*`
/// matches all owners that no other line names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct OwnerRule {
    /// True if it is for groups.
    pub group: bool,
    /// Name or number at the source, or `*`.
    pub from: String,
    /// Name or number at the target.
    pub to: String,
}

/// Error: a text is not a rule for owners.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not FROM:TO (users) or @FROM:@TO (groups)")]
pub struct ParseOwnerRuleError(String);

impl FromStr for OwnerRule {
    type Err = ParseOwnerRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseOwnerRuleError(text.to_owned());
        let (from, to) = text.trim().split_once(':').ok_or_else(wrong)?;
        let (from, to, group) = match (from.strip_prefix('@'), to.strip_prefix('@')) {
            (Some(from), Some(to)) => (from, to, true),
            (None, None) => (from, to, false),
            _ => return Err(wrong()),
        };
        if from.is_empty() || to.is_empty() || to == "*" || to.contains(':') {
            return Err(wrong());
        }
        Ok(Self { group, from: from.to_owned(), to: to.to_owned() })
    }
}

impl TryFrom<String> for OwnerRule {
    type Error = ParseOwnerRuleError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OwnerRule> for String {
    fn from(rule: OwnerRule) -> Self {
        rule.to_string()
    }
}

impl fmt::Display for OwnerRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.group { "@" } else { "" };
        write!(f, "{mark}{}:{mark}{}", self.from, self.to)
    }
}

/// Reason why attributes were not preserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NotKeptWhy {
    /// The target's store does not let them in from other sites.
    Withheld,
    /// The process lacks the right to set them.
    NotPermitted,
    /// The target's file system does not have them.
    NotSupported,
    /// The attributes are too large to be carried, or their values mean nothing there.
    Unfit,
    /// The target's file system, or the user's quota, has no room for them beside this item.
    NoRoom,
}

impl NotKeptWhy {
    /// Returns the text for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Withheld => "withheld by the target's configuration",
            Self::NotPermitted => "not permitted",
            Self::NotSupported => "not supported by the target's file system",
            Self::Unfit => "too large or of no meaning there",
            Self::NoRoom => "no room for attributes at the target",
        }
    }
}

/// Attributes of one class that were not preserved, for one reason. No item has failed by that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NotKept {
    /// Class.
    pub class: AttributeClass,
    /// Reason.
    pub why: NotKeptWhy,
    /// Number of items.
    pub items: u64,
}

impl NotKept {
    /// Returns class and reason as one word, as JSON has them: `acls/withheld`.
    pub fn key(&self) -> String {
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let class = serde_json::to_value(self.class).map(word).unwrap_or_default();
        let why = serde_json::to_value(self.why).map(word).unwrap_or_default();
        format!("{class}/{why}")
    }
}

impl fmt::Display for NotKept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = if self.items == 1 { "item" } else { "items" };
        let times = matches!(self.class, AttributeClass::Times | AttributeClass::DirectoryTimes);
        let why = match self.why {
            NotKeptWhy::Unfit if times => "the target's file system cannot keep such times",
            why => why.words(),
        };
        write!(f, "{} of {} {items} not set: {why}", self.class.words(), self.items)?;
        if self.class == AttributeClass::Times && self.why != NotKeptWhy::Unfit {
            f.write_str("; --sync will copy such files again")?;
        }
        Ok(())
    }
}

/// Adds counts of the same class and reason.
pub fn add_not_kept(sum: &mut Vec<NotKept>, more: &[NotKept]) {
    for added in more {
        let same = |known: &&mut NotKept| known.class == added.class && known.why == added.why;
        match sum.iter_mut().find(same) {
            Some(known) => known.items += added.items,
            None => sum.push(*added),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: every word of the list means one thing, and all of them are the default.
    #[test]
    fn the_words_of_the_list_are_the_fields() {
        let mut all = Preserve::nothing();
        assert_ne!(all, Preserve::default());
        for word in Preserve::WORDS {
            let before = all.clone();
            assert!(all.set(word, true));
            assert_ne!(all, before, "{word}");
        }
        assert_eq!(all, Preserve::default());
        assert!(!all.set("colour", true));
        assert!(all.set("strict", true) && all.strict);
        let read: Preserve = serde_json::from_str("{\"acls\":false}").unwrap();
        assert!(!read.acls && read.mode);
    }

    /// Promise (D7): a map of owners is read as it is written, and half a rule is refused.
    #[test]
    fn d7_owner_rules_are_read_and_written() {
        for text in ["alice:bob", "1000:2000", "@staff:@users", "*:nobody"] {
            assert_eq!(text.parse::<OwnerRule>().unwrap().to_string(), text);
        }
        for bad in ["alice", ":bob", "alice:", "@staff:users", "a:*", "a:b:c"] {
            assert!(bad.parse::<OwnerRule>().is_err(), "{bad}");
        }
    }
}
