//! Accounts of this host at the socket for accounts, and the users that they represent.
//!
//! The kernel proves the user number of a process (SO_PEERCRED, unix(7)). The name service returns
//! the account and its groups, and `[auth.unix]` names the user. Names of accounts are those of
//! this host, and its root decides who owns them. Root and the daemon's own user are not judged
//! here. A role never grants the rights of a user of the site.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::access::{AccountName, Directory, Principal, Role, Via};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;
use penstock_proto::units::Instant;
use penstock_sys::boottime_now;
use tokio::sync::Semaphore;

use crate::config::{MappedUser, UnixAccounts};
use crate::site::context::Site;

/// Time for which an answer of the name service, which may be on another host, is used.
const AGE_MAX: Duration = Duration::from_secs(10);
/// Accounts that are remembered; beyond that all are asked for again.
const ACCOUNTS_MAX: usize = 1024;
/// Threads that wait for the name service at a time.
const LOOK_UPS_MAX: usize = 4;
/// The time for which a request waits for the name service, and for a thread that asks it.
const LOOK_UP_DEADLINE: Duration = Duration::from_secs(2);

/// An account of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostAccount {
    name: AccountName,
    /// The groups of the configuration that it is in.
    groups: BTreeSet<String>,
}

/// An account, by the last answer of the name service.
struct Told {
    at: Instant,
    /// The groups that were asked for.
    asked: BTreeSet<String>,
    account: Arc<HostAccount>,
}

/// Asks the name service for an account, and which of some groups it is in. Blocks.
type LookUp = dyn Fn(u32, &BTreeSet<String>) -> io::Result<Option<HostAccount>> + Send + Sync;

/// The reason why an account has no principal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Unmapped {
    /// Neither it nor a group of it is mapped.
    #[error("neither it nor a group of it is in the table `auth.unix`")]
    NotListed,
    /// The user that is named does not exist.
    #[error("the site has no user `{0}`")]
    NoUser(Name),
    /// The user is locked out.
    #[error("user `{0}` is locked out")]
    Locked(Name),
    /// The account is mapped by its name alone, and that is the name of a user of another way in.
    #[error("the site has a user `{0}`, who may be another person")]
    NameTaken(Name),
    /// The name of the account is no valid name of a user.
    #[error("its name is not one that a user of the site may have")]
    Nameless,
}

impl Unmapped {
    fn hint(&self, account: &AccountName) -> String {
        let entry = format!("`\"{account}\" = \"USER\"` in the table `auth.unix`");
        match self {
            Self::NotListed => format!("root adds {entry} of `penstock.toml`, or a group"),
            Self::NoUser(user) => format!(
                "an administrator makes one: `penstock user set {user} --role user --grant \
                 STORE=read,write`"
            ),
            Self::Locked(user) => {
                format!("an administrator ends it: `penstock user set {user} --enable`")
            }
            Self::NameTaken(user) => {
                format!("if that is the same person, root adds `\"{account}\" = \"{user}\"` there")
            }
            Self::Nameless => format!("root adds {entry} of `penstock.toml`"),
        }
    }
}

/// Accounts of this host.
pub(crate) struct LocalAccounts {
    site: Arc<Site>,
    look_ups: Arc<Semaphore>,
    /// [`look_up`], but in tests.
    look_up: Arc<LookUp>,
    /// [`LOOK_UP_DEADLINE`], but in tests.
    deadline: Duration,
    told: Mutex<HashMap<u32, Told>>,
}

impl LocalAccounts {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        Self::asking(site, Arc::new(look_up), LOOK_UP_DEADLINE)
    }

    /// Returns accounts as `look_up` finds them within `deadline`.
    fn asking(site: Arc<Site>, look_up: Arc<LookUp>, deadline: Duration) -> Self {
        let look_ups = Arc::new(Semaphore::new(LOOK_UPS_MAX));
        Self { site, look_ups, look_up, deadline, told: Mutex::default() }
    }

    /// Returns the principal of a user number, by the configuration in force. Waits for the name
    /// service, for 2 s at most.
    ///
    /// # Errors
    /// Code `not-authorised`: the number represents no user. Code `account-unknown`: the name
    /// service does not answer.
    pub(crate) async fn principal_of(&self, uid: u32) -> Result<Principal, Problem> {
        let config = self.site.settings.now();
        let map = &config.auth.unix;
        let account = self.account(uid, map).await?.ok_or_else(|| {
            let title = format!("the host has no account of number {uid}");
            Problem::new(ProblemCode::NotAuthorised, title)
        })?;
        let found = principal_of(uid, &account, map, &self.site.authentication.directory());
        found.map_err(|why| {
            let name = &account.name;
            let title = format!("account `{name}` of this host may not use its daemon");
            let hint = why.hint(name);
            Problem::new(ProblemCode::NotAuthorised, title).because(why).hint(hint)
        })
    }

    /// Returns the account of a user number, as it was looked up less than [`AGE_MAX`] ago.
    async fn account(
        &self,
        uid: u32,
        map: &UnixAccounts,
    ) -> Result<Option<Arc<HostAccount>>, Problem> {
        let asked: BTreeSet<_> = map.groups().map(|(group, _)| group.to_owned()).collect();
        if let Some(told) = self.told().get(&uid)
            && told.asked == asked
            && boottime_now().since(told.at) <= AGE_MAX
        {
            return Ok(Some(Arc::clone(&told.account)));
        }
        let unanswered = |why: &dyn std::fmt::Display| {
            let title = format!("the name service of this host does not answer for user {uid}");
            Problem::new(ProblemCode::AccountUnknown, title)
                .because(why)
                .hint(format!("check it: `getent passwd {uid}`"))
        };
        let (permits, groups) = (Arc::clone(&self.look_ups), asked.clone());
        let look_up = Arc::clone(&self.look_up);
        let look = async move {
            let permit = permits.acquire_owned().await;
            let ask = move || {
                let found = look_up(uid, &groups);
                drop(permit);
                found
            };
            tokio::task::spawn_blocking(ask).await
        };
        let found = match tokio::time::timeout(self.deadline, look).await {
            Ok(Ok(found)) => found.map_err(|error| unanswered(&error))?,
            Ok(Err(error)) => return Err(unanswered(&error)),
            Err(late) => return Err(unanswered(&late)),
        };
        let Some(account) = found.map(Arc::new) else { return Ok(None) };
        let mut all = self.told();
        if all.len() >= ACCOUNTS_MAX {
            all.clear();
        }
        all.insert(uid, Told { at: boottime_now(), asked, account: Arc::clone(&account) });
        Ok(Some(account))
    }

    fn told(&self) -> std::sync::MutexGuard<'_, HashMap<u32, Told>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the name service for an account, and which of these groups it is in. Blocks.
fn look_up(uid: u32, groups: &BTreeSet<String>) -> io::Result<Option<HostAccount>> {
    let Some(user) = penstock_sys::host_user(uid)? else { return Ok(None) };
    let name = String::from_utf8(user.name).ok().and_then(|name| name.parse().ok());
    let Some(name) = name else { return Ok(None) };
    let mut own = BTreeSet::new();
    for group in groups {
        let number = penstock_sys::find_group(group.as_bytes())?;
        if number.is_some_and(|number| user.groups.contains(&number)) {
            own.insert(group.clone());
        }
    }
    Ok(Some(HostAccount { name, groups: own }))
}

/// Returns the principal of an account.
///
/// The entry of the account itself counts alone. Without one those of its groups count: `self`
/// before a user that is named, a user before a role, and the greater role before the lesser one.
/// An entry of a group whose user does not exist is skipped.
///
/// # Errors
/// The reason why the account has no principal.
fn principal_of(
    uid: u32,
    account: &HostAccount,
    map: &UnixAccounts,
    directory: &Directory,
) -> Result<Principal, Unmapped> {
    let one = |mapped: &MappedUser| principal_by(uid, account, mapped, directory);
    if let Some(mapped) = map.of_account(&account.name) {
        return one(mapped);
    }
    let of_groups = map.groups().filter(|(group, _)| account.groups.contains(*group));
    let mut all: Vec<_> = of_groups.collect();
    all.sort_by_key(|(group, mapped)| match mapped {
        MappedUser::Own => (0, Reverse(Role::Viewer), *group),
        MappedUser::User(_) => (1, Reverse(Role::Viewer), *group),
        MappedUser::Role(role) => (2, Reverse(*role), *group),
    });
    let mut first = None;
    for (_, mapped) in all {
        match one(mapped) {
            Err(why @ (Unmapped::NoUser(_) | Unmapped::Nameless)) => {
                first.get_or_insert(why);
            }
            found => return found,
        }
    }
    Err(first.unwrap_or(Unmapped::NotListed))
}

/// Returns the principal of an account that represents a user.
fn principal_by(
    uid: u32,
    account: &HostAccount,
    mapped: &MappedUser,
    directory: &Directory,
) -> Result<Principal, Unmapped> {
    let own_name = || {
        let name = account.name.as_str().parse::<Name>().ok();
        name.filter(|name| name.as_str() != "root").ok_or(Unmapped::Nameless)
    };
    let via = |role| Via::Account { uid, account: account.name.clone(), role };
    let user = match mapped {
        MappedUser::Own => {
            let user = own_name()?;
            // That name was chosen at the provider: an administrator decides who owns the account.
            let is_strange = directory.user(&user).is_some_and(|user| {
                user.identity.is_some() && user.account.as_ref() != Some(&account.name)
            });
            if is_strange {
                return Err(Unmapped::NameTaken(user));
            }
            user
        }
        MappedUser::User(user) => user.clone(),
        MappedUser::Role(role) => {
            let user = own_name()?;
            if directory.user(&user).is_some() {
                return Err(Unmapped::NameTaken(user));
            }
            let (scopes, grants, own) = (None, BTreeMap::new(), Some(account.name.clone()));
            let via = via(Some(*role));
            return Ok(Principal { user, role: *role, via, scopes, grants, account: own });
        }
    };
    if directory.user(&user).is_none() {
        return Err(Unmapped::NoUser(user));
    }
    directory.principal_of_user(&user, via(None)).map_err(|_| Unmapped::Locked(user))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use penstock_api::access::{ProviderIdentity, Right, StoreGrant, User};

    use super::*;
    use crate::site::context::tests::site_of;

    fn user(name: &str, role: Role) -> User {
        let grant = StoreGrant { list: true, read: true, write: false };
        User {
            name: name.parse().unwrap(),
            role,
            created: 1,
            disabled: false,
            grants: [("raw".parse().unwrap(), grant)].into(),
            account: Some("am17".parse().unwrap()),
            group: None,
            password: None,
            identity: None,
        }
    }

    fn account(name: &str, groups: &[&str]) -> HostAccount {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        HostAccount { name: name.parse().unwrap(), groups }
    }

    const MAP: &str = "anna = \"anna\"\nghost = \"nobody\"\n\"@ops\" = \"role:operator\"\n\
                       \"@look\" = \"role:viewer\"\n\"@users\" = \"self\"\n\"@beam\" = \"beam7\"\n";

    /// Promise (C1): an account is the user that it is mapped to, with the rights that a token of
    /// that user has. The account's own entry counts before those of its groups.
    #[test]
    fn c1_an_account_is_its_user() {
        let map: UnixAccounts = toml::from_str(MAP).unwrap();
        let users =
            vec![user("anna", Role::User), user("ben", Role::Operator), user("beam7", Role::User)];
        let directory = Directory::new(users, Vec::new(), Vec::new());
        let found = |account: &HostAccount| principal_of(1001, account, &map, &directory);
        let anna = found(&account("anna", &["ops", "users"])).unwrap();
        let by_token = Via::Token { id: "0011223344556677".parse().unwrap() };
        let by_token = directory.principal_of_user(&anna.user, by_token).unwrap();
        assert_eq!(Principal { via: by_token.via.clone(), ..anna.clone() }, by_token);
        assert_eq!((anna.user.as_str(), anna.role), ("anna", Role::User), "not the group's role");
        assert_eq!(found(&account("ben", &["users", "look"])).unwrap().role, Role::Operator);
        assert_eq!(found(&account("cy", &["users", "beam"])).unwrap().user.as_str(), "beam7");
        let dora = found(&account("dora", &["users", "look", "ops"])).unwrap();
        assert_eq!((dora.user.as_str(), dora.role), ("dora", Role::Operator), "the greater role");
        assert_eq!(dora.account.unwrap().as_str(), "dora");
        assert!(dora.grants.is_empty());
    }

    /// Promise: an account without an entry, or with one for no user, has no principal. A role
    /// never grants the rights of a user that happens to have the account's name, nor of one that
    /// is locked out.
    #[test]
    fn an_account_gets_the_rights_of_no_other_person() {
        let map: UnixAccounts = toml::from_str(MAP).unwrap();
        let mut anna = user("anna", Role::User);
        anna.disabled = true;
        let users = vec![anna, user("boss", Role::Administrator)];
        let directory = Directory::new(users, Vec::new(), Vec::new());
        let refused = |name: &str, groups: &[&str]| {
            principal_of(1001, &account(name, groups), &map, &directory).unwrap_err()
        };
        let name = |text: &str| text.parse::<Name>().unwrap();
        assert_eq!(refused("dora", &[]), Unmapped::NotListed);
        assert_eq!(refused("anna", &["ops"]), Unmapped::Locked(name("anna")));
        assert_eq!(refused("ghost", &["ops"]), Unmapped::NoUser(name("nobody")));
        assert_eq!(refused("boss", &["look"]), Unmapped::NameTaken(name("boss")));
        assert_eq!(refused("dora", &["users"]), Unmapped::NoUser(name("dora")));
        assert_eq!(refused("root", &["ops"]), Unmapped::Nameless);
        assert_eq!(refused("EXAMPLE\\dora", &["ops"]), Unmapped::Nameless);
        let operator = principal_of(7, &account("op", &["ops"]), &map, &directory).unwrap();
        assert!(operator.check(Right::Operate).is_ok());
        assert!(operator.check(Right::Administer).is_err());
        assert!(operator.check(Right::LocalRoot).is_err());
    }

    /// Promise: a user that chose its name at the provider is no account of that name, until an
    /// administrator decides that.
    #[test]
    fn a_name_of_the_provider_is_no_account() {
        let map: UnixAccounts = toml::from_str("\"@users\" = \"self\"").unwrap();
        let (issuer, subject) = ("https://sso.lab".to_owned(), "17".to_owned());
        let identity = Some(ProviderIdentity { issuer, subject, has_role: true });
        let mut max = User { identity, ..user("max", Role::Administrator) };
        let account = account("max", &["users"]);
        let found = |max: &User| {
            let directory = Directory::new(vec![max.clone()], Vec::new(), Vec::new());
            principal_of(1001, &account, &map, &directory)
        };
        assert_eq!(found(&max).unwrap_err(), Unmapped::NameTaken(max.name.clone()));
        max.account = Some(account.name.clone());
        assert_eq!(found(&max).unwrap().role, Role::Administrator);
    }

    /// Promise (f): a hung name service is reported as `account-unknown` in time, holds few
    /// threads, and does not exclude an account that it has returned before. Accounts are accepted
    /// when it answers again.
    #[tokio::test]
    async fn f_a_name_service_that_hangs_is_told_in_time() {
        let directory = tempfile::tempdir().unwrap();
        let site = site_of(directory.path(), "[auth.unix]\n\"@ops\" = \"role:operator\"\n");
        let (wake, woken) = std::sync::mpsc::channel::<()>();
        let (woken, begun) = (Mutex::new(woken), Arc::new(AtomicUsize::new(0)));
        let begins = Arc::clone(&begun);
        let look_up = move |uid: u32, _: &BTreeSet<String>| {
            if uid != 1 {
                begins.fetch_add(1, Ordering::AcqRel);
                let _ = woken.lock().unwrap().recv();
            }
            Ok(Some(account(&format!("op{uid}"), &["ops"])))
        };
        let short = Duration::from_millis(50);
        let accounts = LocalAccounts::asking(Arc::new(site), Arc::new(look_up), short);
        assert_eq!(accounts.principal_of(1).await.unwrap().role, Role::Operator);
        for uid in 2..10 {
            let problem = accounts.principal_of(uid).await.unwrap_err();
            assert_eq!(problem.code, ProblemCode::AccountUnknown, "{problem}");
            assert_eq!(problem.hint, format!("check it: `getent passwd {uid}`"));
        }
        assert!(begun.load(Ordering::Acquire) <= LOOK_UPS_MAX, "{begun:?} threads wait");
        assert!(accounts.principal_of(1).await.is_ok(), "it was told a moment ago");
        drop(wake);
        let patient = LocalAccounts { deadline: Duration::from_secs(60), ..accounts };
        assert_eq!(patient.principal_of(2).await.unwrap().user.as_str(), "op2");
        assert_eq!(LOOK_UP_DEADLINE.as_secs(), 2, "docs/users.md says so");
    }

    /// Promise: root of this host has its groups, and an unknown number is no account.
    #[test]
    fn the_name_service_is_asked() {
        let groups: BTreeSet<_> = ["root", "no such group"].map(str::to_owned).into();
        let root = look_up(0, &groups).unwrap().unwrap();
        assert_eq!(root, account("root", &["root"]));
        assert_eq!(look_up(0xffff_fff0, &groups).unwrap(), None);
    }
}
