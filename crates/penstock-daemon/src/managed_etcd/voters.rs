//! The hosts that may have a vote in the site's etcd, as far as a host without a majority can know.
//!
//! The last list that this host saw may be old: others may have joined while the host, or its
//! daemon, was away. So the host asks three sources. Its own etcd knows the members that were
//! agreed up to its last entry. Without a majority it reports them up to release 3.4; later
//! releases do so only to a daemon that has asked before. The journal has the list that each
//! controller records while it works. Every peer that the host reaches has a list of its own.

use std::sync::Arc;
use std::time::Duration;

use penstock_api::cluster::PeerCard;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::etcd::EtcdMember;
use penstock_cluster::state::SharedJournal;
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use super::files::KnownMember;
use super::{ANSWER, Keeper};
use crate::cluster::election::Election;

/// Path of the request for the members with a vote.
pub(crate) const MEMBERS: &str = "/peer/v1/members";
/// The time that a peer has for that answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// The time by which the written list of voters may be older than the last record of a controller:
/// a controller confirms the list every few seconds.
const LATE_MAX: Duration = Duration::from_secs(30);

/// A peer's report about the site's etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembersTold {
    /// The members with a vote, as the peer saw them last.
    members: Vec<KnownMember>,
    /// True if the peer's own etcd sees a leader.
    led: bool,
}

/// Returns the members of both lists, each name once.
fn joined(mut all: Vec<KnownMember>, more: Vec<KnownMember>) -> Vec<KnownMember> {
    for member in more {
        if !all.contains(&member) {
            all.push(member);
        }
    }
    all
}

impl Election {
    /// Returns the report of this peer about the site's etcd. Blocks for an answer of the own one.
    pub(crate) fn members_told(&self) -> MembersTold {
        let Some(keeper) = &self.keeper else { return MembersTold::default() };
        let status = self.etcd.status_at(&self.own_etcd_url(), ANSWER);
        let led = status.is_ok_and(|status| status.leader != 0);
        MembersTold { members: keeper.known(), led }
    }

    /// Returns all hosts that may have a vote, including this one, and perhaps some that have lost
    /// theirs. Also returns a peer whose etcd has a leader, if one reports that. Those that are
    /// `fenced` are not asked. Blocks for some seconds.
    ///
    /// # Errors
    /// The lists of this host and of the journal are too old.
    pub(super) fn who_may_vote(
        &self,
        keeper: &Keeper,
        journal: &SharedJournal,
        fenced: &[Name],
    ) -> Result<(Vec<KnownMember>, Option<Name>), Problem> {
        let unread = |error: std::io::Error| {
            Problem::new(ProblemCode::JournalNeeded, "the journal cannot be read").because(error)
        };
        let (noted, beats) = (journal.voters().map_err(unread)?, journal.beats().map_err(unread)?);
        let (noted, confirmed) = noted.unzip();
        let worked = beats.values().max().copied();
        if let Some(worked) = worked
            && confirmed.is_none_or(|confirmed| confirmed + LATE_MAX < worked)
        {
            let title = "the hosts that run etcd for the site now are not known";
            return Err(Problem::new(ProblemCode::VotersUnknown, title)
                .because(
                    "a controller was at work after the journal was last updated, so other hosts \
                     may have joined",
                )
                .hint(
                    "start another host that runs etcd, so that it has its majority; or, if all \
                     but this one are lost, stop this daemon, move `etcd/data` in its site \
                     directory away, start it, and run `penstock site recover --new-etcd`",
                ));
        }
        let mut all = joined(keeper.known(), noted.unwrap_or_default());
        let listed = self.etcd.members_at(&self.own_etcd_url(), ANSWER);
        if let Err(error) = &listed {
            tracing::warn!(%error, "etcd of this host does not say who has a vote");
        }
        if let Ok(listed) = listed {
            // As in the keeper's list.
            let voting = |member: &EtcdMember| !member.learner && !member.client_url.is_empty();
            let known = listed.into_iter().filter(voting).map(|member| KnownMember {
                name: member.name,
                client_url: member.client_url,
                peer_url: member.peer_url,
            });
            all = joined(all, known.collect());
        }
        let mut led = None;
        for (peer, told) in self.ask_peers(fenced) {
            if told.led {
                led = Some(peer);
            }
            all = joined(all, told.members);
        }
        Ok((all, led))
    }

    fn own_etcd_url(&self) -> String {
        let own = self.settings.own_etcd.as_ref();
        own.map(|own| own.client_url()).unwrap_or_default()
    }

    /// Returns the reports of peers that can be reached, but for those that are fenced.
    fn ask_peers(&self, fenced: &[Name]) -> Vec<(Name, MembersTold)> {
        let seen = Arc::clone(&self.cluster.watch().borrow());
        let own = &self.site.config.peer;
        let others = seen.peers.iter().filter(|card| card.peer != *own);
        let others = others.filter(|card| !fenced.contains(&card.peer));
        let ask = |card: &PeerCard| {
            let told = self.client.get(&card.addresses, MEMBERS, PATIENCE);
            Some((card.peer.clone(), self.runtime.block_on(told).ok()?))
        };
        others.filter_map(ask).collect()
    }
}

/// Returns the name of a member, which was written down and may be damaged.
pub(super) fn name_of(member: &KnownMember) -> Result<Name, Problem> {
    member.name.parse().map_err(|error| {
        let title = format!("the member of etcd at {} has no peer's name", member.peer_url);
        Problem::new(ProblemCode::Members, title).because(error)
    })
}
