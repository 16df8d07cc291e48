//! The attributes that an entry gets at the target: those that the user wants and the target allows
//! (D7). Counts those that it did not get.
//!
//! Data sets of the own host and site keep all attributes. Between sites, the target's store must
//! allow owners, special modes, devices, ACLs, trusted and security attributes. Owners are then
//! mapped by rules, by name, and last by number.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use penstock_api::preserve::{NotKept, NotKeptWhy, OwnerRule, Preserve};
use penstock_proto::attributes::{
    ACL_ACCESS, AttributeClass, ClassSet, Owner, acl_group_bits, class_of,
};
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_store::{Attributes, NotSet, StoreError};
use penstock_sys::Account;

use crate::task::error::TaskError;

/// Owners that are remembered; beyond that all are mapped again.
const OWNERS_MAX: usize = 64 * 1024;
const SPECIAL_BITS: u32 = 0o7000;

/// Decides which attributes entries get. The threads of a task share one policy.
pub(crate) struct AttributePolicy {
    preserve: Preserve,
    /// Classes of attributes that are wanted and allowed.
    kept: ClassSet,
    /// Classes of attributes that are wanted and not allowed.
    withheld: ClassSet,
    /// Mapping of the owners of another site; owners of the own site keep their numbers.
    owners: Option<OwnerMap>,
    /// The user and group of new files: of this process, or of the account of the store.
    own: Owner,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    not_kept: BTreeMap<(AttributeClass, NotKeptWhy), u64>,
    /// Pages from this number on are counted: directories are set from the last page to the first,
    /// and all over again after a failed sync.
    counted_from: Option<u32>,
}

impl AttributePolicy {
    /// Creates the policy for a data set of the own host or site (`own_site`), or of another.
    pub(crate) fn new(preserve: &Preserve, own_site: bool, allow_privileged: bool) -> Self {
        use AttributeClass::UserXattrs;
        let wished = preserve.classes();
        let allowed =
            |class: &AttributeClass| own_site || allow_privileged || matches!(class, UserXattrs);
        let set_of = |allows: bool| {
            let classes = AttributeClass::ALL.into_iter();
            ClassSet::of(classes.filter(|c| wished.contains(*c) && allowed(c) == allows))
        };
        let (uid, gid) = penstock_sys::own_numbers();
        Self {
            preserve: preserve.clone(),
            kept: set_of(true),
            withheld: set_of(false),
            owners: (!own_site).then(|| OwnerMap::new(&preserve.owner_map)),
            own: Owner { uid, gid },
            counts: Mutex::default(),
        }
    }

    /// Returns the policy for files that this account makes, or this process without one. The
    /// kernel refuses attributes that an account may not set, and these are counted.
    pub(crate) fn made_by(mut self, account: Option<&Account>) -> Self {
        if let Some(account) = account {
            let (uid, gid) = account.numbers();
            self.own = Owner { uid, gid };
        }
        self
    }

    /// Returns whether modes are set, or left to the umask.
    pub(crate) fn sets_modes(&self) -> bool {
        self.preserve.mode
    }

    /// Returns whether times are set, so that they tell one version from another.
    pub(crate) fn sets_times(&self) -> bool {
        self.preserve.times
    }

    /// Returns whether an entry is made at all: devices and pipes may be withheld.
    pub(crate) fn makes(&self, entry: &Entry) -> bool {
        !is_device(entry) || self.kept.contains(AttributeClass::Devices)
    }

    /// Returns the mode that an entry gets; `None` leaves it to the system.
    pub(crate) fn mode(&self, page: &Page, entry: &Entry) -> Option<u32> {
        if !self.preserve.mode {
            return None;
        }
        let mut mode = entry.mode & 0o7777;
        if !self.kept.contains(AttributeClass::SpecialMode) {
            mode &= !SPECIAL_BITS;
        }
        if entry.kind == EntryKind::File && !self.kept.contains(AttributeClass::Owner) {
            // A program that ran with its owner's rights would run with ours (as in cp(1)).
            mode &= if entry.owner.uid == self.own.uid { !0 } else { !0o4000 };
            mode &= if entry.owner.gid == self.own.gid { !0 } else { !0o2000 };
        }
        Some(if self.kept.contains(AttributeClass::Acls) {
            mode
        } else {
            without_acl(mode, page, entry)
        })
    }

    /// Returns the mode, if modes are set, and the group with which a file is created. No other
    /// user can then read more of the file before it has its group and ACL.
    pub(crate) fn made_with(&self, page: &Page, entry: &Entry) -> (Option<u32>, Option<u32>) {
        let mode = self.mode(page, entry).map(|mode| without_acl(mode, page, entry));
        (mode, self.owner(page, entry).map(|owner| owner.gid))
    }

    fn owner(&self, page: &Page, entry: &Entry) -> Option<Owner> {
        self.kept.contains(AttributeClass::Owner).then(|| match &self.owners {
            None => entry.owner,
            Some(map) => map.owner(page, entry.owner),
        })
    }

    /// Returns all attributes that an entry gets.
    pub(crate) fn attributes<'p>(&self, page: &'p Page, entry: &Entry) -> Attributes<'p> {
        let owner = self.owner(page, entry);
        Attributes {
            mode: self.mode(page, entry),
            mtime: self.preserve.times.then_some(entry.mtime),
            uid: owner.map(|owner| owner.uid),
            gid: owner.map(|owner| owner.gid),
            xattrs: page.xattrs(entry),
            classes: self.kept,
        }
    }

    /// Counts the attributes that could not be set for the entry at `path`. Returns an error if
    /// that fails the entry.
    pub(crate) fn settle(&self, path: &[u8], not_set: &NotSet) -> Result<(), StoreError> {
        for (class, errno) in not_set.iter() {
            if self.preserve.strict {
                return Err(StoreError::not_set(path, class, errno));
            }
            use std::io::ErrorKind;
            let why = match std::io::Error::from_raw_os_error(errno).kind() {
                ErrorKind::PermissionDenied => NotKeptWhy::NotPermitted,
                ErrorKind::Unsupported => NotKeptWhy::NotSupported,
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NotKeptWhy::NoRoom,
                _ => NotKeptWhy::Unfit,
            };
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            *counts.not_kept.entry((class, why)).or_default() += 1;
        }
        Ok(())
    }

    /// Counts the withheld attributes of a page's entries, once.
    pub(crate) fn count_withheld(&self, page: &Page) {
        if self.withheld.is_empty() {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.counted_from.is_some_and(|from| page.number >= from) {
            return;
        }
        counts.counted_from = Some(page.number);
        for entry in page.entries() {
            for class in AttributeClass::ALL {
                if self.withheld.contains(class) && self.has(page, entry, class) {
                    *counts.not_kept.entry((class, NotKeptWhy::Withheld)).or_default() += 1;
                }
            }
        }
    }

    /// Returns whether an entry has attributes of a class that a new entry of this user would lack.
    fn has(&self, page: &Page, entry: &Entry, class: AttributeClass) -> bool {
        match class {
            AttributeClass::Devices => is_device(entry),
            // The attributes of its first name are counted there.
            _ if entry.kind == EntryKind::HardLink => false,
            AttributeClass::Owner => entry.owner != self.own,
            AttributeClass::SpecialMode => entry.mode & SPECIAL_BITS != 0,
            _ => page.xattrs(entry).into_iter().any(|(name, _)| class_of(name) == Some(class)),
        }
    }

    /// Returns the attributes that were not kept so far.
    pub(crate) fn not_kept(&self) -> Vec<NotKept> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let told = counts.not_kept.iter();
        told.map(|((class, why), items)| NotKept { class: *class, why: *why, items: *items })
            .collect()
    }
}

/// Returns the mode without the access ACL. Its group bits are the ACL's mask, and the group may
/// have less.
fn without_acl(mode: u32, page: &Page, entry: &Entry) -> u32 {
    let group = page.xattrs(entry).get(ACL_ACCESS).and_then(acl_group_bits);
    group.map_or(mode, |group| mode & !0o070 | group << 3)
}

/// Returns whether an entry is a pipe or device, or a further name of one.
fn is_device(entry: &Entry) -> bool {
    let node =
        matches!(entry.kind, EntryKind::Fifo | EntryKind::CharDevice | EntryKind::BlockDevice);
    node || entry.kind == EntryKind::HardLink && entry.special
}

/// Numbers at this site for the users and groups of another.
struct OwnerMap {
    users: Mapping,
    groups: Mapping,
}

struct Mapping {
    rules: Vec<OwnerRule>,
    number_of: fn(&[u8]) -> Option<u32>,
    known: Mutex<HashMap<u32, u32>>,
}

impl OwnerMap {
    fn new(rules: &[OwnerRule]) -> Self {
        let mapping = |group: bool, number_of| Mapping {
            rules: rules.iter().filter(|rule| rule.group == group).cloned().collect(),
            number_of,
            known: Mutex::default(),
        };
        Self {
            users: mapping(false, penstock_sys::user_number),
            groups: mapping(true, penstock_sys::group_number),
        }
    }

    fn owner(&self, page: &Page, owner: Owner) -> Owner {
        Owner {
            uid: self.users.map(owner.uid, page.user(owner.uid)),
            gid: self.groups.map(owner.gid, page.group(owner.gid)),
        }
    }
}

impl Mapping {
    fn map(&self, number: u32, name: Option<&[u8]>) -> u32 {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= OWNERS_MAX {
            known.clear();
        }
        *known.entry(number).or_insert_with(|| self.look_up(number, name))
    }

    fn look_up(&self, number: u32, name: Option<&[u8]>) -> u32 {
        let names = |rule: &&OwnerRule| {
            Some(rule.from.as_bytes()) == name || rule.from.parse() == Ok(number)
        };
        let rule = self.rules.iter().find(names);
        let rule = rule.or_else(|| self.rules.iter().find(|rule| rule.from == "*"));
        let ruled = rule
            .and_then(|rule| rule.to.parse().ok().or_else(|| (self.number_of)(rule.to.as_bytes())));
        // A name that is not known here: the number, as tar(1) and rsync(1) do.
        ruled.or_else(|| (self.number_of)(name?)).unwrap_or(number)
    }
}

/// Checks that each rule leads to an owner known here. Otherwise its files would go to the user
/// with the source's number, which may be root.
///
/// # Errors
/// Names the first rule that does not.
pub(crate) fn check_rules(rules: &[OwnerRule]) -> Result<(), TaskError> {
    let is_known = |rule: &&OwnerRule| {
        let name = rule.to.as_bytes();
        let number = if rule.group {
            penstock_sys::group_number(name)
        } else {
            penstock_sys::user_number(name)
        };
        rule.to.parse::<u32>().is_ok() || number.is_some()
    };
    let Some(rule) = rules.iter().find(|rule| !is_known(rule)) else { return Ok(()) };
    let kind = if rule.group { "group" } else { "user" };
    Err(TaskError::UnknownOwner { kind, name: rule.to.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::problem::{Exit, Problem};
    use penstock_proto::id::TransferId;
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::slicing::Slicing;

    fn page(draft: &EntryDraft<'_>) -> Page {
        let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
        builder.push(b"", draft);
        builder.seal()
    }

    /// D7: a rule of the owner map that names an unknown user is refused, rather than skipped: the
    /// source's number, which would then count, may be root's.
    #[test]
    fn d7_a_rule_that_leads_to_nobody_is_refused() {
        let rule = |group, to: &str| OwnerRule { group, from: "*".to_owned(), to: to.to_owned() };
        assert!(
            check_rules(&[rule(false, "root"), rule(true, "root"), rule(false, "4321")]).is_ok()
        );
        for group in [false, true] {
            let error = check_rules(&[rule(group, "no-such-account")]).unwrap_err();
            let problem = Problem::from(error);
            assert_eq!(problem.exit, Exit::Usage);
            assert!(problem.to_string().contains("no-such-account"), "{problem}");
        }
    }

    /// D7: another site sets no attribute that could make its sender root here, unless the store
    /// allows it; a withheld attribute is counted once.
    #[test]
    fn d7_another_site_brings_no_privilege_unless_it_is_allowed() {
        let draft = EntryDraft {
            name: b"a",
            mode: 0o6755,
            owner: Owner { uid: 12_345, gid: 12_345 },
            ..EntryDraft::default()
        };
        let page = page(&draft);
        let entry = &page.entries()[0];
        let wish = Preserve::default();
        let closed = AttributePolicy::new(&wish, false, false);
        let given = closed.attributes(&page, entry);
        assert_eq!((given.mode, given.uid, given.gid), (Some(0o755), None, None));
        assert!(!given.classes.contains(AttributeClass::SecurityXattrs));
        assert!(given.classes.contains(AttributeClass::UserXattrs));
        closed.count_withheld(&page);
        closed.count_withheld(&page);
        let items: Vec<_> = closed.not_kept().iter().map(|told| (told.class, told.items)).collect();
        assert_eq!(items, [(AttributeClass::Owner, 1), (AttributeClass::SpecialMode, 1)]);
        for open in
            [AttributePolicy::new(&wish, true, false), AttributePolicy::new(&wish, false, true)]
        {
            let given = open.attributes(&page, entry);
            assert_eq!((given.mode, given.uid), (Some(0o6755), Some(12_345)));
        }
        let no_owner = Preserve { owner: false, ..Preserve::default() };
        let given = AttributePolicy::new(&no_owner, true, false).attributes(&page, entry);
        assert_eq!(given.mode, Some(0o755), "it would run with our rights");
    }

    /// D7: owners are mapped by rule, by name, and last by number.
    #[test]
    fn d7_owners_are_mapped_by_rule_then_name_then_number() {
        let rules = ["alice:root", "77:78", "@*:@0"].map(|rule| rule.parse().unwrap());
        let map = OwnerMap::new(&rules);
        assert_eq!(map.users.map(5, Some(b"alice")), 0);
        assert_eq!(map.users.map(77, None), 78);
        assert_eq!(map.users.map(1234, Some(b"root")), 0);
        assert_eq!(map.users.map(4321, Some(b"no such user")), 4321);
        assert_eq!(map.groups.map(4321, None), 0);
    }
}
