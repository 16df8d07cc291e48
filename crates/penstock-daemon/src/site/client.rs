//! Asks other sites over HTTP and mutual TLS, each request with a deadline.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::keys::{KEYS_HEADER, KeysHeard, KeysRecord};
use penstock_api::limits::LimitRequest;
use penstock_api::operate::TransferPaths;
use penstock_api::paths::SiteProbe;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::receipt::{ReceiptBody, ReceiptSignature};
use penstock_api::removal::{RemoveOrder, RemoveReply};
use penstock_api::rest::{
    DirectoryRequest, EntriesQuery, EntryList, EntryView, PieceMap, SiteStoreView, Steering,
    StoreUsage, TransferPatch,
};
use penstock_api::scan::{DigestWish, PageReply, RecheckRequest, ScanRequest, WishedDigests};
use penstock_api::site::{
    OpenScan, OpenedScan, PAGE_WAIT_MS_MAX, RemoveMoved, SPEAKS_HEADER, SiteAddresses, USER_HEADER,
    VERSION_HEADER, check_version,
};
use penstock_api::transfer::{TransferReport, TransferRequest, TransferState};
use penstock_controller::sites::{RemoteScan, SiteClient};
use penstock_net::trust::{
    Fingerprint, Purpose, client_config, explain, is_distrust, peer_server_name,
};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name;
use penstock_proto::network::{self, DataAddress};
use penstock_proto::version::{self, VersionRange};
use reqwest::{Method, Response, StatusCode};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;

use super::context::Site;
use super::reported_addresses::believable;
use crate::access::receipt_keys::check_countersignature;
use crate::http;
use crate::http::compressed;
use crate::http::compressed::ZSTD;

/// The time that a connection may take.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// The time that an answer may take that needs no scan.
const DEADLINE: Duration = Duration::from_secs(15);
/// The time that a site has to refuse a certificate.
const PROBE_DEADLINE: Duration = Duration::from_secs(2);
/// The time that a scan's first answer may take: the site looks at the root in a store.
const SCAN_DEADLINE: Duration = Duration::from_secs(45);
/// Flow-control window of a reply: a page in one round trip (RFC 9113, 5.2).
const WINDOW_BYTES: u32 = 8 << 20;
/// The idle time after which a connection is pinged, and the time for the answer. Within their sum
/// a request leaves a controller that does not respond for another peer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(4));
/// A site that has never answered within this is far: its pages come compressed, and connections
/// to it are made ahead. A new connection to a near one takes about half of it.
const FAR: Duration = Duration::from_millis(10);
/// The time that a source has to compare a receipt with its pages: some 10 ms for each of them.
const COUNTERSIGN_DEADLINE: Duration = Duration::from_secs(600);
/// The time that a source has for an order to remove. It answers after some seconds, and after the
/// last order syncs its store.
const REMOVE_DEADLINE: Duration = Duration::from_secs(300);
/// The time that a reply which has begun may pause.
const STALL: Duration = Duration::from_secs(30);
/// The time that a digest list may take.
const DIGESTS_DEADLINE: Duration = Duration::from_secs(3600);
/// Longest error reply.
const PROBLEM_BYTES_MAX: usize = 1 << 20;
/// Longest reply that is kept in memory.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Other sites.
pub(crate) struct Sites {
    site: Arc<Site>,
    runtime: Handle,
    /// With the authority that each of them trusts: its connections are of no other site.
    clients: Mutex<HashMap<Name, (Option<Fingerprint>, reqwest::Client)>>,
    /// The address at which a site has answered last: asked first, so that a dead one costs its
    /// deadline once, not with each request.
    answered: Mutex<HashMap<Name, SocketAddr>>,
    /// The shortest time in which a site has answered anything, since it is reached there: a round
    /// trip or more, as connections and answers are made meanwhile.
    quickest: Mutex<HashMap<Name, Duration>>,
    /// Versions that a site speaks, by its last answer.
    speaks: Mutex<HashMap<Name, VersionRange>>,
    /// Number of each site's keys, by its last answer, and a signal that one has changed.
    keys: Mutex<HashMap<Name, u64>>,
    other_keys: Notify,
}

struct Call<'a> {
    site: &'a Name,
    method: Method,
    path: String,
    body: Option<Vec<u8>>,
    /// In which version it is, where its body depends on that; else in the newest that both speak.
    version: Option<u16>,
    deadline: Duration,
    /// True if the answer may be compressed.
    compressed: bool,
    /// The user of this site for whom the request is, if the other site may learn that.
    user: Option<Name>,
}

impl<'a> Call<'a> {
    fn new(site: &'a Name, method: Method, path: String) -> Self {
        let (body, version, compressed) = (None, None, false);
        Self { site, method, path, body, version, deadline: DEADLINE, compressed, user: None }
    }
}

/// The form of a good answer, before its body.
#[derive(Clone, Copy)]
struct Head {
    status: StatusCode,
    json: bool,
    compressed: bool,
}

struct Answer {
    head: Head,
    body: Vec<u8>,
}

impl Sites {
    /// Returns a client for the sites that `site` is paired with, at any time.
    pub(crate) fn new(site: Arc<Site>, runtime: Handle) -> Self {
        Self {
            site,
            runtime,
            clients: Mutex::default(),
            answered: Mutex::default(),
            quickest: Mutex::default(),
            speaks: Mutex::default(),
            keys: Mutex::default(),
            other_keys: Notify::new(),
        }
    }

    /// Returns the runtime of requests to other sites.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Forgets the connections to a site that is no longer paired.
    pub(crate) fn forget(&self, site: &Name) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).remove(site);
        self.answered.lock().unwrap_or_else(PoisonError::into_inner).remove(site);
        self.quickest().remove(site);
        self.site.forget_data_of(site);
        self.speaks.lock().unwrap_or_else(PoisonError::into_inner).remove(site);
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(site);
    }

    /// Returns the number of a site's keys, by its last answer since this daemon began; 0 without
    /// an answer.
    pub(crate) fn keys_heard(&self, site: &Name) -> u64 {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(site).copied().unwrap_or_default()
    }

    /// Returns when a site has reported other keys than before.
    pub(crate) async fn other_keys(&self) {
        self.other_keys.notified().await;
    }

    fn note_keys(&self, site: &Name, sequence: u64) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.insert(site.clone(), sequence).unwrap_or_default() != sequence {
            self.other_keys.notify_one();
        }
    }

    /// Sends a site the statements about the keys of this one; returns those that it has accepted.
    ///
    /// # Errors
    /// As [`Sites::exchange_addresses`]; code `keys`: the site does not accept them.
    pub(crate) fn tell_keys(&self, site: &Name, record: &KeysRecord) -> Result<KeysHeard, Problem> {
        let body = Some(http::encode(record)?);
        self.get(&Call { body, ..Call::new(site, Method::POST, "/keys".to_owned()) })
    }

    /// Asks a site for its statements that are not known here, and accepts them.
    ///
    /// # Errors
    /// As [`Sites::exchange_addresses`]; code `keys`: they are not good.
    pub(crate) fn learn_keys(&self, site: &Name) -> Result<(), Problem> {
        let known = self.site.pairing(site)?.map_or(0, |pairing| pairing.keys);
        let call = Call::new(site, Method::GET, format!("/keys/{known}"));
        let record: KeysRecord = self.get(&call)?;
        self.site.accept_keys(site, &record)?;
        self.site.tell_trust_news();
        Ok(())
    }

    /// Returns the newest version that both sites speak, as far as is known. A site whose versions
    /// are unknown gets requests in our newest.
    fn version(&self, site: &Name) -> u16 {
        let ours = self.site.speaks();
        let speaks = self.speaks.lock().unwrap_or_else(PoisonError::into_inner);
        let common = speaks.get(site).and_then(|theirs| ours.common(*theirs));
        common.unwrap_or(ours.newest)
    }

    fn quickest(&self) -> MutexGuard<'_, HashMap<Name, Duration>> {
        self.quickest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the user of this site that another one learns, if it learns any.
    fn told_user(&self, site: &Name, user: Option<&Name>) -> Option<Name> {
        user.filter(|_| self.site.exports.tells_users(site)).cloned()
    }

    fn is_far(&self, site: &Name) -> bool {
        self.quickest().get(site).is_some_and(|quickest| *quickest >= FAR)
    }

    fn note_answered(&self, site: &Name, took: Duration) {
        let mut all = self.quickest();
        let quickest = all.entry(site.clone()).or_insert(took);
        *quickest = took.min(*quickest);
    }

    /// Sends a request to one address, once more in another version if the site reports that it
    /// speaks no version as new as this one.
    fn send(
        &self,
        client: &reqwest::Client,
        call: &Call<'_>,
        url: &str,
        out: &mut dyn Write,
    ) -> Result<Head, Problem> {
        let mut version = call.version.unwrap_or_else(|| self.version(call.site));
        loop {
            let spoken = (version, self.site.speaks());
            let (said, result) = self.runtime.block_on(send(client, call, url, spoken, out));
            if let Some(took) = said.took {
                self.note_answered(call.site, took);
            }
            if let Some(theirs) = said.speaks {
                let mut speaks = self.speaks.lock().unwrap_or_else(PoisonError::into_inner);
                speaks.insert(call.site.clone(), theirs);
            }
            if let Some(keys) = said.keys {
                self.note_keys(call.site, keys);
            }
            let next = self.version(call.site);
            match &result {
                Err(problem)
                    if problem.code == ProblemCode::Version
                        && call.version.is_none()
                        && next < version =>
                {
                    version = next;
                }
                _ => return result,
            }
        }
    }

    fn client(&self, site: &Name) -> Result<reqwest::Client, Problem> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let pinned = self.site.trust.fingerprint_of(site);
        if let Some((authority, client)) = clients.get(site)
            && *authority == pinned
        {
            return Ok(client.clone());
        }
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured((*self.tls(site)?).clone())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_DEADLINE)
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .http2_initial_connection_window_size(4 * WINDOW_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .http2_keep_alive_timeout(KEEP_ALIVE.1)
            .build()
            .map_err(tls_failed)?;
        clients.insert(site.clone(), (pinned, client.clone()));
        Ok(client)
    }

    fn call(&self, call: &Call<'_>) -> Result<Answer, Problem> {
        let mut body = Bounded { bytes: Vec::new(), bytes_max: REPLY_BYTES_MAX };
        let head = self.call_into(call, &mut body)?;
        Ok(Answer { head, body: body.bytes })
    }

    /// Sends a request to the first of a site's addresses that answers, and writes the body of a
    /// good answer to `out`.
    fn call_into(&self, call: &Call<'_>, out: &mut dyn Write) -> Result<Head, Problem> {
        let pairing = self.site.pairing(call.site)?;
        let pairing = pairing.filter(|_| self.site.is_paired(call.site)).ok_or_else(|| {
            let title = format!("site `{}` is not paired with this one", call.site);
            Problem::new(ProblemCode::NotPaired, title)
                .hint("`penstock site list` shows the paired sites")
        })?;
        let client = self.client(call.site)?;
        let mut last = None;
        let answered = || self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut addresses, first) = (pairing.addresses, answered().get(call.site).copied());
        addresses.sort_by_key(|address| Some(*address) != first);
        for address in &addresses {
            let url = format!("https://{address}/site/v1{}", call.path);
            let mut result = self.send(&client, call, &url, out);
            if matches!(&result, Err(problem) if problem.code == ProblemCode::SiteBroken) {
                // A connection that was kept too long, or a certificate that is refused. All that
                // is asked can be asked twice.
                self.runtime.block_on(self.probe(call.site, *address))?;
                result = self.send(&client, call, &url, out);
            }
            match result {
                // A peer that is cut off from its controller does not represent its site.
                Err(problem)
                    if matches!(
                        problem.code,
                        ProblemCode::SiteUnreachable
                            | ProblemCode::SiteBroken
                            | ProblemCode::NotController
                    ) =>
                {
                    last = Some(problem);
                }
                result => {
                    let before = answered().insert(call.site.clone(), *address);
                    if before.is_some_and(|before| before != *address) {
                        self.quickest().remove(call.site);
                    }
                    return result;
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            let title = format!("site `{}` has no known address", call.site);
            Problem::new(ProblemCode::SiteAddress, title)
        }))
    }

    /// Finds out whether a site refuses our certificate: with TLS 1.3 it reports that only after
    /// the handshake, and an HTTP/2 client then knows only that the connection broke.
    async fn probe(&self, site: &Name, address: SocketAddr) -> Result<(), Problem> {
        let url = format!("https://{address}");
        let refused = |error: std::io::Error| match error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        {
            Some(tls) if is_distrust(tls) => Err(distrust(site, &url, tls)),
            _ => Ok(()),
        };
        let look = async {
            let Ok(tcp) = TcpStream::connect(address).await else { return Ok(()) };
            let connector = TlsConnector::from(self.tls(site)?);
            match connector.connect(peer_server_name(), tcp).await {
                // The other end sends nothing unless it refuses, since we ask nothing.
                Ok(mut tls) => tls.read_u8().await.map_or_else(refused, |_| Ok(())),
                Err(error) => refused(error),
            }
        };
        tokio::time::timeout(PROBE_DEADLINE, look).await.unwrap_or(Ok(()))
    }

    /// Returns the TLS configuration of connections to a site.
    ///
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn tls(&self, site: &Name) -> Result<Arc<rustls::ClientConfig>, Problem> {
        let own = &self.site;
        let expected = Some(site.clone());
        client_config(Purpose::SiteApi, &own.identity, &own.trust, expected, &own.suites)
            .map_err(tls_failed)
    }

    /// Tells a site where this one is reached now, and learns the same of it. Blocks for as long as
    /// any request.
    ///
    /// # Errors
    /// The site is not paired, or cannot be reached.
    pub(crate) fn exchange_addresses(&self, site: &Name) -> Result<SiteAddresses, Problem> {
        let body = Some(http::encode(&self.site.addresses())?);
        let call = Call { body, ..Call::new(site, Method::POST, "/addresses".to_owned()) };
        let theirs = self.believable(site, self.get::<SiteAddresses>(&call)?.bounded())?;
        self.site.learn(site, &theirs)?;
        Ok(theirs)
    }

    /// Returns the part of a site's statement about its addresses that is believed: see
    /// [`believable`].
    fn believable(&self, site: &Name, told: SiteAddresses) -> Result<SiteAddresses, Problem> {
        let pairing = self.site.pairing(site)?;
        let at = pairing.into_iter().flat_map(|pairing| pairing.addresses);
        Ok(believable(told, &at.map(|address| address.ip()).collect::<Vec<_>>()))
    }

    fn believable_data(
        &self,
        site: &Name,
        data: Vec<DataAddress>,
    ) -> Result<Vec<DataAddress>, Problem> {
        let told = SiteAddresses { addresses: Vec::new(), data: network::bounded(data) };
        self.believable(site, told).map(|told| told.data)
    }

    /// Has a site try the paths to this one.
    ///
    /// # Errors
    /// As [`Sites::exchange_addresses`]; it tries other paths already.
    pub(crate) fn ask_for_probe(&self, site: &Name) -> Result<SiteProbe, Problem> {
        let body = Some(http::encode(&self.site.addresses())?);
        self.get(&Call { body, ..Call::new(site, Method::POST, "/probe".to_owned()) })
    }

    /// Returns the shares of a transfer that another site owns.
    ///
    /// # Errors
    /// As [`Sites::exchange_addresses`].
    pub(crate) fn transfer_paths(
        &self,
        site: &Name,
        id: TransferId,
    ) -> Result<TransferPaths, Problem> {
        self.get(&Call::new(site, Method::GET, format!("/transfers/{id}/paths")))
    }

    /// Returns the least time in which a site has answered since this daemon began; `None` if it
    /// has not.
    pub(crate) fn round_trip(&self, site: &Name) -> Option<Duration> {
        self.quickest().get(site).copied()
    }

    /// Returns the stores of a site that it lets this one read or write. Blocks for `limit` at most
    /// for each of its addresses.
    ///
    /// # Errors
    /// As [`Sites::exchange_addresses`]; code `version`: its release cannot list.
    pub(crate) fn stores(
        &self,
        site: &Name,
        limit: Duration,
    ) -> Result<Vec<SiteStoreView>, Problem> {
        let call = Call::new(site, Method::GET, "/stores".to_owned());
        self.get(&Call { deadline: limit, ..call })
            .map_err(|problem| too_old(site, "list its stores", problem))
    }

    /// Returns a part of the entries of a directory in a store of a site. Blocks as
    /// [`Sites::stores`] does.
    ///
    /// # Errors
    /// Those of [`Sites::stores`]; code `not-exported`.
    pub(crate) fn entries(
        &self,
        (site, store): (&Name, &Name),
        query: &EntriesQuery,
        limit: Duration,
    ) -> Result<EntryList, Problem> {
        let call = Call {
            body: Some(http::encode(query)?),
            deadline: limit,
            ..Call::new(site, Method::POST, format!("/stores/{store}/entries"))
        };
        let list: EntryList =
            self.get(&call).map_err(|problem| too_old(site, "list its stores", problem))?;
        // A name from another site must be one component.
        let is_name = |entry: &EntryView| name::is_component(&entry.name.0);
        Ok(EntryList { items: list.items.into_iter().filter(is_name).collect(), ..list })
    }

    /// Returns how full a store of a site is. Blocks as [`Sites::stores`] does.
    ///
    /// # Errors
    /// Those of [`Sites::entries`].
    pub(crate) fn usage(
        &self,
        (site, store): (&Name, &Name),
        limit: Duration,
    ) -> Result<StoreUsage, Problem> {
        let call = Call::new(site, Method::GET, format!("/stores/{store}/usage"));
        let asked = self.get(&Call { deadline: limit, ..call });
        asked.map_err(|problem| too_old(site, "tell how full its stores are", problem))
    }

    /// Makes a directory in a store of a site. Blocks as [`Sites::stores`] does.
    ///
    /// # Errors
    /// Those of [`Sites::entries`]; code `entry-exists`.
    pub(crate) fn make_directory(
        &self,
        (site, store): (&Name, &Name),
        request: &DirectoryRequest,
        limit: Duration,
    ) -> Result<(), Problem> {
        let call = Call {
            body: Some(http::encode(request)?),
            deadline: limit,
            ..Call::new(site, Method::POST, format!("/stores/{store}/directories"))
        };
        self.call(&call).map(drop).map_err(|problem| too_old(site, "list its stores", problem))
    }

    fn get<T: serde::de::DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, Problem> {
        http::decode(&self.call(call)?.body)
    }
}

/// Returns the problem of a site that has no such path because its older release cannot `act`.
fn too_old(site: &Name, act: &str, problem: Problem) -> Problem {
    if problem.code != ProblemCode::NotFound {
        return problem;
    }
    let title = format!("site `{site}` runs an older Penstock that cannot {act}");
    Problem::new(ProblemCode::Version, title).hint("upgrade the daemons of that site")
}

fn tls_failed(error: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::Tls, "TLS cannot be set up").because(error)
}

fn distrust(site: &Name, url: &str, error: &rustls::Error) -> Problem {
    let title = format!("site `{site}` and this one do not trust each other at {url}");
    Problem::new(ProblemCode::Certificate, title)
        .because(explain(error))
        .hint("if that site was set up again, run `penstock site unpair` and `penstock site pair`")
}

/// A body in memory, never more of it than allowed.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Write for Bounded {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + part.len() > self.bytes_max {
            let why = format!("the reply is longer than {} bytes", self.bytes_max);
            return Err(std::io::Error::other(why));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Facts about the site that any answer carries.
#[derive(Default)]
struct Said {
    /// The time that the first byte took.
    took: Option<Duration>,
    speaks: Option<VersionRange>,
    /// Number of its keys.
    keys: Option<u64>,
}

/// Asks in a version, and names those that this site speaks.
async fn send(
    client: &reqwest::Client,
    call: &Call<'_>,
    url: &str,
    (version, speaks): (u16, VersionRange),
    out: &mut dyn Write,
) -> (Said, Result<Head, Problem>) {
    let mut request = client
        .request(call.method.clone(), url)
        .timeout(call.deadline)
        .header(VERSION_HEADER, version)
        .header(SPEAKS_HEADER, speaks.to_string())
        .header("content-type", "application/json")
        .body(call.body.clone().unwrap_or_default());
    if call.compressed {
        request = request.header("accept-encoding", ZSTD);
    }
    if let Some(user) = &call.user {
        request = request.header(USER_HEADER, user.as_str());
    }
    let asked = Instant::now();
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return (Said::default(), Err(lost(call.site, url, &error))),
    };
    let took = Some(asked.elapsed());
    let theirs = response.headers().get(SPEAKS_HEADER);
    let theirs = theirs.and_then(|value| value.to_str().ok()?.parse().ok());
    let keys = response.headers().get(KEYS_HEADER);
    let keys = keys.and_then(|value| value.to_str().ok()?.parse().ok());
    let said = Said { took, speaks: theirs, keys };
    (said, receive(response, call, url, speaks, out).await)
}

async fn receive(
    mut response: Response,
    call: &Call<'_>,
    url: &str,
    speaks: VersionRange,
    out: &mut dyn Write,
) -> Result<Head, Problem> {
    let lost = |error: reqwest::Error| lost(call.site, url, &error);
    let status = response.status();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let version = check_version(speaks, header(VERSION_HEADER), header(SPEAKS_HEADER));
    let json = header("content-type").is_some_and(|kind| kind.contains("json"));
    let compressed = call.compressed && header("content-encoding") == Some(ZSTD);
    if !status.is_success() {
        let mut body = Bounded { bytes: Vec::new(), bytes_max: PROBLEM_BYTES_MAX };
        copy(&mut response, &mut body).await?.map_err(lost)?;
        return Err(http::problem_of(status.as_u16(), &body.bytes));
    }
    version?;
    if let Err(error) = copy(&mut response, out).await? {
        // A part may be written already, so that it must not be asked for again.
        return Err(Problem { code: ProblemCode::SiteCut, ..lost(error) });
    }
    Ok(Head { status, json, compressed })
}

async fn copy(
    response: &mut Response,
    out: &mut dyn Write,
) -> Result<Result<(), reqwest::Error>, Problem> {
    loop {
        let part = tokio::time::timeout(STALL, response.chunk()).await.map_err(|_| {
            let title = "the reply of a site has stopped";
            let why = format!("no data has arrived for {} s", STALL.as_secs());
            Problem::new(ProblemCode::SiteCut, title).because(why)
        })?;
        match part {
            Ok(Some(part)) => out.write_all(&part).map_err(|error| {
                let title = "cannot store the reply of a site";
                Problem::new(ProblemCode::Reply, title).because(error)
            })?,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Decompresses a page.
fn decompress(site: &Name, body: &[u8]) -> Result<Vec<u8>, Problem> {
    compressed::decompress(body).map_err(|error| {
        let title = format!("site `{site}` sent a page that cannot be decompressed");
        Problem::new(ProblemCode::Reply, title).because(error)
    })
}

/// Returns the problem of a request without an answer. A wait does not repair a bad certificate.
fn lost(site: &Name, url: &str, error: &reqwest::Error) -> Problem {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    let mut words = error.to_string();
    while let Some(inner) = cause {
        words = inner.to_string();
        if let Some(tls) = inner.downcast_ref().filter(|tls| is_distrust(tls)) {
            return distrust(site, url, tls);
        }
        // The source of an I/O error is that of the error within it, which would be passed over.
        let boxed = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        cause = boxed.map(|boxed| boxed as &(dyn Error + 'static)).or_else(|| inner.source());
    }
    let words = if error.is_timeout() { "no answer in time".to_owned() } else { words };
    let code = if error.is_connect() || error.is_timeout() {
        ProblemCode::SiteUnreachable
    } else {
        ProblemCode::SiteBroken
    };
    Problem::new(code, format!("site `{site}` cannot be reached"))
        .because(format!("{words} ({url})"))
}

impl SiteClient for Sites {
    fn is_paired(&self, site: &Name) -> bool {
        self.site.is_paired(site)
    }

    fn far_data(&self, site: &Name) -> Vec<DataAddress> {
        if self.is_far(site) { self.site.data_of(site) } else { Vec::new() }
    }

    fn data_networks(&self, site: &Name) -> Option<BTreeSet<Name>> {
        let data = self.site.data_of(site);
        let names = || data.iter().filter_map(|address| address.network.clone()).collect();
        (!data.is_empty()).then(names)
    }

    fn submit(
        &self,
        site: &Name,
        request: &TransferRequest,
        user: Option<&Name>,
    ) -> Result<TransferReport, Problem> {
        let (body, user) = (Some(http::encode(request)?), self.told_user(site, user));
        self.get(&Call { body, user, ..Call::new(site, Method::POST, "/transfers".to_owned()) })
    }

    fn plan(
        &self,
        site: &Name,
        request: &TransferRequest,
        user: Option<&Name>,
        out: &mut dyn Write,
    ) -> Result<(), Problem> {
        let call = Call {
            body: Some(http::encode(request)?),
            user: self.told_user(site, user),
            deadline: DIGESTS_DEADLINE,
            ..Call::new(site, Method::POST, "/plans".to_owned())
        };
        self.call_into(&call, out)?;
        Ok(())
    }

    fn put_plan(
        &self,
        site: &Name,
        store: &Name,
        id: TransferId,
        offset: u64,
        part: &[u8],
    ) -> Result<(), Problem> {
        let path = format!("/plans/{id}?store={store}&offset={offset}");
        let call = Call { body: Some(part.to_vec()), ..Call::new(site, Method::POST, path) };
        self.call(&call).map(drop)
    }

    fn show(&self, site: &Name, id: TransferId) -> Result<TransferReport, Problem> {
        self.get(&Call::new(site, Method::GET, format!("/transfers/{id}")))
    }

    fn piece_map(&self, site: &Name, id: TransferId) -> Result<PieceMap, Problem> {
        self.get(&Call::new(site, Method::GET, format!("/transfers/{id}/pieces"))).map_err(
            |problem| match problem.code {
                ProblemCode::NotFound => {
                    let title = format!("site `{site}` runs an older Penstock without piece maps");
                    Problem::new(ProblemCode::Version, title)
                        .hint("upgrade the daemons of that site")
                }
                _ => problem,
            },
        )
    }

    fn news(
        &self,
        site: &Name,
        id: TransferId,
        seen: TransferState,
        wait_ms: u32,
    ) -> Result<TransferReport, Problem> {
        let seen = http::encode(&seen)?;
        let seen = String::from_utf8_lossy(&seen);
        let path = format!("/transfers/{id}?seen={}&wait_ms={wait_ms}", seen.trim_matches('"'));
        let deadline = DEADLINE + Duration::from_millis(wait_ms.into());
        self.get(&Call { deadline, ..Call::new(site, Method::GET, path) })
    }

    fn act(
        &self,
        site: &Name,
        id: TransferId,
        Steering { action, until }: Steering,
    ) -> Result<TransferReport, Problem> {
        let until = until.map(|until| format!("?until={until}")).unwrap_or_default();
        let path = format!("/transfers/{id}/{}{until}", action.as_str());
        self.get(&Call::new(site, Method::POST, path))
    }

    fn change(
        &self,
        site: &Name,
        id: TransferId,
        patch: &TransferPatch,
    ) -> Result<TransferReport, Problem> {
        // Every release takes a limit so.
        if let (true, Some(rate_bits_per_s)) = (patch.is_of_limits(), patch.rate()) {
            let path = format!("/transfers/{id}/limits");
            let body = Some(http::encode(&LimitRequest { rate_bits_per_s })?);
            return self.get(&Call { body, ..Call::new(site, Method::POST, path) });
        }
        let body = Some(http::encode(patch)?);
        self.get(&Call { body, ..Call::new(site, Method::POST, format!("/transfers/{id}/change")) })
    }

    fn document(
        &self,
        site: &Name,
        id: TransferId,
        document: Document,
        out: &mut dyn Write,
    ) -> Result<(), Problem> {
        let path = format!("/transfers/{id}/{}", document.path());
        let call = Call { deadline: DIGESTS_DEADLINE, ..Call::new(site, Method::GET, path) };
        self.call_into(&call, out)?;
        Ok(())
    }

    fn countersign(
        &self,
        site: &Name,
        body: &ReceiptBody,
        user: Option<&Name>,
    ) -> Result<ReceiptSignature, Problem> {
        let call = Call {
            user: self.told_user(site, user),
            body: Some(http::encode(body)?),
            deadline: COUNTERSIGN_DEADLINE,
            ..Call::new(site, Method::POST, format!("/scans/{}/receipt", body.id))
        };
        let signature: ReceiptSignature = self.get(&call)?;
        if self.keys_heard(site) > self.site.pairing(site)?.map_or(0, |pairing| pairing.keys) {
            // Its new authority may have certified the key that signed.
            self.learn_keys(site)?;
        }
        let pinned = self.site.trust.fingerprint_of(site).ok_or_else(|| {
            let title = format!("site `{site}` is not paired with this one");
            Problem::new(ProblemCode::NotPaired, title)
        })?;
        check_countersignature(body, &signature, pinned)?;
        Ok(signature)
    }

    fn open_scan(&self, site: &Name, request: &ScanRequest) -> Result<RemoteScan, Problem> {
        let mut version = self.version(site);
        let opened: OpenedScan = loop {
            // The pages are to be cut in no way that the source does not know.
            let slicer = version::known().slicer_of_site_api(version);
            let slicing = request.slicing.no_newer_than(slicer);
            let open = OpenScan::from(&ScanRequest { slicing, ..request.clone() });
            let result = self.get(&Call {
                body: Some(http::encode(&open)?),
                version: Some(version),
                deadline: SCAN_DEADLINE,
                user: self.told_user(site, request.user.as_ref()),
                ..Call::new(site, Method::POST, "/scans".to_owned())
            });
            match result {
                Err(problem)
                    if problem.code == ProblemCode::Version && self.version(site) < version =>
                {
                    version = self.version(site);
                }
                result => break result?,
            }
        };
        let capability =
            data_encoding::HEXLOWER.decode(opened.capability.as_bytes()).map_err(|error| {
                let title = format!("site `{site}` gave a capability that cannot be read");
                Problem::new(ProblemCode::CapabilityUnreadable, title).because(error)
            })?;
        let peers = self.believable_data(site, opened.peers.clone())?;
        let OpenedScan { root, instance, .. } = opened;
        Ok(RemoteScan { root, capability, peers, instance })
    }

    fn source_peers(&self, site: &Name, store: &Name) -> Result<Vec<DataAddress>, Problem> {
        let call = Call::new(site, Method::GET, format!("/stores/{store}/peers"));
        self.believable_data(site, self.get(&call)?)
    }

    fn page(
        &self,
        site: &Name,
        id: TransferId,
        number: u32,
        wait_ms: u32,
    ) -> Result<PageReply, Problem> {
        let wait_ms = wait_ms.min(PAGE_WAIT_MS_MAX);
        let call = Call {
            deadline: DEADLINE + Duration::from_millis(wait_ms.into()),
            compressed: self.is_far(site),
            ..Call::new(site, Method::GET, format!("/scans/{id}/pages/{number}?wait_ms={wait_ms}"))
        };
        let Answer { head, body } = self.call(&call)?;
        Ok(match head {
            Head { status: StatusCode::NO_CONTENT, .. } => PageReply::NotYet,
            Head { json: true, .. } => PageReply::End(http::decode(&body)?),
            Head { compressed: true, .. } => PageReply::Page(decompress(site, &body)?),
            Head { .. } => PageReply::Page(body),
        })
    }

    fn ask(&self, site: &Name, id: TransferId, question: &RecheckRequest) -> Result<u32, Problem> {
        let body = Some(http::encode(question)?);
        let call = Call {
            body,
            deadline: SCAN_DEADLINE,
            ..Call::new(site, Method::POST, format!("/scans/{id}/asked"))
        };
        self.get(&call)
    }

    fn digests(
        &self,
        site: &Name,
        id: TransferId,
        wish: &DigestWish,
        wait_ms: u32,
    ) -> Result<Option<WishedDigests>, Problem> {
        let wait_ms = wait_ms.min(PAGE_WAIT_MS_MAX);
        let call = Call {
            body: Some(http::encode(wish)?),
            deadline: DEADLINE + Duration::from_millis(wait_ms.into()),
            ..Call::new(site, Method::POST, format!("/scans/{id}/hashed?wait_ms={wait_ms}"))
        };
        self.get(&call)
    }

    fn remove(
        &self,
        site: &Name,
        id: TransferId,
        capability: &[u8],
        order: &RemoveOrder,
    ) -> Result<RemoveReply, Problem> {
        let capability = data_encoding::HEXLOWER.encode(capability);
        let body = http::encode(&RemoveMoved { capability, order: order.clone() })?;
        self.get(&Call {
            body: Some(body),
            deadline: REMOVE_DEADLINE,
            ..Call::new(site, Method::POST, format!("/scans/{id}/remove"))
        })
    }

    fn release(&self, site: &Name, id: TransferId) -> Result<(), Problem> {
        self.call(&Call::new(site, Method::DELETE, format!("/scans/{id}"))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a site of an older release, which has no such path, is distinguished from one that
    /// has no such store.
    #[test]
    fn an_older_release_cannot_list() {
        let site = "lab".parse().unwrap();
        let of = |code| too_old(&site, "list its stores", Problem::new(code, "no"));
        let older = of(ProblemCode::NotFound);
        assert_eq!(older.code, ProblemCode::Version);
        assert!(older.title.contains("`lab` runs an older Penstock"), "{older}");
        assert_eq!(of(ProblemCode::NotExported).code, ProblemCode::NotExported);
    }
}
