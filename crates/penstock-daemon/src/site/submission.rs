//! The rights of a paired site to changes by a transfer that it submits.
//!
//! One right, `write` of the store, allows new entries; another, `delete`, allows to replace or
//! delete existing ones. Entries that an earlier attempt of the same transfer has made belong to
//! the transfer.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::transfer::TransferRequest;
use penstock_api::update::IfExists;
use penstock_proto::id::Name;

use super::context::Site;
use crate::site::grants::how_to_grant;

/// Checks that `site` may have data written to `store`.
///
/// # Errors
/// The site has no such right.
pub(crate) fn check_writable(own: &Site, site: &Name, store: &Name) -> Result<(), Problem> {
    if own.may_write(site, store) {
        return Ok(());
    }
    let own = &own.config.site;
    let title = format!("site `{site}` may not write to `{own}:{store}`");
    Err(Problem::new(ProblemCode::NotExported, title).hint(how_to_grant(
        own,
        site,
        "write",
        store.as_str(),
    )))
}

/// Returns the request as `site` may submit it. Without the right to delete, existing entries are
/// neither replaced nor deleted, and an item that would replace one fails.
///
/// # Errors
/// The site may not write to the store, or asks for more than new entries.
pub(crate) fn within_rights(
    own: &Site,
    site: &Name,
    mut request: TransferRequest,
) -> Result<TransferRequest, Problem> {
    let store = &request.target.store;
    check_writable(own, site, store)?;
    if own.may_delete(site, store) {
        return Ok(request);
    }
    let update = &mut request.options.update;
    let asked = if update.delete {
        "--delete"
    } else if update.backup_dir.is_some() {
        "--backup-dir"
    } else if update.if_exists == IfExists::Newer {
        "--if-exists newer"
    } else {
        if update.if_exists == IfExists::Replace {
            update.if_exists = IfExists::Fail;
        }
        update.only_new = true;
        return Ok(request);
    };
    let (own, store) = (&own.config.site, &request.target.store);
    let title = format!(
        "site `{site}` may not replace or delete anything in `{own}:{store}`, as `{asked}` asks for"
    );
    Err(Problem::new(ProblemCode::DeleteNotAllowed, title).hint(how_to_grant(
        own,
        site,
        "delete",
        store.as_str(),
    )))
}
