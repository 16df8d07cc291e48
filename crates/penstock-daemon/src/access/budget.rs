//! Budgets of paired sites: limits to the use of this daemon by one site at a time.
//!
//! Each site has its own places, so that a site at its limits waits for itself. Resources that are
//! scarce for the whole daemon have a limit for all sites as well, above that of one site.
//!
//! | duty | of one site | in all | beyond it |
//! |---|---|---|---|
//! | [`Duty::Connection`]: connections to the site API | 64 | | the connection is closed |
//! | streams of one connection | 128 | | HTTP/2 makes the client wait |
//! | [`Duty::Request`]: requests, until their answers are sent | 256 | | waits, then 503 |
//! | [`Duty::Work`]: requests that hold a thread | 32 | | waits, then 503 |
//! | [`Duty::Wait`]: requests that hold a thread while files are hashed | 32 | | waits, then 503 |
//! | [`Duty::Probe`]: trials of the paths to the site | 1 | 4 | 503 |
//! | [`Duty::Lane`]: lanes | 1,024 | | refused as busy |
//! | [`Duty::Refusal`]: lanes that receive a refusal | 16 | | the connection is closed |
//! | breaches of the lane protocol ([`super::breaches`]) | 8 of one peer | | pauses, then refused |
//! | [`LanePlace`]: strides of files, up to 1 MiB | 64, or 2 a CPU | 512, or 16 a CPU | lanes wait |
//! | [`LanePlace`]: bytes of decoded pages of its scans | 128 MiB | 512 MiB | lanes wait |
//! | scans that list ([`crate::site::foreign_scans`]) | 64 | | 503 |
//! | scans that are kept | 1,000 | | 503 |
//! | [`Bodies`]: bytes of bodies of up to 1 MiB | 8 MiB | | waits, then 503 |
//! | [`Bodies`]: lists, bodies of up to 64 MiB | 1 | 4 | waits, then 503 |
//! | [`Answers`]: bytes of pages that are not sent yet | 32 MiB | | waits, then 503 |
//!
//! The limits of lanes for all sites are divided among the sites that have lanes now, with at least
//! 8 strides and 16 MiB of pages for each ([`Shares`]).
//!
//! A body has 20 s, a list 60 s; a slower one is refused (408). A request waits for a place for 10
//! s. Other peers of the own site have 1,024 connections, and no other limit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_peer::SourceMemory;
use penstock_proto::frame::Refusal;
use penstock_proto::id::{Name, PeerId};
use penstock_sys::buffer::BufferUsage;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::breaches::PeerBreaches;

/// The time for which a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest body of a request that may name no list of paths.
pub(crate) const SHORT_BYTES_MAX: usize = 1 << 20;
/// Bytes of such bodies at a time.
const SHORT_BYTES_OF_SITE: usize = 8 << 20;
/// Longer bodies at a time: of one site, and in all.
const LISTS_OF_SITE: usize = 1;
const LISTS: usize = 4;
/// Bytes of answers of one site that are not sent yet.
const ANSWER_BYTES_OF_SITE: usize = 32 << 20;
/// Strides of files in memory, of all sites; the least of one site.
const STRIDES: usize = 512;
const STRIDES_LEAST: usize = 8;
/// Bytes of decoded pages: of all sites, and the least and the most of one site.
const PAGE_BYTES: usize = 512 << 20;
const PAGE_BYTES_OF_SITE: (usize, usize) = (16 << 20, 128 << 20);
/// Trials of paths at a time, in all.
const PROBES: usize = 4;

/// The kind of work for which a site takes a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// A connection to the site API.
    Connection,
    /// A request, until its answer is sent.
    Request,
    /// A request that holds a thread.
    Work,
    /// A request that holds a thread for as long as files are hashed.
    Wait,
    /// A trial of the paths to the site.
    Probe,
    /// A lane that is served.
    Lane,
    /// A lane that is refused in order.
    Refusal,
}

impl Duty {
    const ALL: [Self; DUTIES] = [
        Self::Connection,
        Self::Request,
        Self::Work,
        Self::Wait,
        Self::Probe,
        Self::Lane,
        Self::Refusal,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Request => "request",
            Self::Work => "work",
            Self::Wait => "wait",
            Self::Probe => "probe",
            Self::Lane => "lane",
            Self::Refusal => "refusal",
        }
    }

    /// Returns the places of one site, which may be the own one.
    fn places_of(self, own: bool) -> usize {
        match self {
            Self::Connection if own => OWN_CONNECTIONS_MAX,
            Self::Lane if own => OWN_LANES_MAX,
            _ => self.places(),
        }
    }

    /// Returns the places of one paired site.
    fn places(self) -> usize {
        match self {
            Self::Connection => 64,
            Self::Request => 256,
            Self::Work | Self::Wait => 32,
            Self::Probe => 1,
            Self::Lane => 1024,
            Self::Refusal => 16,
        }
    }
}

/// Kinds of [`Duty`].
const DUTIES: usize = 7;

/// A place of a site, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

/// The budgets of all sites.
pub(crate) struct Budgets {
    own: Name,
    of: Mutex<HashMap<Name, Arc<Budget>>>,
    lists: Arc<Semaphore>,
    probes: Arc<Semaphore>,
    shares: Arc<Shares>,
}

/// The sites that have lanes now, with the number of these, and the memory of each site.
///
/// A share depends on the number of sites, and not on the use of each. So no site ever waits for
/// memory that the lanes of another one hold.
#[derive(Default)]
struct Shares(Mutex<HashMap<Name, (usize, SourceMemory)>>);

impl Shares {
    /// Counts a new lane of a site.
    fn enter(&self, site: &Name, memory: &SourceMemory) {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (lanes, _) = sites.entry(site.clone()).or_insert_with(|| (0, memory.clone()));
        *lanes += 1;
        if *lanes == 1 {
            Self::divide(&sites);
        }
    }

    /// Handles the end of a lane of a site.
    fn leave(&self, site: &Name) {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((lanes, _)) = sites.get_mut(site) else { return };
        *lanes -= 1;
        if *lanes == 0 {
            sites.remove(site);
            Self::divide(&sites);
        }
    }

    fn divide(sites: &HashMap<Name, (usize, SourceMemory)>) {
        let count = sites.len().max(1);
        let most = SourceMemory::strides_max();
        let strides = (STRIDES.max(8 * most) / count).clamp(STRIDES_LEAST, most);
        let page_bytes = (PAGE_BYTES / count).clamp(PAGE_BYTES_OF_SITE.0, PAGE_BYTES_OF_SITE.1);
        sites.values().for_each(|(_, memory)| memory.limit(strides, page_bytes));
    }
}

/// The budget of one site.
pub(crate) struct Budget {
    pub(crate) site: Name,
    own: bool,
    places: [Arc<Semaphore>; DUTIES],
    memory: SourceMemory,
    shares: Arc<Shares>,
    pub(crate) bodies: Bodies,
    answers: Answers,
    probes: Arc<Semaphore>,
    breaches: PeerBreaches,
}

impl Budgets {
    /// Returns the budgets of the sites that are paired with this one.
    pub(crate) fn new(own: Name) -> Self {
        let (lists, probes) = (Arc::new(Semaphore::new(LISTS)), Arc::new(Semaphore::new(PROBES)));
        Self { own, of: Mutex::default(), lists, probes, shares: Arc::default() }
    }

    /// Returns the budgets of all sites that have had one.
    pub(crate) fn all(&self) -> Vec<Arc<Budget>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Returns the budget of a site. Callers are sites that have been paired: the table stays
    /// small.
    pub(crate) fn of(&self, site: &Name) -> Arc<Budget> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Budget::new(site.clone(), self));
        Arc::clone(of.entry(site.clone()).or_insert_with(new))
    }
}

impl Budget {
    fn new(site: Name, all: &Budgets) -> Self {
        let own = site == all.own;
        Self {
            own,
            places: Duty::ALL.map(|duty| Arc::new(Semaphore::new(duty.places_of(own)))),
            memory: SourceMemory::default(),
            shares: Arc::clone(&all.shares),
            bodies: Bodies {
                short: Arc::new(Semaphore::new(SHORT_BYTES_OF_SITE)),
                lists: Arc::new(Semaphore::new(LISTS_OF_SITE)),
                lists_in_all: Arc::clone(&all.lists),
            },
            answers: Answers(Arc::new(Semaphore::new(ANSWER_BYTES_OF_SITE))),
            probes: Arc::clone(&all.probes),
            breaches: PeerBreaches::default(),
            site,
        }
    }

    /// Returns the places by duty: how many are taken, and how many there are.
    pub(crate) fn usage(&self) -> Vec<(&'static str, usize, usize)> {
        let duties = Duty::ALL.into_iter().zip(&self.places);
        let taken = |most: usize, places: &Semaphore| most - places.available_permits().min(most);
        let usage = duties.map(|(duty, places)| {
            let most = duty.places_of(self.own);
            (duty.as_str(), taken(most, places), most)
        });
        let lists = ("list", taken(LISTS_OF_SITE, &self.bodies.lists), LISTS_OF_SITE);
        usage.chain([lists]).collect()
    }

    /// Returns the bytes that requests of the site take here now, by kind: those of short bodies,
    /// of answers that are not sent yet, and of decoded pages.
    pub(crate) fn bytes(&self) -> [(&'static str, usize, usize); 3] {
        let taken = |most: usize, room: &Semaphore| most - room.available_permits().min(most);
        let (pages, pages_max) = self.memory.page_bytes();
        [
            ("request", taken(SHORT_BYTES_OF_SITE, &self.bodies.short), SHORT_BYTES_OF_SITE),
            ("answer", taken(ANSWER_BYTES_OF_SITE, &self.answers.0), ANSWER_BYTES_OF_SITE),
            ("page", pages, pages_max),
        ]
    }

    /// Returns the memory of the lanes that are served to the site.
    pub(crate) fn strides(&self) -> BufferUsage {
        self.memory.strides()
    }

    /// Returns a place if one is free now.
    pub(crate) fn try_enter(&self, duty: Duty) -> Option<Place> {
        Arc::clone(&self.places[duty as usize]).try_acquire_owned().ok()
    }

    /// Returns a place, as soon as one is free.
    ///
    /// # Errors
    /// Code `busy`: all of them stay taken for 10 s.
    pub(crate) async fn enter(&self, duty: Duty) -> Result<Place, Problem> {
        wait_for(&self.places[duty as usize], 1).await.ok_or_else(|| self.busy("requests"))
    }

    /// Returns a place for a lane of a peer of the site, if one is free now.
    pub(crate) fn lane(self: &Arc<Self>, peer: &PeerId) -> Option<LanePlace> {
        let place = self.try_enter(Duty::Lane)?;
        self.shares.enter(&self.site, &self.memory);
        Some(LanePlace { budget: Arc::clone(self), peer: peer.clone(), place: Some(place) })
    }

    /// Returns a place to try paths, of the site and in all.
    ///
    /// # Errors
    /// Code `busy`: other paths are tried now.
    pub(crate) fn probe(&self) -> Result<(Place, Place), Problem> {
        let own = self.try_enter(Duty::Probe);
        let own =
            own.and_then(|own| Some((own, Arc::clone(&self.probes).try_acquire_owned().ok()?)));
        own.ok_or_else(|| self.busy("trials of paths"))
    }

    /// Waits for a place for a page that is read and sent.
    ///
    /// # Errors
    /// Code `busy`: the site does not read the answers that it has asked for.
    pub(crate) async fn answer(&self, bytes_max: usize) -> Result<AnswerPlace, Problem> {
        self.answers
            .enter(bytes_max)
            .await
            .ok_or_else(|| self.busy("answers that it does not take"))
    }

    /// Returns the problem `busy`: the site has too many of the objects that `what` names.
    pub(crate) fn busy(&self, what: &str) -> Problem {
        let title = format!("site `{}` has too many {what}", self.site);
        Problem::new(ProblemCode::Busy, title).hint("repeat the request after some seconds")
    }
}

/// Connections of other peers of the own site at a time, some of each, and their lanes.
const OWN_CONNECTIONS_MAX: usize = 1024;
const OWN_LANES_MAX: usize = 16_384;

/// A place for a lane, and the memory through which its bytes go, which the lanes of a site share.
pub(crate) struct LanePlace {
    budget: Arc<Budget>,
    peer: PeerId,
    place: Option<Place>,
}

impl LanePlace {
    /// Returns the refusal of the lane, if its peer is held back for breaches of the protocol.
    pub(crate) fn held_back(&self) -> Option<Refusal> {
        self.budget.breaches.refusal(&self.peer)
    }

    /// Counts a breach of the protocol by the peer.
    pub(crate) fn note_breach(&self) {
        self.budget.breaches.note(&self.peer);
    }

    /// Returns the memory for strides of files and for pages that the lanes of the site share.
    pub(crate) fn memory(&self) -> &SourceMemory {
        &self.budget.memory
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        drop(self.place.take());
        self.budget.memory.trim_if_idle();
        self.budget.shares.leave(&self.budget.site);
    }
}

/// Waits for so many places. Returns `None` if they are taken for longer than a request waits.
async fn wait_for(places: &Arc<Semaphore>, count: usize) -> Option<Place> {
    let count = u32::try_from(count).ok()?;
    let place = timeout(PATIENCE, Arc::clone(places).acquire_many_owned(count)).await;
    place.ok().and_then(Result::ok)
}

/// Bodies of requests of one site that are in memory here.
pub(crate) struct Bodies {
    /// Bytes of short ones.
    short: Arc<Semaphore>,
    lists: Arc<Semaphore>,
    lists_in_all: Arc<Semaphore>,
}

impl Bodies {
    /// Returns the room for a body, which may be a list.
    pub(crate) async fn enter(&self, bytes: usize) -> Option<(Place, Option<Place>)> {
        if bytes <= SHORT_BYTES_MAX {
            return Some((wait_for(&self.short, bytes).await?, None));
        }
        let own = wait_for(&self.lists, 1).await?;
        Some((own, Some(wait_for(&self.lists_in_all, 1).await?)))
    }
}

/// Answers that are in memory until one site takes them.
struct Answers(Arc<Semaphore>);

impl Answers {
    async fn enter(&self, bytes_max: usize) -> Option<AnswerPlace> {
        let bytes_max = bytes_max.min(ANSWER_BYTES_OF_SITE);
        wait_for(&self.0, bytes_max).await.map(AnswerPlace)
    }
}

/// Room for an answer.
pub(crate) struct AnswerPlace(Place);

impl AnswerPlace {
    /// Returns the answer, which takes its room until its last byte is sent.
    pub(crate) fn hold(mut self, answer: Vec<u8>) -> Bytes {
        let spare = self.0.num_permits().saturating_sub(answer.len());
        drop(self.0.split(spare));
        Bytes::from_owner(HeldAnswer { answer, _place: self.0 })
    }
}

struct HeldAnswer {
    answer: Vec<u8>,
    _place: Place,
}

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    /// D4: one site cannot use up the connections of the others.
    #[test]
    fn d4_connections_are_counted_by_who_makes_them() {
        let budgets = Budgets::new(name("own"));
        let enter = |site: &str| budgets.of(&name(site)).try_enter(Duty::Connection);
        let of_lab: Vec<_> =
            (0..Duty::Connection.places()).map(|_| enter("lab").unwrap()).collect();
        assert!(enter("lab").is_none());
        assert!(enter("hpc").is_some());
        drop(of_lab);
        assert!(enter("lab").is_some());
    }

    /// D4: lanes of very many sites share a limit of memory, and each site has some of it; alone
    /// again, a site has all that it may have.
    #[test]
    fn d4_memory_for_lanes_is_divided_among_the_sites_that_have_some() {
        let budgets = Budgets::new(name("own"));
        let peer = |site: &str| PeerId { site: name(site), peer: name("p") };
        let enter = |site: &str| budgets.of(&name(site)).lane(&peer(site)).unwrap();
        let strides = |place: &LanePlace| place.memory().strides().buffers_max;
        let (first, again) = (enter("lab"), enter("lab"));
        let most = SourceMemory::strides_max();
        assert_eq!(strides(&first), most);
        let others: Vec<_> = (0..31).map(|site| enter(&format!("s{site}"))).collect();
        let all: usize = others.iter().map(strides).sum::<usize>() + strides(&first);
        assert!(all <= STRIDES.max(8 * most), "{all}");
        let more: Vec<_> = (31..200).map(|site| enter(&format!("s{site}"))).collect();
        assert_eq!(strides(&first), STRIDES_LEAST);
        drop((others, more, again));
        assert_eq!(strides(&first), most);
        drop(first);
        assert!(budgets.shares.0.lock().unwrap().is_empty());
    }

    /// D4: an answer keeps its own bytes of the site's room until it is sent, and no more.
    #[tokio::test]
    async fn d4_an_answer_takes_room_until_it_is_sent() {
        let budgets = Budgets::new(name("own"));
        let lab = budgets.of(&name("lab"));
        let free = || lab.answers.0.available_permits();
        let place = lab.answer(4 << 20).await.unwrap();
        assert_eq!(free(), ANSWER_BYTES_OF_SITE - (4 << 20));
        let answer = place.hold(vec![7; 1000]);
        let part = answer.slice(990..);
        drop(answer);
        assert_eq!(free(), ANSWER_BYTES_OF_SITE - 1000);
        drop(part);
        assert_eq!(free(), ANSWER_BYTES_OF_SITE);
    }
}
