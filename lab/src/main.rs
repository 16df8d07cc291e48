//! A laboratory of sites and wide-area networks on one machine.
//!
//! Hosts are network namespaces; each has an interface at every network: a TUN device, whose other
//! end is held by one process, the *emulator*. It gives every packet between two sites the delay
//! of its network, a turn on the site's uplink of a given rate, a place in a queue that drops at
//! its tail, and a chance to be lost; links can be cut and restored. Hosts of one site reach each
//! other through the same interface at once. Nothing is needed of the kernel but TUN devices and
//! namespaces: netem is not, as many kernels lack it.
//!
//! `up` starts the emulator in a session of its own and returns when the lab is up; the other
//! commands talk to it through a socket below /run. `down` ends it and removes the namespaces;
//! the interfaces end with it. Nothing else is kept on this machine.
#![deny(unsafe_code)]
#![allow(clippy::print_stdout, reason = "talking to the person at the terminal is its job")]

mod control;
mod emulator;
mod link;
mod network;
mod packet;
mod spec;
#[allow(unsafe_code, reason = "requests of ioctl(2) that no crate wraps")]
mod tun;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};

use spec::{Spec, addresses, socket_path};

/// Sites of hosts, joined by networks with delay, rate, loss and queues, on this machine.
///
/// Hosts are network namespaces, called lab-a0, lab-a1, lab-b0 and so on. Needs root, iproute2
/// and /dev/net/tun.
#[derive(Debug, Parser)]
#[command(name = "penstock-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a lab, and prints its hosts with their addresses
    Up(Spec),
    /// Removes a lab
    Down(Named),
    /// Prints settings and counters: a line for each network and site that sends into it
    Stat(Named),
    /// Changes a network: `set net0 rtt=50ms rate=500m loss=1% corrupt=0 buffer=8m`
    Set {
        /// Network, and what to change
        #[arg(required = true, num_args = 2..)]
        words: Vec<String>,
        #[command(flatten)]
        lab: Named,
    },
    /// Lets nothing through, silently: a network `net0`, one direction `net0:ab`, or the interface
    /// of a host `a0.net0`
    Cut {
        /// What to cut
        target: String,
        /// The host sees that the interface has lost its carrier
        #[arg(long)]
        carrier: bool,
        #[command(flatten)]
        lab: Named,
    },
    /// Undoes a cut
    Restore {
        /// What to restore
        target: String,
        #[command(flatten)]
        lab: Named,
    },
    /// Runs a command at a host: `exec a0 -- ping 10.50.2.1`
    Exec {
        /// Host
        host: String,
        #[command(flatten)]
        lab: Named,
        /// Command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Runs the emulator in the foreground, as `up` does in the background
    #[command(hide = true)]
    Emulate(Spec),
}

/// Which lab is meant.
#[derive(Args, Debug)]
struct Named {
    /// Name of the lab
    #[arg(long, default_value = "lab")]
    name: String,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error of the emulator is a pipe to `up`, which may have ended.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(action: Action) -> anyhow::Result<()> {
    match action {
        Action::Up(spec) => up(&spec),
        Action::Emulate(spec) => {
            // A terminal that closes does not take the lab with it. Fails for the leader of a
            // group, as from a shell: then the one who started it watches it anyway.
            let _ = rustix::process::setsid();
            emulator::run(&spec)
        }
        Action::Down(lab) => {
            // Nobody there: only namespaces may be left.
            let _ = ask(&lab.name, "down");
            network::remove(&lab.name)
        }
        Action::Stat(lab) => tell(&lab.name, "stat"),
        Action::Set { words, lab } => tell(&lab.name, &format!("set {}", words.join(" "))),
        Action::Cut { target, carrier, lab } => {
            let carrier = if carrier { " --carrier" } else { "" };
            tell(&lab.name, &format!("cut {target}{carrier}"))
        }
        Action::Restore { target, lab } => tell(&lab.name, &format!("restore {target}")),
        Action::Exec { host, lab, command } => {
            let namespace = format!("{}-{host}", lab.name);
            let mut ip = Command::new("ip");
            Err(ip.args(["netns", "exec", &namespace]).args(&command).exec()).context("start `ip`")
        }
    }
}

/// Starts an emulator and waits until it says that the lab is up.
fn up(spec: &Spec) -> anyhow::Result<()> {
    if ask(&spec.name, "stat").is_ok() {
        bail!("the lab `{}` is up already", spec.name);
    }
    let me = std::env::current_exe().context("find this program")?;
    // The same options once more: what stands behind `up`.
    let options = std::env::args_os().skip_while(|word| word != "up").skip(1);
    let mut emulator = Command::new(me)
        .arg("emulate")
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("start the emulator")?;
    let mut line = String::new();
    if let Some(output) = emulator.stdout.take() {
        BufReader::new(output).read_line(&mut line).context("hear from the emulator")?;
    }
    if line.trim_end() != emulator::READY {
        let mut says = String::new();
        if let Some(mut errors) = emulator.stderr.take() {
            errors.read_to_string(&mut says).context("hear from the emulator")?;
        }
        network::remove(&spec.name)?;
        bail!("the emulator did not start: {}", says.trim());
    }
    for (site, host) in spec.hosts() {
        let mut text = spec.namespace(site, host);
        for network in 0..usize::from(spec.nics) {
            let [v4, v6] = addresses(network, site, host);
            text += &format!(" net{network}={v4},{v6}");
        }
        println!("{text}");
    }
    Ok(())
}

/// Sends a command to the emulator and prints its reply.
fn tell(name: &str, line: &str) -> anyhow::Result<()> {
    print!("{}", ask(name, line)?);
    Ok(())
}

/// Sends a command to the emulator; its reply.
fn ask(name: &str, line: &str) -> anyhow::Result<String> {
    let path = socket_path(name);
    let mut emulator =
        UnixStream::connect(&path).with_context(|| format!("no lab `{name}` is up ({path})"))?;
    emulator.write_all(format!("{line}\n").as_bytes()).context("ask the emulator")?;
    let mut reply = String::new();
    emulator.read_to_string(&mut reply).context("hear the emulator")?;
    match reply.strip_prefix(control::ERROR) {
        Some(error) => bail!("{}", error.trim()),
        None => Ok(reply),
    }
}
