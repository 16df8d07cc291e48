//! The two ends of a copy over ssh, wherever they are: the source scans and serves lanes, the
//! target runs the transfer and keeps the ledger.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::request::{PeerReply, SourceRequest};
use penstock_api::scan::{OwnPages, RootKind, ScanRequest, SourcePeer};
use penstock_api::task::SourceAccess;
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_net::SocketOptions;
use penstock_peer::{SourceService, StoreKind, StoreSpec, Stores, TargetService};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name;
use penstock_proto::network::DataAddress;
use penstock_store::IoMode;

use super::lanes::{Keys, Server, Way, source_name, target_store};
use super::link::{Link, missing};
use super::message::Message;
use crate::copy::job::RunParts;
use crate::copy::places::{SourceFacts, SourcePlace, TargetPlace, ends_in_slash};
use crate::copy::state::State;
use penstock_exit::failure;

/// How long a page may take beyond the wait that was asked for.
const PAGE_MAX: Duration = Duration::from_secs(60);
/// How long an order to remove may take: some seconds, and after the last one a sync.
const REMOVE_MAX: Duration = Duration::from_secs(300);

fn stores(name: Name, kind: StoreKind, read_only: bool) -> Arc<Stores> {
    // Who copies has chosen both ends, and writes with no more than his own rights there.
    let (ephemeral, allow_privileged) = (true, true);
    let io = IoMode::Auto;
    Arc::new(Stores::new([StoreSpec {
        name,
        kind,
        read_only,
        ephemeral,
        allow_privileged,
        io,
        mapped: false,
    }]))
}

/// The source's end.
pub(super) struct SourceEnd {
    pub(super) service: Arc<SourceService>,
    pub(super) kind: RootKind,
    /// The right of the other end to read, in hex.
    pub(super) capability: String,
    transfer: TransferId,
}

impl SourceEnd {
    /// Begins, or goes on with, the scan.
    ///
    /// # Errors
    /// The source cannot be read.
    pub(super) fn open(
        place: &SourcePlace,
        state: &State,
        keys: &Keys,
        mut request: ScanRequest,
    ) -> Result<Self, Problem> {
        request.store = source_name()?;
        request.root = PathText(place.root.clone());
        // Orders to remove come by the ssh channel: who may log in may do what he may do there.
        let read_only = !state.writes_source(request.remove);
        let stores = stores(request.store.clone(), place.kind.clone(), read_only);
        let (peer, verifier) = (keys.peer().clone(), Some(keys.verifier()));
        let service = SourceService::new(stores, &state.source(), peer, verifier);
        let kind = service.open_scan(&request)?;
        let root = request.root.0.clone();
        let capability = keys.capability(request.transfer, request.store.clone(), root);
        Ok(Self { service: Arc::new(service), kind, capability, transfer: request.transfer })
    }

    /// Serves lanes and pages from now on.
    ///
    /// # Errors
    /// The keys are no good, or no thread can be started.
    pub(super) fn serve(
        &self,
        keys: &Keys,
        way: Way,
        link: &Arc<Link>,
    ) -> Result<SourceServer, Problem> {
        let threads = Problem::no_thread;
        let service = Arc::clone(&self.service);
        let lanes = Server::start(service, keys.server_config()?, way).map_err(threads)?;
        let (requests, wanted) = mpsc::channel::<SourceRequest<'static>>();
        let (service, link, transfer) =
            (Arc::clone(&self.service), Arc::clone(link), self.transfer);
        let serve = move || {
            for request in wanted {
                let answered = match answer_of(&*service, transfer, request) {
                    Ok(reply) => {
                        let body = reply.body().to_vec();
                        link.answer(&Message::Reply { reply: Box::new(reply) }, &body)
                    }
                    Err(problem) => link.answer(&Message::Failed(problem), &[]),
                };
                if answered.is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("pages".to_owned()).spawn(serve).map_err(threads)?;
        Ok(SourceServer { lanes, requests })
    }
}

/// Answers a request of the target. The target may be hostile: it opens nothing, and its requests
/// are about its own transfer.
fn answer_of(
    source: &dyn SourcePeer,
    transfer: TransferId,
    request: SourceRequest<'_>,
) -> Result<PeerReply, Problem> {
    let is_allowed = match request {
        SourceRequest::OpenScan(_) | SourceRequest::Release { .. } => false,
        SourceRequest::Page { .. }
        | SourceRequest::Recheck { .. }
        | SourceRequest::Digests { .. }
        | SourceRequest::Remove { .. } => request.transfer() == transfer,
    };
    if !is_allowed {
        let title = "the other end asks for a data set that is not its own";
        return Err(Problem::new(ProblemCode::SshProtocol, title).exit(Exit::NotAuthorised));
    }
    source.call(request)
}

/// Takes the target's requests.
pub(super) struct SourceServer {
    lanes: Arc<Server>,
    requests: Sender<SourceRequest<'static>>,
}

impl SourceServer {
    /// Handles what a target says to its source; returns anything else.
    pub(super) fn handle(&self, message: Message) -> Option<Message> {
        match message {
            Message::Lane => self.lanes.handle_wanted(),
            // The thread ends with the channel only, and then nobody waits for the answer.
            Message::Source { request } => drop(self.requests.send(*request)),
            other => return Some(other),
        }
        None
    }
}

/// The source at the other end.
struct LinkSource {
    link: Arc<Link>,
}

impl SourcePeer for LinkSource {
    fn call(&self, request: SourceRequest<'_>) -> Result<PeerReply, Problem> {
        let deadline = match request {
            SourceRequest::Page { wait_ms, .. } | SourceRequest::Digests { wait_ms, .. } => {
                PAGE_MAX + Duration::from_millis(u64::from(wait_ms))
            }
            SourceRequest::Remove { .. } => REMOVE_MAX,
            SourceRequest::OpenScan(_)
            | SourceRequest::Recheck { .. }
            | SourceRequest::Release { .. } => PAGE_MAX,
        };
        let message = Message::Source { request: Box::new(request.into_owned()) };
        let (Message::Reply { mut reply }, body) = self.link.ask(&message, deadline)? else {
            return Err(missing("what its source replies"));
        };
        reply.set_body(body).map_err(|error| {
            let title = "the other end's reply cannot be read";
            Problem::new(ProblemCode::SshProtocol, title).because(error)
        })?;
        Ok(*reply)
    }
}

/// The parts of a target's end.
pub(super) struct TargetParts<'a> {
    pub(super) place: &'a TargetPlace,
    pub(super) state: &'a State,
    pub(super) options: &'a TransferOptions,
    pub(super) keys: &'a Keys,
    pub(super) link: &'a Arc<Link>,
    pub(super) way: Way,
    /// The round trip, where lanes lead through a tunnel and cannot know it.
    pub(super) rtt: Option<Duration>,
    /// In hex.
    pub(super) capability: &'a str,
    /// From where and to where, as it was written.
    pub(super) places: (PathText, PathText),
}

impl<'a> TargetParts<'a> {
    /// Opens the target's store and the way to the source; returns the parts of the run.
    ///
    /// # Errors
    /// The keys or the right to read cannot be used.
    pub(super) fn run_parts(self) -> Result<RunParts<'a>, Problem> {
        let store = target_store()?;
        let stores = stores(store.clone(), self.place.kind.clone(), false);
        let (address, connect) = self.way.connect(Arc::clone(self.link));
        let lanes = Some(self.keys.lane_config()?);
        let target = TargetService::new(stores, lanes, SocketOptions::default());
        let target = Arc::new(target.with_connect(connect, self.rtt));
        let capability = data_encoding::HEXLOWER.decode(self.capability.as_bytes());
        let capability = capability.map_err(|error| {
            Problem::new(ProblemCode::CapabilityUnreadable, "the right to read cannot be read")
                .because(error)
        })?;
        let site = self.keys.other.clone();
        let (peer, network, rate_bits_per_s) = (site.clone(), None, None);
        let peers = vec![DataAddress { peer, address, network, rate_bits_per_s }];
        Ok(RunParts {
            state: self.state,
            options: self.options,
            place: self.place,
            store,
            target,
            pages: Box::new(OwnPages::new(
                Arc::new(LinkSource { link: Arc::clone(self.link) }),
                self.state.id,
            )),
            source: SourceAccess::Remote { site, own_site: false, peers, capability },
            places: self.places,
        })
    }
}

/// Calls [`State::leave_other_target`] for the place where the data set goes.
///
/// # Errors
/// The state cannot be kept.
pub(super) fn leave_other_target(place: &TargetPlace, state: &mut State) -> anyhow::Result<()> {
    let store = target_store().map_err(failure)?;
    let stores = stores(store.clone(), place.kind.clone(), false);
    let target = TargetService::new(stores, None, SocketOptions::default());
    state.leave_other_target(&target, &store)
}

/// Refuses what the other end says that its source is, if that is not what was asked for with
/// `path`: the name becomes one here, and whoever is copied from must not choose it.
///
/// # Errors
/// Refused.
pub(super) fn check_asked(path: &[u8], facts: &SourceFacts) -> Result<(), Problem> {
    let (asked, name) = (Path::new(OsStr::from_bytes(path)), &facts.name.0);
    let named = !name.contains(&b'/') && !name.is_empty() && name::check_relative(name).is_ok();
    let sound = if path.is_empty() || path == b"~" || ends_in_slash(asked) {
        facts.directory && facts.contents
    } else {
        match asked.file_name() {
            Some(asked) => asked.as_bytes() == name && !facts.contents,
            // After `..`, only the other end knows the name; the root directory has none.
            None if name.is_empty() => facts.directory && facts.contents,
            None => named && facts.directory && !facts.contents,
        }
    };
    if sound {
        return Ok(());
    }
    let title =
        format!("the other end sent `{}`, which this end did not ask for", name::escape(name));
    Err(Problem::new(ProblemCode::SshProtocol, title))
}

#[cfg(test)]
mod tests {
    use penstock_api::scan::PageReply;

    use super::*;

    /// A source that answers everything.
    struct Willing;

    impl SourcePeer for Willing {
        fn call(&self, _: SourceRequest<'_>) -> Result<PeerReply, Problem> {
            Ok(PeerReply::Page(PageReply::NotYet))
        }
    }

    // Promise (C4): a hostile target gets pages of the data set that the copy is about, opens no
    // other one, and releases none.
    #[test]
    fn c4_a_target_asks_about_its_own_data_set_only() {
        let (own, other) = (TransferId([1; 16]), TransferId([2; 16]));
        let page = |transfer| SourceRequest::Page { transfer, number: 0, wait_ms: 0 };
        let asked = |request| answer_of(&Willing, own, request).is_ok();
        assert!(asked(page(own)));
        assert!(!asked(page(other)) && !asked(SourceRequest::Release { transfer: own }));
    }

    fn facts(name: &str, directory: bool, contents: bool) -> SourceFacts {
        SourceFacts {
            name: PathText(name.as_bytes().to_vec()),
            directory,
            contents,
            special: false,
        }
    }

    /// Promise: a hostile host does not choose where its files go: neither beside what was asked
    /// for, nor out of the target, nor straight into it.
    #[test]
    fn what_was_not_asked_for_is_refused() {
        let asked = |path: &str, facts| check_asked(path.as_bytes(), &facts).is_ok();
        for (path, name) in [("a/b", "b"), ("~/b", "b"), ("/b", "b"), ("a/..", "x"), ("..", "x")] {
            assert!(asked(path, facts(name, true, false)), "{path}");
        }
        assert!(asked("a/file", facts("file", false, false)));
        for path in ["", "~", "~/", "a/", "a/.", ".", "/", "a/../"] {
            assert!(asked(path, facts("x", true, true)), "{path}");
            assert!(!asked(path, facts(".ssh", true, false)), "{path}");
            assert!(!asked(path, facts(".bashrc", false, true)), "{path}");
        }
        assert!(asked("..", facts("", true, true)));
        for name in [".ssh", "../b", "/b", "b/", "b/c", ".", "..", ""] {
            assert!(!asked("a/b", facts(name, true, false)), "{name}");
        }
        assert!(!asked("a/b", facts("b", true, true)));
        for name in ["../b", "/b", "b/c", "..", ".", ""] {
            assert!(!asked("..", facts(name, true, false)), "{name}");
        }
        assert!(!asked("..", facts("b", false, false)));
        assert!(!asked("..", facts("b", true, true)));
    }
}
