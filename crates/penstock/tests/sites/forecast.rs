//! The way between two sites is measured, and transfers are forecast from others.

use std::fs;
use std::path::Path;

use penstock_testkit::{Scratch, Site};
use serde_json::Value;

/// Makes a site with two stores that generate data, and one that keeps none.
fn site(root: &Path, name: &'static str) -> Site {
    let store = root.join(format!("store-{name}"));
    let options = [
        "--listen=127.0.0.1:0",
        "--store=mem=mem:files=16,size=64K",
        "--store=small=mem:files=400,size=1K,dirs=4",
        "--store=null=null:",
    ];
    let mut site = Site::create(root, name, &store, &options);
    site.start();
    site
}

fn fill(site: &Site, set: &str, files: usize, bytes: usize) {
    let directory = site.store.join(set);
    fs::create_dir(&directory).unwrap();
    for file in 0..files {
        fs::write(directory.join(format!("f{file}")), vec![7; bytes]).unwrap();
    }
}

/// Promise: generated data goes both ways between two sites, so many bytes as were asked for, and
/// the records stay under one label; where no store fits, that is refused with the reason.
#[test]
fn the_way_is_measured_both_ways() {
    let root = Scratch::in_memory();
    let (hpc, lab) = (site(root.path(), "hpc"), site(root.path(), "lab"));
    let none = hpc.fails(2, &["bench", "network"]);
    assert!(none.contains("paired with no site"), "{none}");
    lab.pair(&hpc);
    let mut bare = Site::init(root.path(), "bare", None);
    bare.start();
    bare.pair(&hpc);
    let refused = hpc.fails(6, &["bench", "network", "bare"]);
    assert!(refused.contains("site `bare` lets site `hpc` read no `mem:` store"), "{refused}");
    assert!(refused.contains("site `bare` lets site `hpc` write to no `null:` store"), "{refused}");
    let several = hpc.fails(2, &["bench", "network"]);
    assert!(several.contains("`bare`, `lab`"), "{several}");

    let few = ["bench", "network", "lab", "--bytes", "100K", "--repeats", "2"];
    let text = hpc.ok(&[&few[..], &["--json"]].concat());
    let result: Value = serde_json::from_str(&text).unwrap();
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 8, "two stores, two directions, two repeats: {result}");
    for run in runs {
        let is_small = run["source"]["store"] == "small";
        let moved = (run["files"].as_u64().unwrap(), run["bytes"].as_u64().unwrap());
        assert_eq!(moved, if is_small { (100, 100 << 10) } else { (2, 128 << 10) }, "{run}");
        assert!(run["seconds"].as_f64().unwrap() > 0.0);
        assert_eq!(run["is_outward"], run["source"]["site"] == "hpc");
        assert_eq!(run["target"]["store"], "null");
    }
    let label = format!("bench-network {} ", result["id"].as_str().unwrap());
    let labels: Vec<String> =
        hpc.list().iter().map(|it| it["label"].as_str().unwrap().to_owned()).collect();
    assert!(labels.iter().all(|it| it.starts_with(&label)), "{labels:?}");
    assert_eq!(labels.iter().filter(|it| !it.contains("warm-up")).count(), 8);
    let table = hpc.ok(&few);
    assert_eq!(table.lines().count(), 7, "a head, four ways, two costs: {table}");
    assert!(table.contains("hpc:small/ to lab:null/") && table.contains("lab to hpc: a start of"));
}

/// Promise: without a measurement there is no number, only the commands; a measurement gives a
/// lower bound; three transfers give a forecast of a fourth one, and grade each other.
#[test]
fn a_transfer_is_forecast_from_others() {
    let root = Scratch::in_memory();
    let (hpc, lab) = (site(root.path(), "hpc"), site(root.path(), "lab"));
    lab.pair(&hpc);
    let places = ["forecast", "lab:data/d", "hpc:data/"];
    let shaped = [&places[..], &["--shape", "30x4KiB,2x64KiB", "--other-daemon"]].concat();
    let shaped = [&shaped[..], &[lab.dir.to_str().unwrap()]].concat();
    let nothing = hpc.fails(6, &shaped);
    for command in ["bench network", "bench storage data"] {
        assert!(nothing.contains(command), "{nothing}");
    }
    let graded = [&places[..], &["--grade"]].concat();
    hpc.fails(6, &graded);
    hpc.ok(&["bench", "network", "--bytes", "100K", "--repeats", "1"]);
    let bound = hpc.ok(&shaped);
    assert!(bound.contains("32 files") && bound.contains("at least"), "{bound}");
    assert!(bound.contains("the network: the greatest of the times"), "{bound}");

    let sets = [("a", 40, 1 << 10), ("b", 4, 256 << 10), ("c", 12, 8 << 10)];
    for (set, files, bytes) in sets {
        fill(&lab, set, files, bytes);
        hpc.wait_done(&hpc.submit(&[&format!("lab:data/{set}"), "hpc:data/"]));
    }
    fill(&lab, "d", 20, 20 << 10);
    let forecast: Value =
        serde_json::from_str(&hpc.ok(&[&places[..], &["--json"]].concat())).unwrap();
    assert_eq!((&forecast["files"], &forecast["bytes"]), (&20.into(), &(400 << 10).into()));
    assert_eq!(forecast["is_lower_bound"], false);
    assert_eq!(forecast["history"]["transfers"], 3);
    assert_eq!(forecast["history"]["method"], "fit");
    let id = hpc.submit(&["lab:data/d", "hpc:data/"]);
    hpc.wait_done(&id);
    // How near it is to the time that these took says nothing: they are over in no time.
    assert!(forecast["seconds"].as_f64().unwrap() > 0.0, "{forecast}");

    let grades: Value =
        serde_json::from_str(&hpc.ok(&[&graded[..], &["--json"]].concat())).unwrap();
    assert_eq!(grades["transfers"].as_array().unwrap().len(), 4);
    let table = hpc.ok(&graded);
    assert_eq!(table.lines().count(), 6, "a head, four transfers, the median: {table}");
    assert!(table.contains("median error"), "{table}");
    let rest = hpc.ok(&[&places[..], &["--sync"]].concat());
    assert!(rest.contains("nothing is to be moved"), "all of it is there: {rest}");
}
