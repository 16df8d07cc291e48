//! Requests of a controller to a source peer on another host of its site, where its own host does
//! not reach the store (docs/protocol.md, 15.5).
//!
//! Each is a request with one answer, by which the peer acts as [`crate::scan::SourcePeer`]: it
//! lists the data set, examines entries again, hashes, and removes what was moved. The peer does so
//! by an *order* for one transfer, and asks repeatedly whether the order holds while it works
//! ([`crate::rpc::streaming::OrderLeft`]). No other peer gets an order for that transfer while the
//! first can still act (B4, A12).

use std::time::Duration;

use penstock_proto::id::TransferId;
use penstock_proto::wire::{DecodeError, Reader, Writer};
use serde::{Deserialize, Serialize};

use crate::rpc::task::{Caller, put_json, take_json};
use crate::run::removal::RemoveOrder;
use crate::run::scan::{DigestWish, PageReply, RecheckRequest, ScanRequest};
use crate::site::OpenScan;

/// Time for which a peer may act by an order before it asks whether the order still holds.
pub const SOURCE_ORDER_HOLDS: Duration = Duration::from_secs(6);

/// A request to a source peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SourceRequest {
    /// The controller that asks.
    pub caller: Caller,
    /// Random number of the order.
    pub order: u64,
    /// The call.
    pub question: SourceCall,
}

/// Calls of a source peer; each is the method of [`crate::scan::SourcePeer`] of its name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum SourceCall {
    /// Answer: a [`crate::scan::RootKind`] in JSON.
    Open {
        /// The data set.
        scan: Box<OpenScan>,
        /// Flag, as in [`ScanRequest`].
        owner_names: bool,
    },
    /// Answer: [`PageReply::encode`].
    Page {
        /// The transfer.
        transfer: TransferId,
        /// Number of the page.
        number: u32,
        /// Longest time that the peer may wait for it, in milliseconds.
        wait_ms: u32,
    },
    /// Answer: the number of pages, in JSON.
    Ask {
        /// The transfer.
        transfer: TransferId,
        /// Entries to examine again.
        question: RecheckRequest,
    },
    /// Answer: the digests, in JSON.
    Digests {
        /// The transfer.
        transfer: TransferId,
        /// Files to hash.
        wish: DigestWish,
        /// Longest time that the peer may work on it before it answers, in milliseconds.
        wait_ms: u32,
    },
    /// Answer: [`crate::removal::RemoveReply`] in JSON.
    Remove {
        /// The transfer.
        transfer: TransferId,
        /// Items to remove.
        order: RemoveOrder,
    },
    /// Forgets the transfer; the controller removes the files in the journal itself. No answer.
    Release {
        /// The transfer.
        transfer: TransferId,
    },
}

impl SourceCall {
    /// Returns the call that opens a data set.
    pub fn open(request: &ScanRequest) -> Self {
        Self::Open { scan: Box::new(request.into()), owner_names: request.owner_names }
    }
}

impl PageReply {
    /// Returns the reply's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::NotYet => out.u8(1),
            Self::Page(page) => {
                out.u8(2);
                out.raw(page);
            }
            Self::End(summary) => {
                out.u8(3);
                put_json(summary, &mut out);
            }
        }
        out.into_bytes()
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are no reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let reply = match input.u8("reply")? {
            1 => Self::NotYet,
            2 => Self::Page(input.raw(input.remaining(), "page")?.to_vec()),
            3 => Self::End(take_json(&mut input, "summary")?),
            _ => return Err(DecodeError::Invalid("reply")),
        };
        input.finish()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::scan::ScanSummary;

    /// A12: what a peer answers about a page arrives as it was meant, and nothing hostile is taken
    /// for an answer.
    #[test]
    fn a12_an_answer_about_a_page_arrives_as_it_was_meant() {
        let summary = ScanSummary { pages: 3, entries: 7, ..ScanSummary::default() };
        let replies = [PageReply::NotYet, PageReply::Page(vec![0, 9]), PageReply::End(summary)];
        for reply in replies {
            assert_eq!(PageReply::decode(&reply.encode()), Ok(reply));
        }
        for hostile in [&b""[..], b"\x01\x01", b"\x03{", b"\x09"] {
            assert!(PageReply::decode(hostile).is_err(), "{hostile:?}");
        }
    }
}
