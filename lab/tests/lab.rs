//! A real lab on this machine: namespaces, devices, packets. Needs root, iproute2, /dev/net/tun.
// What is skipped is told to whoever reads the test's output.
#![allow(clippy::print_stderr, reason = "what is skipped must be seen")]

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

const RTT: Duration = Duration::from_millis(40);
/// What a machine that is busy, or stands still, may add to a round trip.
const SLACK: Duration = Duration::from_secs(20);

/// A lab that is taken down at the end, whatever happens.
struct Lab {
    name: String,
}

impl Lab {
    fn up(test: &str, options: &[&str]) -> Self {
        let lab = Self { name: format!("{test}{}", std::process::id()) };
        let output = lab.run("up", &[&["--bare"], options].concat());
        assert!(output.status.success(), "{output:?}");
        lab
    }

    fn run(&self, verb: &str, options: &[&str]) -> Output {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_penstock-lab"));
        lab.args([verb, "--name", &self.name]).args(options).output().unwrap()
    }

    fn ok(&self, verb: &str, options: &[&str]) -> String {
        let output = self.run(verb, options);
        assert!(output.status.success(), "{verb} {options:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `work` on a thread inside the namespace of a host.
    fn at<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let path = format!("/run/netns/{}-{host}", self.name);
        std::thread::scope(|scope| {
            let there = scope.spawn(move || {
                let namespace = std::fs::File::open(path).unwrap();
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), network).unwrap();
                work()
            });
            there.join().unwrap()
        })
    }

    /// A counter of what site a sends into the first network.
    fn counter(&self, name: &str) -> u64 {
        let text = self.ok("stat", &[]);
        let line = text.lines().find(|line| line.starts_with("net0 from=a")).unwrap();
        let word = line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap();
        word.strip_prefix('=').unwrap().parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.run("down", &[]);
    }
}

/// Whether the test can run here; says loudly if not.
fn can_run(test: &str) -> bool {
    let able =
        rustix::process::geteuid().is_root() && std::path::Path::new("/dev/net/tun").exists();
    if !able {
        eprintln!("SKIPPED: {test} needs root and /dev/net/tun");
    }
    able
}

/// A datagram to the echo at `address` and back; none if it does not come back within `patience`.
fn round_trip(
    socket: &UdpSocket,
    number: u8,
    address: SocketAddr,
    patience: Duration,
) -> Option<Duration> {
    socket.set_read_timeout(Some(patience)).unwrap();
    let (begun, mut answer) = (Instant::now(), [0; 2]);
    socket.send_to(&[number], address).unwrap();
    // An answer to an earlier one counts for nothing.
    while begun.elapsed() < patience {
        if let Ok(1) = socket.recv(&mut answer)
            && answer[0] == number
        {
            return Some(begun.elapsed());
        }
    }
    None
}

/// Promise: packets between sites take the round trip that was asked for, over IPv4 and IPv6;
/// those of a network, a direction or an interface that is cut do not come, and come again once
/// it is restored; a network that is not cut goes on; `down` leaves nothing behind.
#[test]
fn a_lab_delays_cuts_and_restores() {
    if !can_run("a_lab_delays_cuts_and_restores") {
        return;
    }
    let lab = Lab::up("t-delay-", &["--nics", "2", "--rtt", "40ms"]);
    let echoes = lab.at("b0", || UdpSocket::bind("[::]:7").unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 2];
        while let Ok((length, from)) = echoes.recv_from(&mut bytes) {
            let _ = echoes.send_to(&bytes[..length], from);
        }
    });
    let addresses: [IpAddr; 2] = ["10.50.2.1".parse().unwrap(), "fd50::2:1".parse().unwrap()];
    let second: IpAddr = "10.51.2.1".parse().unwrap();
    let socket = lab.at("a0", || UdpSocket::bind("[::]:0").unwrap());
    let mut number = 0;
    let mut reach = |address: IpAddr, patience: Duration| {
        number += 1;
        let mapped = match address {
            IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
            IpAddr::V6(_) => address,
        };
        round_trip(&socket, number, SocketAddr::new(mapped, 7), patience)
    };
    for address in addresses {
        let took = reach(address, RTT + SLACK).expect("no answer");
        assert!(took >= RTT, "{took:?} from {address}");
    }
    let [first, _] = addresses;
    for target in ["net0", "net0:ab", "net0:ba", "a0.net0", "b0.net0"] {
        lab.ok("cut", &[target]);
        assert_eq!(reach(first, 3 * RTT), None, "{target} is cut");
        assert!(reach(second, RTT + SLACK).is_some(), "{target} is cut, not net1");
        lab.ok("restore", &[target]);
        assert!(reach(first, RTT + SLACK).is_some(), "{target} is restored");
    }
    lab.ok("set", &["b0.net0", "rtt=60ms"]);
    let took = reach(first, RTT + RTT + SLACK).expect("no answer");
    assert!(took >= RTT + RTT, "{took:?} to an interface of 60 ms more");
    lab.ok("set", &["b0.net0", "loss=100%"]);
    assert_eq!(reach(first, 4 * RTT), None, "all is lost at b0.net0");
    assert!(reach(second, RTT + SLACK).is_some(), "not at net1");
    assert!(!lab.run("cut", &["net7"]).status.success());
    assert!(!lab.run("cut", &["net0:ac"]).status.success());
    let name = lab.name.clone();
    drop(lab);
    let left = std::fs::read_dir("/run/netns").unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().contains(&name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Promise: with one segment in fifty lost and a queue that is too short, TCP still delivers what
/// was sent, byte for byte, though the lab cuts super-packets apart and checksums stay partial, so
/// that TCP would not notice what the lab itself damages; and the shaper holds its rate.
#[test]
fn lossy_links_damage_nothing() {
    if !can_run("lossy_links_damage_nothing") {
        return;
    }
    const BYTES: usize = 24 << 20;
    let shape = ["--rtt", "2ms", "--rate", "400m", "--loss", "2%", "--buffer", "100k"];
    let lab = Lab::up("t-loss-", &shape);
    let data: Vec<u8> = (0..BYTES as u64 / 8).flat_map(u64::to_le_bytes).collect();
    let listener = lab.at("b0", || TcpListener::bind("10.50.2.1:7000").unwrap());
    let begun = Instant::now();
    let received = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut received = Vec::with_capacity(BYTES);
            listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
            received
        });
        lab.at("a0", || {
            TcpStream::connect("10.50.2.1:7000").unwrap().write_all(&data).unwrap();
        });
        receiver.join().unwrap()
    });
    let least = Duration::from_secs_f64(BYTES as f64 * 8.0 / 400e6);
    assert!(begun.elapsed() > least, "faster than the link");
    assert!(received == data, "the lab has damaged data");
    assert!(lab.counter("lost") > 100, "{}", lab.ok("stat", &[]));
    lab.ok("set", &["net0", "loss=0", "rate=0", "rtt=10ms"]);
    assert!(lab.ok("stat", &[]).contains("rtt_ms=10.000"));
}
