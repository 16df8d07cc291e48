//! The origin of a request, and its right to transfers.

use penstock_api::access::{Access, AccountName, Principal, Right, Role, User, Via};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::{Location, TransferRequest};
use penstock_cluster::state::{Stub, TransferRecord};
use penstock_proto::id::Name;

/// Longest plan that the role `user` may send.
const PLAN_OF_USER_BYTES_MAX: u64 = 1 << 30;

/// The origin of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of this site, or the administrator of one of its hosts.
    User(Principal),
    /// A paired site, by its certificate. It sees and steers only transfers that read from it.
    Site {
        /// The site.
        site: Name,
        /// Account to which this site maps its request.
        account: Option<AccountName>,
    },
}

impl Caller {
    /// Returns the administrator of the host.
    pub fn local() -> Self {
        Self::User(Principal::local(0, None))
    }

    /// Returns a paired site, for a request that uses no files.
    pub fn site(site: Name) -> Self {
        Self::Site { site, account: None }
    }

    /// Returns the account of this site's hosts as which mapped stores are used for the caller.
    pub(crate) fn account(&self) -> Option<&AccountName> {
        match self {
            Self::User(user) => user.account.as_ref(),
            Self::Site { account, .. } => account.as_ref(),
        }
    }

    /// Returns whether it sees the transfers of every user of this site.
    pub fn sees_all_transfers(&self) -> bool {
        matches!(self, Self::User(user) if user.sees_all_transfers())
    }

    /// Returns whether it may see a transfer of this user.
    pub fn may_see_of(&self, owner: Option<&Name>) -> bool {
        matches!(self, Self::User(user) if user.may_see(owner))
    }

    /// Returns whether the caller may see a transfer.
    pub(super) fn may_see(&self, record: &TransferRecord) -> bool {
        match self {
            Self::User(user) => user.may_see(record.owner.as_ref()),
            Self::Site { site, .. } => record.request.source.site == *site,
        }
    }

    /// Returns whether the caller may see a transfer of another site.
    pub(super) fn may_see_stub(&self, stub: &Stub) -> bool {
        matches!(self, Self::User(user) if user.may_see(stub.user.as_ref()))
    }

    /// Checks that the caller may steer a transfer of this owner, which it sees.
    ///
    /// # Errors
    /// The caller may steer its own transfers only.
    pub(super) fn check_steers(&self, owner: Option<&Name>) -> Result<(), Problem> {
        match self {
            Self::User(user) if !user.may_steer(owner) => {
                let title = format!("`{}` may steer its own transfers only", user.user);
                Err(Problem::new(ProblemCode::NotAuthorised, title)
                    .hint("ask an operator of the site"))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the caller may put a transfer before all fair shares.
    ///
    /// # Errors
    /// The caller is no operator of this site.
    pub(super) fn check_urgent(&self) -> Result<(), Problem> {
        if matches!(self, Self::User(user) if user.check(Right::Operate).is_ok()) {
            return Ok(());
        }
        let title = "only an operator of the target's site makes a transfer urgent";
        Err(Problem::new(ProblemCode::NotAuthorised, title)
            .hint("ask one, or leave the urgency out"))
    }

    /// Checks that a user still has the grants in this site, `own`, that a transfer of another site
    /// needs.
    ///
    /// # Errors
    /// A grant has ended.
    pub(super) fn check_stub(&self, stub: &Stub, own: &Name) -> Result<(), Problem> {
        let Self::User(user) = self else { return Ok(()) };
        let view = &stub.view;
        check_stores(user, (&view.source, &view.target), view.options.remove_source, own)
    }

    /// Checks that the caller may send a plan of so many bytes for a transfer to this store.
    ///
    /// # Errors
    /// A user has no grant to write there, or the plan is longer than a user may send.
    pub(super) fn check_plan(
        &self,
        (site, store): (&Name, &Name),
        own: &Name,
        bytes: u64,
    ) -> Result<(), Problem> {
        let Self::User(user) = self else { return Ok(()) };
        if user.role >= Role::Operator {
            return Ok(());
        }
        let may = match site == own {
            true => user.may_use(store, Access::Write),
            false => !user.grants.is_empty(),
        };
        if !may {
            let title = format!("`{}` may not write store `{store}` of site `{site}`", user.user);
            return Err(Problem::new(ProblemCode::NotAuthorised, title)
                .hint("ask an administrator for a grant"));
        }
        if bytes > PLAN_OF_USER_BYTES_MAX {
            let title = format!("a plan of a user has up to {PLAN_OF_USER_BYTES_MAX} bytes");
            return Err(
                Problem::new(ProblemCode::PlanTooLong, title).hint("ask an operator to submit it")
            );
        }
        Ok(())
    }

    /// Returns the user that owns the transfers of this caller; `None` for another site, and for
    /// the administrator of the host.
    pub(crate) fn owner(&self) -> Option<Name> {
        match self {
            Self::User(Principal { via: Via::Socket { .. }, .. }) | Self::Site { .. } => None,
            Self::User(user) => Some(user.user.clone()),
        }
    }

    /// Returns the name of the user, or of the site with an `@` before it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::User(user) => user.user.to_string(),
            Self::Site { site, .. } => format!("@{site}"),
        }
    }

    /// Returns the site that submits; `own` is this one.
    pub(super) fn submitter(&self, own: &Name) -> Name {
        match self {
            Self::User(_) => own.clone(),
            Self::Site { site, .. } => site.clone(),
        }
    }

    /// Checks a request to this site, `own`: another site may submit and plan only transfers that
    /// read from it and write here. A user needs the stores of this site that the request names.
    ///
    /// # Errors
    /// The caller may not make the request.
    pub(super) fn check(&self, request: &TransferRequest, own: &Name) -> Result<(), Problem> {
        if let Self::User(user) = self {
            let removes = request.options.remove_source;
            return check_stores(user, (&request.source, &request.target), removes, own);
        }
        if let Self::Site { site, .. } = self
            && (request.target.site != *own || request.source.site != *site)
        {
            let title = format!("site `{site}` may only submit transfers from itself to `{own}`");
            let hint = format!("submit it at site `{own}`");
            return Err(Problem::new(ProblemCode::NotAuthorised, title).hint(hint));
        }
        Ok(())
    }
}

/// Checks that the owner of a transfer to this site still has the grants here that it needs. A
/// transfer that another site submitted, or the administrator of the host, has no owner here.
///
/// # Errors
/// A grant has ended; the owner is locked out, or was removed.
pub(super) fn check_owner(record: &TransferRecord, users: &[User]) -> Result<(), Problem> {
    let Some(owner) = &record.owner else { return Ok(()) };
    let user = users.iter().find(|user| user.name == *owner && !user.is_locked());
    let Some(user) = user else {
        let title = format!("`{owner}` is locked out, or no user of this site");
        return Err(Problem::new(ProblemCode::NotAuthorised, title)
            .hint("an operator resumes the transfer, or cancels it"));
    };
    let (user, role, grants) = (user.name.clone(), user.role, user.grants.clone());
    let owner = Principal { user, role, grants, ..Principal::local(0, None) };
    Caller::User(owner).check(&record.request, &record.request.target.site)
}

/// Checks that a user may read and write the stores of this site, `own`, that a transfer names.
/// `removes` is whether the transfer removes its source.
fn check_stores(
    user: &Principal,
    (source, target): (&Location, &Location),
    removes: bool,
    own: &Name,
) -> Result<(), Problem> {
    let needed = [
        (true, source, Access::Read, "read"),
        (removes, source, Access::Write, "remove files from"),
        (true, target, Access::Write, "write"),
    ];
    for (is_needed, place, access, words) in needed {
        if is_needed && place.site == *own {
            user.require_use(&place.store, access, words)?;
        }
    }
    Ok(())
}
