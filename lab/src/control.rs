//! The commands that a running lab takes: `stat`, `set`, `cut` and `restore`.

use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

use anyhow::{Context, bail};

use crate::link::Port;
use crate::network::{Network, Settings, set_carrier};
use crate::spec::{Spec, bits, bytes, host_of, letter, nanos, share};

/// Begins a reply that says why a command failed.
pub(crate) const ERROR: &str = "error: ";

/// Does what `words` say; the reply to print.
///
/// # Errors
/// There is no such command, network, host or setting; or the kernel refuses.
pub(crate) fn handle(spec: &Spec, networks: &[Network], words: &[&str]) -> anyhow::Result<String> {
    match words {
        ["stat"] => Ok(stat(networks)),
        ["set", network, settings @ ..] => {
            let settings = read_settings(settings)?;
            match network.split_once('.') {
                Some((host, network)) => {
                    if settings.corruption.is_some() || settings.buffer_bytes.is_some() {
                        bail!("an interface has rtt, rate and loss only");
                    }
                    port_of(spec, network_of(networks, network)?.1, host)?.apply(&settings);
                }
                None => network_of(networks, network)?.1.apply(&settings),
            }
            Ok(String::new())
        }
        [verb @ ("cut" | "restore"), target, rest @ ..] => {
            let cut = *verb == "cut";
            let carrier = match rest {
                [] => false,
                ["--carrier"] => true,
                _ => bail!("`{}` is not understood", rest.join(" ")),
            };
            match target.split_once('.') {
                Some((host, network)) => {
                    cut_port(spec, network_of(networks, network)?.1, host, cut, carrier)?;
                }
                None => cut_network(networks, target, cut)?,
            }
            Ok(String::new())
        }
        _ => bail!("no such command: {}", words.join(" ")),
    }
}

fn network_of<'a>(networks: &'a [Network], name: &str) -> anyhow::Result<(usize, &'a Network)> {
    let number = name.strip_prefix("net").and_then(|number| number.parse::<usize>().ok());
    number
        .and_then(|number| Some((number, networks.get(number)?)))
        .with_context(|| format!("no such network: {name}"))
}

/// The interface of a host (`a0`) at a network.
fn port_of<'a>(spec: &Spec, network: &'a Network, host: &str) -> anyhow::Result<&'a Port> {
    let found = host_of(host).and_then(|(site, number)| {
        let mut ports = network.ports.iter().filter(|port| port.site == site);
        ports.nth(number).filter(|_| site < usize::from(spec.sites))
    });
    found.with_context(|| format!("no such host: {host}"))
}

/// Cuts or restores the interface of a host (`a0`).
fn cut_port(
    spec: &Spec,
    network: &Network,
    host: &str,
    cut: bool,
    carrier: bool,
) -> anyhow::Result<()> {
    let port = port_of(spec, network, host)?;
    port.cut.store(cut, Relaxed);
    if !cut || carrier {
        set_carrier(port, !cut)?;
    }
    Ok(())
}

/// Cuts or restores a network between all sites (`net0`), or from one to another (`net0:ab`).
fn cut_network(networks: &[Network], target: &str, cut: bool) -> anyhow::Result<()> {
    let (name, only) = target.split_once(':').map_or((target, None), |(n, ab)| (n, Some(ab)));
    let network = network_of(networks, name)?.1;
    let mut found = false;
    for (from, direction) in network.directions.iter().enumerate() {
        for (to, flag) in direction.cut.iter().enumerate() {
            let name = format!("{}{}", letter(from), letter(to));
            if from != to && only.is_none_or(|only| only == name) {
                flag.store(cut, Relaxed);
                found = true;
            }
        }
    }
    if !found {
        bail!("no such direction: {target}");
    }
    Ok(())
}

fn read_settings(words: &[&str]) -> anyhow::Result<Settings> {
    let mut settings = Settings::default();
    if words.is_empty() {
        bail!("nothing to set");
    }
    for word in words {
        let (key, value) = word.split_once('=').with_context(|| format!("no `=` in `{word}`"))?;
        match key {
            "rtt" => settings.rtt_ns = Some(nanos(value)?),
            "rate" => settings.rate_bits_per_s = Some(bits(value)?),
            "loss" => settings.loss = Some(share(value)?),
            "corrupt" => settings.corruption = Some(share(value)?),
            "buffer" => settings.buffer_bytes = Some(bytes(value)?),
            _ => bail!("no such setting: {key}; there are rtt, rate, loss, corrupt, buffer"),
        }
    }
    Ok(settings)
}

/// One line for each network and site that sends into it.
fn stat(networks: &[Network]) -> String {
    let mut text = String::new();
    for (number, network) in networks.iter().enumerate() {
        for (site, direction) in network.directions.iter().enumerate() {
            let cut: String = (0..direction.cut.len())
                .filter(|&to| direction.cut[to].load(Relaxed))
                .map(letter)
                .collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "net{number} from={} rtt_ms={:.3} rate_bits_per_s={} buffer_bytes={} segments={} \
                 wire_bytes={} lost={} dropped={} corrupted={} cut_to={}",
                letter(site),
                direction.delay_ns.load(Relaxed) as f64 * 2e-6,
                direction.rate_bits_per_s.load(Relaxed),
                direction.buffer_bytes.load(Relaxed),
                direction.segments.load(Relaxed),
                direction.wire_bytes.load(Relaxed),
                direction.lost.load(Relaxed),
                direction.dropped.load(Relaxed),
                direction.corrupted.load(Relaxed),
                if cut.is_empty() { "-" } else { &cut },
            );
        }
        stat_ports(&mut text, number, network);
    }
    text
}

/// A line for each interface that is limited or cut.
fn stat_ports(text: &mut String, number: usize, network: &Network) {
    let mut host = 0;
    for (at, port) in network.ports.iter().enumerate() {
        let is_first = at == 0 || network.ports[at - 1].site != port.site;
        host = if is_first { 0 } else { host + 1 };
        let [rate, delay, loss] = [&port.rate_bits_per_s, &port.delay_ns, &port.loss]
            .map(|setting| setting.load(Relaxed));
        let cut = port.cut.load(Relaxed);
        if rate > 0 || delay > 0 || loss > 0 || cut {
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "net{number} host={}{host} rtt_ms={:.3} rate_bits_per_s={rate} loss={:.6} \
                 cut={cut}",
                letter(port.site),
                delay as f64 * 2e-6,
                loss as f64 / u64::MAX as f64,
            );
        }
    }
}
