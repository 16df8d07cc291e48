//! The queues in which packets wait to be sent, as tc(8) shows them.

use std::collections::BTreeMap;
use std::io;

use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

/// `NETLINK_ROUTE`, which is 0, as if no protocol were named.
const NETLINK_ROUTE: Option<Protocol> = None;
/// `RTM_NEWQDISC` and `RTM_GETQDISC` of `<linux/rtnetlink.h>`.
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
/// `NLMSG_DONE` and `NLMSG_ERROR` of netlink(7).
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 0x301;
/// Bytes of `struct nlmsghdr` and of `struct tcmsg`.
const HEADER_BYTES: usize = 16;
const QDISC_BYTES: usize = 20;
/// `TCA_KIND` and `TCA_OPTIONS`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `TCA_FQ_FLOW_MAX_RATE` of `<linux/pkt_sched.h>`: bytes a second, all bits set for no limit.
const FLOW_MAX_RATE: u16 = 7;
/// Marks in the type of an attribute that are no part of its number (`NLA_TYPE_MASK`).
const TYPE_MASK: u16 = 0x3fff;
/// Disciplines that hold no packets: they name others, or nothing is queued at all.
const CONTAINERS: [&str; 5] = ["mq", "mqprio", "noqueue", "ingress", "clsact"];
/// Messages of a dump are at most so long (netlink(7) advises 8 KiB; newer kernels send 32 KiB).
const BUFFER_BYTES: usize = 64 * 1024;

/// A queue of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueDiscipline {
    /// Its kind: `fq`, `fq_codel`, `pfifo_fast`, ….
    pub kind: String,
    /// Most bytes a second that `fq` lets each flow send; `None` if there is no limit.
    pub flow_bytes_per_s_max: Option<u64>,
}

/// Returns the queues of each interface of this network namespace, by its number, without those
/// that only hold others. Does not block.
///
/// # Errors
/// The kernel's; a sandbox may forbid `AF_NETLINK`.
pub(super) fn queue_disciplines() -> io::Result<BTreeMap<u32, Vec<QueueDiscipline>>> {
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, NETLINK_ROUTE)?;
    let mut request = Vec::with_capacity(HEADER_BYTES + QDISC_BYTES);
    request.extend(((HEADER_BYTES + QDISC_BYTES) as u32).to_ne_bytes());
    request.extend(GET_QDISC.to_ne_bytes());
    request.extend(REQUEST_ALL.to_ne_bytes());
    request.resize(HEADER_BYTES + QDISC_BYTES, 0);
    send(&socket, &request, SendFlags::empty())?;
    let (mut found, mut buffer) = (BTreeMap::new(), vec![0; BUFFER_BYTES]);
    loop {
        // The kernel answers within the call that asks, so there is nothing to wait for.
        let (length, _) = recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        if length == 0 || !parse(&buffer[..length.min(BUFFER_BYTES)], &mut found)? {
            return Ok(found);
        }
    }
}

/// Adds the queues of a datagram of netlink. Returns `false` after the last one.
fn parse(mut datagram: &[u8], found: &mut BTreeMap<u32, Vec<QueueDiscipline>>) -> io::Result<bool> {
    while datagram.len() >= HEADER_BYTES {
        let length = u32_at(datagram, 0) as usize;
        if length < HEADER_BYTES || length > datagram.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (message, kind) = (&datagram[HEADER_BYTES..length], u16_at(datagram, 4));
        match kind {
            DONE => return Ok(false),
            ERROR if message.len() >= 4 => {
                let error = u32_at(message, 0).cast_signed();
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            NEW_QDISC if message.len() >= QDISC_BYTES => {
                let index = u32_at(message, 4);
                let queue = discipline(&message[QDISC_BYTES..]);
                if let Some(queue) = queue.filter(|it| !CONTAINERS.contains(&it.kind.as_str())) {
                    found.entry(index).or_default().push(queue);
                }
            }
            _ => {}
        }
        datagram = datagram.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// Reads the attributes of a queue.
fn discipline(attributes: &[u8]) -> Option<QueueDiscipline> {
    let (mut kind, mut rate) = (None, None);
    for (number, value) in attributes_of(attributes) {
        match number {
            KIND => kind = Some(String::from_utf8_lossy(value.trim_ascii_end()).into_owned()),
            OPTIONS => {
                let limit = attributes_of(value).into_iter().find(|it| it.0 == FLOW_MAX_RATE);
                rate = limit.filter(|(_, value)| value.len() >= 4).map(|it| u32_at(it.1, 0));
            }
            _ => {}
        }
    }
    let kind = kind?.trim_end_matches('\0').to_owned();
    let rate = rate.filter(|rate| kind == "fq" && *rate != u32::MAX && *rate > 0).map(u64::from);
    Some(QueueDiscipline { kind, flow_bytes_per_s_max: rate })
}

/// Splits attributes of netlink into numbers and values; stops at one that is damaged.
fn attributes_of(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut attributes = Vec::new();
    while bytes.len() >= 4 {
        let length = usize::from(u16_at(bytes, 0));
        let Some(value) = bytes.get(4..length) else { break };
        attributes.push((u16_at(bytes, 2) & TYPE_MASK, value));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    attributes
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(number: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(number.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: u16, index: u32, attributes: &[u8]) -> Vec<u8> {
        let length = HEADER_BYTES + QDISC_BYTES + attributes.len();
        let mut bytes = (length as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER_BYTES + 4, 0);
        bytes.extend(index.to_ne_bytes());
        bytes.resize(HEADER_BYTES + QDISC_BYTES, 0);
        bytes.extend(attributes);
        bytes
    }

    fn queue(kind: &str, rate: Option<u64>) -> QueueDiscipline {
        QueueDiscipline { kind: kind.to_owned(), flow_bytes_per_s_max: rate }
    }

    /// Promise: the queues below `mq` count and `mq` does not, the limit of `fq` is read with and
    /// without one, and the end of the list is seen.
    #[test]
    fn queues_are_read() {
        let fq = |rate: u32| {
            let options = attribute(FLOW_MAX_RATE, &rate.to_ne_bytes());
            [attribute(KIND, b"fq\0"), attribute(OPTIONS | 0x8000, &options)].concat()
        };
        let datagram = [
            message(NEW_QDISC, 4, &attribute(KIND, b"mq\0")),
            message(NEW_QDISC, 4, &fq(250_000_000)),
            message(NEW_QDISC, 4, &fq(u32::MAX)),
            message(NEW_QDISC, 1, &attribute(KIND, b"noqueue\0")),
            message(NEW_QDISC, 2, &attribute(KIND, b"pfifo_fast\0")),
        ]
        .concat();
        let mut found = BTreeMap::new();
        assert!(parse(&datagram, &mut found).unwrap());
        assert!(!parse(&message(DONE, 0, &[]), &mut found).unwrap());
        let fqs = vec![queue("fq", Some(250_000_000)), queue("fq", None)];
        assert_eq!(found, BTreeMap::from([(2, vec![queue("pfifo_fast", None)]), (4, fqs)]));
    }

    /// Promise: a datagram that is damaged, or an error of the kernel, is an error and nothing is
    /// read beyond its end.
    #[test]
    fn damage_is_an_error() {
        let whole = message(NEW_QDISC, 2, &attribute(KIND, b"fq\0"));
        for length in 0..whole.len() {
            let _ = parse(&whole[..length], &mut BTreeMap::new());
        }
        let cut = parse(&whole[..whole.len() - 1], &mut BTreeMap::new());
        assert_eq!(cut.unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut refused = message(ERROR, 0, &[]);
        refused[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&(-1i32).to_ne_bytes());
        let error = parse(&refused, &mut BTreeMap::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    /// Promise: this kernel lists its queues.
    #[test]
    fn the_kernel_lists_its_queues() {
        let queues = queue_disciplines().unwrap();
        assert!(queues.values().flatten().all(|queue| !queue.kind.is_empty()), "{queues:?}");
    }
}
