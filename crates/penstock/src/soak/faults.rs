//! The faults that an operator describes in a file, and the seeded order in which they come.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

/// Seconds between `run` and `heal` unless a fault says otherwise.
const OPEN_SECONDS: u64 = 10;
/// Seconds after which a command of a fault is killed unless the fault says otherwise.
const TIMEOUT_SECONDS: u64 = 120;

/// A fault: commands for `sh -c` on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The command that injects it.
    pub(super) run: String,
    /// The command that undoes it. A fault without one undoes itself.
    #[serde(default)]
    pub(super) heal: Option<String>,
    /// Seconds from the end of `run` to the begin of `heal`.
    #[serde(rename = "for", default = "open_seconds")]
    pub(super) open_seconds: u64,
    /// True if it damages data of the target between a transfer and the comparison after it, which
    /// has to find the damage.
    #[serde(default)]
    pub(super) at_rest: bool,
    /// Seconds after which one of its commands is killed.
    #[serde(default = "timeout_seconds")]
    pub(super) timeout: u64,
}

fn open_seconds() -> u64 {
    OPEN_SECONDS
}

fn timeout_seconds() -> u64 {
    TIMEOUT_SECONDS
}

/// All faults of a soak, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FaultSet(Vec<(Name, Fault)>);

/// The next fault of a soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    /// Time since the begin of the fault before.
    pub(super) after: Duration,
    /// Its place among all faults.
    pub(super) place: usize,
}

impl FaultSet {
    /// Reads the file of the faults.
    ///
    /// # Errors
    /// It cannot be read, has no fault, or a fault has an unknown field or no command.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path);
        let text = text
            .map_err(|error| Failure::io(format!("read the faults `{}`", path.display()), error))?;
        Self::parse(&text).map_err(|why| {
            let title = format!("`{}` is no file of faults: {why}", path.display());
            Failure::new(ExitCode::Usage, title).hint("docs/evaluation.md has examples").into()
        })
    }

    fn parse(text: &str) -> Result<Self, String> {
        let faults: BTreeMap<Name, Fault> =
            toml::from_str(text).map_err(|error| error.to_string())?;
        if faults.is_empty() {
            return Err("it names no fault".to_owned());
        }
        for (name, fault) in &faults {
            let commands = [Some(&fault.run), fault.heal.as_ref()];
            if commands.into_iter().flatten().any(|command| command.trim().is_empty()) {
                return Err(format!("a command of `{name}` is empty"));
            }
            if fault.timeout == 0 {
                return Err(format!("`timeout` of `{name}` is 0: its commands could not end"));
            }
        }
        Ok(Self(faults.into_iter().collect()))
    }

    /// Returns whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> &[(Name, Fault)] {
        &self.0
    }

    /// Returns fault `number` of a soak and its distance to the one before: half of `every` to one
    /// and a half of it, all equally likely. The same seed gives the same faults with every
    /// release. There must be a fault.
    pub(super) fn draw(&self, seed: u64, number: u64, every: Duration) -> Draw {
        let mut hasher = blake3::Hasher::new_derive_key("penstock soak faults 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(&number.to_le_bytes());
        let bytes = hasher.finalize();
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes.as_bytes()[at..at + 8]);
            u64::from_le_bytes(word)
        };
        // The upper 32 bits are a fraction; the distribution over few faults is even enough.
        let fraction = (word(0) >> 32) as f64 / f64::from(u32::MAX);
        let place = word(8) % (self.0.len() as u64).max(1);
        Draw { after: every.mul_f64(0.5 + fraction), place: place as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[cut]\nrun = 'a'\nheal = 'b'\nfor = 3\n[flip]\nrun = 'c'\nat_rest = true\n";

    /// Promise: a file of faults is read with its defaults, and one with a mistake is refused.
    #[test]
    fn faults_are_read() {
        let set = FaultSet::parse(TWO).unwrap();
        let [(_, cut), (name, flip)] = set.all() else { panic!("two faults") };
        assert_eq!((cut.open_seconds, cut.heal.as_deref(), cut.at_rest), (3, Some("b"), false));
        assert_eq!((name.as_str(), flip.open_seconds, flip.timeout), ("flip", 10, 120));
        for wrong in [
            "",
            "[a]\nheal='x'",
            "[a]\nrun=' '",
            "[a]\nrun='x'\nfro=1",
            "[A]\nrun='x'",
            "[a]\nrun='x'\ntimeout=0",
        ] {
            assert!(FaultSet::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// Promise: the example of the documentation is a file of faults.
    #[test]
    fn the_example_is_read() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/evaluation.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, page) = page.split_once("\n### Faults\n").unwrap();
        let (_, example) = page.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let set = FaultSet::parse(example).unwrap();
        assert_eq!(set.all().len(), 7);
        assert_eq!(set.all().iter().filter(|(_, fault)| fault.at_rest).count(), 1);
        assert!(set.all()[0].1.run.contains("printf '\\377'"), "{:?}", set.all()[0]);
    }

    /// Promise: a seed gives the same faults each time, another seed others; distances are around
    /// the one that was asked for, and every fault comes.
    #[test]
    fn a_seed_gives_an_order() {
        let set = FaultSet::parse(TWO).unwrap();
        let every = Duration::from_secs(60);
        let draws = |seed| (0..400).map(|n| set.draw(seed, n, every)).collect::<Vec<_>>();
        assert_eq!(draws(7), draws(7));
        assert_ne!(draws(7), draws(8));
        let (least, most) = (Duration::from_secs(30), Duration::from_secs(90));
        assert!(draws(7).iter().all(|draw| (least..=most).contains(&draw.after)));
        let mean = draws(7).iter().map(|draw| draw.after.as_secs_f64()).sum::<f64>() / 400.0;
        assert!((55.0..65.0).contains(&mean), "{mean}");
        let first = draws(7).iter().filter(|draw| draw.place == 0).count();
        assert!((150..250).contains(&first), "{first}");
    }
}
