//! The process that moves the packets of a lab: a thread for each site and network, and the main
//! thread, which takes commands at a socket until it is told to end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::num::NonZeroU64;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::control;
use crate::link::Link;
use crate::network::{self, Network};
use crate::packet::PACKET_BYTES_MAX;
use crate::spec::{Spec, socket_path};

/// Longest wait of a link's thread: changed settings and the end are seen after it at the latest.
const WAIT_NS_MAX: u64 = 50_000_000;
/// Links this slow or slower look at their packets in steps of a twentieth of their delay, of
/// [`STEP_NS_MAX`] at most: paced senders would wake them for each packet, and cost more of the
/// machine than what is measured. A step shorter than the time between two packets saves nothing.
const STEP_DELAY_NS: u64 = 5_000_000;
const STEP_NS_MAX: u64 = 250_000;
/// Packets read from a port before others have their turn.
const BURST_PACKETS: usize = 16;
/// Longest command line that is read.
const COMMAND_BYTES_MAX: u64 = 4096;
/// How long a client may take to say its command.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(5);

/// Builds hosts and networks, calls `ready`, and runs them until the command `down`.
///
/// # Errors
/// They cannot be built, or a link's thread has failed.
pub(crate) fn run(spec: &Spec, ready: impl FnOnce()) -> anyhow::Result<()> {
    let networks = network::build(spec)?;
    let path = socket_path(&spec.name);
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("listen at {path}"))?;
    let (stop, begun) = (AtomicBool::new(false), Instant::now());
    std::thread::scope(|scope| {
        for (number, network) in networks.iter().enumerate() {
            for site in 0..network.directions.len() {
                let stop = Stop { flag: &stop, socket: &path };
                let seed = (number * network.directions.len() + site) as u64 + 1;
                let link = Link::new(
                    &network.directions[site],
                    &network.ports,
                    spec.ring_bytes(number),
                    seed,
                );
                scope.spawn(move || move_packets(network, site, link, begun, &stop));
            }
        }
        ready();
        for client in listener.incoming().flatten() {
            if stop.load(Relaxed) {
                break;
            }
            if !answer(spec, &networks, client) {
                stop.store(true, Relaxed);
                break;
            }
        }
    });
    std::fs::remove_file(&path).with_context(|| format!("remove {path}"))
}

/// Held by every link's thread: when one ends, even by a panic, the whole lab does, rather than
/// go on with a dead direction.
struct Stop<'a> {
    flag: &'a AtomicBool,
    socket: &'a str,
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        if !self.flag.swap(true, Relaxed) {
            // Wakes the main thread.
            let _ = UnixStream::connect(self.socket);
        }
    }
}

/// Takes one command and answers it; false if it was the last one.
fn answer(spec: &Spec, networks: &[Network], mut client: UnixStream) -> bool {
    let mut line = String::new();
    let heard = client
        .set_read_timeout(Some(COMMAND_TIME_MAX))
        .and_then(|()| BufReader::new(&client).take(COMMAND_BYTES_MAX).read_line(&mut line));
    if heard.is_err() {
        return true;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let down = words == ["down"];
    let reply = if down { Ok(String::new()) } else { control::handle(spec, networks, &words) };
    let reply = reply.unwrap_or_else(|error| format!("{}{error:#}\n", control::ERROR));
    // A client that is gone does not want it.
    let _ = client.write_all(reply.as_bytes());
    !down
}

/// Moves packets from the ports of one site to those of the others, until the lab ends.
fn move_packets(
    network: &Network,
    site: usize,
    mut link: Link<'_>,
    begun: Instant,
    stop: &Stop<'_>,
) {
    let now_ns = || begun.elapsed().as_nanos() as u64;
    // Else the kernel may wake this thread 50 us late. Without, delays are a little longer.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let ours: Vec<usize> =
        (0..network.ports.len()).filter(|&port| network.ports[port].site == site).collect();
    let mut waste = vec![0; PACKET_BYTES_MAX];
    let mut fds: Vec<PollFd<'_>> =
        ours.iter().map(|&port| PollFd::new(&network.ports[port].device, PollFlags::IN)).collect();
    let mut more = false;
    while !stop.flag.load(Relaxed) {
        let delay_ns = network.directions[site].delay_ns.load(Relaxed);
        if delay_ns >= STEP_DELAY_NS && !more {
            std::thread::sleep(Duration::from_nanos((delay_ns / 20).min(STEP_NS_MAX)));
        }
        more = false;
        link.refresh();
        let due_ns = link.deliver(now_ns());
        let wait = due_ns.map_or(WAIT_NS_MAX, |due| due.saturating_sub(now_ns()).min(WAIT_NS_MAX));
        let wait = Timespec { tv_sec: 0, tv_nsec: wait as i64 };
        // Interrupted or not: the ports that are ready say so themselves.
        let _ = rustix::event::poll(&mut fds, Some(&wait));
        for (fd, &port) in fds.iter().zip(&ours) {
            if fd.revents().is_empty() {
                continue;
            }
            for packet in 1..=BURST_PACKETS {
                let device = &network.ports[port].device;
                let Some(room) = link.room() else {
                    if rustix::io::read(device, &mut waste[..]).is_err() {
                        break;
                    }
                    network.directions[site].dropped.fetch_add(1, Relaxed);
                    continue;
                };
                let Ok(length) = rustix::io::read(device, room) else { break };
                more |= packet == BURST_PACKETS;
                link.handle_packet(now_ns(), length, port);
            }
        }
    }
}
