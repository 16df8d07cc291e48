//! Network cards: receive rings, transmit queues, MTU.

use std::collections::BTreeSet;

use penstock_api::operate::Finding;
use penstock_proto::units::format_rate;
use penstock_sys::CardTuning;

use super::host::{FAST_MBIT, Host, LANES, note};

/// MTU of Ethernet without jumbo frames.
const MTU_PLAIN: u32 = 1500;
/// From this MTU on a card counts as one with jumbo frames; they have 9000 mostly.
const MTU_JUMBO: u32 = 8000;
/// From this kernel on larger rings are no longer advised.
const RING_UNTIL: (u32, u32) = (6, 11);

pub(super) fn judge(host: &Host<'_>) -> Vec<Finding> {
    let cards = host.cards();
    let mut findings = Vec::new();
    for card in &cards {
        findings.extend(ring(host, card));
        findings.extend(queue(host, card));
    }
    findings.extend(jumbo_frames(&cards));
    findings.extend(mtu_probing(host, &cards));
    findings
}

/// "Increase the ring buffer size to the max (8192) … no longer true starting with the 6.11
/// kernel": <https://fasterdata.es.net/host-tuning/100g-tuning>. Here frames that were lost decide.
fn ring(host: &Host<'_>, card: &CardTuning) -> Option<Finding> {
    let (code, device) = ("ring", &card.device);
    let ring = card.ring.filter(|ring| ring.size_max > 0)?;
    let sizes = format!("{device}: the receive ring has {} of {} places", ring.size, ring.size_max);
    if ring.size >= ring.size_max {
        return Some(Finding::ok(code, sizes));
    }
    if card.unbuffered == 0 {
        let why = match host.tuning.kernel >= RING_UNTIL {
            true => "more is not advised from Linux 6.11 on",
            false => "more is advised, and gains nothing as long as that is so",
        };
        return Some(Finding::ok(
            code,
            format!("{sizes}; no packet was lost for want of one; {why}"),
        ));
    }
    Some(note(
        code,
        format!("{sizes}; {} of {} packets found none free", card.unbuffered, card.received),
        "each is a lost packet: over 90 ms, one in a thousand leaves CUBIC a seventh of the rate \
         and BBR 0.93 of it (docs/performance.md)",
        format!(
            "ethtool -G {device} rx {}; for good: RxBufferSize=max in a .link file of systemd",
            ring.size_max
        ),
    ))
}

/// "We recommend fq over fq_codel", and "maxrate":
/// <https://fasterdata.es.net/host-tuning/packet-pacing>. BBR paces by itself (since Linux 4.20),
/// and the target asks for no more than the path holds (docs/design/0007).
fn queue(host: &Host<'_>, card: &CardTuning) -> Option<Finding> {
    let (code, device) = ("qdisc", &card.device);
    let kinds: BTreeSet<&str> = card.queues.iter().map(|queue| queue.kind.as_str()).collect();
    let words = kinds.iter().copied().collect::<Vec<_>>().join(", ");
    if kinds.is_empty() {
        return None;
    }
    let limit = card.queues.iter().filter_map(|queue| queue.flow_bytes_per_s_max).min();
    if let Some(bytes) = limit {
        return Some(paced(card, bytes));
    }
    if kinds.iter().all(|kind| ["fq", "fq_codel", "cake"].contains(kind)) {
        return Some(Finding::ok(code, format!("{device} sends by {words}")));
    }
    if host.uses_bbr() {
        let what = format!(
            "{device} sends by {words}; `fq` is advised, and gains nothing that was measured: BBR \
             paces by itself"
        );
        return Some(Finding::ok(code, what));
    }
    Some(note(
        code,
        format!("{device} sends by {words}; advised: `fq`, which spreads out what a flow sends"),
        "ESnet saw 2 to 4 times the rate on some paths of 50 to 80 ms, where a slower part drops \
         bursts. Penstock asks for no more than a path holds, so that less is left to gain; not \
         measured here",
        format!("tc qdisc replace dev {device} root fq; penstock doctor --write-sysctl"),
    ))
}

/// Judges a limit for each flow: lanes are flows.
fn paced(card: &CardTuning, bytes: u64) -> Finding {
    let (code, device) = ("qdisc", &card.device);
    let flow = bytes as f64 * 8.0;
    let what = format!("{device}: `fq` lets each lane send {} at most", format_rate(flow));
    match card.speed_mbit.map(|speed| speed as f64 * 1e6) {
        Some(speed) if flow * LANES as f64 >= speed => {
            Finding::ok(code, format!("{what}; {LANES} lanes fill the card"))
        }
        _ => note(
            code,
            what,
            format!(
                "a path begins with {LANES} lanes, which send {} then; more are tried after 5 s",
                format_rate(flow * LANES as f64)
            ),
            format!("tc qdisc replace dev {device} root fq, without maxrate"),
        ),
    }
}

/// <https://fasterdata.es.net/network-tuning/mtu-issues/>.
fn jumbo_frames(cards: &[&CardTuning]) -> Vec<Finding> {
    let code = "jumbo-frames";
    let mtus: BTreeSet<u32> = cards.iter().map(|card| card.mtu).collect();
    let words = |cards: &[&CardTuning]| {
        let words = cards.iter().map(|card| format!("{} {}", card.device, card.mtu));
        words.collect::<Vec<_>>().join(", ")
    };
    let mut findings = Vec::new();
    if mtus.len() > 1 {
        findings.push(note(
            code,
            format!(
                "cards for data have different MTUs: {}; advised: the same in a subnet",
                words(cards)
            ),
            "Ethernet drops a packet that is larger than the receiver's MTU, and reports no error: \
             where two hosts of one subnet differ, a lane opens and no data passes",
            "penstock doctor --pair SITE sends packets of full size over each path, both ways",
        ));
    }
    let fast = |card: &&&CardTuning| card.speed_mbit.unwrap_or(0) >= FAST_MBIT;
    let plain: Vec<_> =
        cards.iter().filter(fast).filter(|card| card.mtu < MTU_JUMBO).copied().collect();
    if !plain.is_empty() {
        findings.push(note(
            code,
            format!(
                "MTU of fast cards: {}; advised: 9000, if all of the path takes it",
                words(&plain)
            ),
            "fewer packets cost less CPU, and a flow recovers six times as fast from a loss; ESnet \
             has 3 times the rate of a single stream at 100 Gbit/s. Penstock has many lanes, which \
             need it less. Not measured here: no such card",
            "ip link set DEVICE mtu 9000 at all hosts and switches of the subnet, then `penstock \
             doctor --pair SITE`",
        ));
    }
    if findings.is_empty() && !cards.is_empty() {
        findings.push(Finding::ok(code, format!("MTU: {}", words(cards))));
    }
    findings
}

/// "We recommend setting tcp_mtu_probing = 1 … Setting it to 2 sometimes causes performance
/// problems": the same page.
fn mtu_probing(host: &Host<'_>, cards: &[&CardTuning]) -> Option<Finding> {
    let (code, name) = ("mtu-probing", "net.ipv4.tcp_mtu_probing");
    let value = host.setting(name)?;
    let has_jumbo = cards.iter().any(|card| card.mtu > MTU_PLAIN);
    let what = match (value, has_jumbo) {
        ("0", false) => {
            let what =
                format!("{name} is 0; 1 is advised with jumbo frames, which are not used here");
            return Some(Finding::ok(code, what));
        }
        ("0", true) => format!("{name} is 0; advised: 1, with jumbo frames"),
        ("2", _) => format!("{name} is 2; advised: 1"),
        _ => return Some(Finding::ok(code, format!("{name} is {value}"))),
    };
    let (gain, action) = match value {
        "2" => (
            "ESnet saw lower rates with it at times. Not measured here",
            "sysctl -w net.ipv4.tcp_mtu_probing=1, and keep it in /etc/sysctl.d; penstock doctor \
             --write-sysctl leaves a 2 as it is",
        ),
        _ => (
            "no rate; but where a router drops large packets and its message of that is filtered, \
             TCP finds the size by itself. Else lanes over that path open and pass nothing",
            "penstock doctor --write-sysctl, or sysctl -w net.ipv4.tcp_mtu_probing=1",
        ),
    };
    Some(note(code, what, gain, action))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::operate::Level;
    use penstock_sys::{HostTuning, QueueDiscipline, ReceiveRing};

    fn queue_of(kind: &str, flow_bytes_per_s_max: Option<u64>) -> QueueDiscipline {
        QueueDiscipline { kind: kind.to_owned(), flow_bytes_per_s_max }
    }

    fn tuning() -> HostTuning {
        let card = CardTuning {
            device: "ens1".to_owned(),
            running: true,
            speed_mbit: Some(100_000),
            mtu: 9000,
            received: 1_000_000,
            ring: Some(ReceiveRing { size: 1024, size_max: 8192 }),
            queues: vec![queue_of("fq", None), queue_of("fq", None)],
            ..CardTuning::default()
        };
        let settings =
            [("net.ipv4.tcp_mtu_probing", "1"), ("net.ipv4.tcp_congestion_control", "cubic")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        HostTuning {
            kernel: (6, 1),
            settings: settings.into(),
            cards: vec![card],
            ..HostTuning::default()
        }
    }

    fn found(tuning: &HostTuning, code: &str) -> Vec<Finding> {
        let host = Host { tuning, devices: &[], cpus: &[], measured: &[] };
        judge(&host).into_iter().filter(|found| found.code == code).collect()
    }

    fn set(tuning: &mut HostTuning, name: &str, value: &str) {
        tuning.settings.insert(name.to_owned(), value.to_owned());
    }

    /// A change of the tuning above, the finding that is looked at, its level, and words in it.
    type Row<'a> = (&'a dyn Fn(&mut HostTuning), &'a str, Level, &'a str);

    fn check(table: &[Row<'_>]) {
        for (number, (change, code, level, words)) in table.iter().enumerate() {
            let mut tuning = tuning();
            change(&mut tuning);
            let [found] = &found(&tuning, code)[..] else { panic!("{number}") };
            assert_eq!(found.level, *level, "{number}: {found:?}");
            let text = format!("{} {} {}", found.what, found.why, found.action);
            assert!(text.contains(words), "{number}: {text}");
        }
    }

    /// Promise (E40): rings are judged by lost packets, queues by existing pacing. A setting
    /// without a gain needs no action.
    #[test]
    fn e40_rings_and_queues_are_judged() {
        let full = |it: &mut HostTuning| it.cards[0].ring.as_mut().unwrap().size = 8192;
        let fifo = |it: &mut HostTuning| it.cards[0].queues = vec![queue_of("pfifo_fast", None)];
        let bbr = |it: &mut HostTuning| {
            fifo(it);
            set(it, "net.ipv4.tcp_congestion_control", "bbr");
        };
        let capped = |it: &mut HostTuning| it.cards[0].queues[1] = queue_of("fq", Some(250 << 20));
        let slow = |it: &mut HostTuning| {
            capped(it);
            it.cards[0].speed_mbit = Some(10_000);
        };
        check(&[
            (&|_| {}, "ring", Level::Ok, "gains nothing as long"),
            (&|it| it.kernel = (6, 12), "ring", Level::Ok, "6.11"),
            (&|it| it.cards[0].unbuffered = 7, "ring", Level::Note, "ethtool -G ens1 rx 8192"),
            (&full, "ring", Level::Ok, "8192 of 8192"),
            (&|_| {}, "qdisc", Level::Ok, "fq"),
            (&fifo, "qdisc", Level::Note, "root fq"),
            (&bbr, "qdisc", Level::Ok, "BBR paces"),
            (&capped, "qdisc", Level::Note, "16.78 Gbit/s"),
            (&slow, "qdisc", Level::Ok, "fill"),
        ]);
    }

    /// Promise (E40): MTU and its probing are judged by the card: a host without jumbo frames needs
    /// no probing, and one without a fast card no jumbo frames.
    #[test]
    fn e40_packets_are_judged_by_their_size() {
        let plain = |it: &mut HostTuning| it.cards[0].mtu = 1500;
        let slow = |it: &mut HostTuning| {
            plain(it);
            it.cards[0].speed_mbit = Some(10_000);
        };
        let unprobed = |it: &mut HostTuning| set(it, "net.ipv4.tcp_mtu_probing", "0");
        let always = |it: &mut HostTuning| set(it, "net.ipv4.tcp_mtu_probing", "2");
        let neither = |it: &mut HostTuning| {
            plain(it);
            unprobed(it);
        };
        check(&[
            (&|_| {}, "jumbo-frames", Level::Ok, "ens1 9000"),
            (&plain, "jumbo-frames", Level::Note, "mtu 9000"),
            (&slow, "jumbo-frames", Level::Ok, "1500"),
            (&|_| {}, "mtu-probing", Level::Ok, "is 1"),
            (&unprobed, "mtu-probing", Level::Note, "advised: 1"),
            (&neither, "mtu-probing", Level::Ok, "not used"),
            (&always, "mtu-probing", Level::Note, "lower rates"),
        ]);
    }

    /// Promise: two cards for data whose packets differ in size are reported, with each of them.
    #[test]
    fn different_mtus_are_said() {
        let mut tuning = tuning();
        let other = CardTuning {
            device: "ens2".to_owned(),
            mtu: 1500,
            speed_mbit: Some(10_000),
            ..tuning.cards[0].clone()
        };
        tuning.cards.push(other);
        let found = found(&tuning, "jumbo-frames");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.contains("ens1 9000, ens2 1500"), "{}", found[0].what);
    }

    /// Promise: a card that reports neither ring nor queues is not judged by them.
    #[test]
    fn what_a_driver_does_not_tell_is_not_judged() {
        let mut tuning = tuning();
        tuning.cards[0].ring = None;
        tuning.cards[0].queues.clear();
        assert!(found(&tuning, "ring").is_empty() && found(&tuning, "qdisc").is_empty());
    }
}
