//! Recovers a site whose etcd was lost, was restored from a backup, or was cut down to one member:
//! its records get another incarnation (B4).
//!
//! Epochs are revisions of etcd within an incarnation. An etcd that has gone back issues revisions
//! that were issued before. Under another incarnation they name other epochs. So no file of an
//! earlier controller is mistaken for one of a later, and a controller of the previous incarnation
//! has every transaction rejected. Incarnations count up, so that epochs do too.
//!
//! A recovering host claims the records first: it removes the leader's key and writes a random
//! number under the key `recovering`, which each of its transactions compares. While that key
//! exists no peer is elected. A second host claims the records again, and the first has every
//! transaction rejected from then on. Then the journal is moved to the new incarnation, and records
//! are written. The last transaction writes the incarnation to etcd and removes the claim. A
//! recovery that is cut short anywhere leaves a site without a leader, until it is recovered again.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::cluster::LeaderCard;

use super::is_record;
use super::journal::{SharedJournal, place, rank, read};
use crate::etcd::{Compare, Etcd, EtcdError, KeyValue, OPERATIONS_MAX, Operation};
use crate::keys::{Keys, incarnation_of, incarnation_text};

/// The longest time that etcd may take for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of keys and values in one transaction: etcd takes 1.5 MiB of request, in base64 here.
const BYTES_MAX: usize = 512 << 10;
/// Number of attempts to claim the records if something changes meanwhile, such as a lease that
/// ends.
const CLAIMS_MAX: usize = 5;

/// The reason why a site cannot be recovered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// A peer leads: there is nothing to recover from.
    #[error("peer `{0}` is the controller of this site now")]
    Led(String),
    /// Neither etcd nor the journal knows the site.
    #[error("neither etcd nor the journal holds any records of this site")]
    Nothing,
    /// The claim failed because another host leads or recovers the site.
    #[error("another host leads or recovers this site at this moment")]
    Superseded,
    /// The journal cannot be read or written.
    #[error("the journal cannot be used")]
    Journal(#[from] std::io::Error),
    /// A request to etcd failed.
    #[error("etcd does not answer")]
    Etcd(#[from] EtcdError),
}

/// The result of a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Incarnation of its records.
    pub incarnation: u64,
    /// Transfers among them.
    pub transfers: usize,
    /// Set if the records are from the journal's copy, which was newer than etcd.
    pub from_journal: bool,
}

/// Changes the incarnation of a site's records. The records are those of etcd, or of the journal's
/// copy where that is newer. With `fenced` a leader's key does not count, since its host is fenced;
/// `fenced` is the incarnation to which the journal was moved since ([`SharedJournal::take_next`]).
/// May be repeated if it was cut short. Blocks.
///
/// # Errors
/// See [`RecoverError`]. Once records were written, no peer leads before the recovery has
/// succeeded.
pub fn recover(
    etcd: &Etcd,
    keys: &Keys,
    journal: &SharedJournal,
    fenced: Option<u64>,
) -> Result<Recovered, RecoverError> {
    let claim = Claim::make(etcd, keys, journal, fenced)?;
    match claim.take(journal, fenced) {
        Ok(true) => claim.finish(journal),
        Ok(false) => {
            claim.release();
            Err(RecoverError::Superseded)
        }
        Err(error) => {
            claim.release();
            Err(error.into())
        }
    }
}

/// Returns whether a takeover or a recovery of these records was begun and not finished, or the
/// journal now belongs to another host. Blocks.
///
/// # Errors
/// etcd has no majority; the journal cannot be read.
pub fn is_cut_short(
    etcd: &Etcd,
    keys: &Keys,
    journal: &SharedJournal,
) -> Result<bool, RecoverError> {
    let gets = [keys.incarnation(), keys.recovering()].map(Operation::Get);
    let seen = etcd.transact(&[], &gets, ANSWER)?;
    let value = |at: usize| Some(&seen.read.get(at)?.first()?.value);
    let incarnation = value(0).map_or(0, |text| incarnation_of(text));
    Ok(value(1).is_some() || journal.is_left(incarnation)?)
}

/// The sole right to write a site's records while no peer leads it.
pub(super) struct Claim<'a> {
    etcd: &'a Etcd,
    keys: &'a Keys,
    /// The comparison that no other host has claimed the records since.
    held: Compare,
    /// Their incarnation.
    old: u64,
    /// Revision at which one of them was written last.
    written: u64,
    /// The incarnation that they are to have.
    pub(super) next: u64,
}

impl<'a> Claim<'a> {
    /// Claims the records: no peer leads from then on, and a host that claimed them before can no
    /// longer write.
    pub(super) fn make(
        etcd: &'a Etcd,
        keys: &'a Keys,
        journal: &SharedJournal,
        fenced: Option<u64>,
    ) -> Result<Self, RecoverError> {
        if let Some(taken) = fenced
            && !journal.has_mark(taken)?
        {
            return Err(RecoverError::Superseded);
        }
        let mark = format!("{:016x}", rand::random::<u64>()).into_bytes();
        for _ in 0..CLAIMS_MAX {
            let gets = [keys.leader(), keys.incarnation(), keys.tail()].map(Operation::Get);
            let seen = etcd.transact(&[], &gets, ANSWER)?;
            let first = |at: usize| seen.read.get(at).and_then(|found| found.first());
            let leader = first(0);
            if let Some(leader) = leader.filter(|_| fenced.is_none()) {
                let card: Option<LeaderCard> = serde_json::from_slice(&leader.value).ok();
                let peer = card.map_or_else(String::new, |card| card.peer.to_string());
                return Err(RecoverError::Led(peer));
            }
            let old = first(1).map_or(0, |found| incarnation_of(&found.value));
            if old == 0 && journal.newest()?.is_none() {
                return Err(RecoverError::Nothing);
            }
            let next = match fenced.filter(|fenced| rank(*fenced) > rank(old)) {
                Some(taken) => taken,
                None => journal.next(old)?,
            };
            let is_same = match first(1) {
                Some(found) => Compare::Value(keys.incarnation(), found.value.clone()),
                None => Compare::Created(keys.incarnation(), 0),
            };
            let is_led = leader.map_or(0, |leader| leader.created);
            let compare = [Compare::Created(keys.leader(), is_led), is_same];
            let claimed = [
                Operation::Delete(keys.leader()),
                Operation::Put(keys.recovering(), mark.clone(), 0),
            ];
            if etcd.transact(&compare, &claimed, ANSWER)?.succeeded {
                let held = Compare::Value(keys.recovering(), mark);
                let written = first(2).map_or(0, |tail| tail.written);
                return Ok(Self { etcd, keys, held, old, written, next });
            }
        }
        Err(RecoverError::Superseded)
    }

    /// Makes the journal that of the new incarnation, unless it is; `false` if another host was
    /// faster.
    pub(super) fn take(
        &self,
        journal: &SharedJournal,
        fenced: Option<u64>,
    ) -> std::io::Result<bool> {
        match fenced == Some(self.next) {
            true => journal.has_mark(self.next),
            false => journal.take(self.next),
        }
    }

    /// Writes the records and their incarnation.
    pub(super) fn finish(self, journal: &SharedJournal) -> Result<Recovered, RecoverError> {
        let Self { etcd, keys, old, written, next, .. } = self;
        let newest = journal.newest()?;
        let newer = newest.filter(|copy| old == 0 || copy.place() > place(old, written));
        let found = etcd.list(&keys.at(""), ANSWER)?;
        let from_journal = newer.is_some();
        let transfers = match newer {
            Some(copy) => {
                let wanted = read(&copy.path)?;
                self.write_all(&found, &wanted)?;
                wanted.keys().filter(|key| key.starts_with("transfers/")).count()
            }
            None => {
                let under = keys.at("transfers/");
                found.iter().filter(|found| found.key.starts_with(&under)).count()
            }
        };
        self.write(&[
            Operation::Put(keys.incarnation(), incarnation_text(next), 0),
            Operation::Delete(keys.recovering()),
        ])?;
        Ok(Recovered { incarnation: next, transfers, from_journal })
    }

    fn write(&self, operations: &[Operation]) -> Result<(), RecoverError> {
        let held = std::slice::from_ref(&self.held);
        match self.etcd.transact(held, operations, ANSWER)?.succeeded {
            true => Ok(()),
            false => Err(RecoverError::Superseded),
        }
    }

    /// Releases the claim before any write; if etcd is out of reach, the next recovery claims
    /// again.
    fn release(self) {
        let _ = self.write(&[Operation::Delete(self.keys.recovering())]);
    }

    /// Makes etcd hold these records and no others.
    fn write_all(
        &self,
        found: &[KeyValue],
        wanted: &BTreeMap<String, Vec<u8>>,
    ) -> Result<(), RecoverError> {
        let own = self.keys.at("");
        let mut there = BTreeMap::new();
        let mut operations = Vec::new();
        for one in found {
            let Some(key) = one.key.strip_prefix(&own).filter(|key| is_record(key)) else {
                continue;
            };
            there.insert(key, &one.value);
            if !wanted.contains_key(key) {
                operations.push(Operation::Delete(one.key.clone()));
            }
        }
        let differ = wanted.iter().filter(|(key, value)| there.get(key.as_str()) != Some(value));
        let put =
            |(key, value): (&String, &Vec<u8>)| Operation::Put(self.keys.at(key), value.clone(), 0);
        operations.extend(differ.map(put));
        let (mut part, mut bytes) = (Vec::new(), 0);
        for operation in operations {
            let size = if let Operation::Put(_, value, _) = &operation { value.len() } else { 0 };
            if part.len() >= OPERATIONS_MAX || bytes + size > BYTES_MAX {
                self.write(&std::mem::take(&mut part))?;
                bytes = 0;
            }
            bytes += size;
            part.push(operation);
        }
        if part.is_empty() { Ok(()) } else { self.write(&part) }
    }
}
