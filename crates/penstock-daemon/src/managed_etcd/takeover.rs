//! Orders of an operator when the site's etcd has lost its majority, or all its data.
//!
//! No program can distinguish a dead host from one that cannot be reached. So the operator confirms
//! that hosts are fenced. The program checks three facts. Neither this host's etcd nor that of any
//! reachable peer sees a leader. Each other host that may have a vote is named ([`super::voters`]).
//! None of the named hosts answers. The records then get another incarnation, so that the beliefs
//! of the other hosts do not count when they return (B4).
//!
//! The journal gets the new incarnation before etcd is changed. If a step fails after that, no peer
//! is elected, here or elsewhere, until a takeover or a recovery succeeds.

use std::net::{SocketAddr, TcpStream};
use std::sync::{MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_cluster::etcd::EtcdError;
use penstock_cluster::keys::Keys;
use penstock_cluster::state::{RecoverError, SharedJournal, is_cut_short, recover};
use penstock_proto::id::Name;

use super::files::{Files, KnownMember};
use super::voters::name_of;
use super::{ANSWER, Keeper};
use crate::cluster::election::{BEAT, Election};
use crate::config::ClusterConfig;

/// For so long etcd must see no leader: longer than its members take to elect one.
const LEADERLESS: Duration = Duration::from_secs(6);
/// The interval of the looks in that time.
const LOOK: Duration = Duration::from_millis(500);
/// Time for which no peer may record in the journal that it is the controller.
const SILENT: Duration = BEAT.saturating_mul(3);
/// The longest wait for that silence: the last controller may lead for the rest of its lease.
const SILENT_MAX: Duration = Duration::from_secs(20);
/// Time that the members of etcd may take to elect another leader, if the host that is to be
/// removed led them: twice their time for that, and some for a busy host.
const ELECTED: Duration = Duration::from_secs(20);
/// The time that a host has for a connection before it counts as one that does not answer.
const CONNECT: Duration = Duration::from_secs(2);

/// Refuses while a controller records in the journal that it works, even if this host's etcd knows
/// none: the other hosts may have continued without this one (B4). Blocks for some seconds.
fn check_no_controller(journal: &SharedJournal) -> Result<(), Problem> {
    let beats = || {
        journal.beats().map_err(|error| {
            Problem::new(ProblemCode::JournalNeeded, "the journal cannot be read").because(error)
        })
    };
    let (until, mut last) = (Instant::now() + SILENT_MAX, beats()?);
    let mut quiet = Instant::now();
    while quiet.elapsed() < SILENT {
        std::thread::sleep(LOOK);
        let now = beats()?;
        if now != last {
            (quiet, last) = (Instant::now(), now);
        }
        if Instant::now() >= until {
            let title = "a controller of this site is at work, according to the journal";
            return Err(Problem::new(ProblemCode::Led, title).hint(
                "other hosts continue this site: run `penstock site status` there, and let this \
                 host join them again. To continue here instead, end their daemons first",
            ));
        }
    }
    Ok(())
}

fn recover_problem(error: &RecoverError) -> Problem {
    let code = match error {
        RecoverError::Etcd(_) => ProblemCode::RecoverEtcd,
        _ => ProblemCode::Recover,
    };
    let problem = Problem::new(code, error.to_string());
    let cause = std::error::Error::source(error).map(ToString::to_string);
    match error {
        RecoverError::Superseded => problem.hint(
            "run `penstock site status` at each live host; if no peer leads, run the command again \
             at one of them",
        ),
        _ => problem.because(cause.unwrap_or_default()),
    }
}

impl Election {
    fn settings(&self) -> Result<&ClusterConfig, Problem> {
        if self.settings.witness {
            let title = "this host only witnesses: it does not reach the site's journal";
            return Err(
                Problem::new(ProblemCode::Witness, title).hint("run it at a host that moves data")
            );
        }
        Ok(&self.settings)
    }

    fn keeper(&self) -> Result<&Keeper, Problem> {
        self.keeper.as_ref().ok_or_else(|| {
            Problem::new(
                ProblemCode::OwnEtcd,
                "operators run the etcd of this site, not penstock",
            )
            .hint("bring its majority back, from a backup if need be; then `penstock site recover`")
        })
    }

    fn journal(&self, settings: &ClusterConfig) -> Result<SharedJournal, Problem> {
        let place = &settings.journal;
        if place.is_dir() {
            return Ok(SharedJournal::new(place));
        }
        let title = format!("the journal `{}` is not there", place.display());
        Err(Problem::new(ProblemCode::JournalNeeded, title)
            .hint("mount it; the ledgers of all transfers are in it"))
    }

    /// Goes on with this host's etcd alone. Blocks for up to some minutes.
    ///
    /// # Errors
    /// Something speaks against it, or it did not succeed.
    pub(crate) fn take_over(&self, request: &TakeoverRequest) -> Result<RecoveredView, Problem> {
        let _alone = self.alone()?;
        let settings = self.settings()?;
        let keeper = self.keeper()?;
        let journal = self.journal(settings)?;
        self.check_fenced(keeper, &journal, &request.fenced)?;
        let url = settings.own_etcd.as_ref().map(|own| own.client_url()).unwrap_or_default();
        let leads_already = self.sees_leader(&url);
        if leads_already && !self.is_cut_short(&journal) {
            let title = "etcd has its majority: nothing is to be taken";
            return Err(Problem::new(ProblemCode::HasMajority, title)
                .hint("`penstock site status` shows who leads"));
        }
        if !Files::of(&self.site.directory).has_data() {
            let title = "this host has no etcd of its own to continue with";
            return Err(Problem::new(ProblemCode::NoEtcd, title).hint(
                "run it at a host that has; if none is left, `penstock site recover --new-etcd`",
            ));
        }
        check_no_controller(&journal)?;
        tracing::warn!(fenced = ?request.fenced, "takeover: etcd continues at this host alone");
        // First of all: from here on no peer is elected with the present records (B4). That holds
        // for this host, if it dies before they are changed, and for the hosts that were called
        // fenced.
        let seen = self.cluster.watch().borrow().incarnation;
        let taken = journal.take_next(seen).map_err(|error| {
            Problem::new(ProblemCode::JournalNeeded, "the journal cannot be written").because(error)
        })?;
        let taken = taken.ok_or_else(|| recover_problem(&RecoverError::Superseded))?;
        if !leads_already {
            keeper.make_alone().map_err(|why| {
                let problem = Problem::new(ProblemCode::EtcdAlone, "etcd cannot continue alone");
                problem.because(why).hint(
                    "no peer leads this site now: repeat the takeover, or start other hosts and \
                     run `penstock site recover`",
                )
            })?;
        }
        self.give_incarnation(&journal, Some(taken))
    }

    /// Does not wait: one takeover or recovery runs at a time.
    fn alone(&self) -> Result<MutexGuard<'_, ()>, Problem> {
        match self.recovery.try_lock() {
            Ok(alone) => Ok(alone),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                let title = "this host is at it already: another takeover or recovery runs";
                Err(Problem::new(ProblemCode::TakeoverBusy, title)
                    .hint("`penstock site status` shows what comes of it"))
            }
        }
    }

    /// Refuses unless all others that may have a vote are named, silent, and without a leader.
    fn check_fenced(
        &self,
        keeper: &Keeper,
        journal: &SharedJournal,
        fenced: &[Name],
    ) -> Result<(), Problem> {
        let own = self.site.config.peer.as_str();
        let (members, led) = self.who_may_vote(keeper, journal, fenced)?;
        for member in members.iter().filter(|member| member.name != own) {
            if !fenced.iter().any(|fenced| fenced.as_str() == member.name) {
                let name = &member.name;
                let title = format!("etcd also runs at `{name}`, which is not named as fenced");
                return Err(Problem::new(ProblemCode::NotFenced, title).hint(format!(
                    "switch it off, or cut it off from stores and network; then add \
                     `--i-have-fenced {name}`"
                )));
            }
        }
        if let Some(peer) = led {
            let title = format!(
                "the etcd of peer `{peer}` has a leader: other hosts continue the \
                                 site"
            );
            return Err(Problem::new(ProblemCode::HasMajority, title)
                .hint("`penstock site status` there; when it is back, this host joins them"));
        }
        for fenced in fenced {
            let its = |member: &&KnownMember| member.name == fenced.as_str();
            // A takeover that was cut short has taken it out already.
            if !members.iter().any(|member| its(&member)) && !self.is_cut_short(journal) {
                let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
                let title = format!("etcd of this site does not run at `{fenced}`");
                // The host may be misnamed: a takeover is refused rather than begun without it.
                return Err(Problem::new(ProblemCode::UnknownHost, title)
                    .exit(Exit::Refused)
                    .because(format!("it runs at {}", names.join(", "))));
            }
            if fenced.as_str() == own {
                return Err(Problem::new(
                    ProblemCode::NotFenced,
                    format!("`{own}` is this very host"),
                ));
            }
            for member in members.iter().filter(its) {
                self.check_silent(fenced, &[&member.client_url, &member.peer_url])?;
            }
        }
        Ok(())
    }

    /// Returns whether the etcd at `url` has a leader. Blocks for some seconds.
    fn sees_leader(&self, url: &str) -> bool {
        let until = Instant::now() + LEADERLESS;
        while Instant::now() < until {
            if self.etcd.status_at(url, ANSWER).is_ok_and(|status| status.leader != 0) {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// Returns whether etcd has its majority since a takeover that is to be finished.
    fn is_cut_short(&self, journal: &SharedJournal) -> bool {
        let keys = Keys::of(&self.site.config.site);
        is_cut_short(&self.etcd, &keys, journal).is_ok_and(|is_cut_short| is_cut_short)
    }

    /// Changes the incarnation of the records. Uses those of the journal if etcd holds older ones.
    /// Blocks for up to a minute.
    ///
    /// # Errors
    /// A peer leads, etcd has no majority, or there are no records.
    pub(crate) fn recover(&self, request: &RecoverRequest) -> Result<RecoveredView, Problem> {
        let _alone = self.alone()?;
        let settings = self.settings()?;
        let journal = self.journal(settings)?;
        check_no_controller(&journal)?;
        if request.new_etcd {
            let keeper = self.keeper()?;
            let own = self.site.config.peer.as_str();
            // A voter that only the journal has may be the last one that is left.
            let noted = journal.voters().ok().flatten().map(|(noted, _)| noted);
            let members = keeper.known().into_iter().chain(noted.unwrap_or_default());
            for member in members.filter(|member| member.name != own) {
                self.check_silent(&name_of(&member)?, &[&member.client_url])?;
            }
            keeper.make_new().map_err(|why| {
                Problem::new(ProblemCode::EtcdNotBegun, "cannot start a new etcd").because(why)
            })?;
        }
        self.give_incarnation(&journal, None)
    }

    /// Changes the incarnation. `fenced` is that of [`recover`].
    fn give_incarnation(
        &self,
        journal: &SharedJournal,
        fenced: Option<u64>,
    ) -> Result<RecoveredView, Problem> {
        let keys = Keys::of(&self.site.config.site);
        let done = recover(&self.etcd, &keys, journal, fenced);
        let done = done.map_err(|error| recover_problem(&error))?;
        let incarnation = format!("{:016x}", done.incarnation);
        tracing::warn!(%incarnation, transfers = done.transfers, from_journal = done.from_journal,
            "the records of the site continue under a new incarnation");
        let (transfers, from_journal) = (done.transfers as u64, done.from_journal);
        Ok(RecoveredView { incarnation, transfers, from_journal })
    }

    /// Refuses a host that answers at any of these addresses, or where it took requests.
    fn check_silent(&self, host: &Name, urls: &[&str]) -> Result<(), Problem> {
        let seen = std::sync::Arc::clone(&self.cluster.watch().borrow());
        let cards = seen.peers.iter().filter(|card| card.peer == *host);
        let listed = cards.flat_map(|card| card.addresses.iter().copied());
        let urls = urls.iter().filter_map(|url| url.strip_prefix("https://")?.parse().ok());
        for address in urls.chain(listed) {
            let address: SocketAddr = address;
            if TcpStream::connect_timeout(&address, CONNECT).is_ok() {
                let title = format!("`{host}` answers at {address}: it is not fenced");
                return Err(Problem::new(ProblemCode::NotFenced, title)
                    .hint("switch it off, or cut it off from stores and network"));
            }
        }
        Ok(())
    }

    /// Removes the member of a host that is gone for good from etcd. Blocks, for some seconds if
    /// the member led the others.
    ///
    /// # Errors
    /// The host answers, has no member of etcd, or etcd has no majority.
    pub(crate) fn remove_host(&self, host: &Name) -> Result<(), Problem> {
        self.keeper()?;
        let failed =
            |error| Problem::new(ProblemCode::Etcd, "etcd cannot remove the host").because(error);
        let members = self.etcd.members(ANSWER).map_err(failed)?;
        let Some(member) = members.iter().find(|member| member.name == host.as_str()) else {
            let title = format!("no etcd of this site runs at `{host}`");
            return Err(Problem::new(ProblemCode::UnknownHost, title));
        };
        self.check_silent(host, &[&member.client_url, &member.peer_url])?;
        self.remove_member(member.id).map_err(failed)?;
        tracing::warn!(%host, "its etcd member was removed");
        Ok(())
    }

    /// Removes the member of an excluded host from etcd, whether it answers or not. The password
    /// has changed by now: `site remove` completes a removal that fails here.
    pub(crate) fn put_out(&self, host: &Name) {
        if self.keeper.is_none() {
            return;
        }
        let removed = self.etcd.members(ANSWER).and_then(|members| {
            let member = members.iter().find(|member| member.name == host.as_str());
            member.map_or(Ok(()), |member| self.remove_member(member.id))
        });
        if let Err(error) = removed {
            tracing::error!(%host, %error, "its etcd member is not removed: `site remove` does");
        }
    }

    /// Asks again while the others elect a leader, and where an answer was lost.
    fn remove_member(&self, id: u64) -> Result<(), EtcdError> {
        let until = Instant::now() + ELECTED;
        loop {
            let Err(error) = self.etcd.remove_member(id, ANSWER) else { return Ok(()) };
            let left = self.etcd.members(ANSWER);
            if left.is_ok_and(|left| left.iter().all(|member| member.id != id)) {
                return Ok(());
            }
            if !matches!(error, EtcdError::Unavailable(_)) || Instant::now() >= until {
                return Err(error);
            }
            std::thread::sleep(LOOK);
        }
    }
}
