//! A conversation of two hosts (docs/protocol.md, 15.1): hostile bytes end it, or are messages, the
//! same ones in whatever parts they arrive; and two sides whose connections break between any two
//! bytes hear everything once and in order.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_proto::session::Session;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    if how == 0 {
        converse(bytes);
    } else {
        listen(usize::from(how), bytes);
    }
});

/// What arrives at once, and in parts.
fn listen(part: usize, bytes: &[u8]) {
    let mut whole = Session::default();
    whole.push(vec![1; 5]);
    let at_once = whole.handle_input(bytes);
    let mut session = Session::default();
    session.push(vec![1; 5]);
    let mut messages = Vec::new();
    for part in bytes.chunks(part) {
        match session.handle_input(part) {
            Ok(more) => messages.extend(more),
            Err(error) => return assert_eq!(at_once, Err(error)),
        }
    }
    assert_eq!(session.heard(), messages.len() as u64);
    assert!(messages.iter().map(Vec::len).sum::<usize>() <= bytes.len());
    assert_eq!(at_once, Ok(messages));
}

/// Two sides do what the bytes say.
fn converse(steps: &[u8]) {
    let mut sides = [Session::default(), Session::default()];
    let mut wires: [Vec<u8>; 2] = Default::default();
    let (mut said, mut got) = ([0u32; 2], [0u32; 2]);
    for step in steps {
        let (side, amount) = (usize::from(step & 1), usize::from(step >> 3));
        match step >> 1 & 3 {
            0 => {
                said[side] += 1;
                let mut message = said[side].to_le_bytes().to_vec();
                message.resize(4 + amount, 7);
                sides[side].push(message);
            }
            1 => wires[side].extend(sides[side].poll_output(amount % 2 == 0).unwrap_or_default()),
            2 => {
                let taken = wires[side].len().min(amount * 3);
                let bytes: Vec<u8> = wires[side].drain(..taken).collect();
                for message in sides[1 - side].handle_input(&bytes).unwrap() {
                    got[1 - side] += 1;
                    assert_eq!(message[..4], got[1 - side].to_le_bytes());
                }
            }
            _ => {
                wires = Default::default();
                let heard = [sides[0].heard(), sides[1].heard()];
                sides[0].connect(heard[1]).unwrap();
                sides[1].connect(heard[0]).unwrap();
            }
        }
        assert!(got[0] <= said[1] && got[1] <= said[0]);
    }
}
