//! Tries the paths to another site from every peer of this one, has the other site do the same, and
//! explains the faults of each path.
//!
//! A path is tried by a TCP connection from its own address and interface, and then by a request
//! that takes 64 KiB there and back over it: a path that loses packets of full size completes its
//! handshake.

use std::net::SocketAddr;
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::HeaderMap;
use penstock_api::paths::{PairReport, PathView, PathsView, PeerProbe, SiteProbe};
use penstock_api::problem::Problem;
use penstock_api::site::{SPEAKS_HEADER, SiteAddresses, VERSION_HEADER};
use penstock_net::{ConnectError, LocalBind, SocketOptions};
use penstock_peer::{LocalEnd, PathEnds, PathNote, pair};
use penstock_proto::id::Name;
use penstock_proto::version;
use rustix::io::Errno;

use super::Operate;
use crate::events::log::now_ms;
use penstock_exit::cause::innermost;

/// The time that a SYN-ACK may take.
const PROBE_MAX: Duration = Duration::from_secs(3);
/// The time that 64 KiB there and back may take beside some round trips.
const LARGE_MAX: Duration = Duration::from_secs(3);
/// Round trips of a TLS handshake, a request, and a window that opens.
const LARGE_RTTS: u32 = 8;
/// Bytes that are sent there and back.
const LARGE_BYTES: usize = 64 << 10;
/// The time that all probes take at most, at one peer.
pub(crate) const PROBES: Duration = Duration::from_secs(10);
/// The delay, from the request on, of the report about paths over which no other end has shown its
/// certificate. It is the same whatever has answered there, and however fast.
pub(crate) const UNPROVEN: Duration = Duration::from_secs(8);
/// Header with the clock of the answering host, in milliseconds since 1970.
const CLOCK_HEADER: &str = "penstock-clock-ms";

/// The reason why 64 KiB did not pass over a path and back.
#[derive(Debug, thiserror::Error)]
enum LargeError {
    /// There are no certificates for the site.
    #[error(transparent)]
    Tls(#[from] Problem),
    /// A client that is bound to the path cannot be made.
    #[error("{0}")]
    Client(reqwest::Error),
    /// A different number of bytes came back.
    #[error("{0} bytes of 64 KiB came back")]
    Cut(usize),
    /// No byte came back in time.
    #[error(
        "a connection opens, and 64 KiB do not pass within {:.0} s: packets of full size are lost \
         (MTU)",
        .0.as_secs_f64()
    )]
    Stalled(Duration),
    /// The connection failed.
    #[error("64 KiB do not pass: {}", innermost(.0))]
    Broken(reqwest::Error),
}

/// Returns the received bytes, with the time.
pub(crate) async fn echo(body: Bytes) -> (HeaderMap, Bytes) {
    let mut headers = HeaderMap::new();
    headers.insert(CLOCK_HEADER, now_ms().into());
    (headers, body)
}

impl Operate {
    /// Tries all paths from every peer here to a site, and has the site try those to here. Returns
    /// the view of the paths, the findings here, and the findings there. Blocks for some seconds.
    ///
    /// # Errors
    /// The site is not paired, or cannot be asked for its addresses.
    pub(crate) fn paths(
        &self,
        other: &Name,
    ) -> Result<(PathsView, SiteProbe, Option<SiteProbe>), Problem> {
        let theirs = self.sites.exchange_addresses(other)?;
        let (inward, ours) = std::thread::scope(|scope| {
            let ask = || self.sites.ask_for_probe(other);
            let inward = Builder::new().spawn_scoped(scope, ask);
            let ours = self.probe(other, &theirs);
            (inward.map_or_else(|_| Ok(ask()), ScopedJoinHandle::join), ours)
        });
        let (inward, why) = match inward {
            Ok(Ok(inward)) => (Some(inward), String::new()),
            Ok(Err(problem)) => (None, problem.to_string()),
            Err(_) => (None, "a thread has ended".to_owned()),
        };
        let view = PathsView {
            site: other.clone(),
            outward: ours.paths().cloned().collect(),
            inward: inward.iter().flat_map(SiteProbe::paths).cloned().collect(),
            inward_problem: why,
        };
        Ok((view, ours, inward))
    }

    /// Returns the paths as [`Operate::paths`] does, with the conclusions from both views.
    ///
    /// # Errors
    /// As [`Operate::paths`].
    pub(crate) fn doctor_pair(&self, other: &Name) -> Result<PairReport, Problem> {
        let (paths, ours, theirs) = self.paths(other)?;
        let key = self.site.pairing(other)?.map(|pairing| key_text(&pairing.capability_key));
        let (now, key) = (penstock_sys::now_seconds(), key.unwrap_or_default());
        let findings = crate::checks::pair::judge(&paths, &ours, theirs.as_ref(), &key, now);
        Ok(PairReport { paths, ours, theirs, findings })
    }

    /// Tries the paths to a site's addresses from every peer here.
    pub(crate) fn probe(&self, other: &Name, theirs: &SiteAddresses) -> SiteProbe {
        let now = self.now();
        let (own, answers) = std::thread::scope(|scope| {
            let look = || self.probe_from_here(other, theirs);
            let own = Builder::new().spawn_scoped(scope, look);
            let path = format!("/probe/{other}");
            let answers = self.ask_all_with::<PeerProbe>(&now.peers, &path, theirs, PROBES);
            (own.map_or_else(|_| Some(look()), |own| own.join().ok()), answers)
        });
        let mut probe = SiteProbe {
            site: self.site.config.site.clone(),
            peers: own.into_iter().collect(),
            silent: Vec::new(),
        };
        for (peer, answer) in answers {
            match answer {
                Ok((found, _)) => probe.peers.push(found),
                Err(why) => probe.silent.push((peer, why.to_string())),
            }
        }
        probe
    }

    /// Tries the paths from this peer, all at once.
    pub(crate) fn probe_from_here(&self, other: &Name, theirs: &SiteAddresses) -> PeerProbe {
        let site = &self.site;
        let locals = site.networks().local_ends();
        let known = self.target.known_paths(other);
        let paths = pair(&locals, &theirs.data, &[]).paths;
        if paths.is_empty() {
            tracing::warn!(site = %other, "no address here pairs with one there");
        }
        let own: Vec<SocketAddr> =
            site.own_addresses().data.into_iter().map(|data| data.address).collect();
        let (paths, listening) = std::thread::scope(|scope| {
            let start = |ends| {
                let note = known.iter().find(|note| same(&note.ends, ends));
                let probe = move || self.probe_one(other, ends, note);
                Builder::new().spawn_scoped(scope, probe).map_err(|_| (ends, note))
            };
            let probes: Vec<_> = paths.iter().map(start).collect();
            let listening = own.iter().map(|address| (*address, self_test(*address))).collect();
            // Without a thread of its own a path is tried after the others.
            let probed = probes.into_iter().filter_map(|probe| match probe {
                Ok(thread) => thread.join().ok(),
                Err((ends, note)) => Some(self.probe_one(other, ends, note)),
            });
            let paths = probed.collect();
            (paths, listening)
        });
        let lane = version::known().lane;
        PeerProbe {
            peer: site.config.peer.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: (lane.oldest, lane.newest),
            certificate_expires: site.identity.expires(),
            capability_key: key_text(&site.keys().authority.capability_key().public_key()),
            paths,
            listening,
        }
    }

    fn probe_one(&self, other: &Name, ends: &PathEnds, note: Option<&PathNote>) -> PathView {
        let LocalEnd { address, device, .. } = ends.local.clone();
        let bind = LocalBind { address, device };
        let to = ends.remote.address;
        let dialled = penstock_net::dial(to, &bind, PROBE_MAX, &SocketOptions::default());
        let rtt = dialled.as_ref().ok().and_then(|dialled| dialled.rtt().ok());
        let why = match &dialled {
            Ok(_) => String::new(),
            Err(error) => why_not(error, other, &ends.local, to),
        };
        let sent = dialled.is_ok().then(|| self.send_large(other, ends, rtt.unwrap_or_default()));
        let (proven, sent) = sent.unwrap_or((false, Ok(None)));
        let (large, clock_ahead_ms) = match sent {
            Ok(ahead) => (String::new(), ahead),
            Err(why) => (why.to_string(), None),
        };
        let least = note.and_then(|note| note.rtt).into_iter().chain(rtt).min();
        PathView {
            peer: self.site.config.peer.clone(),
            to_peer: ends.remote.peer.clone(),
            from: ends.local.to_string(),
            to,
            network: ends.network(),
            reachable: dialled.is_ok(),
            proven,
            why,
            large,
            clock_ahead_ms,
            rtt_us: least.map(|rtt| rtt.as_micros() as u64),
            rtt_now_us: rtt.map(|rtt| rtt.as_micros() as u64),
            rate_bits_per_s: note.map(|note| note.rate * 8.0).filter(|rate| *rate > 0.0),
            state: note.map_or("untried", |note| note.state.as_str()).to_owned(),
            since: note.map_or(0, |note| note.since),
            last_failure: note.map_or_else(String::new, |note| note.why.clone()),
        }
    }

    /// Sends 64 KiB over a path and has them sent back; returns whether the site has shown its
    /// certificate, and by how many milliseconds the clock there is ahead.
    fn send_large(
        &self,
        other: &Name,
        ends: &PathEnds,
        rtt: Duration,
    ) -> (bool, Result<Option<f64>, LargeError>) {
        match self.client_over(other, ends, rtt) {
            Ok((client, limit)) => self.runtime.block_on(self.ask_over(&client, ends, limit)),
            Err(why) => (false, Err(why)),
        }
    }

    /// Returns a client whose connections go over one path, and whose requests have a time limit.
    fn client_over(
        &self,
        other: &Name,
        ends: &PathEnds,
        rtt: Duration,
    ) -> Result<(reqwest::Client, Duration), LargeError> {
        let tls = self.sites.tls(other)?;
        let limit = LARGE_MAX + rtt * LARGE_RTTS;
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(limit)
            .local_address(ends.local.address);
        if let Some(device) = &ends.local.device {
            builder = builder.interface(device);
        }
        Ok((builder.build().map_err(LargeError::Client)?, limit))
    }

    async fn ask_over(
        &self,
        client: &reqwest::Client,
        ends: &PathEnds,
        limit: Duration,
    ) -> (bool, Result<Option<f64>, LargeError>) {
        let url = format!("https://{}/site/v1/echo", ends.remote.address);
        let speaks = self.site.speaks();
        let ask = async |body: Vec<u8>| {
            let request = client.post(&url).header(VERSION_HEADER, speaks.oldest);
            let reply = request.header(SPEAKS_HEADER, speaks.to_string()).body(body).send();
            reply.await?.error_for_status()
        };
        // An answer of any kind comes from a host that has shown the site's certificate.
        let shown = ask(Vec::new()).await;
        let proven = shown.as_ref().map_or_else(reqwest::Error::is_status, |_| true);
        let sent = async {
            shown?;
            let bytes = ask(vec![b'.'; LARGE_BYTES]).await?.bytes().await?.len();
            // For the clock.
            let begun = Instant::now();
            let reply = ask(Vec::new()).await?;
            Ok::<_, reqwest::Error>((bytes, begun.elapsed(), reply))
        };
        let sent = match sent.await {
            Ok((LARGE_BYTES, took, reply)) => {
                let clock = reply.headers().get(CLOCK_HEADER);
                let clock = clock.and_then(|text| text.to_str().ok()?.parse::<u64>().ok());
                let halfway = now_ms() as f64 - took.as_secs_f64() * 500.0;
                Ok(clock.map(|clock| clock as f64 - halfway))
            }
            Ok((bytes, ..)) => Err(LargeError::Cut(bytes)),
            Err(error) if error.is_timeout() => Err(LargeError::Stalled(limit)),
            Err(error) => Err(LargeError::Broken(error)),
        };
        (proven, sent)
    }
}

/// Reduces a probe to the facts that a site may learn of the paths to addresses that it has named.
/// Where no other end has shown its certificate, the site learns only that: not whether, when or
/// how something else has answered. Returns whether the other end has shown it over all paths.
pub(crate) fn disclose(probe: &mut SiteProbe, to: &Name) -> bool {
    let mut all_proven = true;
    for path in probe.peers.iter_mut().flat_map(|peer| &mut peer.paths) {
        if path.proven {
            continue;
        }
        all_proven = false;
        path.reachable = false;
        path.why = format!("nothing at {} has shown the certificate of site `{to}`", path.to);
        path.large.clear();
        path.last_failure.clear();
        (path.rtt_us, path.rtt_now_us) = (None, None);
        (path.rate_bits_per_s, path.clock_ahead_ms) = (None, None);
    }
    all_proven
}

/// Returns a key in a few digits.
fn key_text(key: &[u8]) -> String {
    if key.is_empty() { String::new() } else { blake3::hash(key).to_hex()[..16].to_owned() }
}

fn same(a: &PathEnds, b: &PathEnds) -> bool {
    (&a.local.address, &a.local.device, a.remote.address)
        == (&b.local.address, &b.local.device, b.remote.address)
}

/// Returns the reason why this host cannot connect to an address of its own; empty if it can.
fn self_test(address: SocketAddr) -> String {
    let bind = LocalBind { address: None, device: None };
    match penstock_net::dial(address, &bind, PROBE_MAX, &SocketOptions::default()) {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}

/// Returns the reason why a peer was not reached, and where to look.
fn why_not(error: &ConnectError, other: &Name, local: &LocalEnd, to: SocketAddr) -> String {
    match error {
        ConnectError::TimedOut { .. } => format!(
            "no SYN-ACK from {other} {to} within {} s: firewall at {other}, or a cut between?",
            PROBE_MAX.as_secs()
        ),
        ConnectError::Unreachable { source, .. } => match Errno::from_io_error(source) {
            Some(Errno::CONNREFUSED) => {
                format!("refused: no daemon of {other} is listening at {to}")
            }
            Some(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::NETDOWN) => {
                format!("no route from {local} to {to}: {source}")
            }
            _ => format!("{to} cannot be reached from {local}: {source}"),
        },
        ConnectError::Socket { source, .. } => {
            format!("{local} cannot be used here: {source}: {}", source.source)
        }
        other => other.to_string(),
    }
}
