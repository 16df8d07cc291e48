//! The check of a selftest that needs several interfaces.

use penstock_testkit::{LabPair, can_run_lab, seed, told};

use crate::networks::{TWO, make_set};

/// Promise: a selftest cuts a card in the middle of a transfer, sees the other one carry, and
/// restores the card, also where the command that cuts it fails. A source that is too small for
/// that is not judged. The clocks of paired sites are compared.
#[test]
fn a_selftest_cuts_a_card() {
    if !can_run_lab("a_selftest_cuts_a_card") {
        return;
    }
    let options = ["--nics", "3", "--rate", "0,80m,80m", "--rtt", "2ms"];
    let world = LabPair::up("selftest", &options, TWO);
    make_set(&world.a.store.join("src"), 96, 50, seed());
    let ip = |words: &str| {
        let command = world.lab.inside("b0", "ip");
        let all = command.get_args().map(|word| word.to_str().unwrap()).collect::<Vec<_>>();
        format!("ip {} {words}", all.join(" "))
    };
    let heal = ip("link set net1 up");
    let run = |from: &str, cut: &str| {
        let only = ["selftest", "--yes", "--only", "cut-card", "--from", from];
        let output = world.b.run(&[&only[..], &["--cut-card", cut, "--heal-card", &heal]].concat());
        let flags = world.lab.inside("b0", "cat").arg("/sys/class/net/net1/flags").output();
        let flags = String::from_utf8(flags.unwrap().stdout).unwrap();
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
        assert_eq!(flags & 1, 1, "net1 is down: {}", told(&output));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, text) = run("a:data/src", &ip("link set net1 down"));
    println!("{text}");
    assert!(text.starts_with("PASS     cut-card"), "{text}");
    assert!(text.contains("came over other cards meanwhile"), "{text}");
    assert_eq!(code, Some(0));
    let (code, text) = run("a:data/src", &(ip("link set net1 down") + "; exit 3"));
    assert!(text.starts_with("ERROR    cut-card"), "{text}");
    assert!(text.contains("the command of --cut-card ended with exit status: 3"), "{text}");
    assert_eq!(code, Some(1));
    let (_, text) = run("a:data/src/small-1", "true");
    assert!(text.starts_with("NOT RUN  cut-card") && text.contains("64 to 256 MiB"), "{text}");
    let text = world.b.ok(&["selftest", "--yes", "--only", "clocks"]);
    println!("{text}");
    assert!(text.starts_with("PASS     clocks"), "{text}");
    assert!(text.contains("site a: the clocks differ by"), "{text}");
    let own = world.b.fails(2, &["selftest", "--yes", "--cut-card", "true"]);
    assert!(own.contains("--heal-card") && own.contains("--from"), "{own}");
}
