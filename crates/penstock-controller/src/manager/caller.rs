//! The origin of a request, and its right to transfers.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::TransferRequest;
use penstock_cluster::state::TransferRecord;
use penstock_proto::id::Name;

/// The origin of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of this site.
    User,
    /// A paired site, by its certificate. It sees and steers only transfers that read from it.
    Site(Name),
}

impl Caller {
    /// Returns whether the caller may see and steer a transfer.
    pub(super) fn may_see(&self, record: &TransferRecord) -> bool {
        match self {
            Self::User => true,
            Self::Site(site) => record.request.source.site == *site,
        }
    }

    /// Returns the site that submits; `own` is this one.
    pub(super) fn submitter(&self, own: &Name) -> Name {
        match self {
            Self::User => own.clone(),
            Self::Site(site) => site.clone(),
        }
    }

    /// Checks a request to this site, `own`: another site may submit and plan only transfers that
    /// read from it and write here.
    ///
    /// # Errors
    /// It may not.
    pub(super) fn check(&self, request: &TransferRequest, own: &Name) -> Result<(), Problem> {
        if let Self::Site(site) = self
            && (request.target.site != *own || request.source.site != *site)
        {
            let title = format!("site `{site}` may only submit transfers from itself to `{own}`");
            let hint = format!("submit it at site `{own}`");
            return Err(Problem::new(ProblemCode::NotAuthorised, title).hint(hint));
        }
        Ok(())
    }
}
