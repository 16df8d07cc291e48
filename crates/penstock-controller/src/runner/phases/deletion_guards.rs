//! The guards that a deletion at the target asks (C3, promise (e)).

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::scan::ScanSummary;
use penstock_api::update::UpdateOptions;
use penstock_proto::units::counted;

/// The reason why a guard lets nothing be deleted. Code `delete-refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// An item that was not listed would look like one that is not at the source.
    #[error("nothing is deleted: {} could not be listed at the source", counted(*.0, "item"))]
    Unlisted(u64),
    /// The source lacks files which an interrupted or running copy has still to name there.
    #[error(
        "nothing is deleted: the source has {} of copies, and may not be complete",
        counted(*.0, "unfinished file")
    )]
    Unfinished(u64),
    #[error("nothing is deleted: the source is empty")]
    EmptySource,
    #[error(
        "nothing is deleted: {} would go, more than the {most} that --max-delete allows",
        counted(*.found, "item")
    )]
    TooMany { found: u64, most: u64 },
    #[error(
        "nothing is deleted: {found} of the {} at the target would go, more than half",
        counted(.found + .existed, "item")
    )]
    MostOfTarget { found: u64, existed: u64 },
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let problem = Self::new(ProblemCode::DeleteRefused, refusal.to_string());
        match refusal {
            Refusal::Unlisted(_) => {
                problem.hint("make all of the source readable, and run it again")
            }
            // The failed items list these files, so the exit code is theirs.
            Refusal::Unfinished(_) => problem.exit(Exit::SomeFailed).hint(
                "finish these copies, or remove their files with `penstock copy --clean SRC`, and \
                 run it again; `--exclude '.pst-*'` deletes all the same",
            ),
            Refusal::EmptySource => {
                problem.hint("is it mounted? to empty the target, delete there by hand")
            }
            Refusal::TooMany { .. } => problem,
            Refusal::MostOfTarget { found, .. } => {
                problem.hint(format!("if that is right, say so: --max-delete {found}"))
            }
        }
    }
}

/// Checks the guards that concern the scan only, without the target. `directory` is true if the
/// root of the scan is a directory; otherwise there is nothing to delete.
///
/// # Errors
/// [`Refusal`]; errors of `directory`.
pub(crate) fn check_scan(
    scan: &ScanSummary,
    directory: impl FnOnce() -> Result<bool, Problem>,
) -> Result<bool, Problem> {
    let errors = scan.errors - scan.unfinished;
    if errors > 0 {
        return Err(Refusal::Unlisted(errors).into());
    }
    if scan.unfinished > 0 {
        return Err(Refusal::Unfinished(scan.unfinished).into());
    }
    if scan.pages == 0 {
        return Err(Refusal::EmptySource.into());
    }
    if !directory()? {
        return Ok(false);
    }
    if scan.entries <= 1 {
        return Err(Refusal::EmptySource.into());
    }
    Ok(true)
}

/// Checks the guard that counts: `found` entries would be deleted of `existed` entries at the
/// target.
///
/// # Errors
/// There are too many entries to delete.
pub(crate) fn check_amount(
    update: &UpdateOptions,
    found: u64,
    existed: u64,
) -> Result<(), Refusal> {
    match update.max_delete {
        Some(most) if found > most => Err(Refusal::TooMany { found, most }),
        None if found > existed => Err(Refusal::MostOfTarget { found, existed }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (e): an uncertain list of the source causes no deletion, and the guard that refuses
    /// gives the reason.
    #[test]
    fn e_a_guard_says_why_nothing_is_deleted() {
        let scan = ScanSummary { pages: 1, entries: 2, ..ScanSummary::default() };
        let check = |scan: &ScanSummary| check_scan(scan, || Ok(true)).map_err(|it| it.title);
        assert_eq!(check(&scan), Ok(true));
        let refused = |refusal: Refusal| Err(refusal.to_string());
        let unlisted = ScanSummary { errors: 3, unfinished: 1, ..scan.clone() };
        assert_eq!(check(&unlisted), refused(Refusal::Unlisted(2)));
        let unfinished = ScanSummary { errors: 1, unfinished: 1, ..scan.clone() };
        assert_eq!(check(&unfinished), refused(Refusal::Unfinished(1)));
        let empty = ScanSummary { entries: 1, ..scan.clone() };
        assert_eq!(check(&empty), refused(Refusal::EmptySource));
        assert_eq!(check(&ScanSummary::default()), refused(Refusal::EmptySource));
        assert_eq!(check_scan(&scan, || Ok(false)), Ok(false), "a single file deletes nothing");
    }

    /// Promise (e): more than half of a target is deleted only if the user has set the limit.
    #[test]
    fn e_most_of_a_target_stays_unless_a_user_allows_it() {
        let most = |max_delete| UpdateOptions { max_delete, ..UpdateOptions::default() };
        assert_eq!(check_amount(&most(None), 5, 5), Ok(()));
        let half = Refusal::MostOfTarget { found: 6, existed: 5 };
        assert_eq!(check_amount(&most(None), 6, 5), Err(half));
        assert!(half.to_string().contains("6 of the 11 items"), "{half}");
        assert_eq!(Problem::from(half).hint, "if that is right, say so: --max-delete 6");
        assert_eq!(check_amount(&most(Some(6)), 6, 5), Ok(()));
        let more = Refusal::TooMany { found: 6, most: 5 };
        assert_eq!(check_amount(&most(Some(5)), 6, 100), Err(more));
    }
}
