//! The commands of a lab by hand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::{Args, Parser, Subcommand};

use crate::lab::{Lab, ask};
use crate::spec::{Spec, addresses, letter};
use crate::{can_run, emulator, network};

/// What the emulator says on its standard output once hosts and networks are there.
const READY: &str = "ready";

/// Sites of real daemons on this machine, joined by networks with delay, rate, loss and queues, and
/// ways to break each part of them.
///
/// Hosts are network namespaces, called a0, a1 ... at site a, b0 ... at site b. Each has net0 for
/// management and net1, net2 ... for data. A site of several hosts has an etcd of three members,
/// and a store `data` and a journal that all its peers share. Needs root, iproute2, /dev/net/tun
/// and, for sites of several hosts, etcd (Debian: etcd-server).
///
/// To begin: `up --sites 2 --peers 4 --nics 2 --nic-rate 200m --rtt 10ms`, and do what it says.
#[derive(Debug, Parser)]
#[command(name = "penstock-lab", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Makes a lab, and prints what to type next
    Up(Spec),
    /// Removes a lab: ends its processes, removes its namespaces and files
    Down(Named),
    /// Prints hosts, their addresses, daemons and directories
    Show(Named),
    /// Prints settings and counters: a line for each network and site that sends into it, and one
    /// for each interface that is limited or cut
    Stat(Named),
    /// Changes a network, or one interface: `set net1 rtt=50ms rate=500m loss=1%`, `set b0.net1
    /// rate=10m`; a network also `corrupt=0.01% buffer=8m`
    Set {
        /// Network or interface, and what to change
        #[arg(required = true, num_args = 2..)]
        words: Vec<String>,
        #[command(flatten)]
        lab: Named,
    },
    /// Lets nothing through, silently: a network `net1` between sites, one direction `net1:ab`, or
    /// the interface of a host `a0.net1`
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
    /// Cuts all networks between the sites; hosts of one site still reach each other
    Partition(Named),
    /// Undoes a partition
    Heal(Named),
    /// `kill -9` of the daemon of a host
    Kill(AtHost),
    /// Starts the daemon of a host that was killed
    Start(AtHost),
    /// Stops the daemon of a host as SIGSTOP does: it does not notice
    Stop(AtHost),
    /// Lets a daemon that was stopped go on
    Continue(AtHost),
    /// Takes the store away from under the daemon of a host; others keep it
    Unmount(AtHost),
    /// Gives the store back to the daemon of a host
    Mount(AtHost),
    /// Lets a host take part that was left out by `up --joined`
    Join(AtHost),
    /// Kills, starts or restarts a member of a site's etcd: `etcd restart b2`
    Etcd {
        /// What to do
        #[arg(value_parser = ["kill", "start", "restart"])]
        verb: String,
        /// Site and number, from 0 to 2
        member: String,
        #[command(flatten)]
        lab: Named,
    },
    /// Runs a command at a host: `exec a0 -- ping 10.51.2.1`, `exec b0 -- penstock transfer list`
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

/// Which host is meant.
#[derive(Args, Debug)]
struct AtHost {
    /// Host: a0, b1 ...
    host: String,
    #[command(flatten)]
    lab: Named,
}

/// Runs what the command line says.
pub fn run() -> ExitCode {
    match act(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error of the emulator is a pipe to `up`, which may have ended.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn act(action: Action) -> anyhow::Result<()> {
    match action {
        Action::Up(spec) => up(&spec),
        Action::Emulate(spec) => {
            // A terminal that closes does not take the lab with it. Fails for the leader of a
            // group, as from a shell: then the one who started it watches it anyway.
            let _ = rustix::process::setsid();
            emulator::run(&spec, || println!("{READY}"))
        }
        Action::Down(lab) => match Lab::find(&lab.name) {
            Ok(mut lab) => lab.down(),
            // One of hosts and networks alone, or what is left of one.
            Err(_) => {
                let _ = ask(&lab.name, "down");
                network::remove(&lab.name)
            }
        },
        Action::Show(lab) => {
            println!("{}", shown(&Lab::find(&lab.name)?));
            Ok(())
        }
        Action::Stat(lab) => tell(&lab.name, "stat"),
        Action::Set { words, lab } => tell(&lab.name, &format!("set {}", words.join(" "))),
        Action::Cut { target, carrier, lab } => {
            let carrier = if carrier { " --carrier" } else { "" };
            tell(&lab.name, &format!("cut {target}{carrier}"))
        }
        Action::Restore { target, lab } => tell(&lab.name, &format!("restore {target}")),
        Action::Partition(lab) => Lab::find(&lab.name)?.partition(true),
        Action::Heal(lab) => Lab::find(&lab.name)?.partition(false),
        Action::Kill(at) => Lab::find(&at.lab.name)?.kill_daemon(&at.host),
        Action::Start(at) => Lab::find(&at.lab.name)?.start_daemon(&at.host),
        Action::Stop(at) => Lab::find(&at.lab.name)?.stop_daemon(&at.host),
        Action::Continue(at) => Lab::find(&at.lab.name)?.continue_daemon(&at.host),
        Action::Unmount(at) => Lab::find(&at.lab.name)?.unmount(&at.host),
        Action::Mount(at) => Lab::find(&at.lab.name)?.mount(&at.host),
        Action::Join(at) => Lab::find(&at.lab.name)?.join(&at.host),
        Action::Etcd { verb, member, lab } => {
            let mut lab = Lab::find(&lab.name)?;
            if verb != "start" {
                lab.kill_member(&member)?;
            }
            if verb == "kill" { Ok(()) } else { lab.resume_member(&member) }
        }
        Action::Exec { host, lab, command } => exec(&lab.name, &host, &command),
    }
}

fn exec(name: &str, host: &str, command: &[String]) -> anyhow::Result<()> {
    let mut there = match Lab::find(name) {
        Ok(lab) => {
            let mut there = lab.inside(host, &command[0]);
            if let Some(directory) = lab.penstock.parent() {
                let path = std::env::var("PATH").unwrap_or_default();
                there.env("PATH", format!("{}:{path}", directory.display()));
            }
            there
        }
        Err(_) => {
            let mut ip = Command::new("ip");
            ip.args(["netns", "exec", &format!("{name}-{host}"), &command[0]]);
            ip
        }
    };
    Err(there.args(&command[1..]).exec()).context("start `ip`")
}

/// Starts an emulator and waits until it says that hosts and networks are there; then the daemons.
fn up(spec: &Spec) -> anyhow::Result<()> {
    if ask(&spec.name, "stat").is_ok() {
        bail!("the lab `{0}` is up already; `down --name {0}` removes it", spec.name);
    }
    let options: Vec<String> = std::env::args().skip_while(|word| word != "up").skip(1).collect();
    if !spec.bare {
        can_run().map_err(|why| anyhow::anyhow!("a lab {why}"))?;
    }
    emulate(spec, &options)?;
    if spec.bare {
        print!("{}", addresses_text(spec));
        return Ok(());
    }
    let mut lab = Lab::of(options)?;
    if let Err(error) = lab.start() {
        let _ = lab.down();
        return Err(error);
    }
    println!("{}\n\n{}", shown(&lab), next_text(&lab));
    Ok(())
}

fn emulate(spec: &Spec, options: &[String]) -> anyhow::Result<()> {
    let me = std::env::current_exe().context("find this program")?;
    // The same options once more: what stands behind `up`.
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
    if line.trim_end() != READY {
        let mut says = String::new();
        if let Some(mut errors) = emulator.stderr.take() {
            errors.read_to_string(&mut says).context("hear from the emulator")?;
        }
        network::remove(&spec.name)?;
        bail!("the emulator did not start: {}", says.trim());
    }
    Ok(())
}

/// A line for each host: its namespace and addresses.
fn addresses_text(spec: &Spec) -> String {
    let line = |(site, host)| {
        let mut text = spec.namespace(site, host);
        for network in 0..spec.networks() {
            let [v4, v6] = addresses(network, site, host);
            text += &format!(" net{network}={v4},{v6}");
        }
        text + "\n"
    };
    spec.hosts().map(line).collect()
}

/// Hosts with their daemons.
fn shown(lab: &Lab) -> String {
    let mut text = String::new();
    for site in 0..lab.sites() {
        let (name, store) = (letter(site), lab.store_of(site));
        let etcd = if lab.has_etcd(site) { "etcd" } else { "SQLite" };
        text += &format!("site {name}: {etcd}, store `{name}:data` is {}\n", store.display());
        for number in 0..lab.spec.peers_of(site) {
            let host = format!("{name}{number}");
            let daemon = lab.saved.daemons.get(&host);
            let daemon = daemon.map_or("not joined".to_owned(), |daemon| match daemon.is_there() {
                true => format!("process {}", daemon.id()),
                false => "killed".to_owned(),
            });
            let nics = (0..lab.spec.networks()).map(|network| {
                let [v4, _] = addresses(network, site, number);
                format!(" net{network}={v4}")
            });
            text += &format!("  {host}: {daemon};{}\n", nics.collect::<String>());
        }
    }
    text + &format!("logs and site directories: {}", lab.root().display())
}

/// What to type next.
fn next_text(lab: &Lab) -> String {
    let (root, penstock) = (lab.root().display(), lab.penstock.display());
    let lab_command = match lab.spec.name.as_str() {
        "lab" => "cargo xtask lab VERB".to_owned(),
        name => format!("cargo xtask lab VERB --name {name}"),
    };
    let last = format!("b{}", lab.spec.peers_of(1) - 1);
    format!(
        "Move something from site a to site b:\n  \
         export PENSTOCK_DIR={root}/b0\n  \
         {penstock} dataset make {root}/store-a/set --preset esnet --bytes 2G\n  \
         {penstock} transfer submit a:data/set b:data/ --wait\n\n\
         Meanwhile, at another terminal, break something ({lab_command}):\n  \
         kill {last}            start {last}           stop a0              continue a0\n  \
         cut {last}.net1        restore {last}.net1    set net1 loss=1%\n  \
         set {last}.net1 rate=5m                       set net2 rtt=90ms\n  \
         partition          heal               unmount {last}         mount {last}\n  \
         etcd restart b1    show               stat                 down\n\n\
         {penstock} site status says who leads."
    )
}

/// Sends a command to the emulator and prints its reply.
fn tell(name: &str, line: &str) -> anyhow::Result<()> {
    print!("{}", ask(name, line)?);
    Ok(())
}
