//! Packets as a TUN device hands them over: a virtio-net header, then IPv4 or IPv6.
//!
//! TCP and UDP come as *super-packets* of up to 64 KiB, which the sender's kernel left to be cut
//! into segments, with checksums left partial. They pass the lab whole; where a segment of one is
//! lost, [`slice()`] makes what is left and right of it into super-packets of their own.
//!
//! Source: virtio 1.2, section 5.1.6; `include/uapi/linux/virtio_net.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the virtio-net header in front of every packet.
pub(crate) const VNET_BYTES: usize = 10;
/// Most bytes of a packet with its header, and some to spare.
pub(crate) const PACKET_BYTES_MAX: usize = 65_536 + 64;
/// Preamble, Ethernet header, check sequence and gap: what a frame costs on a real wire beyond
/// its IP packet.
const FRAMING_BYTES: usize = 38;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP: u8 = 5;
/// Set beside a kind where the segments carry ECN.
const GSO_ECN: u8 = 0x80;

const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;

const TCP_FIN_PSH: u8 = 0x09;
const TCP_CWR: u8 = 0x80;

/// What the lab needs to know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Where it goes.
    pub(crate) target: IpAddr,
    /// Bytes of the IP and transport headers; 0 where the checksum is not partial, as then the
    /// lab must not touch it.
    pub(crate) header_bytes: usize,
    /// Payload bytes of each segment; 0 where the packet is not a super-packet.
    pub(crate) segment_bytes: usize,
    /// Segments it will be cut into.
    pub(crate) segments: usize,
    /// Bytes on the emulated wire: headers for every segment, and framing.
    pub(crate) wire_bytes: usize,
}

/// Reads a packet with its virtio-net header; none if it is neither IPv4 nor IPv6, or cut short.
pub(crate) fn parse(bytes: &[u8]) -> Option<Packet> {
    let ip = bytes.get(VNET_BYTES..)?;
    let target = match ip.first()? >> 4 {
        4 => IpAddr::V4(Ipv4Addr::from(array::<4>(ip.get(16..20)?)?)),
        6 => IpAddr::V6(Ipv6Addr::from(array::<16>(ip.get(24..40)?)?)),
        _ => return None,
    };
    let header_bytes = header_bytes(bytes).unwrap_or(0);
    let segment_bytes = usize::from(u16::from_ne_bytes(array(&bytes[4..6])?));
    let kind = bytes[1] & !GSO_ECN;
    if matches!(kind, GSO_TCP_V4 | GSO_TCP_V6 | GSO_UDP) && segment_bytes > 0 && header_bytes > 0 {
        let payload = ip.len() - header_bytes;
        let segments = payload.div_ceil(segment_bytes).max(1);
        let wire_bytes = payload + segments * (header_bytes + FRAMING_BYTES);
        return Some(Packet { target, header_bytes, segment_bytes, segments, wire_bytes });
    }
    let wire_bytes = ip.len() + FRAMING_BYTES;
    Some(Packet { target, header_bytes, segment_bytes: 0, segments: 1, wire_bytes })
}

/// Bytes of the IP and transport headers of a packet with a partial checksum.
fn header_bytes(bytes: &[u8]) -> Option<usize> {
    if bytes[0] & FLAG_NEEDS_CHECKSUM == 0 {
        return None;
    }
    let transport = transport_offset(bytes);
    let ip = &bytes[VNET_BYTES..];
    let length = match u16::from_ne_bytes(array(&bytes[8..10])?) {
        16 => usize::from(ip.get(transport + 12)? >> 4) * 4,
        6 => 8,
        _ => return None,
    };
    Some(transport + length).filter(|&header| header >= 28 && header <= ip.len())
}

/// Where the transport header begins in the IP packet: where its checksum is computed from.
fn transport_offset(bytes: &[u8]) -> usize {
    usize::from(u16::from_ne_bytes([bytes[6], bytes[7]]))
}

fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

/// Makes the segments `first..end` of the super-packet `bytes` into a packet of their own, in
/// `out`, with headers as if the sender's kernel had made it.
///
/// `packet` must be what [`parse`] gave for `bytes`, with `segment_bytes` above 0.
pub(crate) fn slice(bytes: &[u8], packet: &Packet, first: usize, end: usize, out: &mut Vec<u8>) {
    let header = packet.header_bytes;
    let payload = &bytes[VNET_BYTES + header..];
    let (from, to) =
        (first * packet.segment_bytes, (end * packet.segment_bytes).min(payload.len()));
    out.clear();
    out.extend_from_slice(&bytes[..VNET_BYTES + header]);
    out.extend_from_slice(&payload[from..to]);
    let length = to - from;
    if length <= packet.segment_bytes {
        out[1] = GSO_NONE;
        out[4..6].fill(0);
    }
    let transport = transport_offset(bytes);
    let is_udp = bytes[1] & !GSO_ECN == GSO_UDP;
    let headers = &mut out[VNET_BYTES..VNET_BYTES + header];
    let (ip, rest) = headers.split_at_mut(transport);
    let transport_bytes = (header - transport + length) as u16;
    let sum = write_ip_header(ip, transport_bytes, first, is_udp);
    if is_udp {
        rest[4..6].copy_from_slice(&transport_bytes.to_be_bytes());
        rest[6..8].copy_from_slice(&sum.to_be_bytes());
        return;
    }
    let sequence = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
    rest[4..8].copy_from_slice(&sequence.wrapping_add(from as u32).to_be_bytes());
    if to < payload.len() {
        rest[13] &= !TCP_FIN_PSH; // They belong to the last segment.
    }
    if first > 0 {
        rest[13] &= !TCP_CWR; // It belongs to the first.
    }
    rest[16..18].copy_from_slice(&sum.to_be_bytes());
}

/// Corrects lengths, number and checksum of an IP header; gives the partial checksum that belongs
/// into the transport header: the sum, not inverted, of the pseudo header.
fn write_ip_header(ip: &mut [u8], transport_bytes: u16, first: usize, is_udp: bool) -> u16 {
    let protocol = u32::from(if is_udp { IPPROTO_UDP } else { IPPROTO_TCP });
    let base = protocol + u32::from(transport_bytes);
    if ip[0] >> 4 == 6 {
        let payload = ip.len() as u16 - 40 + transport_bytes;
        ip[4..6].copy_from_slice(&payload.to_be_bytes());
        return fold(base + sum(&ip[8..40]));
    }
    let total = ip.len() as u16 + transport_bytes;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    let number = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
    ip[4..6].copy_from_slice(&number.to_be_bytes());
    ip[10..12].fill(0);
    let checksum = !fold(sum(ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    fold(base + sum(&ip[12..20]))
}

/// The sum of big-endian words that Internet checksums are made of, not folded yet.
fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP super-packet with all the flags that only one segment may carry.
    fn packet(version: u8, payload: usize, segment_bytes: u16) -> Vec<u8> {
        let transport = if version == 4 { 20 } else { 40 };
        let mut bytes = vec![0u8; VNET_BYTES + transport + 20 + payload];
        bytes[0] = FLAG_NEEDS_CHECKSUM;
        bytes[1] = if version == 4 { GSO_TCP_V4 } else { GSO_TCP_V6 };
        bytes[4..6].copy_from_slice(&segment_bytes.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(transport as u16).to_ne_bytes());
        bytes[8..10].copy_from_slice(&16u16.to_ne_bytes());
        let ip = &mut bytes[VNET_BYTES..];
        if version == 4 {
            ip[0] = 0x45;
            ip[9] = IPPROTO_TCP;
            ip[12..20].copy_from_slice(&[10, 50, 1, 1, 10, 50, 2, 1]);
        } else {
            ip[0] = 0x60;
            ip[6] = IPPROTO_TCP;
            (ip[8], ip[23], ip[24], ip[39]) = (0xfd, 1, 0xfd, 2);
        }
        let tcp = &mut ip[transport..];
        tcp[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        tcp[12] = 0x50;
        tcp[13] = 0x99; // CWR, ACK, PSH, FIN
        for (at, byte) in tcp[20..].iter_mut().enumerate() {
            *byte = at as u8;
        }
        bytes
    }

    /// Promise: what is left of a super-packet around a lost segment has the lengths, sequence
    /// numbers, flags and sums that the sender's kernel would have given it, so that a receiver
    /// sees a loss and nothing else. Checksums stay partial: nobody else would notice.
    #[test]
    fn slices_carry_headers_of_their_own() {
        let bytes = packet(4, 2500, 1000);
        let whole = parse(&bytes).unwrap();
        assert_eq!((whole.segments, whole.header_bytes, whole.segment_bytes), (3, 40, 1000));
        assert_eq!(whole.target, IpAddr::from([10, 50, 2, 1]));
        assert_eq!(whole.wire_bytes, 2500 + 3 * (40 + 38));
        let mut out = Vec::new();
        slice(&bytes, &whole, 1, 3, &mut out);
        let ip = &out[VNET_BYTES..];
        assert_eq!(out.len(), VNET_BYTES + 40 + 1500);
        assert_eq!(ip[2..4], 1540u16.to_be_bytes());
        assert_eq!(ip[4..6], 1u16.to_be_bytes());
        assert_eq!(fold(sum(&ip[..20])), 0xffff);
        assert_eq!(ip[24..28], 999u32.to_be_bytes(), "the sequence number wraps");
        assert_eq!(ip[33], 0x19, "no CWR");
        let pseudo = sum(&ip[12..20]) + u32::from(IPPROTO_TCP) + 1520;
        assert_eq!(ip[36..38], fold(pseudo).to_be_bytes());
        assert_eq!((ip[40], out[1]), (1000u32 as u8, GSO_TCP_V4));
        slice(&bytes, &whole, 0, 1, &mut out);
        assert_eq!(
            (out[1], out[VNET_BYTES + 33], out.len()),
            (GSO_NONE, 0x90, VNET_BYTES + 1040),
            "one segment is no super-packet, and neither FIN nor PSH are its"
        );
        assert_eq!(parse(&out).unwrap().segments, 1);
    }

    /// Promise: as above, over IPv6.
    #[test]
    fn slices_of_ipv6_too() {
        let bytes = packet(6, 2500, 1000);
        let whole = parse(&bytes).unwrap();
        assert_eq!((whole.segments, whole.header_bytes), (3, 60));
        let mut out = Vec::new();
        slice(&bytes, &whole, 2, 3, &mut out);
        let ip = &out[VNET_BYTES..];
        assert_eq!(ip[4..6], 520u16.to_be_bytes());
        assert_eq!(ip[44..48], 1999u32.to_be_bytes());
        let pseudo = sum(&ip[8..40]) + u32::from(IPPROTO_TCP) + 520;
        assert_eq!(ip[56..58], fold(pseudo).to_be_bytes());
        assert_eq!((ip[60], out[1]), (2000u32 as u8, GSO_NONE));
    }

    /// Promise: a packet that is cut short or of another kind is no reason to fall over.
    #[test]
    fn short_packets_are_refused() {
        let bytes = packet(4, 100, 50);
        for length in 0..bytes.len() {
            let _ = parse(&bytes[..length]);
        }
        assert_eq!(parse(&[0; VNET_BYTES + 40]), None);
    }
}
