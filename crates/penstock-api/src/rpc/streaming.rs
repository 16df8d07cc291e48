//! Requests of a controller to a target peer on another host that may take long: listing, deleting,
//! reading again (docs/protocol.md, 15.4).
//!
//! The answer is a stream of parts, at least one every second, so that the controller can tell a
//! working peer from a lost one. A controller that does not want the answer any more closes the
//! connection; the peer then ends within a second. A request that broke off is sent again: each is
//! bounded, and repeating it does no harm.

use std::time::Duration;

use penstock_proto::checksum::ChecksumKind;
use penstock_proto::journal::{decode_failures, encode_failures};
use penstock_proto::wire::{DecodeError, Reader, Writer};
use serde::{Deserialize, Serialize};

use crate::outcome::FailedItem;
use crate::place::PathText;
use crate::problem::Problem;
use crate::proof::PageProof;
use crate::rpc::task::{Caller, put_json, take_json};
use crate::run::delete::Surplus;
use crate::run::task::TaskSpec;

/// Longest part of an answer.
pub const PART_BYTES_MAX: usize = 16 << 20;
/// Most items that one order deletes.
pub const DELETE_ITEMS_MAX: usize = 512;
/// Bytes of paths at which an order, or a part of a listing, is full.
pub const PATH_BYTES_FULL: usize = 1 << 20;
/// Time for which a peer may act by an order to delete before it asks whether the order still
/// holds.
pub const ORDER_HOLDS: Duration = Duration::from_secs(10);

/// A request whose answer is a stream of parts. A page, and digests, follow it, encoded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamRequest {
    /// The controller that asks.
    pub caller: Caller,
    /// The call.
    pub question: StreamCall,
}

/// Calls that take long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StreamCall {
    /// Lists directories of the target, except what is protected there. Answer: parts with items,
    /// then an empty one.
    List {
        /// The task.
        spec: Box<TaskSpec>,
        /// The directories, relative to the data set's root.
        directories: Vec<PathText>,
    },
    /// Deletes items that the same peer has found. Answer: [`Deleted`] in JSON.
    Delete {
        /// The task.
        spec: Box<TaskSpec>,
        /// Random number of the order. Before it deletes anything, the peer asks the controller how
        /// long the order holds ([`OrderLeft`]), and counts from its question. An order that was
        /// delayed in a socket, or met a host that slept, therefore deletes nothing (B1, B4).
        order: u64,
        /// Items to delete, [`DELETE_ITEMS_MAX`] of them at most.
        items: Vec<Surplus>,
    },
    /// Calls [`crate::task::TargetPeer::prove`] for the page and the digests that follow. Answer: a
    /// proof ([`encode_proof`]).
    Prove {
        /// The task.
        spec: Box<TaskSpec>,
        /// True to read from storage.
        readback: bool,
        /// Checksums to compute.
        also: Vec<ChecksumKind>,
    },
    /// Calls [`crate::task::TargetPeer::compare_contents`] for the page that follows. Answer: a
    /// comparison.
    CompareContents {
        /// The task.
        spec: Box<TaskSpec>,
        /// The BLAKE3 of files, in hex.
        digests: Vec<(u32, String)>,
    },
}

/// Time for which an order holds from the moment of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLeft {
    /// Milliseconds; 0 if the order is over, or was never given.
    pub left_ms: u64,
}

/// Progress of an order to delete.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deleted {
    /// Number of its items, from the first, that are done.
    pub dealt: u64,
    /// Number of these that it has deleted.
    pub deleted: u64,
    /// The items of these that stay.
    pub failed: Vec<FailedItem>,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamPart {
    /// The peer is working: the bytes read, or the items deleted, by now.
    Alive(u64),
    /// Some of the items in the directories.
    Found(Vec<Surplus>),
    /// The end: the answer.
    Done(Vec<u8>),
    /// The end: there is no answer.
    Failed(Problem),
}

impl StreamPart {
    /// Returns the part's bytes, after their length.
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
    /// [`DecodeError`] if the bytes are no part.
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

/// Decoder of the parts that arrive on a connection.
#[derive(Debug, Default)]
pub struct StreamParts(Vec<u8>);

impl StreamParts {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next part, if all of it has arrived.
    ///
    /// # Errors
    /// [`DecodeError`]: the bytes are no part, or announce a part that is too long.
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

/// Returns the bytes of a proof.
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
/// [`DecodeError`] if the bytes are no proof.
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
    use crate::problem::ProblemCode;
    use crate::run::delete::SurplusKind;

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
            StreamPart::Failed(Problem::new(ProblemCode::DeleteRefused, "y").because("z")),
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

    /// A4: damaged entries, and the flag that it was stopped, are sent with a proof, though neither
    /// is stored with it.
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
