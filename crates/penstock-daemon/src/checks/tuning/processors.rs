//! Processors: their clock, threads that share cores, NUMA nodes, interrupts of cards.

use std::collections::BTreeSet;

use penstock_api::operate::{Finding, Level};
use penstock_sys::{CardTuning, cpu_list};

use super::host::{FAST_MBIT, Host, note};

pub(super) fn judge(host: &Host<'_>) -> Vec<Finding> {
    let mut findings = vec![governor(host)];
    findings.extend(shared_cores(host));
    findings.extend(nodes(host));
    findings.extend(host.cards().into_iter().filter_map(|card| interrupts(host, card)));
    findings
}

/// "CPU governor to 'performance'": <https://fasterdata.es.net/host-tuning/linux/100g-tuning/>.
fn governor(host: &Host<'_>) -> Finding {
    const ADVISED: &str = "performance";
    let code = "governor";
    let governors = &host.tuning.governors;
    let others: Vec<_> = governors.iter().filter(|(name, _)| *name != ADVISED).collect();
    if governors.is_empty() {
        return Finding::ok(code, "the kernel does not choose the clock of the processors");
    }
    if others.is_empty() {
        return Finding::ok(code, "all processors have the governor `performance`");
    }
    let words: Vec<_> = others.iter().map(|(name, count)| format!("{count} `{name}`")).collect();
    note(
        code,
        format!("governors of the processors: {}; advised: `performance`", words.join(", ")),
        "where `transfer show` says that processors limit, the rate follows their clock; else \
         nothing is gained. Not measured here: our machines do not let the kernel choose it",
        "cpupower frequency-set -g performance; for good: tuned-adm profile network-throughput",
    )
}

/// "Disable Simultaneous Multithreading in the BIOS": the same page.
fn shared_cores(host: &Host<'_>) -> Option<Finding> {
    let code = "hyper-threading";
    let shared = host.tuning.shared_cores?;
    if !shared {
        return Some(Finding::ok(code, "no two processors share a core"));
    }
    if host.speed_mbit() < FAST_MBIT {
        let what = "processors share cores; advised against from 40 Gbit/s on only";
        return Some(Finding::ok(code, what));
    }
    Some(note(
        code,
        "processors share cores (SMT); advised: none do, on hosts with cards of 40 Gbit/s and more",
        "ESnet found single streams of very uneven rate with it. Penstock moves by many lanes, and \
         binds none to a processor. Not measured here: our machines have one thread a core",
        "compare: echo off > /sys/devices/system/cpu/smt/control; for good in the firmware",
    ))
}

/// "Make sure you are using the correct cores":
/// <https://fasterdata.es.net/host-tuning/linux/100g-tuning/interrupt-binding/>.
fn nodes(host: &Host<'_>) -> Option<Finding> {
    let code = "numa";
    let nodes = &host.tuning.nodes;
    if nodes.len() < 2 {
        return (!nodes.is_empty()).then(|| Finding::ok(code, "the host has one NUMA node"));
    }
    let at: BTreeSet<u32> = host.cards().iter().filter_map(|card| card.node).collect();
    let near = match at.iter().collect::<Vec<_>>()[..] {
        [] => return Some(Finding::ok(code, "no card says at which NUMA node it is")),
        [node] => nodes.get(node)?,
        _ => {
            let what = "cards for data are at several NUMA nodes: each processor is near one";
            return Some(Finding::ok(code, what));
        }
    };
    let node = at.first()?;
    let far = host.cpus.iter().filter(|cpu| !near.contains(cpu)).count();
    if far == 0 {
        return Some(Finding::ok(
            code,
            format!("this process runs at NUMA node {node}, as its cards"),
        ));
    }
    let (level, where_it_runs) = match host.cpus.len() - far {
        0 => (Level::Warning, "away from it alone"),
        _ => (Level::Note, "at others too"),
    };
    Some(Finding::new(
        level,
        code,
        format!(
            "the cards for data are at NUMA node {node}, and this process runs {where_it_runs}; \
             advised: processors of the card's node"
        ),
        "bytes cross between sockets; a single stream had half the rate for it at ESnet. Lanes are \
         not grouped by node, so Penstock does not avoid it by itself. Not measured here: our \
         machines have one node",
        format!(
            "CPUAffinity={} under [Service] (`systemctl edit penstock`), if that many processors \
             suffice (docs/reference-design.md)",
            cpu_list(near)
        ),
    ))
}

/// "Disable irqbalance and then bind the interrupts to a specific CPU socket": the same page.
fn interrupts(host: &Host<'_>, card: &CardTuning) -> Option<Finding> {
    let (code, device) = ("interrupts", &card.device);
    if card.interrupts.is_empty() {
        return None;
    }
    let serving: BTreeSet<usize> = card.interrupts.values().flatten().copied().collect();
    let on = cpu_list(&serving.iter().copied().collect::<Vec<_>>());
    if card.speed_mbit.unwrap_or(0) < FAST_MBIT {
        let what = format!("{device}: interrupts at processors {on}; no advice below 40 Gbit/s");
        return Some(Finding::ok(code, what));
    }
    let near = card.node.filter(|_| host.tuning.nodes.len() > 1);
    let near = near.and_then(|node| host.tuning.nodes.get(&node));
    let far = |cpus: &Vec<usize>| near.is_some_and(|near| cpus.iter().any(|it| !near.contains(it)));
    let far = card.interrupts.values().filter(|cpus| far(cpus)).count();
    let what = match (far, serving.len(), card.interrupts.len()) {
        (0, 1, 2..) => format!("{device}: all of its interrupts are served by processor {on}"),
        (0, ..) => {
            let what = format!("{device}: interrupts at processors {on}, near the card");
            return Some(Finding::ok(code, what));
        }
        (far, _, all) => format!(
            "{device}: {far} of {all} interrupts are served at another NUMA node than the card's"
        ),
    };
    let stop = match host.tuning.irqbalance {
        true => "systemctl disable --now irqbalance, which runs; then ",
        false => "",
    };
    let node = card.node.unwrap_or(0);
    Some(note(
        code,
        format!("{what}; advised: at several processors of its own node"),
        "one processor takes in some 30 Gbit/s at ESnet, and half of it from another socket. No \
         number of lanes makes up for that. Not measured here: no card of this speed",
        format!("{stop}set_irq_affinity_bynode.sh {node} {device}, or the script of its driver"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_sys::{HostTuning, parse_cpu_list};
    use std::collections::BTreeMap;

    fn host(change: impl FnOnce(&mut HostTuning)) -> HostTuning {
        let irqs = [(91, vec![8]), (92, vec![9])];
        let card = CardTuning {
            device: "ens1".to_owned(),
            running: true,
            speed_mbit: Some(100_000),
            node: Some(1),
            interrupts: BTreeMap::from(irqs),
            ..CardTuning::default()
        };
        let nodes = [(0, parse_cpu_list("0-7")), (1, parse_cpu_list("8-15"))];
        let mut tuning = HostTuning {
            governors: BTreeMap::from([("performance".to_owned(), 16)]),
            shared_cores: Some(false),
            nodes: BTreeMap::from(nodes),
            cards: vec![card],
            ..HostTuning::default()
        };
        change(&mut tuning);
        tuning
    }

    fn found(tuning: &HostTuning, cpus: &str, code: &str) -> Option<(Level, String)> {
        let cpus = parse_cpu_list(cpus);
        let host = Host { tuning, devices: &[], cpus: &cpus, measured: &[] };
        let found = judge(&host).into_iter().find(|found| found.code == code)?;
        Some((found.level, format!("{} {} {}", found.what, found.why, found.action)))
    }

    /// Promise (E40): each setting of the processors is judged by the advice for the card's speed.
    /// A setting that follows the advice, or whose advice is for faster cards only, needs no
    /// action.
    #[test]
    fn e40_processors_are_judged() {
        type Change = fn(&mut HostTuning);
        let power: Change = |it| it.governors = BTreeMap::from([("powersave".to_owned(), 16)]);
        let slow: Change = |it| {
            it.cards[0].speed_mbit = Some(10_000);
            it.shared_cores = Some(true);
            it.cards[0].interrupts = BTreeMap::from([(91, vec![0]), (92, vec![0])]);
        };
        let away: Change = |it| {
            it.cards[0].interrupts = BTreeMap::from([(91, vec![0]), (92, vec![9])]);
            it.irqbalance = true;
        };
        let one: Change =
            |it| it.cards[0].interrupts = BTreeMap::from([(91, vec![8]), (92, vec![8])]);
        let both: Change = |it| {
            let card = CardTuning { node: Some(0), ..it.cards[0].clone() };
            it.cards.push(card);
        };
        let table: [(Change, &str, &str, Level, &str); 16] = [
            (|_| {}, "8-15", "governor", Level::Ok, "performance"),
            (power, "8-15", "governor", Level::Note, "16 `powersave`"),
            (|it| it.governors.clear(), "8-15", "governor", Level::Ok, "does not choose"),
            (|_| {}, "8-15", "hyper-threading", Level::Ok, "no two"),
            (|it| it.shared_cores = Some(true), "8-15", "hyper-threading", Level::Note, "SMT"),
            (slow, "8-15", "hyper-threading", Level::Ok, "40 Gbit/s"),
            (|_| {}, "8-15", "numa", Level::Ok, "node 1"),
            (|_| {}, "0-15", "numa", Level::Note, "CPUAffinity=8-15"),
            (|_| {}, "0-7", "numa", Level::Warning, "CPUAffinity=8-15"),
            (both, "0-7", "numa", Level::Ok, "several"),
            (|it| it.cards[0].node = None, "0-7", "numa", Level::Ok, "no card says"),
            (|_| {}, "8-15", "interrupts", Level::Ok, "8-9"),
            (away, "8-15", "interrupts", Level::Note, "1 of 2"),
            (away, "8-15", "interrupts", Level::Note, "irqbalance"),
            (one, "8-15", "interrupts", Level::Note, "served by processor 8"),
            (slow, "8-15", "interrupts", Level::Ok, "below 40 Gbit/s"),
        ];
        for (number, (change, cpus, code, level, words)) in table.into_iter().enumerate() {
            let (found, text) = found(&host(change), cpus, code).unwrap();
            assert_eq!(found, level, "{number}: {text}");
            assert!(text.contains(words), "{number}: {text}");
        }
    }

    /// Promise: a setting that a kernel or a driver does not report is not judged.
    #[test]
    fn what_is_not_known_is_not_judged() {
        let tuning = host(|it| {
            it.shared_cores = None;
            it.nodes.clear();
            it.cards[0].interrupts.clear();
        });
        for code in ["hyper-threading", "numa", "interrupts"] {
            assert_eq!(found(&tuning, "0-15", code), None);
        }
    }
}
