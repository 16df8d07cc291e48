//! The modes of a sweep: combinations of options of transfers.

use std::collections::BTreeSet;

use penstock_api::proof::Proof;
use penstock_api::transfer::{Durability, Encryption, LANES_MAX, TransferOptions};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{CipherSuite, UnknownCipherSuite};
use penstock_proto::id::Name;
use penstock_proto::units::{format_bytes, parse_size};
use serde::{Deserialize, Serialize};

use crate::commands::bench::file_sizes::AUTOMATIC;

/// Longest text of networks: ids of cells, which have it, are names of files.
const NETWORKS_TEXT_MAX: usize = 40;
/// Word for all networks, and for all peers.
const ALL: &str = "all";

/// Values of each option of transfers; each combination is a mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Modes {
    encryption: Vec<Encryption>,
    /// Only for encrypted lanes: there is one mode in clear for all of them.
    cipher_suite: Vec<SuiteChoice>,
    digest: Vec<DigestKind>,
    lanes: Vec<Lanes>,
    piece_size: Vec<PieceSize>,
    durability: Vec<Durability>,
    networks: Vec<Networks>,
    peers: Vec<Peers>,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            encryption: vec![Encryption::Tls],
            cipher_suite: vec![SuiteChoice(None)],
            digest: vec![DigestKind::Blake3],
            lanes: vec![Lanes(None)],
            piece_size: vec![PieceSize(None)],
            durability: vec![Durability::Batch],
            networks: vec![Networks(Vec::new())],
            peers: vec![Peers(None)],
        }
    }
}

impl Modes {
    /// Returns all combinations; the first one has the first value of each option.
    pub(super) fn all(&self) -> Vec<Mode> {
        let mut all = self.protections();
        all = crossed(all, &self.digest, |mode, digest| mode.digest = *digest);
        all = crossed(all, &self.lanes, |mode, lanes| mode.lanes = lanes.0);
        all = crossed(all, &self.piece_size, |mode, size| mode.piece_size = size.0);
        all = crossed(all, &self.durability, |mode, durability| mode.durability = *durability);
        all = crossed(all, &self.networks, |mode, networks| mode.networks.clone_from(&networks.0));
        all = crossed(all, &self.peers, |mode, peers| mode.peers_max = peers.0);
        all.iter_mut().for_each(|mode| mode.name = mode.short_name());
        all
    }

    /// Returns the ways to protect lanes: each suite with TLS, and none of them in clear.
    fn protections(&self) -> Vec<Mode> {
        let mut all = Vec::new();
        for &encryption in &self.encryption {
            let mode = Mode { encryption, ..Mode::default() };
            match encryption {
                Encryption::Tls => {
                    all.extend(crossed(vec![mode], &self.cipher_suite, |mode, suite| {
                        mode.cipher_suite = suite.0;
                    }));
                }
                Encryption::Off => all.push(mode),
            }
        }
        all
    }

    /// Returns the lists that are empty or have a value twice, and modes of one name, with the
    /// reason.
    pub(super) fn faults(&self) -> Vec<(String, String)> {
        fn fault<T: PartialEq>(key: &str, values: &[T]) -> Option<(String, String)> {
            let again = (1..values.len()).find(|at| values[..*at].contains(&values[*at]));
            match again {
                Some(at) => {
                    Some((format!("modes.{key}[{at}]"), "the list has it twice".to_owned()))
                }
                None if values.is_empty() => {
                    Some((format!("modes.{key}"), format!("`modes.{key}` has no value")))
                }
                None => None,
            }
        }
        let suites = self.cipher_suite.iter().any(|suite| suite.0.is_some());
        let has_none = suites && !self.encryption.contains(&Encryption::Tls);
        let suites = has_none.then(|| {
            let text = "lanes in clear have no cipher: `modes.encryption` lacks `tls`";
            ("modes.cipher_suite".to_owned(), text.to_owned())
        });
        let lists = [
            suites,
            fault("encryption", &self.encryption),
            fault("cipher_suite", &self.cipher_suite),
            fault("digest", &self.digest),
            fault("lanes", &self.lanes),
            fault("piece_size", &self.piece_size),
            fault("durability", &self.durability),
            fault("networks", &self.networks),
            fault("peers", &self.peers),
        ];
        let mut faults: Vec<(String, String)> = lists.into_iter().flatten().collect();
        if faults.is_empty() {
            faults.extend(self.fault_of_names());
        }
        faults
    }

    /// Returns the fault of two modes with one name: a network may be called `1peer`.
    fn fault_of_names(&self) -> Option<(String, String)> {
        let mut known = BTreeSet::new();
        let all = self.all();
        let again = all.iter().find(|mode| !known.insert(&mode.name))?;
        let why = format!("two modes would be called `{}`: leave one network out", again.name);
        Some(("modes.networks".to_owned(), why))
    }
}

/// Returns each mode with each value, the first value of each mode first.
fn crossed<T>(modes: Vec<Mode>, values: &[T], set: impl Fn(&mut Mode, &T)) -> Vec<Mode> {
    let with = |mode: &Mode, value: &T| {
        let mut mode = mode.clone();
        set(&mut mode, value);
        mode
    };
    modes.iter().flat_map(|mode| values.iter().map(|value| with(mode, value))).collect()
}

/// A number, or a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Scalar {
    Number(u64),
    Text(String),
}

impl Scalar {
    /// Returns a number from 1 to `most`, or `Some(None)` for the word; `None` for anything else.
    fn number(&self, word: &str, most: u32) -> Option<Option<u32>> {
        match self {
            Self::Text(text) => (text == word).then_some(None),
            Self::Number(number) => {
                let number = u32::try_from(*number).ok();
                number.filter(|number| (1..=most).contains(number)).map(Some)
            }
        }
    }
}

/// A number of lanes; none if the engine decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Scalar", into = "Scalar")]
struct Lanes(Option<u32>);

impl TryFrom<Scalar> for Lanes {
    type Error = String;

    fn try_from(value: Scalar) -> Result<Self, String> {
        let most = LANES_MAX;
        value.number(AUTOMATIC, most).map(Self).ok_or(format!("give `{AUTOMATIC}`, or 1 to {most}"))
    }
}

impl From<Lanes> for Scalar {
    fn from(lanes: Lanes) -> Self {
        lanes.0.map_or_else(|| Self::Text(AUTOMATIC.to_owned()), |lanes| Self::Number(lanes.into()))
    }
}

/// A cipher suite of TLS; none if the two sites decide.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct SuiteChoice(Option<CipherSuite>);

impl TryFrom<String> for SuiteChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == AUTOMATIC {
            return Ok(Self(None));
        }
        text.parse()
            .map(|suite| Self(Some(suite)))
            .map_err(|error: UnknownCipherSuite| format!("{error}, nor `{AUTOMATIC}`"))
    }
}

impl From<SuiteChoice> for String {
    fn from(suite: SuiteChoice) -> Self {
        suite.0.map_or(AUTOMATIC, CipherSuite::name).to_owned()
    }
}

/// Bytes of pieces; none if the engine decides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Scalar", into = "Scalar")]
struct PieceSize(Option<u64>);

impl TryFrom<Scalar> for PieceSize {
    type Error = String;

    fn try_from(value: Scalar) -> Result<Self, String> {
        let bytes = match &value {
            Scalar::Text(text) if text == AUTOMATIC => return Ok(Self(None)),
            Scalar::Text(text) => parse_size(text).map_err(|error| error.to_string())?,
            Scalar::Number(bytes) => *bytes,
        };
        let options = TransferOptions { piece_bytes: bytes, ..TransferOptions::default() };
        match options.slicing() {
            Ok(_) if bytes > 0 => Ok(Self(Some(bytes))),
            _ => Err("give `auto`, or a power of two from 1MiB to 1GiB".to_owned()),
        }
    }
}

impl From<PieceSize> for Scalar {
    fn from(size: PieceSize) -> Self {
        size.0.map_or_else(|| Self::Text(AUTOMATIC.to_owned()), Self::Number)
    }
}

/// Networks over which lanes may go, in order; none for all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct Networks(Vec<Name>);

impl TryFrom<String> for Networks {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == ALL {
            return Ok(Self(Vec::new()));
        }
        if text.len() > NETWORKS_TEXT_MAX {
            return Err(format!("names of networks have at most {NETWORKS_TEXT_MAX} characters"));
        }
        let names: Result<Vec<Name>, _> = text.split(',').map(|name| name.trim().parse()).collect();
        let mut names = names
            .map_err(|error| format!("{error}; give `{ALL}`, or names with commas between them"))?;
        // The same networks in another order are the same mode.
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("`{}` is there twice", pair[0]));
        }
        if names.iter().any(|name| name.as_str() == ALL) {
            return Err(format!("`{ALL}` goes with no other network"));
        }
        Ok(Self(names))
    }
}

impl From<Networks> for String {
    fn from(networks: Networks) -> Self {
        match networks.0.is_empty() {
            true => ALL.to_owned(),
            false => joined(&networks.0, ","),
        }
    }
}

fn joined(names: &[Name], by: &str) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(by)
}

/// Most peers of each site; none for all.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Scalar", into = "Scalar")]
struct Peers(Option<u32>);

impl TryFrom<Scalar> for Peers {
    type Error = String;

    fn try_from(value: Scalar) -> Result<Self, String> {
        value.number(ALL, u32::MAX).map(Self).ok_or(format!("give `{ALL}`, or 1 or more"))
    }
}

impl From<Peers> for Scalar {
    fn from(peers: Peers) -> Self {
        peers.0.map_or_else(|| Self::Text(ALL.to_owned()), |peers| Self::Number(peers.into()))
    }
}

/// Options that a transfer is measured with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Mode {
    /// Its values in short, as `tls-blake3`.
    pub(super) name: String,
    pub(super) encryption: Encryption,
    /// The suite that its transfers ask for, if they ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cipher_suite: Option<CipherSuite>,
    pub(super) digest: DigestKind,
    /// Cipher of the lanes, once a transfer has shown it; `clear` without encryption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) suite: Option<String>,
    pub(super) lanes: Option<u32>,
    pub(super) piece_size: Option<u64>,
    pub(super) durability: Durability,
    /// The networks over which its lanes may go; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) networks: Vec<Name>,
    /// Most peers of each site; none for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peers_max: Option<u32>,
}

impl Mode {
    /// Returns its values in short; those that are usual have no word.
    fn short_name(&self) -> String {
        let mut name = match (self.encryption, self.cipher_suite) {
            (Encryption::Tls, None) => "tls".to_owned(),
            (Encryption::Tls, Some(suite)) => format!("tls-{suite}"),
            (Encryption::Off, _) => "off".to_owned(),
        };
        name.push_str(match self.digest {
            DigestKind::Blake3 => "-blake3",
            DigestKind::Xxh3 => "-xxh3",
        });
        if let Some(lanes) = self.lanes {
            name.push_str(&format!("-{lanes}lanes"));
        }
        if let Some(bytes) = self.piece_size {
            name.push_str(&format!("-{}", format_bytes(bytes).replace(".0 ", "")));
        }
        name.push_str(match self.durability {
            Durability::Batch => "",
            Durability::Fsync => "-fsync",
            Durability::None => "-nosync",
        });
        if !self.networks.is_empty() {
            name.push_str(&format!("-{}", joined(&self.networks, "+")));
        }
        match self.peers_max {
            None => {}
            Some(1) => name.push_str("-1peer"),
            Some(peers) => name.push_str(&format!("-{peers}peers")),
        }
        name
    }

    /// Returns the options of its transfers.
    pub(super) fn options(&self) -> TransferOptions {
        TransferOptions {
            digest: self.digest,
            encryption: self.encryption,
            cipher_suite: self.cipher_suite,
            durability: self.durability,
            lanes: self.lanes.unwrap_or(0),
            piece_bytes: self.piece_size.unwrap_or(0),
            networks: self.networks.clone(),
            peers_max: self.peers_max,
            proof: Proof { receipt: true, ..Proof::default() },
            ..TransferOptions::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::matrix::{self, Matrix};
    use super::*;

    const SMALL: &str = "source = \"lab:raw/eval\"\ntarget = \"hpc:s/eval\"\n\
                         datasets = [\"4x1MiB\", \"dir:run7\"]\n";

    fn of(text: &str) -> anyhow::Result<Matrix> {
        matrix::parse(Path::new("m.toml"), text)
    }

    /// Promise: a matrix has defaults for all but places and data sets, and its modes are the
    /// combinations of its lists, the first of each first.
    #[test]
    fn modes_are_combinations() {
        let small = of(SMALL).unwrap();
        assert_eq!((small.repeats, small.warmup, small.modes.all().len()), (6, 1, 1));
        assert_eq!(small.datasets[1].slug(), "dir_run7");
        let text = format!(
            "{SMALL}[modes]\nencryption = [\"tls\", \"off\"]\ndigest = [\"blake3\", \"xxh3-128\"]\n\
             lanes = [\"auto\", 8]\npiece_size = [\"64MiB\"]\ndurability = [\"none\"]\n"
        );
        let modes = of(&text).unwrap().modes.all();
        let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
        assert_eq!(names.len(), 8);
        assert_eq!(names[..2], ["tls-blake3-64MiB-nosync", "tls-blake3-8lanes-64MiB-nosync"]);
        let last = modes[7].options();
        assert_eq!((last.lanes, last.piece_bytes), (8, 64 << 20));
        assert!(last.proof.receipt && last.encryption == Encryption::Off);
    }

    /// Promise: suites are compared with TLS alone, and with one mode in clear beside them.
    #[test]
    fn suites_are_compared_with_one_mode_in_clear() {
        let text = format!(
            "{SMALL}[modes]\nencryption = [\"off\", \"tls\"]\n\
             cipher_suite = [\"aes128-gcm\", \"auto\"]\n"
        );
        let modes = of(&text).unwrap().modes.all();
        let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
        assert_eq!(names, ["off-blake3", "tls-aes128-gcm-blake3", "tls-blake3"]);
        let asked: Vec<_> = modes.iter().map(|mode| mode.options().cipher_suite).collect();
        assert_eq!(asked, [None, Some(CipherSuite::Aes128Gcm), None]);
    }

    /// Promise: networks and numbers of peers make modes; all of them are usual, and have no word.
    #[test]
    fn networks_and_peers_make_modes() {
        let text = format!(
            "{SMALL}[modes]\nnetworks = [\"all\", \"fast0\", \"fast0,fast1\"]\n\
             peers = [\"all\", 1, 2]\n"
        );
        let modes = of(&text).unwrap().modes.all();
        let names: Vec<&str> = modes.iter().map(|mode| mode.name.as_str()).collect();
        let first = ["tls-blake3", "tls-blake3-1peer", "tls-blake3-2peers", "tls-blake3-fast0"];
        assert_eq!(names[..4], first);
        assert_eq!(names[8], "tls-blake3-fast0+fast1-2peers");
        let options = modes[8].options();
        assert_eq!((options.networks.len(), options.peers_max), (2, Some(2)));
        let plain = serde_json::to_value(&modes[0]).unwrap();
        assert!(plain.get("networks").is_none() && plain.get("peers_max").is_none());
    }
}
