//! A request of a controller to a peer on another host of its site, and the stream that answers it
//! (docs/protocol.md, 15.4).
//!
//! The answer is a stream of parts, at least one every second, so that the controller can tell a
//! working peer from a lost one. A controller that does not want the answer any more closes the
//! connection; the peer then ends within a second. A request that broke off is sent again: each is
//! bounded, and repeating it does no harm.

use penstock_proto::wire::{DecodeError, Reader, Writer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::rpc::task::{Caller, put_json, take_json};
use crate::run::delete::Surplus;
use crate::run::request::{PeerReply, PeerRequest};

/// Longest call or part of an answer: a page, or the paths that a scan may name.
pub const CALL_BYTES_MAX: usize = 65 << 20;

/// A request with its sender.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerCall<'a> {
    /// The controller that asks.
    pub caller: Caller,
    /// Random number of the lease under which the peer is to act; `None` where the tenure of the
    /// controller suffices.
    pub lease: Option<u64>,
    /// The request.
    pub request: PeerRequest<'a>,
}

impl PeerCall<'_> {
    /// Returns the call's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        put_message(self, &self.request.body(), &mut out);
        out.into_bytes()
    }
}

impl PeerCall<'static> {
    /// Reads a call.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are no call.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (mut call, body): (Self, _) = take_message(&mut Reader::new(bytes))?;
        call.request.set_body(body)?;
        Ok(call)
    }
}

/// Appends a value as JSON behind its length, and its body.
fn put_message(value: &impl Serialize, body: &[u8], out: &mut Writer) {
    let mut json = Writer::new();
    put_json(value, &mut json);
    out.bytes(&json.into_bytes());
    out.raw(body);
}

/// Takes a value, and the body that fills the rest.
fn take_message<'b, T: DeserializeOwned>(
    input: &mut Reader<'b>,
) -> Result<(T, &'b [u8]), DecodeError> {
    let value = take_json(&mut Reader::new(input.bytes(CALL_BYTES_MAX, "message")?), "message")?;
    Ok((value, input.raw(input.remaining(), "body")?))
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerPart {
    /// The peer is working: the bytes read, or the items deleted, by now.
    Alive(u64),
    /// Some of the items in the directories.
    Found(Vec<Surplus>),
    /// The end: the reply.
    Done(Box<PeerReply>),
    /// The end: there is no reply.
    Failed(Problem),
}

impl AnswerPart {
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
            Self::Done(reply) => {
                out.u8(3);
                put_message(reply, reply.body(), &mut out);
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
            3 => {
                let (mut reply, body): (Box<PeerReply>, _) = take_message(&mut input)?;
                reply.set_body(body.to_vec())?;
                Self::Done(reply)
            }
            4 => Self::Failed(take_json(&mut input, "problem")?),
            _ => return Err(DecodeError::Invalid("part")),
        };
        input.finish()?;
        Ok(part)
    }
}

/// Decoder of the parts that arrive on a connection.
#[derive(Debug, Default)]
pub struct AnswerParts(Vec<u8>);

impl AnswerParts {
    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Returns the next part, if all of it has arrived.
    ///
    /// # Errors
    /// [`DecodeError`]: the bytes are no part, or announce a part that is too long.
    pub fn next_part(&mut self) -> Result<Option<AnswerPart>, DecodeError> {
        let Some(length) = self.0.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > CALL_BYTES_MAX {
            return Err(DecodeError::Invalid("part length"));
        }
        let Some(part) = self.0.get(4..4 + length) else { return Ok(None) };
        let part = AnswerPart::decode(part)?;
        self.0.drain(..4 + length);
        Ok(Some(part))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use penstock_proto::compared::{Comparison, EntrySet, refused};
    use penstock_proto::digest::Digest;
    use penstock_proto::id::TransferId;
    use penstock_proto::journal::{DigestForm, EntryDigest, EntryFailure, FailurePhase};
    use penstock_proto::manifest::{EntryDraft, PageBuilder, page_digest};
    use penstock_proto::slicing::Slicing;
    use penstock_proto::units::FileTime;

    use super::*;
    use crate::place::PathText;
    use crate::problem::ProblemCode;
    use crate::proof::PageProof;
    use crate::run::delete::SurplusKind;
    use crate::run::removal::RemoveOrder;
    use crate::run::request::{AttachedPage, SourceRequest, TargetRequest};
    use crate::run::scan::{PageReply, ScanSummary};
    use crate::run::task::TaskSpec;

    fn found() -> Surplus {
        Surplus {
            path: PathText(b"\xff\n/a".to_vec()),
            kind: SurplusKind::File,
            size: 7,
            inode: 9,
            ctime: (1, 2),
            mtime: (-3, 4),
            links: 1,
            in_the_way: false,
        }
    }

    fn replies() -> Vec<PeerReply> {
        let digest = EntryDigest {
            entry: 4095,
            form: DigestForm::Sparse,
            digest: Digest([7; 32]),
            seen: Some(FileTime { seconds: -1, nanoseconds: 5 }),
        };
        let comparison = Comparison {
            kept: [1, 2, 9].into_iter().collect(),
            failed: vec![refused(3, 17)],
            existed: EntrySet::default(),
            carried: vec![digest],
            in_the_way: 6,
        };
        let proof = PageProof {
            bytes: 10,
            bytes_direct: 4,
            checksums: vec![(3, vec!["ab".to_owned()])],
            damaged: vec![1, 4095],
            failures: vec![EntryFailure { entry: 5, phase: FailurePhase::ReadBack, errno: 13 }],
            stopped: true,
        };
        let summary = ScanSummary { pages: 3, entries: 7, ..ScanSummary::default() };
        vec![
            PeerReply::Done,
            PeerReply::StoreId(Some(u64::MAX)),
            PeerReply::Compared(comparison),
            PeerReply::from(proof),
            PeerReply::Confirmed([0, 4095].into_iter().collect()),
            PeerReply::Page(PageReply::NotYet),
            PeerReply::Page(PageReply::Page(b"\0page".to_vec())),
            PeerReply::Page(PageReply::End(summary)),
            PeerReply::Digests(Some(vec![None, Some("00".to_owned())])),
        ]
    }

    fn parts() -> Vec<AnswerPart> {
        let mut parts = vec![
            AnswerPart::Alive(77),
            AnswerPart::Found(vec![found(), found()]),
            AnswerPart::Found(Vec::new()),
            AnswerPart::Failed(Problem::new(ProblemCode::DeleteRefused, "y").because("z")),
        ];
        parts.extend(replies().into_iter().map(Box::new).map(AnswerPart::Done));
        parts
    }

    // Promise (A7, A4, A12, j): a reply arrives as it was meant, with what is damaged and whether
    // it was stopped, however the connection cuts it.
    #[test]
    fn a7_parts_arrive_however_they_are_cut() {
        let bytes: Vec<u8> = parts().iter().flat_map(AnswerPart::encode_framed).collect();
        for step in [1, 3, 7, bytes.len()] {
            let (mut come, mut seen) = (AnswerParts::default(), Vec::new());
            for cut in bytes.chunks(step) {
                come.push(cut);
                while let Some(part) = come.next_part().unwrap() {
                    seen.push(part);
                }
            }
            assert_eq!(seen, parts(), "cut into {step}");
        }
        let mut hostile = AnswerParts::default();
        hostile.push(&u32::MAX.to_le_bytes());
        assert!(hostile.next_part().is_err(), "nothing is kept for a part that is too long");
    }

    // Promise: no damage to an answer, and no page where none belongs, is a panic or a reply.
    #[test]
    fn a_hostile_answer_is_an_error() {
        for part in parts() {
            let bytes = part.encode_framed();
            let mut damaged = bytes[4..].to_vec();
            for at in 0..damaged.len() {
                let (before, bits) = (damaged[at], 1 << (at % 8));
                drop(AnswerPart::decode(&damaged[..at]));
                damaged[at] ^= bits;
                drop(AnswerPart::decode(&damaged));
                damaged[at] = before;
            }
        }
        let mut with_body =
            AnswerPart::Done(Box::new(PeerReply::Done)).encode_framed()[4..].to_vec();
        with_body.push(1);
        assert!(AnswerPart::decode(&with_body).is_err());
        for runs in ["[[3,3]]", "[[0,5],[5,6]]", "[[2,4],[0,1]]", "[[0,70000]]"] {
            assert!(serde_json::from_str::<EntrySet>(runs).is_err(), "{runs}");
        }
    }

    fn spec() -> TaskSpec {
        TaskSpec::of_cleaning(TransferId([7; 16]), "data".parse().unwrap(), PathText::default())
    }

    fn read_back<'a>(request: PeerRequest<'a>) -> PeerCall<'static> {
        let caller = Caller { epoch: 1, addresses: Vec::new() };
        PeerCall::decode(&PeerCall { caller, lease: Some(7), request }.encode()).unwrap()
    }

    // Promise (A7): a request and its page arrive as they were meant; a request that has no page
    // rejects one, and one that lacks its page is an error where it is needed.
    #[test]
    fn a7_a_request_arrives_with_its_page() {
        let mut page = PageBuilder::new(TransferId([7; 16]), 3, Slicing::default());
        page.push(b"d", &EntryDraft { name: b"f", size: 9, ..EntryDraft::default() });
        let page = page.seal();
        let (spec, left) = (spec(), [1, 2, 9].into_iter().collect::<EntrySet>());
        let request = PeerRequest::Target(TargetRequest::Compare {
            spec: Cow::Borrowed(&spec),
            page: AttachedPage::Borrowed(&page),
            left: Cow::Borrowed(&left),
        });
        let call = read_back(request.clone());
        let PeerRequest::Target(TargetRequest::Compare { page: arrived, left: entries, .. }) =
            call.request
        else {
            panic!("another request has arrived");
        };
        assert_eq!((call.lease, &*entries), (Some(7), &left));
        assert_eq!(arrived.get().unwrap(), &page);
        assert_eq!(arrived.share().unwrap().1, page_digest(&page.encode()));
        let mut without = request;
        assert!(without.set_body(b"no page").is_err());
        assert!(AttachedPage::Absent.get().is_err());
        let order = RemoveOrder { page: 0, digest: String::new(), entries: vec![], below: 9 };
        let transfer = TransferId([7; 16]);
        let order = Cow::Borrowed(&order);
        let mut removal = PeerRequest::Source(SourceRequest::Remove { transfer, order });
        assert!(removal.set_body(b"1").is_err());
        let PeerRequest::Source(arrived) = read_back(removal).request else {
            panic!("another request has arrived");
        };
        assert_eq!(arrived.transfer(), transfer);
    }
}
