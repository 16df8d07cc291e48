//! Bytes that each network card received and sent.

use std::fs;
use std::io;
use std::path::Path;

/// Position of the bytes sent among the figures of a line of `/proc/net/dev`.
const SENT_FIELD: usize = 8;

/// Bytes of one network card since it came up, headers of the link included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardCounters {
    /// Name of the interface.
    pub device: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// The loop-back interface, over which nothing leaves the host.
pub const LOOPBACK: &str = "lo";

/// Returns the counters of all cards in the network namespace of the calling thread, the loop-back
/// included, in the kernel's order.
///
/// # Errors
/// `/proc` is not mounted.
pub fn card_counters() -> io::Result<Vec<CardCounters>> {
    Ok(parse_card_counters(&fs::read_to_string("/proc/thread-self/net/dev")?))
}

/// Returns whether an interface is a card of hardware, also of a virtual machine: the kernel links
/// it to its device (`/sys/class/net/NAME/device`, sysfs(5)). Bonds, VLANs, bridges and the ends of
/// containers have no device.
#[must_use]
pub fn is_hardware_card(device: &str) -> bool {
    Path::new("/sys/class/net").join(device).join("device").exists()
}

/// Reads a text of `/proc/net/dev` (proc_pid_net(5)). An invalid line is left out.
fn parse_card_counters(text: &str) -> Vec<CardCounters> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<CardCounters> {
    // A name may have a colon, as that of an alias; the figures have none.
    let (device, figures) = line.rsplit_once(':')?;
    let figures: Vec<u64> =
        figures.split_ascii_whitespace().map_while(|figure| figure.parse().ok()).collect();
    Some(CardCounters {
        device: device.trim().to_owned(),
        received_bytes: *figures.first()?,
        sent_bytes: *figures.get(SENT_FIELD)?,
    })
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "what a test skips")]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    const RECORDED: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo
    lo: 1310720    9000    0    0    0     0          0         0  1310720    9000    0    0    0
  eth0:98765432101 7000    1    2    0     0          0         5  12345678    6000    0    0    0
eth0:1:     500       5    0    0    0     0          0         0      700       7    0    0    0
  bad0: 1 2 3
";

    /// Promise: the counters of each card are read, also where no space parts name and figure.
    #[test]
    fn cards_are_read() {
        let cards = parse_card_counters(RECORDED);
        let figures: Vec<_> = cards
            .iter()
            .map(|card| (card.device.as_str(), card.received_bytes, card.sent_bytes))
            .collect();
        let wanted = [
            ("lo", 1_310_720, 1_310_720),
            ("eth0", 98_765_432_101, 12_345_678),
            ("eth0:1", 500, 700),
        ];
        assert_eq!(figures, wanted);
    }

    /// Promise: the loop-back and invalid names have no hardware.
    #[test]
    fn the_loopback_is_no_hardware() {
        assert!(!is_hardware_card("lo"));
        assert!(!is_hardware_card("eth0:1 is none"));
    }

    /// Promise (kernel cross-check, within 1 %): the counters of an otherwise unused card grow by
    /// the known number of bytes that pass over it.
    #[test]
    fn bytes_over_a_card_are_counted() {
        const BYTES: usize = 64 << 20;
        let grown = std::thread::spawn(|| {
            // SAFETY: the call changes the namespace of this thread alone, which ends soon; it has
            // no argument that points to memory.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                println!("SKIPPED: a network namespace needs root");
                return None;
            }
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
            if !up.is_ok_and(|status| status.success()) {
                println!("SKIPPED: `ip` of iproute2 is needed");
                return None;
            }
            let lo = || card_counters().unwrap().into_iter().find(|card| card.device == "lo");
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut receiver, _) = listener.accept().unwrap();
            let before = lo().unwrap();
            let sending = std::thread::spawn(move || sender.write_all(&vec![7; BYTES]).unwrap());
            let mut buffer = vec![0; 1 << 20];
            while receiver.read(&mut buffer).unwrap() > 0 {}
            sending.join().unwrap();
            let after = lo().unwrap();
            Some((
                after.received_bytes - before.received_bytes,
                after.sent_bytes - before.sent_bytes,
            ))
        });
        let Some((received, sent)) = grown.join().unwrap() else { return };
        for grown in [received, sent] {
            let more = grown as f64 / BYTES as f64 - 1.0;
            assert!((0.0..0.01).contains(&more), "{grown} of {BYTES} bytes");
        }
    }
}
