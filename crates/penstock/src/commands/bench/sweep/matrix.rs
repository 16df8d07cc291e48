//! The matrix of a sweep: what a file of the user asks for, in TOML.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use penstock_api::benchmark::{BENCHMARK_REPEATS_MAX, BENCHMARK_SECONDS_MAX, BENCHMARK_SIZES_MAX};
use penstock_api::place::{Location, PathText, requested};
use penstock_daemon::settings::{listed, read_document};
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;
use penstock_proto::name::{check_relative, unescape_in_list};
use serde::{Deserialize, Deserializer, Serialize};

use super::modes::Modes;
use crate::commands::bench::file_sizes::FileSizes;
use crate::dataset::Shape;

/// Begin of the name of a data set that the store has already.
const EXISTING: &str = "dir:";
/// Longest name of a data set: ids of cells are names of files.
const NAME_MAX: usize = 120;
/// Most repeats, and most warm-up rounds.
const ROUNDS_MAX: u32 = 1000;
/// Longest time without progress of a transfer, in seconds.
const STALL_S_MAX: u32 = 24 * 3600;

/// What is measured. Read from TOML; each list has one element at least.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Matrix {
    pub(super) title: String,
    /// Where data sets are, or are made: a directory that exists.
    #[serde(deserialize_with = "place")]
    pub(super) source: Option<Location>,
    /// Where they go: a directory that exists.
    #[serde(deserialize_with = "place")]
    pub(super) target: Option<Location>,
    pub(super) datasets: Vec<DatasetName>,
    pub(super) direction: Directions,
    pub(super) repeats: u32,
    pub(super) warmup: u32,
    pub(super) cool_down_s: u32,
    /// Seconds without progress after which a transfer is cancelled, and its cell has failed.
    pub(super) stall_s: u32,
    pub(super) seed: Option<u64>,
    pub(super) verify: VerifyBy,
    pub(super) modes: Modes,
    pub(super) storage: StorageWish,
    /// Daemons of other sites, by address or site directory.
    pub(super) daemons: BTreeMap<Name, String>,
}

impl Default for Matrix {
    fn default() -> Self {
        Self {
            title: String::new(),
            source: None,
            target: None,
            datasets: Vec::new(),
            direction: Directions::Forward,
            repeats: 6,
            warmup: 1,
            cool_down_s: 10,
            stall_s: 900,
            seed: None,
            verify: VerifyBy::Receipt,
            modes: Modes::default(),
            storage: StorageWish::default(),
            daemons: BTreeMap::new(),
        }
    }
}

/// Reads a place, with the errors of requests.
fn place<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Location>, D::Error> {
    requested(from).map(|place| Some(Location { slash: false, ..place }))
}

/// Ways between source and target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Directions {
    Forward,
    Reverse,
    Both,
}

impl Directions {
    pub(super) fn all(self) -> &'static [Direction] {
        match self {
            Self::Forward => &[Direction::Forward],
            Self::Reverse => &[Direction::Reverse],
            Self::Both => &[Direction::Forward, Direction::Reverse],
        }
    }
}

/// One of the two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Direction {
    Forward,
    Reverse,
}

impl Direction {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        }
    }
}

/// How a cell is verified after its transfer, which verifies every byte itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerifyBy {
    /// The signatures and the counts of its receipt.
    Receipt,
    /// Also the content of some files, read again at both ends.
    Sample,
    /// Also the content of all files.
    All,
}

impl VerifyBy {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Receipt => "receipt",
            Self::Sample => "sample",
            Self::All => "all",
        }
    }
}

/// Whether the stores are measured by the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct StorageWish {
    pub(super) measure: bool,
    pub(super) seconds: u32,
    pub(super) repeats: u32,
    /// Sizes of the files, as in `--sizes` of `penstock bench storage`.
    pub(super) sizes: FileSizes,
}

impl Default for StorageWish {
    fn default() -> Self {
        Self { measure: false, seconds: 10, repeats: 3, sizes: FileSizes::default() }
    }
}

/// A data set by its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct DatasetName {
    name: String,
    pub(super) origin: Origin,
}

/// Where a data set comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The sweep makes it.
    Made(Shape),
    /// It is in the source's store, at this path.
    Existing(PathText),
}

impl DatasetName {
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns its name as a part of names of files.
    pub(super) fn slug(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || ".@-_".contains(c);
        self.name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
    }
}

impl TryFrom<String> for DatasetName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name.len() > NAME_MAX {
            return Err(format!("a name of a data set has at most {NAME_MAX} bytes"));
        }
        let origin = match name.strip_prefix(EXISTING) {
            Some(path) => {
                let path = unescape_in_list(path.trim_end_matches('/').as_bytes());
                check_relative(&path).map_err(|_| {
                    format!(
                        "`{name}` holds `.`, `..` or an empty component: give a path within \
                             the source's store"
                    )
                })?;
                Origin::Existing(PathText(path))
            }
            None => Origin::Made(name.parse()?),
        };
        Ok(Self { name, origin })
    }
}

impl From<DatasetName> for String {
    fn from(name: DatasetName) -> Self {
        name.name
    }
}

impl Matrix {
    /// Returns the source and the target.
    pub(super) fn places(&self) -> Option<(&Location, &Location)> {
        self.source.as_ref().zip(self.target.as_ref())
    }

    /// Returns whether a directory of this matrix in the source's store is a path or is below it.
    fn makes_within(&self, path: &PathText) -> bool {
        let Some((source, target)) = self.places() else { return false };
        let is_source =
            |place: &&Location| (&place.site, &place.store) == (&source.site, &source.store);
        let is_within = |place: &Location| {
            let rest = place.path.0.strip_prefix(&path.0[..]);
            rest.is_some_and(|rest| path.0.is_empty() || rest.is_empty() || rest[0] == b'/')
        };
        [source, target].into_iter().filter(is_source).any(is_within)
    }

    /// Checks what the types do not; returns faults with their keys.
    fn faults(&self) -> Vec<(String, String)> {
        let mut faults = self.modes.faults();
        let mut fault = |key: &str, why: &str| faults.push((key.to_owned(), why.to_owned()));
        match (&self.source, &self.target) {
            (None, _) => fault("", "the key `source` is missing: give SITE:STORE/DIR"),
            (_, None) => fault("", "the key `target` is missing: give SITE:STORE/DIR"),
            (Some(source), Some(target)) if source == target => {
                fault("target", "`target` is the place of `source`: give another one");
            }
            _ => {}
        }
        if self.datasets.is_empty() {
            fault("", "the key `datasets` is missing, or has no data set");
        }
        let mut slugs = BTreeSet::new();
        for (at, dataset) in self.datasets.iter().enumerate() {
            if !slugs.insert(dataset.slug()) {
                let why = format!("`{}` is there twice, but for signs", dataset.as_str());
                fault(&format!("datasets[{at}]"), &why);
            }
            if let Origin::Existing(path) = &dataset.origin
                && self.makes_within(path)
            {
                let why = "the data set would hold the sweep's own directory: give `source` and \
                           `target` beside it";
                fault(&format!("datasets[{at}]"), why);
            }
        }
        if self.repeats == 0 || self.repeats > ROUNDS_MAX {
            fault("repeats", "`repeats` is 1 to 1000; a claim needs 6");
        }
        if self.warmup > ROUNDS_MAX {
            fault("warmup", "`warmup` is at most 1000");
        }
        if !(1..=STALL_S_MAX).contains(&self.stall_s) {
            fault("stall_s", &format!("`stall_s` is 1 to {STALL_S_MAX}"));
        }
        let StorageWish { seconds, repeats, sizes, .. } = &self.storage;
        if !(1..=BENCHMARK_SECONDS_MAX).contains(seconds) {
            fault("storage.seconds", &format!("`seconds` is 1 to {BENCHMARK_SECONDS_MAX}"));
        }
        if !(1..=BENCHMARK_REPEATS_MAX).contains(repeats) {
            fault("storage.repeats", &format!("`repeats` is 1 to {BENCHMARK_REPEATS_MAX}"));
        }
        if sizes.bytes().len() > BENCHMARK_SIZES_MAX {
            fault("storage.sizes", &format!("`sizes` has at most {BENCHMARK_SIZES_MAX} sizes"));
        }
        faults
    }
}

/// Parses a matrix; `path` is only named in faults.
///
/// # Errors
/// Its faults, each with its line, and the nearest known name for an unknown key.
pub(super) fn parse(path: &Path, text: &str) -> anyhow::Result<Matrix> {
    Ok(read_document(path, text, Matrix::faults).map_err(|faults| {
        let message = match faults.len() {
            1 => "the matrix has a fault".to_owned(),
            count => format!("the matrix has {count} faults"),
        };
        Failure::new(ExitCode::Usage, message)
            .caused_by(listed(&faults))
            .hint("docs/evaluation.md has all keys")
    })?)
}

/// Reads a matrix; returns its text too.
///
/// # Errors
/// The file cannot be read; as [`parse`].
pub(super) fn read(path: &Path) -> anyhow::Result<(Matrix, String)> {
    let failed = |error| {
        Failure::io(format!("read the matrix `{}`", path.display()), error)
            .hint("name a file in TOML; docs/evaluation.md has an example")
    };
    let text = String::from_utf8(fs::read(path).map_err(failed)?).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .split(|byte| *byte == b'\n')
            .count();
        let message = format!("the matrix `{}` is not UTF-8 text, in line {line}", path.display());
        Failure::new(ExitCode::Usage, message)
            .hint("save it as UTF-8; name a data set of other bytes with `\\xHH`")
    })?;
    Ok((parse(path, &text)?, text))
}

/// Returns the differences between two matrices, a line for each key. The title, the time without
/// progress and the addresses of daemons may differ: none of these changes what is measured.
pub(super) fn differences(before: &Matrix, now: &Matrix) -> Vec<String> {
    let fields = |matrix: &Matrix| {
        let mut fields = BTreeMap::new();
        // Our own types always have a JSON form.
        flatten("", &serde_json::to_value(matrix).unwrap_or_default(), &mut fields);
        fields
    };
    let (before, now) = (fields(before), fields(now));
    let keys: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let text = |value: Option<&String>| value.map_or("nothing", String::as_str).to_owned();
    let may_differ = |key: &str| ["title", "stall_s"].contains(&key) || key.starts_with("daemons.");
    keys.into_iter()
        .filter(|key| !may_differ(key) && before.get(*key) != now.get(*key))
        .map(|key| format!("{key}: {} before, {} now", text(before.get(key)), text(now.get(key))))
        .collect()
}

fn flatten(key: &str, value: &serde_json::Value, into: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Object(entries) => {
            for (name, value) in entries {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(&key, value, into);
            }
        }
        plain => {
            into.insert(key.to_owned(), plain.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::frame::CipherSuite;
    use penstock_proto::units::{GIB, KIB};

    use super::*;

    const SMALL: &str = "source = \"lab:raw/eval\"\ntarget = \"hpc:s/eval\"\n\
                         datasets = [\"4x1MiB\", \"dir:run7\"]\n";

    fn of(text: &str) -> anyhow::Result<Matrix> {
        parse(Path::new("m.toml"), text)
    }

    fn why(text: &str) -> String {
        format!("{:#}", of(text).unwrap_err())
    }

    /// Promise: the ready matrices of the documentation can be read, and compare all suites, each
    /// network with all of them both ways, and files of all sizes.
    #[test]
    fn ready_matrices_are_right() {
        let ready = |name: &str| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/matrices");
            read(&root.join(name)).unwrap().0
        };
        let ciphers = ready("ciphers.toml").modes.all();
        let asked: Vec<_> = ciphers.iter().filter_map(|mode| mode.cipher_suite).collect();
        assert_eq!((ciphers.len(), asked), (4, CipherSuite::ALL.to_vec()));
        let cards = ready("cards.toml");
        let named: Vec<usize> = cards.modes.all().iter().map(|mode| mode.networks.len()).collect();
        assert_eq!((named, cards.direction), (vec![0, 1, 1], Directions::Both));
        let sizes = ready("sizes.toml");
        let slugs: Vec<_> = sizes.datasets.iter().map(DatasetName::slug).collect();
        assert_eq!((slugs[0].as_str(), slugs[12].as_str()), ("262144x1KiB", "2x16GiB"));
        assert!(sizes.storage.measure && slugs.len() == 13 && sizes.modes.all().len() == 2);
        let measured = sizes.storage.sizes.bytes();
        assert_eq!((measured.first(), measured.last()), (Some(&KIB), Some(&(16 * GIB))));
    }

    /// Promise: what a matrix does not know is refused with its place and the nearest name.
    #[test]
    fn faults_have_places() {
        let unknown = why(&format!("{SMALL}repeat = 3\n"));
        assert!(unknown.contains("m.toml") && unknown.contains("repeats"), "{unknown}");
        assert!(unknown.contains('4'), "the line: {unknown}");
        let nested = why(&format!("{SMALL}[modes]\nencrypton = [\"tls\"]\n"));
        assert!(nested.contains("encryption"), "{nested}");
        for (extra, word) in [
            ("repeats = 0", "1 to 1000"),
            ("stall_s = 0", "1 to 86400"),
            ("direction = \"back\"", "reverse"),
            ("[modes]\nlanes = [0]", "auto"),
            ("[modes]\nlanes = []", "no value"),
            ("[modes]\npeers = [0]", "1 or more"),
            ("[modes]\nnetworks = [\"Fast\"]", "commas"),
            ("[modes]\nnetworks = [\"a,b\", \"b,a\"]", "twice"),
            ("[modes]\nnetworks = [\"a,a\"]", "twice"),
            ("[modes]\nnetworks = [\"a,all\"]", "no other network"),
            ("[modes]\nnetworks = [\"all\", \"1peer\"]\npeers = [\"all\", 1]", "two modes"),
            ("[modes]\npiece_size = [\"3MiB\"]", "power of two"),
            ("[modes]\nencryption = [\"tls\", \"tls\"]", "twice"),
            ("[storage]\nsizes = \"9-3\"", "smaller size"),
            ("[storage]\nsizes = \"1-8PiB\"", "at most 40 sizes"),
            ("[storage]\nseconds = 0", "1 to 300"),
            ("[storage]\nrepeats = 21", "1 to 20"),
            ("[modes]\ncipher_suite = [\"rc4\"]", "aes256-gcm"),
            ("[modes]\nencryption = [\"off\"]\ncipher_suite = [\"aes256-gcm\"]", "have no cipher"),
        ] {
            let text = why(&format!("{SMALL}{extra}\n"));
            assert!(text.contains(word), "{text}");
        }
        assert!(why("datasets = [\"1x1\"]\n").contains("`source` is missing"));
        assert!(why("source = \"a:b\"\ntarget = \"c:d\"\n").contains("datasets"));
        let same = "source = \"a:b/c\"\ntarget = \"a:b/c/\"\ndatasets = [\"1x1\"]\n";
        assert!(why(same).contains("another one"));
        let twice = "source = \"a:b\"\ntarget = \"c:d\"\ndatasets = [\"dir:a/b\", \"dir:a b\"]\n";
        assert!(why(twice).contains("twice"));
        let up = "source = \"a:b\"\ntarget = \"c:d\"\ndatasets = [\"dir:../b\"]\n";
        assert!(why(up).contains("within"), "{}", why(up));
    }

    /// Promise: a matrix in another encoding is refused with its line, and so is a directory.
    #[test]
    fn another_encoding_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("m.toml");
        fs::write(&path, b"# one\ntitle = \"G\xfcte\"\n").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.to_string().contains("not UTF-8 text, in line 2"), "{error:#}");
        assert_eq!(penstock_exit::code_of(&error), ExitCode::Usage);
        assert!(read(root.path()).unwrap_err().to_string().contains("cannot read the matrix"));
    }

    /// Promise: another matrix is told apart by what it measures, not by its comments.
    #[test]
    fn differences_are_named() {
        let before = of(SMALL).unwrap();
        let same = format!("# again\ntitle = \"x\"\nstall_s = 5\n{SMALL}[daemons]\nlab = \"/a\"\n");
        let same = of(&same).unwrap();
        assert!(differences(&before, &same).is_empty());
        let more = of(&format!("{SMALL}repeats = 9\n[modes]\ndigest = [\"xxh3-128\"]\n")).unwrap();
        let found = differences(&before, &more);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[1], "repeats: 6 before, 9 now");
    }
}
