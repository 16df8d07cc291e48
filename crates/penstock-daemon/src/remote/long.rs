//! What may take a peer on another host long: its answer is a stream of parts
//! ([`penstock_api::rpc::streaming`]), and one that says nothing for a while is not waited for.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::proof::{PageProof, ProofProgress, ProofRequest};
use penstock_api::rpc::streaming::{
    StreamCall, StreamPart, StreamParts, StreamRequest, decode_proof,
};
use penstock_api::task::TaskSpec;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::journal::{EntryDigest, encode_digests};
use penstock_proto::manifest::Page;
use penstock_proto::wire::Writer;
use reqwest::{Body, Method, Response};

use super::client::unreachable_peer;
use super::peer::{RemotePeer, compared_of, encoded, travelling, unreadable};
use crate::http;
use penstock_exit::cause::innermost;

/// How long an answer may take to begin.
const BEGIN: Duration = Duration::from_secs(30);
/// How long a peer may say nothing that works on something.
const SILENT: Duration = Duration::from_secs(15);
/// How soon it is seen that who asks does not want the answer any more.
const LOOK: Duration = Duration::from_millis(100);

/// Takes parts of an answer that are not its end.
pub(super) type TakePart<'a> = &'a mut dyn FnMut(StreamPart) -> Result<(), Problem>;

impl RemotePeer {
    /// Asks, and gives the answer; `take` gets what comes before it. Blocks for as long as the peer
    /// works on it, or until `stop` is set.
    ///
    /// # Errors
    /// The peer's, or that of `take`. Code [`ProblemCode::Stopped`].
    /// [`ProblemCode::PeerUnreachable`]: the answer broke off.
    pub(super) fn ask_long(
        &self,
        question: StreamCall,
        with: &[u8],
        stop: &AtomicBool,
        take: TakePart<'_>,
    ) -> Result<Vec<u8>, Problem> {
        let asked = http::encode(&StreamRequest { caller: self.caller.clone(), question })?;
        let mut body = Writer::new();
        body.bytes(&asked);
        body.raw(with);
        let body = body.into_bytes();
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = self.converse(&body, take) => answer,
                () = wished(stop) => {
                    Err(Problem::new(ProblemCode::Stopped, "it was stopped"))
                }
            }
        });
        answer.map_err(|problem| self.named(problem))
    }

    async fn converse(&self, body: &[u8], take: TakePart<'_>) -> Result<Vec<u8>, Problem> {
        let mut last = None;
        for address in self.client.in_order(&self.addresses) {
            let (body, path) = (Body::from(body.to_vec()), "/peer/v1/long");
            match self.client.send(address, Method::POST, path, body, BEGIN).await {
                Err(problem) if problem.code == ProblemCode::PeerUnreachable => {
                    last = Some(problem)
                }
                Err(problem) => return Err(problem),
                Ok(answer) => return hear(answer, address, take).await,
            }
        }
        let nowhere = || Problem::new(ProblemCode::PeerUnreachable, "it has told no address");
        Err(last.unwrap_or_else(nowhere))
    }

    /// As [`penstock_api::task::TargetPeer::prove`].
    pub(super) fn prove_there(
        &self,
        spec: &TaskSpec,
        request: &ProofRequest<'_>,
    ) -> Result<PageProof, Problem> {
        let question = StreamCall::Prove {
            spec: Box::new(spec.clone()),
            readback: request.readback,
            also: request.also.to_vec(),
        };
        let mut with = Writer::new();
        travelling(request.page).encode(&mut with);
        encode_digests(request.digests, &mut with);
        let answer = self.read_there(question, &with.into_bytes(), request.progress);
        match answer {
            Err(problem) if problem.code == ProblemCode::Stopped => {
                Ok(PageProof { stopped: true, ..PageProof::default() })
            }
            answer => decode_proof(&answer?).map_err(unreadable),
        }
    }

    /// As [`penstock_api::task::TargetPeer::compare_contents`].
    pub(super) fn compare_contents_there(
        &self,
        spec: &TaskSpec,
        page: &Page,
        digests: &[(u32, String)],
        progress: &ProofProgress,
    ) -> Result<Comparison, Problem> {
        let (spec, digests) = (Box::new(spec.clone()), digests.to_vec());
        let mut with = Writer::new();
        encoded(page, &EntrySet::default()).encode(&mut with);
        let none: &[EntryDigest] = &[];
        encode_digests(none, &mut with);
        let question = StreamCall::CompareContents { spec, digests };
        let answer = self.read_there(question, &with.into_bytes(), progress);
        compared_of(&answer.map_err(|problem| match problem.code == ProblemCode::Stopped {
            true => Problem { exit: Exit::Temporary, ..problem },
            false => problem,
        })?)
    }

    /// Has files read; counts in `progress` how far that is.
    fn read_there(
        &self,
        question: StreamCall,
        with: &[u8],
        progress: &ProofProgress,
    ) -> Result<Vec<u8>, Problem> {
        let mut told = 0;
        self.ask_long(question, with, &progress.stop, &mut |part| {
            if let StreamPart::Alive(now) = part {
                progress.bytes.fetch_add(now.saturating_sub(told), Ordering::Relaxed);
                told = told.max(now);
            }
            Ok(())
        })
    }
}

/// Returns when `stop` is set.
async fn wished(stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Hears an answer to its end.
async fn hear(
    mut answer: Response,
    address: SocketAddr,
    take: TakePart<'_>,
) -> Result<Vec<u8>, Problem> {
    let mut parts = StreamParts::default();
    loop {
        while let Some(part) = parts.next_part().map_err(unreadable)? {
            match part {
                StreamPart::Done(answer) => return Ok(answer),
                StreamPart::Failed(problem) => return Err(problem),
                part => take(part)?,
            }
        }
        match tokio::time::timeout(SILENT, answer.chunk()).await {
            Ok(Ok(Some(bytes))) => parts.push(&bytes),
            Ok(Ok(None)) => return Err(unreachable_peer(address, "its answer was cut short")),
            Ok(Err(error)) => return Err(unreachable_peer(address, innermost(&error))),
            Err(_) => return Err(unreachable_peer(address, "it is silent")),
        }
    }
}
