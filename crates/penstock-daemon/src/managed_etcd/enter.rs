//! Adds this host's member to the others, while no other host adds one. The member replaces an
//! earlier one of this host, or of a host with its name.

use penstock_cluster::etcd::{Compare, EtcdMember, Operation};

use super::answers::{address_of, answering};
use super::error::KeeperError;
use super::{ANSWER, CHANGE, Work};

/// Seconds for which a host that adds its member keeps others from adding theirs: time for two
/// changes and some looks. It ends with them, and lasts so long only if the host dies meanwhile.
const ADDING_SECONDS: u64 = 60;
const _: () = assert!(ADDING_SECONDS > 2 * CHANGE.as_secs() + 6 * ANSWER.as_secs());

impl Work {
    /// Returns whether there are too few members, or one that is or was this host's.
    pub(super) fn is_wanted(&self) -> Result<bool, KeeperError> {
        let members = self.etcd.members_now(ANSWER).map_err(KeeperError::Members)?;
        let url = self.own.peer_url();
        let is_own = |member: &EtcdMember| {
            member.peer_url == url || member.name == self.name() && !self.note.removed
        };
        Ok(members.len() < self.own.hosts || members.iter().any(is_own))
    }

    /// Adds this host's member to the others, unless there are enough; returns all of them in
    /// etcd's form.
    pub(super) fn enter(&self) -> Result<Option<String>, KeeperError> {
        let (lease, _) = self.etcd.grant(ADDING_SECONDS, ANSWER).map_err(KeeperError::Join)?;
        let entered = self.enter_under(lease);
        // Else it ends by itself.
        let _ = self.etcd.revoke(lease, ANSWER);
        entered
    }

    /// Adds this host's member once no other host adds one, until the lease ends.
    fn enter_under(&self, lease: u64) -> Result<Option<String>, KeeperError> {
        let (key, own) = (self.keys.at("adding"), self.own.peer_url().into_bytes());
        let lock = Operation::Put(key.clone(), own.clone(), lease);
        // The lock may be this host's already, from an attempt whose answer was lost, or from the
        // daemon before this one.
        for free in [Compare::Created(key.clone(), 0), Compare::Value(key, own)] {
            let locked = self.etcd.transact(&[free], std::slice::from_ref(&lock), ANSWER);
            if locked.map_err(KeeperError::Join)?.succeeded {
                return self.enter_alone();
            }
        }
        Err(KeeperError::Joining)
    }

    /// Adds this host's member while no other host adds one.
    fn enter_alone(&self) -> Result<Option<String>, KeeperError> {
        let (name, url) = (self.name().to_owned(), self.own.peer_url());
        let mut members = self.etcd.members_now(ANSWER).map_err(KeeperError::Join)?;
        let is_own = |member: &EtcdMember| member.peer_url == url && member.name.is_empty();
        if !members.iter().any(is_own) {
            if self.note.removed && members.iter().any(|member| member.name == name) {
                return Err(KeeperError::NameTaken(name));
            }
            // A former member of this host, whose data is gone, or that of a host with the same
            // name.
            let gone = |member: &&EtcdMember| member.name == name || member.peer_url == url;
            if let Some(gone) = members.iter().find(gone) {
                self.check_gone(gone)?;
                self.etcd.remove_member(gone.id, CHANGE).map_err(KeeperError::Join)?;
                members = self.etcd.members_now(ANSWER).map_err(KeeperError::Join)?;
            }
            if members.len() >= self.own.hosts {
                return Ok(None);
            }
            self.etcd.add_learner(&url, CHANGE).map_err(KeeperError::Join)?;
            tracing::info!("etcd of this host was added to the others");
            members = self.etcd.members_now(ANSWER).map_err(KeeperError::Join)?;
        }
        let named = members.iter().map(|member| {
            let name = match member.name.as_str() {
                "" if member.peer_url == url => name.clone(),
                "" => format!("{:x}", member.id),
                name => name.to_owned(),
            };
            format!("{name}={}", member.peer_url)
        });
        Ok(Some(named.collect::<Vec<_>>().join(",")))
    }

    /// Refuses to take the place of another host's member that is not gone: it may have been away
    /// for a moment when this host was let in under its name.
    fn check_gone(&self, member: &EtcdMember) -> Result<(), KeeperError> {
        // No other host has this host's own address, and its etcd does not run.
        if member.peer_url == self.own.peer_url() {
            return Ok(());
        }
        let urls = [member.client_url.as_str(), member.peer_url.as_str()];
        let addresses: Vec<_> = urls.into_iter().filter_map(address_of).collect();
        match answering(&addresses) {
            Some(address) => Err(KeeperError::NamesakeLives { name: member.name.clone(), address }),
            None => Ok(()),
        }
    }
}
