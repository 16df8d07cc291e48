//! Sites in network namespaces, with several interfaces each, joined by the laboratory.

use std::fs::File;

pub use penstock_lab::Lab;

use crate::program::program;
use crate::scratch::Scratch;
use crate::site::Site;

/// Waits until no other test of this machine has a lab of bare hosts, as long as the file is open:
/// links are to limit, not processors.
fn turn() -> File {
    let turn = File::create(std::env::temp_dir().join("penstock-test-lab-turn")).unwrap();
    turn.lock().unwrap();
    turn
}

/// Returns whether labs can be made here; prints that the test is skipped if not.
pub fn can_run_lab(test: &str) -> bool {
    let missing = penstock_lab::can_run();
    if let Err(why) = &missing {
        println!("SKIPPED: {test} {why}");
    }
    missing.is_ok()
}

/// A lab with one host at each of two sites, `a` and `b`, which run and are paired. The fields are
/// dropped in order: the sites first, then the lab.
pub struct LabPair {
    /// The first site.
    pub a: Site,
    /// The second site.
    pub b: Site,
    /// The networks.
    pub lab: Lab,
    _root: Scratch,
    _turn: File,
}

impl LabPair {
    /// Brings all up; both sites have `networks` as the rest of their configuration. The options
    /// are those of `penstock-lab up --bare`.
    pub fn up(test: &str, options: &[&str], networks: &str) -> Self {
        Self::with(test, options, [networks, networks])
    }

    /// Brings all up, with other networks at each site.
    pub fn with(test: &str, options: &[&str], networks: [&str; 2]) -> Self {
        let turn = turn();
        let name = format!("t{}-{test}", std::process::id());
        let lab = Lab::up(&[&["--bare", "--name", &name], options].concat()).unwrap();
        let root = Scratch::in_memory();
        let [mut a, mut b] = ["a", "b"].map(|name| {
            let store = root.path().join(format!("store-{name}"));
            let mut site = Site::create(root.path(), name, &store, &[]);
            site.launch_by(&lab.inside(&format!("{name}0"), program()));
            site
        });
        for (site, networks) in [(&mut a, networks[0]), (&mut b, networks[1])] {
            site.set_config(&(site.config() + networks));
            site.start();
        }
        a.pair(&b);
        Self { a, b, lab, _root: root, _turn: turn }
    }
}
