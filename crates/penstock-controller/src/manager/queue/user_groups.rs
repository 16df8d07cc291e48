//! The groups with which users share the queue.

use std::collections::HashMap;

use penstock_api::access::User;
use penstock_api::queue::NO_GROUP;
use penstock_cluster::state::TransferRecord;
use penstock_proto::id::Name;

/// The groups of users, by the names of users.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UserGroups(HashMap<Name, Name>);

impl UserGroups {
    /// Returns those of the users of a site.
    pub(crate) fn of(users: &[User]) -> Self {
        let group = |user: &User| Some((user.name.clone(), user.group.clone()?));
        Self(users.iter().filter_map(group).collect())
    }

    /// Returns the group of the user of a transfer; [`NO_GROUP`] if it has none, as all that is not
    /// of a user of this site.
    pub(super) fn of_record(&self, record: &TransferRecord) -> &str {
        self.of_owner(record.owner.as_ref())
    }

    /// Returns the group of a user, by its name.
    pub(super) fn of_owner(&self, owner: Option<&Name>) -> &str {
        owner.and_then(|owner| self.0.get(owner)).map_or(NO_GROUP, Name::as_str)
    }
}
