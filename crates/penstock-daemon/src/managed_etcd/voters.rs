//! Who may have a vote in the site's etcd, as far as a host can know that has no majority to ask.
//!
//! What this host saw last may be old: others may have joined while it, or its daemon, was away. So
//! it asks its own etcd, which knows what was agreed up to where it has followed (and tells so
//! without a majority up to release 3.4: later ones only to a daemon that has asked before); the
//! journal, where each controller says who has a vote while it is at work; and every peer that it
//! reaches.

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

/// Where a peer is asked who has a vote.
pub(crate) const MEMBERS: &str = "/peer/v1/members";
/// How long a peer may take to say so.
const PATIENCE: Duration = Duration::from_secs(3);
/// How much older than the last word of a controller what is written of the voters may be: a
/// controller confirms it every few seconds.
const LATE_MAX: Duration = Duration::from_secs(30);

/// What a peer says of the site's etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembersTold {
    /// Who has a vote, as it saw it last.
    members: Vec<KnownMember>,
    /// Whether its own etcd sees a leader.
    led: bool,
}

/// Those of both lists, each name once.
fn joined(mut all: Vec<KnownMember>, more: Vec<KnownMember>) -> Vec<KnownMember> {
    for member in more {
        if !all.contains(&member) {
            all.push(member);
        }
    }
    all
}

impl Election {
    /// What other peers are told of the site's etcd. Blocks for an answer of the own one.
    pub(crate) fn members_told(&self) -> MembersTold {
        let Some(keeper) = &self.keeper else { return MembersTold::default() };
        let status = self.etcd.status_at(&self.own_etcd_url(), ANSWER);
        let led = status.is_ok_and(|status| status.leader != 0);
        MembersTold { members: keeper.known(), led }
    }

    /// Everybody who may have a vote, this host too, and perhaps some that have none any more; and
    /// a peer whose etcd has a leader, if one says so. Those that are `fenced` are not asked.
    /// Blocks for some seconds.
    ///
    /// # Errors
    /// What this host, and the journal, know is too old.
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

    /// What the peers say that can be reached, but for those that are fenced.
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

/// What is written down, and may not be what it says.
pub(super) fn name_of(member: &KnownMember) -> Result<Name, Problem> {
    member.name.parse().map_err(|error| {
        let title = format!("the member of etcd at {} has no peer's name", member.peer_url);
        Problem::new(ProblemCode::Members, title).because(error)
    })
}
