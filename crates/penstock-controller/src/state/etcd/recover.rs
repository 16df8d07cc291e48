//! Goes on with a site whose etcd was lost, was restored from a backup, or was cut down to one
//! member: its records get another incarnation (B4).
//!
//! Epochs are revisions of etcd within an incarnation. An etcd that has gone back gives revisions
//! that were given before: under another incarnation they name other epochs, so that no file of an
//! earlier controller is taken for one of a later, and a controller of the incarnation before has
//! everything refused. Incarnations count up, so that epochs do too.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_api::cluster::LeaderCard;

use super::journal::{SharedJournal, place, read};
use super::{Keys, is_record};
use crate::etcd::{Etcd, EtcdError, KeyValue, OPERATIONS_MAX, Operation};

/// How long etcd may take for one answer.
const ANSWER: Duration = Duration::from_secs(5);
/// Bytes of keys and values in one transaction: etcd takes 1.5 MiB of request, in base64 here.
const BYTES_MAX: usize = 512 << 10;

/// Why a site cannot go on so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// Somebody leads: there is nothing to recover from.
    #[error("peer `{0}` is the controller of this site now")]
    Led(String),
    /// Neither etcd nor the journal knows the site.
    #[error("neither etcd nor the journal holds any records of this site")]
    Nothing,
    /// The journal cannot be read or written.
    #[error("the journal cannot be used")]
    Journal(#[from] std::io::Error),
    /// etcd does not do what it is asked for.
    #[error("etcd does not answer")]
    Etcd(#[from] EtcdError),
}

/// With what the site goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Incarnation of its records.
    pub incarnation: u64,
    /// Transfers among them.
    pub transfers: usize,
    /// Whether they are from the journal's copy, which knew more than etcd.
    pub from_journal: bool,
}

/// Gives the records of a site another incarnation; they are those of etcd, or of the journal's
/// copy where that is newer. With `led_is_fine` a leader's key does not count: its host is fenced.
/// May be done again if it was cut short. Blocks.
///
/// # Errors
/// See [`RecoverError`]. Nobody leads before it has succeeded, unless it was `Led`.
pub fn recover(
    etcd: &Etcd,
    keys: &Keys,
    journal: &SharedJournal,
    led_is_fine: bool,
) -> Result<Recovered, RecoverError> {
    let gets = [keys.leader(), keys.at("incarnation"), keys.tail()].map(Operation::Get);
    let seen = etcd.transact(&[], &gets, ANSWER)?;
    let first = |at: usize| seen.read.get(at).and_then(|found| found.first());
    if let Some(leader) = first(0).filter(|_| !led_is_fine) {
        let card: Option<LeaderCard> = serde_json::from_slice(&leader.value).ok();
        return Err(RecoverError::Led(card.map_or_else(String::new, |card| card.peer.to_string())));
    }
    let old = first(1).map_or(0, |found| {
        u64::from_str_radix(&String::from_utf8_lossy(&found.value), 16).unwrap_or(0)
    });
    let newest = journal.newest()?;
    if old == 0 && newest.is_none() {
        return Err(RecoverError::Nothing);
    }
    let written = first(2).map_or(0, |tail| tail.written);
    let newer = newest.filter(|copy| old == 0 || copy.place() > place(old, written));
    let known = journal.marks()?.into_iter().chain([old]).max().unwrap_or(0);
    let incarnation = known.wrapping_add(1).max(1);
    // From here on nobody can be elected before the new incarnation is in etcd.
    journal.set_mark(incarnation)?;
    journal.keep_mark(incarnation)?;
    etcd.transact(&[], &[Operation::Delete(keys.leader())], ANSWER)?;
    let found = etcd.list(&keys.at(""), ANSWER)?;
    let from_journal = newer.is_some();
    let transfers = match newer {
        Some(copy) => {
            let wanted = read(&copy.path)?;
            write_all(etcd, keys, &found, &wanted)?;
            wanted.keys().filter(|key| key.starts_with("transfers/")).count()
        }
        None => {
            let under = keys.at("transfers/");
            found.iter().filter(|found| found.key.starts_with(&under)).count()
        }
    };
    let text = format!("{incarnation:016x}").into_bytes();
    etcd.transact(&[], &[Operation::Put(keys.at("incarnation"), text, 0)], ANSWER)?;
    Ok(Recovered { incarnation, transfers, from_journal })
}

/// Makes etcd hold these records and no others.
fn write_all(
    etcd: &Etcd,
    keys: &Keys,
    found: &[KeyValue],
    wanted: &BTreeMap<String, Vec<u8>>,
) -> Result<(), EtcdError> {
    let own = keys.at("");
    let mut there = BTreeMap::new();
    let mut operations = Vec::new();
    for one in found {
        let Some(key) = one.key.strip_prefix(&own).filter(|key| is_record(key)) else { continue };
        there.insert(key, &one.value);
        if !wanted.contains_key(key) {
            operations.push(Operation::Delete(one.key.clone()));
        }
    }
    let differ = wanted.iter().filter(|(key, value)| there.get(key.as_str()) != Some(value));
    operations.extend(differ.map(|(key, value)| Operation::Put(keys.at(key), value.clone(), 0)));
    let (mut part, mut bytes) = (Vec::new(), 0);
    for operation in operations {
        let size = if let Operation::Put(_, value, _) = &operation { value.len() } else { 0 };
        if part.len() >= OPERATIONS_MAX || bytes + size > BYTES_MAX {
            etcd.transact(&[], &std::mem::take(&mut part), ANSWER)?;
            bytes = 0;
        }
        bytes += size;
        part.push(operation);
    }
    if !part.is_empty() {
        etcd.transact(&[], &part, ANSWER)?;
    }
    Ok(())
}
