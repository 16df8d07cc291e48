//! The etcd that Penstock runs for its site: one member on each of the first hosts.
//!
//! A thread of its own maintains this host's member. It issues the member's certificates, adds it
//! to the existing members, and starts it. It promotes the member to a voter when it has caught up,
//! and starts it again when it ends. It also maintains the list of members by which clients find
//! etcd. Members are added one at a time and as learners, so that a host which joins and dies never
//! costs the majority.
//!
//! Two things survive a crash: etcd's own data, synced before each confirmation, and `member.json`
//! and `members.json` beside it. A member that the others have removed returns as a new one,
//! without its old data.

pub(crate) mod answers;
pub(crate) mod client;
mod enter;
mod error;
pub mod files;
mod process;
pub mod program;
mod takeover;
pub(crate) mod voters;
mod watch;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use error::KeeperError;
use files::{Files, KnownMember, MemberNote};
use penstock_cluster::etcd::{Etcd, EtcdMember, EtcdStatus};
use penstock_cluster::keys::Keys;
use penstock_net::interface_addresses;
use penstock_net::trust::{ServiceFacts, SiteAuthority};
use process::Process;
use program::{Begin, Place, Program};

use super::site::context::Site;
use crate::config::OwnEtcdConfig;

/// The interval at which the member is checked.
const LOOK: Duration = Duration::from_millis(500);
/// The interval at which the list of members is read.
const LIST: Duration = Duration::from_secs(5);
/// The interval at which the certificate is checked.
const RENEW: Duration = Duration::from_secs(3600);
/// The interval at which the certificate is checked after a failed renewal.
const RENEW_AGAIN: Duration = Duration::from_secs(30);
/// The time that etcd has for an answer here.
const ANSWER: Duration = Duration::from_secs(3);
/// The time that etcd has for a change of its members.
const CHANGE: Duration = Duration::from_secs(15);
/// The interval at which a host without a member checks whether one is wanted, or can join.
const WANTED: Duration = Duration::from_secs(2);
/// Longest wait before a member that ended is started again; the first is [`LOOK`].
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// Starts without an answer after which the operator gets a message.
const STARTS_MAX: u32 = 3;
/// The time that a member has to end in order.
const STOP: Duration = Duration::from_secs(5);
/// The time that a member which is to be the only one has to lead.
const ALONE: Duration = Duration::from_secs(40);

/// Keeps the member of this host; ends it when it is stopped.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// An order to the thread.
enum Order {
    /// To make the own member the only one.
    Alone,
    /// To begin a new etcd with it.
    New,
}

#[derive(Default)]
struct Wishes {
    stopping: bool,
    order: Option<(Order, mpsc::SyncSender<Result<(), KeeperError>>)>,
}

#[derive(Default)]
struct Shared {
    wishes: Mutex<Wishes>,
    wake: Condvar,
    told: Mutex<Told>,
}

/// The state that the thread reports.
#[derive(Default)]
struct Told {
    trouble: String,
    known: Vec<KnownMember>,
    /// The time at which etcd last returned that list.
    listed: Option<Instant>,
}

impl Keeper {
    /// Starts the thread. `etcd` receives the endpoints of etcd, now and at each change.
    ///
    /// # Errors
    /// No thread can be started. A missing program is no error: it is looked for repeatedly, and is
    /// a trouble meanwhile.
    pub(crate) fn start(
        site: &Arc<Site>,
        own: &OwnEtcdConfig,
        etcd: &Arc<Etcd>,
    ) -> anyhow::Result<Self> {
        let files = Files::of(&site.directory);
        let shared = Arc::new(Shared::default());
        let mut work = Work {
            shared: Arc::clone(&shared),
            process: Process::new(files.lock(), files.log(), &files.data()),
            note: files.note(),
            known: files.members(),
            site: Arc::clone(site),
            own: own.clone(),
            etcd: Arc::clone(etcd),
            keys: Keys::of(&site.config.site),
            program: None,
            files,
            adopted: false,
            guarded: false,
            votes: false,
            pause: LOOK,
            starts: 0,
            begun: Ok(()),
            renewed: Ok(()),
            next_list: Instant::now(),
            next_renewal: Instant::now(),
            next_start: Instant::now(),
        };
        work.tell_endpoints();
        let thread =
            std::thread::Builder::new().name("etcd-keeper".to_owned()).spawn(move || work.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Returns the reason why the member cannot work; empty if it can.
    pub(crate) fn trouble(&self) -> String {
        self.told().trouble.clone()
    }

    /// Returns the members that have a vote, as they were seen last.
    pub(crate) fn known(&self) -> Vec<KnownMember> {
        self.told().known.clone()
    }

    /// Returns the members, if etcd has returned the list a moment ago.
    pub(crate) fn known_now(&self) -> Option<Vec<KnownMember>> {
        let told = self.told();
        let fresh = told.listed.is_some_and(|listed| listed.elapsed() < LIST * 2);
        fresh.then(|| told.known.clone())
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.shared.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the member of this host the only one. All others are out for good: they come back as
    /// new ones. Blocks for some seconds.
    ///
    /// # Errors
    /// The member has no data, cannot be started, or does not lead in time.
    pub(crate) fn make_alone(&self) -> Result<(), KeeperError> {
        self.order(Order::Alone)
    }

    /// Begins a new etcd, of which the member of this host is the first. Blocks for some seconds.
    ///
    /// # Errors
    /// The member has data, cannot be started, or does not lead in time.
    pub(crate) fn make_new(&self) -> Result<(), KeeperError> {
        self.order(Order::New)
    }

    fn order(&self, order: Order) -> Result<(), KeeperError> {
        let (done, answer) = mpsc::sync_channel(1);
        self.wishes().order = Some((order, done));
        self.shared.wake.notify_all();
        // And a look that is under way, in which etcd is asked for several things.
        let patience = ALONE + STOP * 9;
        answer.recv_timeout(patience).unwrap_or_else(|_| {
            // An order that the thread has not reached is cancelled.
            self.wishes().order = None;
            Err(KeeperError::TooSlow)
        })
    }

    /// Ends the member in order. Blocks for some seconds.
    pub(crate) fn stop(&self) {
        self.wishes().stopping = true;
        self.shared.wake.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // The thread never panics on purpose; etcd outlives it, and the next daemon finds etcd.
            let _ = thread.join();
        }
    }

    fn wishes(&self) -> std::sync::MutexGuard<'_, Wishes> {
        self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The outcome of the last attempt at an action, which is reported until the next one.
type Kept = Result<(), Arc<KeeperError>>;

struct Work {
    shared: Arc<Shared>,
    process: Process,
    note: MemberNote,
    known: Vec<KnownMember>,
    site: Arc<Site>,
    own: OwnEtcdConfig,
    etcd: Arc<Etcd>,
    keys: Keys,
    program: Option<Program>,
    files: Files,
    /// The process that runs was looked at: it runs as it should.
    adopted: bool,
    /// etcd asks for the password.
    guarded: bool,
    /// The own member serves clients.
    votes: bool,
    pause: Duration,
    /// The number of starts since its last answer.
    starts: u32,
    /// The result of the last attempt to start it.
    begun: Kept,
    /// The result of the last attempt to renew its certificate.
    renewed: Kept,
    next_list: Instant,
    next_renewal: Instant,
    next_start: Instant,
}

impl Work {
    fn run(&mut self) {
        loop {
            let trouble = self.step().err().map(|error| error.to_string());
            self.tell(trouble.unwrap_or_default());
            let wishes = self.shared.wishes.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = self.shared.wake.wait_timeout_while(wishes, LOOK, |wishes| {
                !wishes.stopping && wishes.order.is_none()
            });
            let mut wishes = waited.unwrap_or_else(PoisonError::into_inner).0;
            if wishes.stopping {
                break;
            }
            let order = wishes.order.take();
            drop(wishes);
            let Some((order, done)) = order else { continue };
            let outcome = match order {
                Order::Alone => self.make_alone(),
                Order::New => self.make_new(),
            };
            self.tell(String::new());
            // If this fails, the receiver is gone: the action was too slow, and the next look shows
            // its result.
            let _ = done.send(outcome);
        }
        if let Err(error) = self.process.stop(STOP) {
            tracing::error!(%error, "etcd");
        }
    }

    fn tell(&self, trouble: String) {
        let mut told = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.trouble != trouble && !trouble.is_empty() {
            tracing::warn!(%trouble, "the site's etcd");
        }
        if told.known != self.known {
            told.known.clone_from(&self.known);
        }
        told.trouble = trouble;
    }

    fn name(&self) -> &str {
        self.site.config.peer.as_str()
    }

    fn step(&mut self) -> Kept {
        let renewed = self.renew();
        let kept = self.keep();
        // This host has to find the other members in any state of its own.
        let listed = self.look_around();
        renewed.and(kept).and(listed.map_err(Arc::new))
    }

    /// Starts the member, or takes on one that runs, and looks at it.
    fn keep(&mut self) -> Kept {
        let mut begun = Ok(());
        if !self.is_running()? {
            self.adopted = true;
            self.votes = false;
            begun = self.begin();
        } else if !self.adopted {
            begun = self.adopt().map_err(Arc::new);
        }
        let tended = if self.is_running()? { self.tend() } else { Ok(()) };
        begun.and(tended.map_err(Arc::new))
    }

    fn is_running(&mut self) -> Result<bool, KeeperError> {
        self.process.is_running().map_err(KeeperError::Process)
    }

    /// Ends the member in order.
    fn stop(&mut self) -> Result<(), KeeperError> {
        self.process.stop(STOP).map_err(KeeperError::Process)
    }

    fn look_around(&mut self) -> Result<(), KeeperError> {
        if Instant::now() < self.next_list {
            return Ok(());
        }
        self.list();
        self.next_list = Instant::now() + LIST;
        self.process.trim_log().map_err(KeeperError::Log)
    }

    /// Checks the certificates at intervals; the last failure is reported until a check succeeds.
    fn renew(&mut self) -> Kept {
        if Instant::now() >= self.next_renewal {
            self.renewed = self.try_to_renew().map_err(Arc::new);
            let pause = if self.renewed.is_ok() { RENEW } else { RENEW_AGAIN };
            self.next_renewal = Instant::now() + pause;
        }
        self.renewed.clone()
    }

    fn try_to_renew(&self) -> Result<(), KeeperError> {
        self.renew_members()?;
        self.renew_clients().map_err(KeeperError::ClientCertificate)
    }

    /// Issues the certificate that this host shows to etcd, if its time is nearly over.
    fn renew_clients(&self) -> anyhow::Result<()> {
        let settings = self.site.config.cluster.as_ref();
        if let Some(settings) = settings
            && client::issue(&self.site.config.site, &self.site.directory)?
        {
            self.etcd.set_http(client::http(settings, &self.site.directory)?);
        }
        Ok(())
    }

    /// Issues the member's certificate if there is none, or none that stays valid for long.
    fn renew_members(&self) -> Result<(), KeeperError> {
        let mut addresses =
            vec![self.own.ip(), Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        // etcd compares the address that a member comes from with its certificate; which of its
        // addresses a host takes depends on its routes.
        let interfaces = interface_addresses().unwrap_or_default();
        addresses.extend(interfaces.into_iter().map(|interface| interface.address));
        addresses.sort_unstable();
        addresses.dedup();
        let (certificate, key) = (self.files.certificate(), self.files.key());
        let facts = ServiceFacts::read(&certificate);
        let stale = |facts: &ServiceFacts| facts.is_stale(SystemTime::now(), &addresses);
        if facts.is_ok_and(|facts| !stale(&facts)) && key.exists() {
            return Ok(());
        }
        let name = format!("etcd {}", self.name());
        let addresses: &[IpAddr] = &addresses;
        let authority = SiteAuthority::load(&self.site.directory.join(files::DIRECTORY));
        let issued = authority.and_then(|authority| authority.issue_service(&name, addresses));
        // etcd reads both files again for each connection.
        let saved = issued.and_then(|issued| issued.save(&certificate, &key));
        saved.map_err(KeeperError::MemberCertificate)
    }

    fn place<'a>(&'a self, paths: &'a Paths, token: &'a str) -> Place<'a> {
        Place {
            name: self.name(),
            token,
            own: &self.own,
            data: &paths.data,
            authority: &paths.authority,
            certificate: &paths.certificate,
            key: &paths.key,
        }
    }

    fn paths(&self) -> Paths {
        Paths {
            data: self.files.data(),
            authority: self.files.authority(),
            certificate: self.files.certificate(),
            key: self.files.key(),
        }
    }

    /// Adopts an etcd that an earlier daemon has left running, unless its options have changed.
    fn adopt(&mut self) -> Result<(), KeeperError> {
        let (paths, token) = (self.paths(), self.site.config.site.to_string());
        let program = self.program()?;
        let wanted = program.arguments(&self.place(&paths, &token), &Begin::Again);
        let found = self.process.arguments();
        let same = found.is_some_and(|found| process::is_same(&found, &wanted));
        if same && !self.process.is_outdated() {
            tracing::info!("the etcd of this host is still running: it outlived its daemon");
        } else {
            tracing::info!(
                "restarting the etcd of this host: it ran with the options of another \
                            release"
            );
            self.stop()?;
        }
        self.adopted = true;
        Ok(())
    }

    /// Starts the member, if this host is to have one.
    fn begin(&mut self) -> Kept {
        // Without a certificate etcd would end at once; `renew` reports why there is none.
        if Instant::now() >= self.next_start && self.files.certificate().exists() {
            self.next_start = Instant::now() + WANTED;
            self.begun = self.try_to_begin().map_err(Arc::new);
        }
        self.begun.clone()
    }

    fn try_to_begin(&mut self) -> Result<(), KeeperError> {
        let begin = if self.files.has_data() {
            if self.was_removed() {
                tracing::warn!(
                    "the other hosts have removed the member of this host; it joins \
                                again"
                );
                self.files.discard().map_err(KeeperError::Discard)?;
                self.set_note(MemberNote { begins: false, id: 0, removed: true })?;
                return Ok(());
            }
            Begin::Again
        } else if self.note.begins {
            Begin::New
        } else {
            if !self.is_wanted()? {
                return Ok(());
            }
            self.program()?;
            match self.enter()? {
                Some(cluster) => Begin::Join(cluster),
                None => return Ok(()),
            }
        };
        self.spawn(&begin)
    }

    fn spawn(&mut self, begin: &Begin) -> Result<(), KeeperError> {
        let mut token = self.site.config.site.to_string();
        if *begin == Begin::New {
            // etcd makes its numbers from this and the first member's address: members of an etcd
            // that there was before must not take the new one for their own.
            token = format!("{token}-{:016x}", rand::random::<u64>());
        }
        let paths = self.paths();
        let command = self.program()?.command(&self.place(&paths, &token), begin);
        tracing::info!(?begin, "etcd of this host starts");
        self.process.start(command).map_err(KeeperError::Start)?;
        self.next_start = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(AGAIN_MAX);
        self.starts += 1;
        if self.starts >= STARTS_MAX {
            return Err(KeeperError::Ends { times: self.starts - 1, log: self.files.log() });
        }
        Ok(())
    }

    /// Returns the installed etcd.
    fn program(&mut self) -> Result<Program, KeeperError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let found = Program::find(self.own.program.as_deref()).map_err(KeeperError::Program)?;
        Ok(self.program.insert(found).clone())
    }

    fn set_note(&mut self, note: MemberNote) -> Result<(), KeeperError> {
        self.files.set_note(&note).map_err(KeeperError::Note)?;
        self.note = note;
        Ok(())
    }

    /// Returns whether the others report, with a majority, that this host has no member.
    fn was_removed(&self) -> bool {
        let id = self.note.id;
        let others = self.known.iter().filter(|member| member.client_url != self.own.client_url());
        let mut lists =
            others.filter_map(|member| self.etcd.members_now_at(&member.client_url, ANSWER).ok());
        id != 0 && lists.next().is_some_and(|list| list.iter().all(|member| member.id != id))
    }

    /// Maintains the running member: sets the password, promotes it to a voter, frees space.
    fn tend(&mut self) -> Result<(), KeeperError> {
        let Ok(status) = self.etcd.status_at(&self.own.client_url(), ANSWER) else {
            return Ok(());
        };
        (self.pause, self.starts, self.begun) = (LOOK, 0, Ok(()));
        if self.note.begins || self.note.id != status.id {
            self.set_note(MemberNote { begins: false, id: status.id, removed: false })?;
        }
        if status.learner {
            self.votes = false;
            return match self.etcd.promote_member(status.id, CHANGE) {
                Ok(()) => {
                    tracing::info!("etcd of this host has a vote now");
                    self.next_list = Instant::now();
                    Ok(())
                }
                Err(error) => Err(KeeperError::NoVote(error)),
            };
        }
        if !self.votes {
            self.votes = true;
            self.next_list = Instant::now();
            // It is possible that no member returns a list, and only this one is left.
            self.tell_endpoints();
        }
        if status.leader == 0 {
            return Ok(());
        }
        if !self.guarded {
            self.guarded = self.etcd.is_protected(ANSWER).map_err(KeeperError::Password)?;
            if !self.guarded {
                self.etcd.protect(ANSWER).map_err(KeeperError::Password)?;
                tracing::info!("etcd asks for the site's password from now on");
            }
        }
        self.make_room(&status)
    }

    fn make_room(&self, status: &EtcdStatus) -> Result<(), KeeperError> {
        if !status.complaints.iter().any(|complaint| complaint.contains("NOSPACE")) {
            return Ok(());
        }
        tracing::warn!("etcd's quota is used up: its database is packed");
        let made = self.etcd.make_room(&self.own.client_url(), status.id, STOP * 6);
        made.map_err(KeeperError::Quota)
    }

    /// Learns the list of members, as a majority confirms it.
    fn list(&mut self) {
        let Ok(members) = self.etcd.members_now(ANSWER) else { return };
        let voting = members.into_iter().filter(|member| !member.learner);
        let mut known: Vec<KnownMember> = voting
            .filter(|member| !member.client_url.is_empty())
            .map(|EtcdMember { name, client_url, peer_url, .. }| KnownMember {
                name,
                client_url,
                peer_url,
            })
            .collect();
        known.sort_by(|one, other| one.name.cmp(&other.name));
        if !known.is_empty() && known != self.known {
            if let Err(error) = self.files.set_members(&known) {
                tracing::warn!(%error, "members.json");
            }
            self.known = known;
        }
        {
            let mut told = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.known.clone_from(&self.known);
            told.listed = Some(Instant::now());
        }
        self.tell_endpoints();
    }

    /// Sets the endpoints of etcd. The own member is asked first, once it serves clients.
    fn tell_endpoints(&self) {
        let own = self.own.client_url();
        let others = self.known.iter().map(|member| member.client_url.clone());
        let others = others.filter(|url| *url != own);
        let first = (self.votes || self.known.is_empty()).then(|| own.clone());
        let mut all: Vec<String> = first.into_iter().chain(others).collect();
        if all.is_empty() {
            all.push(own.clone());
        }
        self.etcd.set_endpoints(all);
    }

    fn make_alone(&mut self) -> Result<(), KeeperError> {
        if !self.files.has_data() {
            return Err(KeeperError::NoData);
        }
        self.stop()?;
        self.spawn(&Begin::Alone)?;
        self.wait_for_lead()?;
        self.known.retain(|member| member.client_url == self.own.client_url());
        self.files.set_members(&self.known).map_err(KeeperError::Process)?;
        (self.adopted, self.votes) = (true, true);
        self.tell_endpoints();
        Ok(())
    }

    fn make_new(&mut self) -> Result<(), KeeperError> {
        if self.files.has_data() {
            return Err(KeeperError::HasData);
        }
        self.stop()?;
        self.set_note(MemberNote { begins: true, ..MemberNote::default() })?;
        self.known.clear();
        self.files.set_members(&[]).map_err(KeeperError::Process)?;
        (self.adopted, self.votes, self.guarded) = (true, true, false);
        self.tell_endpoints();
        self.spawn(&Begin::New)?;
        self.wait_for_lead()?;
        self.tend()
    }

    /// Waits until the own member leads.
    fn wait_for_lead(&mut self) -> Result<(), KeeperError> {
        let until = Instant::now() + ALONE;
        loop {
            let status = self.etcd.status_at(&self.own.client_url(), ANSWER);
            if status.is_ok_and(|status| status.leader != 0 && status.leader == status.id) {
                return Ok(());
            }
            if Instant::now() >= until || !self.is_running()? {
                return Err(KeeperError::NoLead(self.files.log()));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// The files that a member is started with.
struct Paths {
    data: std::path::PathBuf,
    authority: std::path::PathBuf,
    certificate: std::path::PathBuf,
    key: std::path::PathBuf,
}
