//! Dials lanes to one site over its paths.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use penstock_api::task::TaskSpec;
use penstock_engine::paths::{LocalEnd, PathEnds, PathId, PathSpec, pair_further};
use penstock_net::Dialled;
use penstock_net::{ConnectError, LaneStream, SocketOptions, Welcome};
use penstock_proto::frame::Hello;
use penstock_proto::id::{LaneId, Name};
use penstock_proto::network::DataAddress;
use penstock_proto::version;

use crate::lane::path_book::PathBook;
use crate::lane::path_notes::{LocalEnds, bind_of};

/// Connects a lane to a source peer within a time limit, in place of a plain dial of its address.
/// Used where the source dials, or needs a request first.
pub type LaneConnect = Arc<
    dyn Fn(SocketAddr, Duration, &SocketOptions) -> Result<Dialled, ConnectError> + Send + Sync,
>;

/// Dials lanes to one site.
pub(crate) struct Dialer {
    pub(crate) connect: Option<LaneConnect>,
    /// The round trip, where connections lead through a tunnel and their TCP does not know it.
    pub(crate) rtt: Option<Duration>,
    pub(crate) config: Arc<rustls::ClientConfig>,
    pub(crate) site: Name,
    pub(crate) options: SocketOptions,
    pub(crate) local_ends: Option<LocalEnds>,
    /// Networks over which paths may lead; empty allows all.
    pub(crate) networks: Vec<Name>,
    pub(crate) capability: Vec<u8>,
    /// The place of a path here is its number; paths are added, and none is removed.
    pub(crate) paths: RwLock<Vec<Arc<PathEnds>>>,
    pub(crate) book: Arc<PathBook>,
}

impl Dialer {
    fn all(&self) -> Vec<Arc<PathEnds>> {
        self.paths.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the rate and the link of each path, for the engine.
    pub(crate) fn specs(&self) -> Vec<PathSpec> {
        self.all().iter().map(|ends| spec_of(ends)).collect()
    }

    /// Returns the addresses of a path.
    pub(crate) fn ends(&self, path: PathId) -> Option<Arc<PathEnds>> {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        paths.get(usize::from(path.0)).cloned()
    }

    /// Returns the least round trip of each path that was dialled before.
    pub(crate) fn known_rtts(&self) -> Vec<(PathId, Duration)> {
        let known = |ends: &PathEnds| self.rtt.or_else(|| self.book.rtt(&self.site, ends));
        let paths = self.all().into_iter().enumerate();
        paths.filter_map(|(at, ends)| Some((PathId(at as u16), known(&ends)?))).collect()
    }

    /// Adds the unknown paths from `locals` to `peers`. Returns the specifications of these paths
    /// alone, for the engine.
    pub(super) fn find_further(&self, locals: &[LocalEnd], peers: &[DataAddress]) -> Vec<PathSpec> {
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<PathEnds> = paths.iter().map(|ends| PathEnds::clone(ends)).collect();
        let further = pair_further(&known, locals, peers, &self.networks);
        let further = self.book.take_up(&self.site, further);
        let specs = further.iter().map(spec_of).collect();
        paths.extend(further.into_iter().map(Arc::new));
        specs
    }

    /// Returns the round trip of an open lane.
    pub(crate) fn rtt_of(&self, stream: &LaneStream) -> Option<Duration> {
        self.rtt.or_else(|| stream.rtt().ok().map(|rtt| rtt.min))
    }

    /// Opens one lane over a path. Blocks for at most [`DIAL_MAX`], or less `beside` another path
    /// that carries. Calls `say_rtt` as soon as the round trip is known, since over distance more
    /// lanes are wanted, and need not wait until this one is open.
    pub(crate) fn dial(
        &self,
        spec: &TaskSpec,
        lane: LaneId,
        ends: &PathEnds,
        beside: bool,
        say_rtt: impl FnOnce(Duration),
    ) -> Result<(LaneStream, Welcome), ConnectError> {
        let hello = Hello {
            protocol: version::known().lane,
            lane,
            transfer: spec.transfer,
            framing: spec.framing,
            digest: spec.digest,
            capability: self.capability.clone(),
        };
        let most = if beside { DIAL_BESIDE_MAX } else { DIAL_MAX };
        // Set even with a single path, since another may be added.
        let options = SocketOptions { probe_after: Some(PROBE), ..self.options.clone() };
        let address = ends.remote.address;
        let dialled = match &self.connect {
            Some(connect) => connect(address, most, &options)?,
            None => match self.book.ahead.take(&self.site, ends, most, &options) {
                Ok(dialled) => dialled,
                Err(left) => penstock_net::dial(address, &bind_of(&ends.local), left, &options)?,
            },
        };
        if let Some(rtt) = self.rtt {
            say_rtt(rtt);
        } else if let Ok(rtt) = dialled.rtt() {
            self.book.note(&self.site, ends, |note| {
                note.rtt = Some(note.rtt.map_or(rtt, |least| least.min(rtt)));
            });
            say_rtt(rtt);
        }
        dialled.open(&self.config, &self.site, &hello)
    }
}

fn spec_of(ends: &PathEnds) -> PathSpec {
    PathSpec { link: ends.link, rate_bits_per_s: ends.rate_bits_per_s() }
}

/// Notes why a lane over a path was lost or did not open.
pub(crate) fn note_failure(dialer: &Dialer, ends: &PathEnds, why: &str) {
    dialer.book.note(&dialer.site, ends, |note| why.clone_into(&mut note.why));
}

/// Longest time for opening one lane: three round trips and a slow start.
pub(crate) const DIAL_MAX: Duration = Duration::from_secs(15);

/// Longest time for opening a lane while another path carries. Four seconds are twenty of the
/// longest round trips, or a lost SYN and its repetition.
const DIAL_BESIDE_MAX: Duration = Duration::from_secs(4);

/// Interval of TCP's probes of an otherwise idle path.
const PROBE: Duration = Duration::from_secs(1);
