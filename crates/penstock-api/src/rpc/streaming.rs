//! What a controller asks of a target peer on another host that may take that peer long: listing,
//! deleting, reading again (docs/protocol.md, 15.4).
//!
//! The answer is a stream of parts, one at least every second, so that who asks knows a peer that
//! works from one that is gone. Who does not want it any more closes the connection; the peer ends
//! within a second then. What broke off is asked again: each question is bounded, and doing it
//! twice does no harm.

use std::time::Duration;

use penstock_proto::checksum::ChecksumKind;
use penstock_proto::journal::{decode_failures, encode_failures};
use penstock_proto::wire::{DecodeError, Reader, Writer};
use serde::{Deserialize, Serialize};

use crate::delete::Surplus;
use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::problem::Problem;
use crate::proof::PageProof;
use crate::rpc::task::{Caller, put_json, take_json};
use crate::task::TaskSpec;

/// Longest part of an answer.
pub const PART_BYTES_MAX: usize = 16 << 20;
/// Most things that one order deletes.
pub const DELETE_ITEMS_MAX: usize = 512;
/// Bytes of paths from which on an order, or a part of a listing, takes no more.
pub const PATH_BYTES_FULL: usize = 1 << 20;
/// How long a peer may go on with an order to delete before it asks whether that still stands.
pub const ORDER_HOLDS: Duration = Duration::from_secs(10);

/// A question whose answer is a stream of parts. A page, and digests, go behind it, encoded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamRequest {
    /// Who asks.
    pub caller: Caller,
    /// What.
    pub question: StreamCall,
}

/// What takes long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StreamCall {
    /// What is in directories of the target, but for what is protected there. Answer: parts with
    /// what was found, then an empty one.
    List {
        /// Of which transfer.
        spec: Box<TaskSpec>,
        /// The directories, relative to the data set's root.
        directories: Vec<PathText>,
    },
    /// To delete what was found by the same peer. Answer: [`Deleted`] in JSON.
    Delete {
        /// Of which transfer.
        spec: Box<TaskSpec>,
        /// Random number of the order: before anything goes, the peer asks the controller for how
        /// long it stands ([`OrderLeft`]), and counts from its question. So an order that lay in a
        /// socket, or met a host that slept, deletes nothing (B1, B4).
        order: u64,
        /// What is to go, [`DELETE_ITEMS_MAX`] of it at most.
        items: Vec<Surplus>,
    },
    /// As [`crate::task::TargetPeer::prove`], of the page and the digests behind it. Answer: a
    /// proof ([`encode_proof`]).
    Prove {
        /// Of which transfer.
        spec: Box<TaskSpec>,
        /// Whether to read from storage.
        readback: bool,
        /// Which checksums to compute.
        also: Vec<ChecksumKind>,
    },
    /// As [`crate::task::TargetPeer::compare_contents`], of the page behind it. Answer: a
    /// comparison.
    CompareContents {
        /// Of which transfer.
        spec: Box<TaskSpec>,
        /// The BLAKE3 of files, in hex.
        digests: Vec<(u32, String)>,
    },
}

/// For how long an order stands from the moment of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLeft {
    /// Milliseconds; 0 if it is over, or was never given.
    pub left_ms: u64,
}

/// How far an order to delete has come.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deleted {
    /// So many of its items, from the first, are dealt with.
    pub dealt: u64,
    /// So many of these are gone by it.
    pub deleted: u64,
    /// Those of them that stay.
    pub failed: Vec<FailedItem>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamPart {
    /// The peer works on it: so many bytes read, or things deleted, by now.
    Alive(u64),
    /// Some of what is in the directories.
    Found(Vec<Surplus>),
    /// The end: the answer.
    Done(Vec<u8>),
    /// The end: there is no answer.
    Failed(Problem),
}

impl StreamPart {
    /// The part's bytes, behind their length.
    pub fn encode_framed(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Alive(progress) => {
                out.u8(1);
                out.u64(*progress);
            }
            Self::Found(found) => {
                out.u8(2);
                put_json(found, &mut out);
            }
            Self::Done(answer) => {
                out.u8(3);
                out.raw(answer);
            }
            Self::Failed(problem) => {
                out.u8(4);
                put_json(problem, &mut out);
            }
        }
        let mut framed = Writer::new();
        framed.bytes(&out.into_bytes());
        framed.into_bytes()
    }

    /// Reads a part.
    ///
    /// # Errors
    /// [`DecodeError`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let part = match input.u8("part")? {
            1 => Self::Alive(input.u64("progress")?),
            2 => Self::Found(take_json(&mut input, "found")?),
            3 => Self::Done(input.raw(input.remaining(), "answer")?.to_vec()),
            4 => Self::Failed(take_json(&mut input, "problem")?),
            _ => return Err(DecodeError::Invalid("part")),
        };
        input.finish()?;
        Ok(part)
    }
}

/// Parts as they come out of a connection.
#[derive(Debug, Default)]
pub struct StreamParts(Vec<u8>);

impl StreamParts {
    /// Takes what has come.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next part, if all of it has come.
    ///
    /// # Errors
    /// [`DecodeError`]: what has come is no part, or a longer one than there are.
    pub fn next_part(&mut self) -> Result<Option<StreamPart>, DecodeError> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > PART_BYTES_MAX {
            return Err(DecodeError::Invalid("part length"));
        }
        let Some(part) = self.0.get(4..4 + length) else { return Ok(None) };
        let part = StreamPart::decode(part)?;
        self.0.drain(..4 + length);
        Ok(Some(part))
    }
}

/// A proof as bytes.
pub fn encode_proof(proof: &PageProof) -> Vec<u8> {
    let mut out = Writer::new();
    out.u8(u8::from(proof.stopped));
    out.u32(proof.damaged.len() as u32);
    proof.damaged.iter().for_each(|entry| out.u32(*entry));
    encode_failures(&proof.failures, &mut out);
    put_json(proof, &mut out);
    out.into_bytes()
}

/// Reads a proof.
///
/// # Errors
/// [`DecodeError`] if it is none.
pub fn decode_proof(bytes: &[u8]) -> Result<PageProof, DecodeError> {
    let mut input = Reader::new(bytes);
    let stopped = match input.u8("stopped")? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Invalid("stopped")),
    };
    let count = input.u32("damaged count")? as usize;
    if count > input.remaining() / 4 {
        return Err(DecodeError::Truncated("damaged"));
    }
    let damaged = (0..count).map(|_| input.u32("damaged")).collect::<Result<_, _>>()?;
    let failures = decode_failures(&mut input)?;
    let told: PageProof = take_json(&mut input, "proof")?;
    Ok(PageProof { damaged, failures, stopped, ..told })
}

#[cfg(test)]
mod tests {
    use penstock_proto::journal::{EntryFailure, FailurePhase};

    use super::*;
    use crate::delete::SurplusKind;
    use crate::problem::Exit;

    fn parts() -> Vec<StreamPart> {
        let found = Surplus {
            path: PathText(b"\xff\n/a".to_vec()),
            kind: SurplusKind::File,
            size: 7,
            inode: 9,
            ctime: (1, 2),
            mtime: (-3, 4),
            links: 1,
            in_the_way: false,
        };
        vec![
            StreamPart::Alive(77),
            StreamPart::Found(vec![found.clone(), found]),
            StreamPart::Found(Vec::new()),
            StreamPart::Done(b"\0bytes".to_vec()),
            StreamPart::Failed(Problem::new(Exit::Refused, "x", "y").because("z")),
        ]
    }

    /// A7, promise (j): parts arrive as they were meant, however the connection cuts them.
    #[test]
    fn a7_parts_arrive_however_they_are_cut() {
        let bytes: Vec<u8> = parts().iter().flat_map(StreamPart::encode_framed).collect();
        for step in [1, 3, 7, bytes.len()] {
            let (mut come, mut seen) = (StreamParts::default(), Vec::new());
            for cut in bytes.chunks(step) {
                come.push(cut);
                while let Some(part) = come.next_part().unwrap() {
                    seen.push(part);
                }
            }
            assert_eq!(seen, parts(), "cut into {step}");
        }
        let mut hostile = StreamParts::default();
        hostile.push(&u32::MAX.to_le_bytes());
        assert!(hostile.next_part().is_err(), "nothing is kept for a part that is too long");
    }

    /// A4: what was found damaged, and what was stopped, is told with a proof, though neither is
    /// kept with it.
    #[test]
    fn a4_a_proof_tells_what_is_damaged() {
        let failure = EntryFailure { entry: 5, phase: FailurePhase::ReadBack, errno: 13 };
        let proof = PageProof {
            bytes: 10,
            bytes_direct: 4,
            checksums: vec![(3, vec!["ab".to_owned()])],
            damaged: vec![1, 4095],
            failures: vec![failure],
            stopped: true,
        };
        let bytes = encode_proof(&proof);
        assert_eq!(decode_proof(&bytes).unwrap(), proof);
        for cut in 0..bytes.len() {
            assert!(decode_proof(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
