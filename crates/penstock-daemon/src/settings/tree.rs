//! The configuration as a tree in which each value knows the layer and the place that set it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use penstock_api::settings::SettingSource;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file of the configuration, as it was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// A place in a file: line and column in characters, both from 1 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: Arc<SourceFile>,
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    /// Returns the place of a byte of a file.
    pub(super) fn of(file: &Arc<SourceFile>, byte: usize) -> Self {
        let mut byte = byte.min(file.text.len());
        while !file.text.is_char_boundary(byte) {
            byte -= 1;
        }
        let before = &file.text[..byte];
        let line = before.matches('\n').count() + 1;
        let begin = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before[begin..].chars().count() + 1;
        Self { file: Arc::clone(file), line, column }
    }

    /// Returns the line itself.
    pub(super) fn text(&self) -> &str {
        self.file.text.lines().nth(self.line - 1).unwrap_or_default()
    }
}

/// The layer that sets a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    /// No layer sets it.
    #[default]
    Default,
    /// A file.
    File(Place),
    /// A variable of the environment, by its name.
    Environment(String),
    /// An option of the command line, by its name.
    Flag(&'static str),
}

impl Origin {
    /// Returns the layer as the API shows it.
    pub(super) fn source(&self) -> SettingSource {
        match self {
            Self::Default => SettingSource::Default,
            Self::File(place) => SettingSource::File {
                path: place.file.path.display().to_string(),
                line: place.line,
            },
            Self::Environment(name) => SettingSource::Environment { name: name.clone() },
            Self::Flag(name) => SettingSource::Flag { name: (*name).to_owned() },
        }
    }
}

/// A step from a value to one within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Key(String),
    At(usize),
}

/// A value and its layer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) value: Content,
    /// The place of the value.
    pub(super) origin: Origin,
    /// The place of its key, or of the value if there is no key.
    pub(super) key: Origin,
}

/// The content of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Content {
    Plain(toml::Value),
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
    /// An element of a list that cannot be read. Its place in the list stays, so that the others
    /// keep their numbers in the file.
    Removed,
}

impl Node {
    /// Returns a table without entries.
    pub(super) fn empty() -> Self {
        Self::of(Content::Table(BTreeMap::new()), Origin::Default)
    }

    fn of(value: Content, origin: Origin) -> Self {
        Self { value, key: origin.clone(), origin }
    }

    /// Returns a value that is of one layer as a whole.
    pub(super) fn set_by(value: toml::Value, origin: &Origin) -> Self {
        let content = match value {
            toml::Value::Array(items) => {
                let items = items.into_iter().map(|item| Self::set_by(item, origin));
                Content::List(items.collect())
            }
            toml::Value::Table(entries) => {
                let node = |(key, value)| (key, Self::set_by(value, origin));
                Content::Table(entries.into_iter().map(node).collect())
            }
            plain => Content::Plain(plain),
        };
        Self::of(content, origin.clone())
    }

    /// Parses a file.
    ///
    /// # Errors
    /// Every fault of its syntax, with its place in bytes.
    pub(super) fn parse(file: &Arc<SourceFile>) -> Result<Self, Vec<(Range<usize>, String)>> {
        let (table, errors) = DeTable::parse_recoverable(&file.text);
        if !errors.is_empty() {
            let fault = |error: toml::de::Error| {
                (error.span().unwrap_or_default(), error.message().to_owned())
            };
            return Err(errors.into_iter().map(fault).collect());
        }
        Ok(Self::table(file, table))
    }

    fn table(file: &Arc<SourceFile>, table: Spanned<DeTable<'_>>) -> Self {
        let origin = Origin::File(Place::of(file, table.span().start));
        let entry = |(key, value): (Spanned<_>, Spanned<DeValue<'_>>)| {
            let place = Origin::File(Place::of(file, key.span().start));
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            (key.into_owned(), Self { key: place, ..Self::value(file, value) })
        };
        let entries = table.into_inner().into_iter().map(entry).collect();
        Self::of(Content::Table(entries), origin)
    }

    fn value(file: &Arc<SourceFile>, value: Spanned<DeValue<'_>>) -> Self {
        let span = value.span();
        let origin = Origin::File(Place::of(file, span.start));
        let content = match value.into_inner() {
            DeValue::Table(table) => return Self::table(file, Spanned::new(span, table)),
            DeValue::Array(items) => {
                let items = items.into_iter().map(|item| Self::value(file, item));
                Content::List(items.collect())
            }
            DeValue::String(text) => Content::Plain(toml::Value::String(text.into_owned())),
            DeValue::Boolean(is) => Content::Plain(toml::Value::Boolean(is)),
            DeValue::Datetime(time) => Content::Plain(toml::Value::Datetime(time)),
            DeValue::Integer(number) => {
                let parsed = i64::from_str_radix(number.as_str(), number.radix());
                let text = || toml::Value::String(number.to_string());
                Content::Plain(parsed.map_or_else(|_| text(), toml::Value::Integer))
            }
            DeValue::Float(number) => {
                let parsed = number.as_str().parse();
                let text = || toml::Value::String(number.to_string());
                Content::Plain(parsed.map_or_else(|_| text(), toml::Value::Float))
            }
        };
        Self::of(content, origin)
    }

    /// Lays a layer over this one: tables are merged, all else is replaced.
    pub(super) fn merge(&mut self, over: Self) {
        match (&mut self.value, over.value) {
            (Content::Table(own), Content::Table(entries)) => {
                for (key, node) in entries {
                    match own.get_mut(&key) {
                        Some(known) => known.merge(node),
                        None => drop(own.insert(key, node)),
                    }
                }
                if self.origin == Origin::Default {
                    (self.origin, self.key) = (over.origin, over.key);
                }
            }
            (own, value) => {
                *own = value;
                (self.origin, self.key) = (over.origin, over.key);
            }
        }
    }

    /// Sets the value of a key, as `web.listen`, and makes the tables above it.
    pub(super) fn set(&mut self, key: &str, value: toml::Value, origin: &Origin) {
        let node = key.rsplit('.').fold(Self::set_by(value, origin), |inner, part| {
            let entries = BTreeMap::from([(part.to_owned(), inner)]);
            Self::of(Content::Table(entries), origin.clone())
        });
        self.merge(node);
    }

    /// Returns the value without its places.
    pub(super) fn to_value(&self) -> toml::Value {
        match &self.value {
            Content::Plain(value) => value.clone(),
            Content::List(items) => kept(items).map(Self::to_value).collect::<Vec<_>>().into(),
            // The value is an element of a list, and left out there.
            Content::Removed => toml::Value::Table(toml::Table::new()),
            Content::Table(entries) => {
                let entry = |(key, node): (&String, &Self)| (key.clone(), node.to_value());
                toml::Value::Table(entries.iter().map(entry).collect())
            }
        }
    }

    /// Returns the value at the end of some steps, or the last one on the way. Here and below the
    /// number of an element counts those before it that were not removed, as in the result of
    /// [`Node::to_value`].
    pub(super) fn nearest(&self, steps: &[Step]) -> &Self {
        let Some((first, rest)) = steps.split_first() else { return self };
        match (&self.value, first) {
            (Content::Table(entries), Step::Key(key)) => entries.get(key),
            (Content::List(items), Step::At(at)) => kept(items).nth(*at),
            _ => None,
        }
        .map_or(self, |next| next.nearest(rest))
    }

    /// Returns the same steps with the numbers of elements as the layer has them.
    pub(super) fn as_written(&self, steps: &[Step]) -> Vec<Step> {
        let mut written = Vec::new();
        let mut node = Some(self);
        for step in steps {
            let (found, next) = match (node.map(|node| &node.value), step) {
                (Some(Content::Table(entries)), Step::Key(key)) => (None, entries.get(key)),
                (Some(Content::List(items)), Step::At(at)) => {
                    let found = items.iter().enumerate().filter(|(_, it)| it.is_kept()).nth(*at);
                    (found.map(|(at, _)| Step::At(at)), found.map(|(_, item)| item))
                }
                _ => (None, None),
            };
            written.push(found.unwrap_or_else(|| step.clone()));
            node = next;
        }
        written
    }

    fn is_kept(&self) -> bool {
        self.value != Content::Removed
    }

    /// Returns the layer that sets a value, or the default layer.
    pub(super) fn origin_of(&self, steps: &[Step]) -> Origin {
        let Some((first, rest)) = steps.split_first() else { return self.origin.clone() };
        match (&self.value, first) {
            (Content::Table(entries), Step::Key(key)) => entries.get(key),
            (Content::List(items), Step::At(at)) => kept(items).nth(*at),
            _ => None,
        }
        .map_or(Origin::Default, |next| next.origin_of(rest))
    }

    /// Removes the value at the end of some steps, if it is there.
    pub(super) fn remove(&mut self, steps: &[Step]) -> bool {
        let Some((first, rest)) = steps.split_first() else { return false };
        match (&mut self.value, first) {
            (Content::Table(entries), Step::Key(key)) => match entries.get_mut(key) {
                Some(_) if rest.is_empty() => entries.remove(key).is_some(),
                Some(next) => next.remove(rest),
                None => false,
            },
            (Content::List(items), Step::At(at)) => {
                let item = items.iter_mut().filter(|item| item.is_kept()).nth(*at);
                match item {
                    Some(item) if rest.is_empty() => {
                        item.value = Content::Removed;
                        true
                    }
                    Some(item) => item.remove(rest),
                    None => false,
                }
            }
            _ => false,
        }
    }
}

/// Returns the elements of a list that can be read.
fn kept(items: &[Node]) -> impl Iterator<Item = &Node> {
    items.iter().filter(|item| item.is_kept())
}

/// Returns the steps of a key, as `web.listen` or `store[1].path`.
pub(super) fn steps(key: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for part in key.split('.') {
        let (name, at) = part
            .split_once('[')
            .map_or((part, None), |(name, rest)| (name, rest.trim_end_matches(']').parse().ok()));
        steps.push(Step::Key(name.to_owned()));
        steps.extend(at.map(Step::At));
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> Arc<SourceFile> {
        Arc::new(SourceFile { path: path.into(), text: text.to_owned() })
    }

    /// Promise: of two layers the later one counts; tables are merged, lists are replaced, and each
    /// value knows its own place.
    #[test]
    fn layers_are_merged_and_keep_their_places() {
        let low = file("low", "site = \"a\"\n[web]\nlisten = [\"x\"]\nnames = [\"n\"]\n");
        let high = file("high", "# ours\n[web]\nlisten = [\"ä\",\n  \"z\"]\n");
        let mut tree = Node::empty();
        tree.merge(Node::parse(&low).unwrap());
        tree.merge(Node::parse(&high).unwrap());
        tree.set("web.key", "k".into(), &Origin::Environment("E".into()));
        let text = toml::to_string(&tree.to_value()).unwrap();
        let value: toml::Table = toml::from_str(&text).unwrap();
        assert_eq!(value["web"]["listen"].as_array().unwrap().len(), 2);
        let at = |key: &str| match tree.origin_of(&steps(key)) {
            Origin::File(place) => {
                format!("{}:{}:{}", place.file.path.display(), place.line, place.column)
            }
            other => format!("{other:?}"),
        };
        assert_eq!(at("site"), "low:1:8");
        assert_eq!(at("web.names"), "low:4:9");
        assert_eq!(at("web.listen[1]"), "high:4:3");
        assert_eq!(at("web.key"), "Environment(\"E\")");
        assert_eq!(at("web.none"), "Default");
    }

    /// Promise: where an element of a list is removed, the others keep their places and their
    /// numbers in the file.
    #[test]
    fn elements_keep_their_numbers() {
        let text = "[[s]]\nn = 1\n[[s]]\nn = 2\n[[s]]\nn = 3\n";
        let mut tree = Node::parse(&file("f", text)).unwrap();
        assert!(tree.remove(&steps("s[0]")) && tree.remove(&steps("s[1].n")));
        let shown = toml::to_string(&tree.to_value()).unwrap();
        assert_eq!(shown, "[[s]]\nn = 2\n\n[[s]]\n");
        assert_eq!(tree.as_written(&steps("s[0].n")), steps("s[1].n"));
        assert_eq!(tree.as_written(&steps("s[1].x")), steps("s[2].x"));
        let Origin::File(place) = tree.origin_of(&steps("s[0].n")) else { panic!("no place") };
        assert_eq!(place.line, 4);
        assert!(!tree.remove(&steps("s[2]")));
    }

    /// Promise: all faults of the syntax are found, not only the first.
    #[test]
    fn all_faults_of_the_syntax_are_found() {
        let file = file("f", "a = \nb = 1\nc = = 2\n");
        let faults = Node::parse(&file).unwrap_err();
        let lines: Vec<_> =
            faults.iter().map(|(span, _)| Place::of(&file, span.start).line).collect();
        assert!(lines.contains(&1) && lines.contains(&3), "{faults:?}");
    }
}
