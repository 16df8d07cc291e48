//! What the two ends of a copy over ssh say to each other, and its bytes on the ssh channel.
//!
//! The far end's standard output begins with a line that says it is there ([`READY`]): what a
//! shell's start-up files print before it is skipped. After it, each direction is a sequence of
//! frames: one byte (0: said unasked or asked, 1: an answer), the length of the JSON, the length
//! of the bytes behind it (both 32 bits, big-endian), the JSON, the bytes. The lengths are bounded
//! before memory is taken.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use penstock_api::problem::Problem;
use penstock_api::request::{PeerReply, SourceRequest};
use penstock_api::scan::RootKind;
use penstock_api::site::OpenScan;
use penstock_api::transfer::{FailedItem, PathText, Progress, TransferOptions};
use penstock_controller::runner::{RunFiles, plan_path};
use penstock_proto::checksum::ChecksumKind;
use penstock_proto::id::TransferId;
use serde::{Deserialize, Serialize};

use crate::copy::places::{DirectoryIdentity, SourceFacts};

/// Version of all that is said here; both ends must be of the same, and of the same release.
pub(super) const SSH_PROTOCOL: u32 = 6;
/// How a line of the far end begins that is meant for us.
pub(super) const MAGIC: &str = "penstock-ssh ";
/// What such a line says when messages follow.
pub(super) const READY: &str = "ready";

/// Longest JSON of a message: the longest is a list of paths, a million of 60 bytes. Either end
/// holds it once as text and once as paths: with more, memory would not stay within 256 MiB.
const JSON_BYTES_MAX: u32 = 64 << 20;
const TOO_LONG: &str = "a message is too long: split the list of --files-from";
/// Longest body: a page, or a part of a file.
const BODY_BYTES_MAX: u32 = 16 << 20;
/// Part of a file that is sent at once.
pub(super) const PART_BYTES: usize = 256 << 10;

/// Release and protocol, as compared by the two ends.
pub(super) fn version() -> String {
    format!("{}/{SSH_PROTOCOL}", env!("CARGO_PKG_VERSION"))
}

/// What the far end is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    Source,
    Target,
}

/// The local end's first words.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begin {
    /// What the far end is to be.
    pub(super) far: Role,
    /// The path at the far end, as it was written.
    pub(super) path: PathText,
    /// What the source is, if it is here.
    pub(super) facts: Option<SourceFacts>,
    /// Where the source's directories are, if it is here.
    pub(super) trace: Vec<DirectoryIdentity>,
    /// The local end's authority, for this copy only, in hex.
    pub(super) authority: String,
    /// Ports on which the far end may listen: the local end dials no others.
    pub(super) ports: (u16, u16),
    /// Where the far end had better listen than at the address that ssh came in by.
    pub(super) lane_addresses: Vec<IpAddr>,
    /// What connections that the local end makes begin with, in hex: 32 bytes of its own.
    pub(super) token: String,
    /// Most CPUs that the far end may keep busy.
    pub(super) cpus: Option<u32>,
    /// Whether nothing may be written at the target: it is only looked at.
    pub(super) dry_run: bool,
    /// Whether what is in the way at the target may be deleted.
    pub(super) delete: bool,
}

/// The far end's answer to [`Begin`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    /// The far end's authority, for this copy only, in hex.
    pub(super) authority: String,
    /// The path at the far end, as it was understood.
    pub(super) path: PathText,
    /// What the source is, if it is there.
    pub(super) facts: Option<SourceFacts>,
    /// Where the source's directories are, if it is there.
    pub(super) trace: Vec<DirectoryIdentity>,
    /// What connections that the far end makes begin with, in hex: 32 bytes of its own.
    pub(super) token: String,
    /// The port at which it listens for lanes. Where that is, the local end knows by itself.
    pub(super) port: Option<u16>,
    /// Why it does not, if so.
    #[serde(deserialize_with = "penstock_api::text::field")]
    pub(super) no_door: String,
    /// Where the ssh connection came from.
    pub(super) client: Option<IpAddr>,
}

/// Begins the copy, or goes on with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Open {
    /// Its id, chosen by the local end and kept with the local state.
    pub(super) id: TransferId,
    /// How it is to be done.
    pub(super) options: TransferOptions,
    /// Which list of the source this attempt works on.
    pub(super) listing: u32,
    /// The port that the far end dials for lanes, at the host that its ssh connection came from;
    /// if there is none, the local end dials.
    pub(super) dial: Option<u16>,
    /// The round trip, where lanes lead through ssh and cannot know it.
    pub(super) rtt_ms: Option<u64>,
    /// If the far end is the source: what to scan.
    pub(super) scan: Option<OpenScan>,
    /// If the far end is the target: the right to read, in hex.
    pub(super) capability: String,
    /// From where and to where, as it was written.
    pub(super) places: (PathText, PathText),
}

/// The far end's answer to [`Open`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    /// If the far end is the source: what its root is.
    pub(super) kind: Option<RootKind>,
    /// If the far end is the source: the right to read, in hex.
    pub(super) capability: String,
}

/// How the run at the far end stands.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct View {
    pub(super) progress: Progress,
    #[serde(deserialize_with = "penstock_api::text::field")]
    pub(super) reason: String,
    #[serde(deserialize_with = "penstock_api::text::field")]
    pub(super) durable_by: String,
    pub(super) failures: Vec<FailedItem>,
}

/// How the run at the far end ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Done,
    Paused,
    Failed(Problem),
}

/// A file of a run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RunFile {
    Failures,
    Digests,
    Facts,
    Plan,
    Checksums(ChecksumKind),
}

impl RunFile {
    /// Returns its path in the journal of a run.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn path(self, journal: &Path) -> Result<PathBuf, Problem> {
        let files = RunFiles::of(journal)?;
        match self {
            Self::Failures => Ok(files.failures),
            Self::Digests => Ok(files.digests),
            Self::Facts => Ok(files.facts),
            Self::Plan => Ok(plan_path(journal)),
            Self::Checksums(kind) => files.checksums(kind),
        }
    }
}

/// All that can be said.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum Message {
    /// Nothing: the other end lives.
    Ping,
    /// Local: what is wanted. Answered by `Begun`.
    Begin(Box<Begin>),
    Begun(Box<Begun>),
    /// Local: listen on the loopback address as well, for lanes through ssh. Answered by `Inside`.
    ListenInside,
    Inside {
        port: u16,
    },
    /// Local: try whether this port can be reached, at the host that ssh came from. Answered by
    /// `Probed`.
    Probe {
        port: u16,
    },
    Probed {
        reached: bool,
        #[serde(deserialize_with = "penstock_api::text::field")]
        why: String,
    },
    /// Local: begin. Answered by `Opened`.
    Open(Box<Open>),
    Opened(Box<Opened>),
    /// Target: a request about the source's list. Answered by `Reply`.
    Source {
        request: Box<SourceRequest<'static>>,
    },
    /// The reply; a page of it is in the body.
    Reply {
        reply: Box<PeerReply>,
    },
    /// Target: dial one more lane.
    Lane,
    /// Far target: how it stands.
    View(Box<View>),
    /// Far target: how it ended.
    Ended {
        view: Box<View>,
        outcome: Outcome,
    },
    /// Local: stop and keep the ledger.
    Pause,
    /// Local: a part of a file of a run that has ended. Answered by `Part`.
    File {
        which: RunFile,
        offset: u64,
    },
    /// The part is in the body; an empty one is the end.
    Part,
    /// Local: nothing will be resumed; remove all state. Answered by `Left`.
    Leave,
    Left,
    /// It cannot be done.
    Failed(Problem),
}

/// A message as it came.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) answer: bool,
    pub(super) message: Message,
    pub(super) body: Vec<u8>,
}

/// Writes one frame.
///
/// # Errors
/// The channel is gone.
pub(super) fn write(
    out: &mut impl Write,
    answer: bool,
    message: &Message,
    body: &[u8],
) -> io::Result<()> {
    let json = serde_json::to_vec(message).map_err(io::Error::other)?;
    let within = |bytes: usize, most: u32| {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes <= most);
        bytes.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG))
    };
    let json_bytes = within(json.len(), JSON_BYTES_MAX)?;
    let body_bytes = within(body.len(), BODY_BYTES_MAX)?;
    let mut frame = Vec::with_capacity(9 + json.len() + body.len());
    frame.push(u8::from(answer));
    frame.extend_from_slice(&json_bytes.to_be_bytes());
    frame.extend_from_slice(&body_bytes.to_be_bytes());
    frame.extend_from_slice(&json);
    frame.extend_from_slice(body);
    out.write_all(&frame)?;
    out.flush()
}

/// Reads one frame; `None` at the end of the channel, between two frames.
///
/// # Errors
/// The channel broke, or what came is no message.
pub(super) fn read(input: &mut impl Read) -> io::Result<Option<Said>> {
    let mut head = [0; 9];
    if input.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut head[1..])?;
    let [answer, a, b, c, d, e, f, g, h] = head;
    let (json_bytes, body_bytes) =
        (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    if answer > 1 || json_bytes > JSON_BYTES_MAX || body_bytes > BODY_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "this is no message of penstock"));
    }
    let json = take(input, json_bytes)?;
    let body = take(input, body_bytes)?;
    let message = serde_json::from_slice(&json).map_err(|error| {
        io::Error::new(io::ErrorKind::InvalidData, format!("a message cannot be read: {error}"))
    })?;
    Ok(Some(Said { answer: answer == 1, message, body }))
}

/// Reads so many bytes; memory is taken as they come.
fn take(input: &mut impl Read, bytes: u32) -> io::Result<Vec<u8>> {
    let mut taken = Vec::new();
    if input.take(u64::from(bytes)).read_to_end(&mut taken)? < bytes as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use penstock_api::scan::PageReply;

    use super::*;

    /// Promise: what one end says the other reads, and what is cut or damaged is an error, never a
    /// message or an allocation of its size.
    #[test]
    fn messages_arrive_whole_or_not_at_all() {
        let mut bytes = Vec::new();
        let request = SourceRequest::Page { transfer: TransferId([7; 16]), number: 7, wait_ms: 9 };
        write(&mut bytes, false, &Message::Source { request: Box::new(request) }, &[]).unwrap();
        let reply = PeerReply::Page(PageReply::Page(b"page".to_vec()));
        let message = Message::Reply { reply: Box::new(reply.clone()) };
        write(&mut bytes, true, &message, reply.body()).unwrap();
        let mut input = bytes.as_slice();
        let first = read(&mut input).unwrap().unwrap();
        let Message::Source { request } = first.message else { panic!("another message") };
        assert!(matches!(*request, SourceRequest::Page { number: 7, wait_ms: 9, .. }));
        let second = read(&mut input).unwrap().unwrap();
        let Message::Reply { reply: mut arrived } = second.message else { panic!("no reply") };
        arrived.set_body(second.body).unwrap();
        assert!(second.answer && *arrived == reply);
        assert!(read(&mut input).unwrap().is_none());
        for cut in 1..bytes.len() {
            let mut input = &bytes[..cut];
            while let Ok(Some(_)) = read(&mut input) {}
        }
        for damaged in [[2; 9], [0xff; 9], [0, 0xff, 0, 0, 0, 0, 0, 0, 0]] {
            assert!(read(&mut damaged.as_slice()).is_err());
        }
    }
}
