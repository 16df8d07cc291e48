//! Records for tests.

use std::path::Path;

use super::*;
use crate::commands::bench::sweep::matrix::parse;

/// Returns a run of one data set in two modes.
pub(crate) fn run() -> Run {
    let text = "source = \"lab:a\"\ntarget = \"hpc:b\"\ndatasets = [\"1x1\"]\n\
                [modes]\nencryption = [\"tls\", \"off\"]\n";
    let matrix = parse(Path::new("m"), text).unwrap();
    Run {
        format: FORMAT,
        id: "0123456789abcdef".to_owned(),
        title: String::new(),
        begun: Timestamp::of_ms(0),
        ended: None,
        seed: 7,
        penstock: "0".to_owned(),
        api: "v1".to_owned(),
        source: "lab:a".to_owned(),
        target: "hpc:b".to_owned(),
        asked: "hpc".to_owned(),
        repeats: 1,
        warmup: 0,
        cool_down_s: 0,
        verify: "receipt".to_owned(),
        directions: vec![Direction::Forward],
        datasets: vec![dataset("1x1")],
        modes: matrix.modes.all(),
        cells: vec!["b1-a".to_owned()],
    }
}

fn dataset(name: &str) -> Dataset {
    let histogram = vec![SizeClass { from_bytes: 1, files: 1, bytes: 1 }];
    Dataset { name: name.to_owned(), files: 1, bytes: 1, histogram }
}

/// Returns a cell that has moved so many bytes per second.
pub(crate) fn cell(id: &str, block: u32, name: &str, mode: &str, rate: f64) -> Cell {
    let mode = run().modes.into_iter().find(|known| known.name == mode).unwrap();
    Cell {
        id: id.to_owned(),
        block,
        order: 1,
        repeat: block,
        warmup: false,
        dataset: dataset(name),
        direction: Direction::Forward,
        source: "lab:a/".to_owned(),
        target: "hpc:b/".to_owned(),
        mode,
        peers: Peers::default(),
        rtt_ms: None,
        t: Times::default(),
        bytes: Some(1),
        files: Some(1),
        rate: Some(Rates { effective: rate, steady_20_80: None, max_1s: rate }),
        files_per_s: Some(rate),
        resent_bytes: Some(0),
        retries: Some(0),
        cpu: BTreeMap::new(),
        peak_rss: BTreeMap::new(),
        before: Before::default(),
        time: SideSeconds::default(),
        bottleneck: None,
        flags: Vec::new(),
        verify: None,
        error: None,
        transfer: None,
        penstock: "0".to_owned(),
    }
}
