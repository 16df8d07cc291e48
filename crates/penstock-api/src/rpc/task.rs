//! Messages between a controller and a target peer on another host of its site under `/peer/v1`,
//! over mutual TLS (docs/protocol.md, 15).
//!
//! A task is one conversation ([`penstock_proto::session`]): the peer asks for work and reports
//! ([`PeerMessage`]), the controller answers and steers ([`ControllerMessage`]). All other needs of
//! a controller are requests with one reply ([`crate::rpc::call`]). The caller's certificate says
//! which peer it is. The peer asks the controller itself whether it is the controller, and for how
//! long ([`crate::rpc::lease::LeaseLeft`]).

use penstock_proto::compared::EntrySet;
use penstock_proto::digest::Digest;
use penstock_proto::journal::Incarnation;
use penstock_proto::name::PATH_BYTES_MAX;
use penstock_proto::network::DataAddress;
use penstock_proto::session::MESSAGE_BYTES_MAX;
use penstock_proto::task::{Report, WorkReply};
use penstock_proto::wire::{DecodeError, Reader, Writer};
use serde::{Deserialize, Serialize};

use crate::options::limits::Share;
use crate::problem::{Exit, Problem, ProblemCode};
use crate::run::task::control::{Adopted, LeaseStatus, TaskFigures};
use crate::run::task::spec::TaskSpec;

/// Version of this protocol: peers of different versions do not take part in each other's
/// transfers.
pub const PEER_API_VERSION: u32 = 3;
/// Header that carries the version, in both directions.
pub const PEER_VERSION_HEADER: &str = "penstock-peer-version";

/// Refuses a request of another version than ours; `theirs` is the header's text, if there was one.
///
/// # Errors
/// Code [`ProblemCode::PeerVersion`], temporary: a rolling upgrade ends. Code
/// [`ProblemCode::NotAPeer`].
pub fn check_peer_version(theirs: Option<&str>) -> Result<(), Problem> {
    let Some(theirs) = theirs else {
        let title = "the request does not name its version of the peer protocol";
        // The caller is at fault. Waiting would not help it.
        return Err(Problem::new(ProblemCode::NotAPeer, title).exit(Exit::Usage).hint(format!(
            "only other peers of this site may send requests here, with the header \
                           `{PEER_VERSION_HEADER}`"
        )));
    };
    let ours = PEER_API_VERSION.to_string();
    if theirs == ours {
        return Ok(());
    }
    let title = format!("the peers use different protocol versions: {ours} and {theirs}");
    Err(Problem::new(ProblemCode::PeerVersion, title)
        .hint("install the same release at all peers; the peer then takes part again"))
}

/// Checks that a reply from a peer's address uses our version of the protocol.
///
/// # Errors
/// Errors of [`check_peer_version`]; without the header [`ProblemCode::NotAPeer`], temporary: the
/// program at the address is a daemon outside the site's cluster, or no daemon at all.
pub fn check_peer_answer(
    address: std::net::SocketAddr,
    theirs: Option<&str>,
) -> Result<(), Problem> {
    if theirs.is_some() {
        return check_peer_version(theirs);
    }
    let title = format!("the program at {address} is not a peer of this site");
    Err(Problem::new(ProblemCode::NotAPeer, title)
        .because(format!("its reply has no header `{PEER_VERSION_HEADER}`"))
        .hint(
            "check which program listens there, and whether its configuration has a `[cluster]` \
             section; `penstock peer list` shows the address of each peer",
        ))
}

/// Controllership for which a request is made: its epoch, and the addresses at which a peer can ask
/// whether it still holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Epoch of its tenure, as [`crate::fence::Fence::epoch`].
    pub epoch: u64,
    /// Addresses at which the controller takes requests.
    pub addresses: Vec<std::net::SocketAddr>,
}

/// Starts a task, or continues its conversation over a new connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenTask {
    /// Random number of the task.
    pub task: u64,
    /// The controller.
    pub caller: Caller,
    /// Messages that the controller has heard.
    pub heard: u64,
    /// The task; none if it has begun.
    pub spec: Option<TaskSpec>,
}

/// A peer's answer to [`OpenTask`], before its first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskOpened {
    /// Messages that the peer has heard.
    pub heard: u64,
    /// Number of its first messages that are [`PeerMessage::Adopted`].
    pub adopted: u32,
    /// Circumstances under which it writes, as [`crate::task::Task::incarnation`].
    pub incarnation: Incarnation,
}

/// Messages of a peer about its task.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// Asks for work. The answer may take a while, and a later question replaces this one.
    Want {
        /// Number of the question.
        ticket: u64,
        /// Bytes that the work is to be worth.
        bytes: u64,
    },
    /// Results.
    Reports(Vec<Report>),
    /// Says that the task is alive, and asks for its grant to be renewed.
    Alive {
        /// Number of the question.
        ticket: u64,
    },
    /// Asks for a page.
    Page {
        /// Number of the page.
        number: u32,
    },
    /// Asks whether the entry at a path has failed.
    HasFailed {
        /// Number of the question.
        ticket: u64,
        /// The path.
        path: Vec<u8>,
    },
    /// The task cannot continue.
    Broken(Problem),
    /// Measurements.
    Figures(TaskFigures),
    /// Its threads have ended; no message follows.
    Ended,
    /// Work of an earlier task here that its controller did not commit, or a part of it.
    Adopted(Adopted),
}

/// Messages of a controller about a task.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerMessage {
    /// Work.
    Work {
        /// Number of the question that this answers.
        ticket: u64,
        /// The work.
        reply: WorkReply,
    },
    /// Answers [`PeerMessage::Alive`].
    Alive {
        /// Number of the question that this answers.
        ticket: u64,
        /// Status of the grant.
        standing: LeaseStatus,
    },
    /// A page, or the reason why there is none.
    Page {
        /// Its number.
        number: u32,
        /// The page encoded, with its digest and the entries that stay as they are.
        page: Result<EncodedPage, Problem>,
    },
    /// Answers [`PeerMessage::HasFailed`].
    HasFailed {
        /// Number of the question that this answers.
        ticket: u64,
        /// The answer.
        failed: bool,
        /// True if anything has failed; if not, there is no need to ask again.
        any: bool,
    },
    /// Calls [`crate::task::Task::doubt_is_over`].
    DoubtIsOver,
    /// Calls [`crate::task::Task::set_share`].
    SetShare(Share),
    /// Calls [`crate::task::Task::stop`].
    Stop {
        /// True if temporary files are removed.
        discard: bool,
    },
    /// Calls [`crate::task::Task::committed`].
    Committed {
        /// Number of [`PeerMessage::Reports`] that are committed.
        batches: u64,
    },
    /// Calls [`crate::task::Task::set_source_peers`].
    SourcePeers(Vec<DataAddress>),
}

/// A page as it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedPage {
    /// Digest of the page's bytes.
    pub digest: Digest,
    /// Entries that stay as they are, as in [`crate::task::TaskPage`].
    pub left: EntrySet,
    /// The page.
    pub bytes: Vec<u8>,
}

pub(crate) fn put_json(value: &impl Serialize, out: &mut Writer) {
    // Our own values can be written: plain structures of numbers and text.
    out.raw(&serde_json::to_vec(value).unwrap_or_default());
}

pub(crate) fn take_json<T: serde::de::DeserializeOwned>(
    input: &mut Reader<'_>,
    field: &'static str,
) -> Result<T, DecodeError> {
    let bytes = input.raw(input.remaining(), field)?;
    serde_json::from_slice(bytes).map_err(|_| DecodeError::Invalid(field))
}

fn take_flag(input: &mut Reader<'_>, field: &'static str) -> Result<bool, DecodeError> {
    match input.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid(field)),
    }
}

impl PeerMessage {
    /// Returns the message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Want { ticket, bytes } => {
                out.u8(1);
                out.u64(*ticket);
                out.u64(*bytes);
            }
            Self::Reports(reports) => {
                out.u8(2);
                Report::encode_all(reports, &mut out);
            }
            Self::Alive { ticket } => {
                out.u8(3);
                out.u64(*ticket);
            }
            Self::Page { number } => {
                out.u8(4);
                out.u32(*number);
            }
            Self::HasFailed { ticket, path } => {
                out.u8(5);
                out.u64(*ticket);
                out.bytes(path);
            }
            Self::Broken(problem) => {
                out.u8(6);
                put_json(problem, &mut out);
            }
            Self::Figures(figures) => {
                out.u8(7);
                put_json(figures, &mut out);
            }
            Self::Ended => out.u8(8),
            Self::Adopted(Adopted { epoch, granted, reports }) => {
                out.u8(9);
                out.u64(*epoch);
                out.u8(u8::from(*granted));
                Report::encode_all(reports, &mut out);
            }
        }
        out.into_bytes()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let said = match input.u8("message")? {
            1 => Self::Want { ticket: input.u64("ticket")?, bytes: input.u64("bytes")? },
            2 => Self::Reports(Report::decode_all(&mut input)?),
            3 => Self::Alive { ticket: input.u64("ticket")? },
            4 => Self::Page { number: input.u32("page")? },
            5 => Self::HasFailed {
                ticket: input.u64("ticket")?,
                path: input.bytes(PATH_BYTES_MAX, "path")?.to_vec(),
            },
            6 => Self::Broken(take_json(&mut input, "problem")?),
            7 => Self::Figures(take_json(&mut input, "figures")?),
            8 => Self::Ended,
            9 => Self::Adopted(Adopted {
                epoch: input.u64("epoch")?,
                granted: take_flag(&mut input, "granted")?,
                reports: Report::decode_all(&mut input)?,
            }),
            _ => return Err(DecodeError::Invalid("message")),
        };
        input.finish()?;
        Ok(said)
    }
}

impl EncodedPage {
    /// Appends the page to a message.
    pub fn encode(&self, out: &mut Writer) {
        out.raw(&self.digest.0);
        self.left.encode(out);
        out.bytes(&self.bytes);
    }

    /// Takes a page from a message.
    ///
    /// # Errors
    /// [`DecodeError`] if there is none.
    pub fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            digest: Digest(input.array("digest")?),
            left: EntrySet::decode(input)?,
            bytes: input.bytes(MESSAGE_BYTES_MAX, "page")?.to_vec(),
        })
    }
}

impl ControllerMessage {
    /// Returns the message's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        match self {
            Self::Work { ticket, reply } => {
                out.u8(1);
                out.u64(*ticket);
                reply.encode(&mut out);
            }
            Self::Alive { ticket, standing } => {
                out.u8(2);
                out.u64(*ticket);
                out.u8(match standing {
                    LeaseStatus::Granted => 0,
                    LeaseStatus::Unheard => 1,
                    LeaseStatus::Over => 2,
                });
            }
            Self::Page { number, page: Ok(page) } => {
                out.u8(3);
                out.u32(*number);
                page.encode(&mut out);
            }
            Self::Page { number, page: Err(problem) } => {
                out.u8(4);
                out.u32(*number);
                put_json(problem, &mut out);
            }
            Self::HasFailed { ticket, failed, any } => {
                out.u8(5);
                out.u64(*ticket);
                out.u8(u8::from(*failed));
                out.u8(u8::from(*any));
            }
            Self::DoubtIsOver => out.u8(6),
            Self::SetShare(share) => {
                out.u8(7);
                put_json(share, &mut out);
            }
            Self::Stop { discard } => {
                out.u8(8);
                out.u8(u8::from(*discard));
            }
            Self::Committed { batches } => {
                out.u8(9);
                out.u64(*batches);
            }
            Self::SourcePeers(peers) => {
                out.u8(10);
                put_json(peers, &mut out);
            }
        }
        out.into_bytes()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are no message.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        let said = match input.u8("message")? {
            1 => {
                let ticket = input.u64("ticket")?;
                Self::Work { ticket, reply: WorkReply::decode(&mut input)? }
            }
            2 => {
                let ticket = input.u64("ticket")?;
                let standing = match input.u8("standing")? {
                    0 => LeaseStatus::Granted,
                    1 => LeaseStatus::Unheard,
                    2 => LeaseStatus::Over,
                    _ => return Err(DecodeError::Invalid("standing")),
                };
                Self::Alive { ticket, standing }
            }
            3 => {
                let number = input.u32("page")?;
                Self::Page { number, page: Ok(EncodedPage::decode(&mut input)?) }
            }
            4 => {
                let number = input.u32("page")?;
                Self::Page { number, page: Err(take_json(&mut input, "problem")?) }
            }
            5 => Self::HasFailed {
                ticket: input.u64("ticket")?,
                failed: take_flag(&mut input, "failed")?,
                any: take_flag(&mut input, "any")?,
            },
            6 => Self::DoubtIsOver,
            7 => Self::SetShare(take_json(&mut input, "share")?),
            8 => Self::Stop { discard: take_flag(&mut input, "discard")? },
            9 => Self::Committed { batches: input.u64("batches")? },
            10 => Self::SourcePeers(take_json(&mut input, "source peers")?),
            _ => return Err(DecodeError::Invalid("message")),
        };
        input.finish()?;
        Ok(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::lease::LeaseLeft;
    use penstock_proto::slicing::PieceRef;
    use penstock_proto::task::Work;

    /// A message cut everywhere, and with each of its bytes altered: none of it may be a panic.
    fn each_damaged(bytes: &[u8], decode: impl Fn(&[u8])) {
        let mut damaged = bytes.to_vec();
        for at in 0..bytes.len() {
            decode(&bytes[..at]);
            for bits in [1, 0x80, 0xff] {
                damaged[at] = bytes[at] ^ bits;
                decode(&damaged);
            }
            damaged[at] = bytes[at];
        }
    }

    /// A7: what a controller and a peer on another host say arrives as it was meant.
    #[test]
    fn a7_what_is_said_arrives_as_it_was_meant() {
        let problem = Problem::new(ProblemCode::StoreOffline, "y").because("z");
        let figures = TaskFigures { bytes_verified: 7, lanes: 3, ..TaskFigures::default() };
        let piece = PieceRef { page: 1, piece: 2 };
        let ups = [
            PeerMessage::Want { ticket: 1, bytes: 2 },
            PeerMessage::Reports(vec![Report::Returned { piece, generation: 1 }]),
            PeerMessage::Alive { ticket: 3 },
            PeerMessage::Page { number: 4 },
            PeerMessage::HasFailed { ticket: 5, path: b"\xff/a".to_vec() },
            PeerMessage::Broken(problem.clone()),
            PeerMessage::Figures(figures),
            PeerMessage::Ended,
            PeerMessage::Adopted(Adopted {
                epoch: 6,
                granted: true,
                reports: vec![Report::Synced { epoch: 7 }],
            }),
        ];
        for up in ups {
            assert_eq!(PeerMessage::decode(&up.encode()).unwrap(), up);
            each_damaged(&up.encode(), |damaged| drop(PeerMessage::decode(damaged)));
        }
        let left = [1, 2, 9].into_iter().collect();
        let page = EncodedPage { digest: Digest([3; 32]), left, bytes: vec![1, 2, 3] };
        let fetch = Work::Fetch { piece, generation: 0, fresh: true };
        let source_peer = DataAddress {
            peer: "h2".parse().unwrap(),
            address: "[fd00::2]:7444".parse().unwrap(),
            network: "fast0".parse().ok(),
            rate_bits_per_s: None,
        };
        let downs = [
            ControllerMessage::Work {
                ticket: 1,
                reply: WorkReply { work: vec![fetch], ..WorkReply::default() },
            },
            ControllerMessage::Alive { ticket: 2, standing: LeaseStatus::Over },
            ControllerMessage::Page { number: 4, page: Ok(page) },
            ControllerMessage::Page { number: 4, page: Err(problem) },
            ControllerMessage::HasFailed { ticket: 5, failed: false, any: true },
            ControllerMessage::DoubtIsOver,
            ControllerMessage::SetShare(Share::default()),
            ControllerMessage::SetShare(Share {
                rate_bits_per_s: Some(1_000_000),
                lanes: 7,
                ..Share::default()
            }),
            ControllerMessage::Stop { discard: true },
            ControllerMessage::Committed { batches: 8 },
            ControllerMessage::SourcePeers(vec![source_peer]),
        ];
        for down in downs {
            let bytes = down.encode();
            assert_eq!(ControllerMessage::decode(&bytes).unwrap(), down);
            each_damaged(&bytes, |damaged| drop(ControllerMessage::decode(damaged)));
        }
    }

    /// Promise: a peer of another version is distinguished from a program that is no peer, and
    /// neither gets useless advice.
    #[test]
    fn another_version_is_told_apart_from_another_program() {
        let address = "192.0.2.1:7444".parse().unwrap();
        let ours = PEER_API_VERSION.to_string();
        assert!(check_peer_version(Some(&ours)).is_ok());
        assert!(check_peer_answer(address, Some(&ours)).is_ok());
        for told in [check_peer_version(Some("0")), check_peer_answer(address, Some("0"))] {
            let told = told.unwrap_err();
            assert_eq!((&told.code, told.exit), (&ProblemCode::PeerVersion, Exit::Temporary));
            assert!(told.hint.contains("release"), "{told}");
        }
        let other = check_peer_answer(address, None).unwrap_err();
        assert_eq!((&other.code, other.exit), (&ProblemCode::NotAPeer, Exit::Temporary));
        assert!(other.title.contains("192.0.2.1:7444") && !other.hint.contains("release"));
        assert_eq!(check_peer_version(None).unwrap_err().code, ProblemCode::NotAPeer);
    }

    /// Promise: the version of the peers' protocol is raised when its content changes: how pages
    /// are cut and written, the form of records, how a controller identifies itself. A change of
    /// one of these raises [`PEER_API_VERSION`] once a release has it, and is noted here. Version 3
    /// has accounts: a peer that does not read them would use files as its daemon.
    #[test]
    fn the_version_belongs_to_what_it_carries() {
        use penstock_proto::manifest::{EntryDraft, PageBuilder, page_digest};
        let known = penstock_proto::version::known();
        let slicing = penstock_proto::slicing::Slicing::default();
        let mut page = PageBuilder::new(penstock_proto::id::TransferId([7; 16]), 3, slicing);
        page.push(b"d", &EntryDraft { name: b"f", size: 9, ..EntryDraft::default() });
        let bytes = page.seal().encode();
        let mut said = Writer::new();
        let left = [1, 2, 9].into_iter().collect();
        EncodedPage { digest: page_digest(&bytes), left, bytes }.encode(&mut said);
        put_json(&Caller { epoch: 1, addresses: Vec::new() }, &mut said);
        put_json(&LeaseLeft { left_ms: 2 }, &mut said);
        let said = page_digest(&said.into_bytes()).to_hex();
        let carried = (known.formats().newest, known.slicers().newest, &said[..16]);
        assert_eq!((PEER_API_VERSION, carried), (3, (1, 1, "b5b19d0999fb79c2")));
    }
}
