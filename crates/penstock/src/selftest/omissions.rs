//! The promises of the design that no check tries at the site of an operator.

/// A promise that no check tries.
pub(super) struct Omission {
    /// A name for its line, beside those of the checks.
    pub(super) name: &'static str,
    /// The promise.
    pub(super) promise: &'static str,
    /// The reason, and where the project tests it.
    pub(super) why: &'static str,
}

/// All of them.
pub(super) const OMISSIONS: [Omission; 5] = [
    Omission {
        name: "power-cut",
        promise: "(a), (b) nothing is acknowledged or gets its name before it is durable",
        why: "only a host that loses its power shows it; the project cuts the power of simulated \
              sites in `crates/penstock-sim`, and of disks in \
              `crates/penstock/tests/copies/powercut.rs`",
    },
    Omission {
        name: "memory",
        promise: "(g) memory does not grow with the number of files",
        why: "it takes millions of files; the project moves them in \
              `crates/penstock/tests/copies/memory.rs` and `crates/penstock-sim/tests/memory.rs`",
    },
    Omission {
        name: "accounts",
        promise: "a mapped store is used with the rights of the account alone",
        why: "it takes users with and without rights; the project has them in \
              `crates/penstock/tests/sites/accounts.rs`",
    },
    Omission {
        name: "releases",
        promise: "no release misreads what a later one wrote",
        why: "it takes a later release; the project runs two in \
              `crates/penstock/tests/peers/upgrade.rs`",
    },
    Omission {
        name: "decoders",
        promise: "every decoder takes hostile bytes",
        why: "it takes hours, and hostile bytes may harm a site; the project has a target for \
              each decoder in `fuzz`",
    },
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::checks::CHECKS;
    use super::*;

    /// Promise: each promise of the design with a letter has a line of the selftest, and so has the
    /// removal of sources; each place that an omission names is there.
    #[test]
    fn every_promise_has_a_line() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let design = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
        let rows = design.lines().filter_map(|line| line.strip_prefix("| (")?.get(..1));
        let mut letters: Vec<String> = rows.map(|letter| format!("({letter})")).collect();
        letters.dedup();
        assert!(letters.len() >= 10 && letters.contains(&"(j)".to_owned()), "{letters:?}");
        let checked = CHECKS.iter().map(|check| check.promise);
        let lines: Vec<_> = checked.chain(OMISSIONS.iter().map(|it| it.promise)).collect();
        for words in letters.iter().map(String::as_str).chain(["nothing of a source goes"]) {
            assert!(lines.iter().any(|line| line.contains(words)), "no line for {words}");
        }
        for Omission { why, .. } in &OMISSIONS {
            for place in why.split('`').skip(1).step_by(2) {
                assert!(root.join(place).exists(), "{place}");
            }
        }
    }
}
