//! Replaces the keys of this site while it works, and informs paired sites.
//!
//! The next keys are staged at each peer first. A peer with staged keys shows a certificate of the
//! new authority and trusts the old one; peers that trust the old one accept the certificate by its
//! link. Once all peers have staged the keys, each peer commits and trusts the new authority alone.
//! So no two peers refuse each other in between. Then each paired site receives the new keys until
//! it confirms.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use penstock_api::cluster::PeerCard;
use penstock_api::keys::{KeysHeard, RevokedKey, RotateReply, StageKeys};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_cluster::etcd::Etcd;
use penstock_cluster::membership::ClusterNow;
use penstock_cluster::state::Pairing;
use penstock_proto::id::Name;
use penstock_sys::now_seconds;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::keys::{OwnKeys, commit};
use crate::managed_etcd::files::Files;
use crate::operations::{AskError, Operate};
use crate::site::client::Sites;
use crate::site::context::Site;
use crate::site_directory::TRUST_DIRECTORY;

/// Wait before the newest keys are sent again to a site that has not confirmed them.
const AGAIN: Duration = Duration::from_secs(3);
/// Interval of looking for sites to tell, without any event.
const LOOK: Duration = Duration::from_secs(30);
/// Interval at which a peer asks whether the others have committed the keys that it has staged.
const STAGED: Duration = Duration::from_secs(5);
/// Longest time in which a peer stages or commits keys.
const PEER_ANSWERS: Duration = Duration::from_secs(10);

/// Shows the certificate of keys that were staged before the daemon ended; the peer commits on
/// order.
///
/// # Errors
/// The keys cannot be read.
pub(crate) fn resume(site: &Site) -> anyhow::Result<()> {
    let trust = site.directory.join(TRUST_DIRECTORY);
    match OwnKeys::load_staged(&trust)? {
        Some((next, issued)) if site.config.cluster.is_some() => site.show_next(&next, &issued),
        _ => Ok(()),
    }
}

impl Site {
    fn stage_in_turn(&self, staged: &StageKeys) -> Result<KeysHeard, Problem> {
        let trust = self.directory.join(TRUST_DIRECTORY);
        let stage = || {
            let keys = self.keys();
            let (next, issued) = keys.take_staged(&trust, &staged.files, self.identity.peer())?;
            self.show_next(&next, &issued)?;
            Ok(KeysHeard { sequence: next.sequence() })
        };
        stage().map_err(|error| not_rotated(&error))
    }

    fn commit_in_turn(&self, sequence: u64) -> Result<KeysHeard, Problem> {
        if self.keys().sequence() == sequence {
            return Ok(KeysHeard { sequence });
        }
        let trust = self.directory.join(TRUST_DIRECTORY);
        let commit = || {
            let staged = OwnKeys::load_staged(&trust)?;
            let staged = staged.filter(|(next, _)| next.sequence() == sequence);
            let (next, _) = staged.ok_or_else(|| anyhow::anyhow!("no such keys are staged"))?;
            commit(&trust)?;
            self.take_keys(next)?;
            let fingerprint = self.keys().authority.fingerprint();
            tracing::info!(number = sequence, %fingerprint, "this site has other keys now");
            Ok(KeysHeard { sequence })
        };
        commit().map_err(|error| not_rotated(&error))
    }
}

fn not_rotated(error: &anyhow::Error) -> Problem {
    Problem::new(ProblemCode::Keys, "the keys of this site are not replaced")
        .because(format!("{error:#}"))
}

impl Operate {
    /// Stages keys that another peer of this site has made. Blocks.
    ///
    /// # Errors
    /// Code `keys`: they do not follow the own ones, or cannot be written.
    pub(crate) fn stage_keys(&self, staged: &StageKeys) -> Result<KeysHeard, Problem> {
        let _turn = self.site.rotation.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = self.site.stage_in_turn(staged)?;
        self.stage_password(&staged.etcd_password)?;
        Ok(heard)
    }

    /// Makes the staged keys those of the site, if they have this number. Connections by the
    /// earlier authority are to be cut: [`Site::tell_trust_news`]. Blocks.
    ///
    /// # Errors
    /// Code `keys`: there are none with this number, or they cannot be written.
    pub(crate) fn commit_keys(&self, sequence: u64) -> Result<KeysHeard, Problem> {
        let _turn = self.site.rotation.lock().unwrap_or_else(PoisonError::into_inner);
        let heard = self.site.commit_in_turn(sequence)?;
        self.commit_password()?;
        Ok(heard)
    }

    /// Commits staged keys that another peer of this site has committed. That happens if the
    /// rotation was interrupted, or this peer was not reached. Blocks for some seconds at most.
    fn commit_as_others(&self) {
        let trust = self.site.directory.join(TRUST_DIRECTORY);
        let Ok(Some((staged, _))) = OwnKeys::load_staged(&trust) else { return };
        let told = self.ask_all::<KeysHeard>(&self.now().peers, "/keys");
        let mut others = told.into_values().filter_map(Result::ok);
        if others.any(|(heard, _)| heard.sequence >= staged.sequence()) {
            let committed = self.commit_keys(staged.sequence());
            if let Err(problem) = committed {
                tracing::error!(%problem, "keys that other peers have are not committed here");
            }
            self.site.tell_trust_news();
        }
    }

    /// Looks for staged keys now and then, until `stop` is true.
    pub(crate) async fn watch_staged(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                _ = stop.changed() => return,
                () = tokio::time::sleep(STAGED) => {}
            }
            let own = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || own.commit_as_others());
            if let Err(error) = looked.await {
                tracing::error!(%error, "cannot check the staged keys");
            }
        }
    }

    /// Returns the etcd that the site runs, if it does, and its files here.
    fn own_etcd(&self) -> Option<(&Etcd, Files)> {
        let election = self.member.election().filter(|election| election.keeper.is_some())?;
        Some((&election.etcd, Files::of(&self.site.directory)))
    }

    fn stage_password(&self, password: &str) -> Result<(), Problem> {
        let Some((etcd, files)) = self.own_etcd().filter(|_| !password.is_empty()) else {
            return Ok(());
        };
        files.stage_password(password).map_err(|error| not_rotated(&error.into()))?;
        etcd.set_passwords(files.passwords());
        Ok(())
    }

    fn commit_password(&self) -> Result<(), Problem> {
        let Some((etcd, files)) = self.own_etcd() else { return Ok(()) };
        files.commit_password().map_err(|error| not_rotated(&error.into()))?;
        etcd.set_passwords(files.passwords());
        Ok(())
    }

    /// Replaces the keys of the site, and revokes a key of a peer that is lost. Blocks until all
    /// peers of the site have the new ones; paired sites receive them afterwards. Peers that do not
    /// answer are left behind if `leaves`.
    ///
    /// # Errors
    /// A peer does not answer and is not to be left behind; code `keys`: they cannot be made or
    /// written; the etcd of the site does not take another password.
    pub(crate) fn replace_keys(
        &self,
        revoked: Option<RevokedKey>,
        leaves: bool,
    ) -> Result<RotateReply, Problem> {
        let site = &self.site;
        let _turn = site.rotation.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = revoked.as_ref().map(|revoked| revoked.peer.clone());
        let is_other = |peer: &Name| *peer != site.config.peer && Some(peer) != lost.as_ref();
        let now = self.now();
        let (others, mut left_behind) = others_of(&now, is_other);
        if let Some(peer) = left_behind.first().filter(|_| !leaves) {
            return Err(not_answering(peer, &AskError::Away));
        }
        let (sequence, staged) = self.stage_next(revoked).map_err(|error| not_rotated(&error))?;
        let mut answers = self.ask_all_with::<KeysHeard>(&others, "/keys", &staged, PEER_ANSWERS);
        for card in &others {
            let answer = answers.remove(&card.peer).unwrap_or(Err(AskError::NotAsked));
            if let Err(why) = answer {
                if !leaves {
                    return Err(not_answering(&card.peer, &why));
                }
                tracing::error!(peer = %card.peer, %why, "a peer is left behind with the old keys");
                left_behind.push(card.peer.clone());
            }
        }
        if let Some((etcd, _)) = self.own_etcd() {
            let changed = etcd.change_password(&staged.etcd_password, PEER_ANSWERS);
            changed.map_err(|error| {
                let title = "the etcd of the site does not take another password";
                Problem::new(ProblemCode::Etcd, title)
                    .because(error)
                    .hint("nothing is replaced; run it again when `site status` is well")
            })?;
        }
        let ready = others.into_iter().filter(|card| !left_behind.contains(&card.peer));
        let (ready, heard): (Vec<PeerCard>, _) = (ready.collect(), KeysHeard { sequence });
        let path = "/keys/commit";
        for (peer, answer) in self.ask_all_with::<KeysHeard>(&ready, path, &heard, PEER_ANSWERS) {
            if let Err(why) = answer {
                tracing::error!(%peer, %why, "a peer has not committed the new keys");
                left_behind.push(peer);
            }
        }
        site.commit_in_turn(sequence)?;
        site.tell_trust_news();
        self.commit_password()?;
        let fingerprint = site.keys().authority.fingerprint().to_string();
        Ok(RotateReply { sequence, fingerprint, left_behind })
    }

    /// Makes the next keys and stages them here; returns their number, and the data that others are
    /// to stage.
    fn stage_next(&self, revoked: Option<RevokedKey>) -> anyhow::Result<(u64, StageKeys)> {
        let site = &self.site;
        let trust = site.directory.join(TRUST_DIRECTORY);
        let next = site.keys().next(revoked.filter(has_key), now_seconds())?;
        let issued = next.stage(&trust, site.identity.peer())?;
        let files = OwnKeys::staged_files(&trust)?;
        site.show_next(&next, &issued)?;
        let etcd_password = match self.own_etcd() {
            // etcd may have taken the one of an attempt that was cut short.
            Some((_, files)) => files.next_password().unwrap_or_else(new_password),
            None => String::new(),
        };
        self.stage_password(&etcd_password)?;
        Ok((next.sequence(), StageKeys { files, etcd_password }))
    }
}

/// Returns the peers that are up, with addresses at which each accepts keys, and the names of those
/// that belong to the site and are not up.
fn others_of(now: &ClusterNow, is_other: impl Fn(&Name) -> bool) -> (Vec<PeerCard>, Vec<Name>) {
    let up: Vec<PeerCard> = now
        .peers
        .iter()
        .filter(|card| is_other(&card.peer))
        .map(|card| PeerCard { addresses: card.keys_at.clone(), ..card.clone() })
        .collect();
    let is_away = |peer: &Name| is_other(peer) && up.iter().all(|card| card.peer != *peer);
    let known = now.known.iter().map(|known| &known.peer);
    let away = known.filter(|peer| is_away(peer)).cloned().collect();
    (up, away)
}

fn new_password() -> String {
    data_encoding::HEXLOWER.encode(&rand::random::<[u8; 16]>())
}

fn not_answering(peer: &Name, why: &AskError) -> Problem {
    let title = format!("peer `{peer}` cannot take other keys now");
    Problem::new(ProblemCode::PeerKeys, title)
        .because(why)
        .hint("nothing is replaced; run it again when the peer answers, or forget it as well")
}

fn has_key(revoked: &RevokedKey) -> bool {
    !revoked.key.is_empty()
}

/// Sends paired sites the own keys, and asks for theirs, whenever that is due, until `stop` is
/// true.
pub(crate) async fn watch(site: Arc<Site>, sites: Arc<Sites>, mut stop: watch::Receiver<bool>) {
    let mut news = site.trust_news();
    loop {
        let pause = match tend(&site, &sites).await {
            true => LOOK,
            false => AGAIN,
        };
        tokio::select! {
            _ = stop.changed() => return,
            _ = news.changed() => {}
            () = sites.other_keys() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Brings all paired sites up to date, side by side; whether that is done.
async fn tend(site: &Arc<Site>, sites: &Arc<Sites>) -> bool {
    let pairings = site.state().pairings().unwrap_or_default();
    let mut asked = JoinSet::new();
    for pairing in pairings {
        let tells = pairing.told < site.keys().sequence();
        let asks = sites.keys_heard(&pairing.site) > pairing.keys;
        if tells || asks {
            let (site, sites) = (Arc::clone(site), Arc::clone(sites));
            asked.spawn_blocking(move || match exchange(&site, &sites, &pairing, asks) {
                Ok(()) => true,
                Err(problem) => {
                    let other = pairing.site;
                    tracing::warn!(site = %other, %problem, "keys are not exchanged; tried again");
                    false
                }
            });
        }
    }
    let mut done = true;
    while let Some(exchanged) = asked.join_next().await {
        done &= exchanged.unwrap_or(false);
    }
    done
}

fn exchange(site: &Site, sites: &Sites, pairing: &Pairing, asks: bool) -> Result<(), Problem> {
    if asks {
        sites.learn_keys(&pairing.site)?;
    }
    let keys = site.keys();
    if pairing.told < keys.sequence() {
        let record = keys.statements_after(pairing.told);
        let heard = sites.tell_keys(&pairing.site, &record)?;
        site.note_told(&pairing.site, heard.sequence)?;
    }
    Ok(())
}
