//! A conversation of two hosts that outlives its connections (docs/protocol.md, 15.1).
//!
//! Each side numbers its messages from 1, keeps each until the other has received it, and
//! acknowledges received messages with everything it sends. When a connection breaks, the next one
//! begins with the number of the last message that each side has received; the rest is sent again.
//! Every message therefore arrives once, in order, or the conversation ends.

use std::collections::VecDeque;

use crate::wire::{DecodeError, Reader, Writer};

/// Longest message: an encoded page and its accompanying fields.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Bytes before each message: its length, its number, the acknowledgement.
const HEAD_BYTES: usize = 4 + 8 + 8;
/// Bytes that are handed to a connection at a time, about.
const BATCH_BYTES: usize = 256 << 10;

/// Endpoint of a conversation, on one side.
#[derive(Debug, Default)]
pub struct Session {
    /// Messages that the other side may not have received, oldest first.
    kept: VecDeque<Vec<u8>>,
    /// Number of the first of these, less one: all up to it were received.
    told: u64,
    /// Number of messages in `kept` that were sent over this connection.
    sent: usize,
    /// Number of the last message of the other side.
    heard: u64,
    /// The part of `heard` that the other side knows.
    heard_told: u64,
    /// The beginning of a message that is incomplete.
    partial: Vec<u8>,
}

impl Session {
    /// Adds a message.
    pub fn push(&mut self, message: Vec<u8>) {
        self.kept.push_back(message);
    }

    /// Returns the number of the last message received from the other side, for the beginning of a
    /// connection.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Starts a connection whose other side has received messages up to this number.
    ///
    /// # Errors
    /// `Invalid`: the number is of another conversation.
    pub fn connect(&mut self, heard: u64) -> Result<(), DecodeError> {
        self.partial.clear();
        self.sent = 0;
        self.heard_told = self.heard;
        self.handle_heard(heard)
    }

    fn handle_heard(&mut self, heard: u64) -> Result<(), DecodeError> {
        let news = heard.checked_sub(self.told).map(|news| news as usize);
        let Some(news) = news else { return Ok(()) };
        if news > self.kept.len() {
            return Err(DecodeError::Invalid("heard"));
        }
        self.kept.drain(..news);
        self.told = heard;
        self.sent = self.sent.saturating_sub(news);
        Ok(())
    }

    /// Returns whether there is anything to send; with `idle`, an acknowledgement alone counts too.
    pub fn has_output(&self, idle: bool) -> bool {
        self.sent < self.kept.len() || (idle && self.heard_told < self.heard)
    }

    /// Returns whether the other side has received all messages.
    pub fn is_heard(&self) -> bool {
        self.kept.is_empty()
    }

    /// Returns the next bytes for the connection; `None` if there is nothing to send. With `idle`,
    /// acknowledges even without a message to carry the acknowledgement.
    pub fn poll_output(&mut self, idle: bool) -> Option<Vec<u8>> {
        if !self.has_output(idle) {
            return None;
        }
        let mut out = Writer::new();
        while out.len() < BATCH_BYTES && self.sent < self.kept.len() {
            let message = &self.kept[self.sent];
            self.sent += 1;
            let number = self.told + self.sent as u64;
            append(&mut out, number, self.heard, message);
        }
        if out.is_empty() {
            append(&mut out, 0, self.heard, &[]);
        }
        self.heard_told = self.heard;
        Some(out.into_bytes())
    }

    /// Takes bytes of the connection and returns the new messages, in order.
    ///
    /// # Errors
    /// The other side violates the protocol; the conversation is over.
    pub fn handle_input(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, DecodeError> {
        self.partial.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut self.partial);
        let (mut messages, mut taken) = (Vec::new(), 0);
        while input.len() - taken >= HEAD_BYTES {
            let mut reader = Reader::new(&input[taken..]);
            let length = reader.u32("message length")? as usize;
            let (number, heard) = (reader.u64("message number")?, reader.u64("heard")?);
            if length > MESSAGE_BYTES_MAX {
                return Err(DecodeError::Invalid("message length"));
            }
            if reader.remaining() < length {
                break;
            }
            let message = reader.raw(length, "message")?;
            self.handle_heard(heard)?;
            if number == self.heard + 1 {
                self.heard = number;
                messages.push(message.to_vec());
            } else if number > self.heard {
                return Err(DecodeError::Invalid("message number"));
            }
            taken += HEAD_BYTES + length;
        }
        input.drain(..taken);
        self.partial = input;
        Ok(messages)
    }
}

fn append(out: &mut Writer, number: u64, heard: u64, message: &[u8]) {
    out.u32(message.len() as u32);
    out.u64(number);
    out.u64(heard);
    out.raw(message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A7: for any breaks between them, each side receives every message once and in order, and no
    /// received message is kept.
    fn converse(steps: &[(u8, u16)]) {
        let mut sides = [Session::default(), Session::default()];
        let mut wires: [Vec<u8>; 2] = Default::default();
        let (mut said, mut got) = ([0u32; 2], [0u32; 2]);
        let mut step = |sides: &mut [Session; 2], what: u8, amount: usize, said: &mut [u32; 2]| {
            let side = usize::from(what & 1);
            match what >> 1 & 3 {
                0 => {
                    said[side] += 1;
                    let mut message = said[side].to_le_bytes().to_vec();
                    message.resize(4 + amount % 50, 7);
                    sides[side].push(message);
                }
                1 => {
                    if let Some(bytes) = sides[side].poll_output(amount.is_multiple_of(2)) {
                        wires[side].extend(bytes);
                    }
                }
                2 => {
                    let taken = amount % 80;
                    let bytes: Vec<u8> =
                        wires[side].drain(..taken.min(wires[side].len())).collect();
                    for message in sides[1 - side].handle_input(&bytes).unwrap() {
                        got[1 - side] += 1;
                        assert_eq!(message[..4], got[1 - side].to_le_bytes());
                    }
                }
                _ if amount.is_multiple_of(8) => {
                    wires = Default::default();
                    let heard = [sides[0].heard(), sides[1].heard()];
                    sides[0].connect(heard[1]).unwrap();
                    sides[1].connect(heard[0]).unwrap();
                }
                _ => {}
            }
            got
        };
        for (what, amount) in steps {
            step(&mut sides, *what, usize::from(*amount), &mut said);
        }
        for _ in 0..400 {
            for what in 2..6 {
                step(&mut sides, what, 78, &mut said);
            }
        }
        let got = step(&mut sides, 7, 1, &mut said);
        assert_eq!(got, [said[1], said[0]]);
        assert!(sides.iter().all(Session::is_heard), "all was heard");
    }

    proptest! {
        #[test]
        fn a7_a_conversation_survives_its_connections(
            steps in proptest::collection::vec((0u8..8, any::<u16>()), 0..200)
        ) {
            converse(&steps);
        }

        /// Every decoder takes hostile bytes.
        #[test]
        fn hostile_conversations_end(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Session::default().handle_input(&bytes);
        }
    }
}
