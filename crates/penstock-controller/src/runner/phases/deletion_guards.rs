//! The guards that a deletion at the target asks (C3, promise (e)).

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::scan::ScanSummary;
use penstock_api::update::UpdateOptions;

fn refused(title: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::DeleteRefused, title)
}

/// Checks the guards that concern the scan only, without the target. `directory` says whether the
/// root of the scan is a directory; otherwise nothing could be deleted.
///
/// # Errors
/// Code `delete-refused`.
pub(crate) fn check_scan(
    scan: &ScanSummary,
    directory: impl FnOnce() -> Result<bool, Problem>,
) -> Result<bool, Problem> {
    let errors = scan.errors - scan.unfinished;
    if errors > 0 {
        let title = format!("nothing is deleted: {errors} items could not be listed at the source");
        return Err(refused(title).hint("make them readable, and run it again"));
    }
    if scan.unfinished > 0 {
        return Err(incomplete(scan.unfinished));
    }
    let empty = || {
        refused("nothing is deleted: the source is empty")
            .hint("is it mounted? to empty the target, delete there by hand")
    };
    if scan.pages == 0 {
        return Err(empty());
    }
    if !directory()? {
        return Ok(false);
    }
    if scan.entries <= 1 {
        return Err(empty());
    }
    Ok(true)
}

/// The refusal for a source that lacks files which an interrupted or running copy has still to name
/// there. The failed items list these files, so the exit code is theirs.
fn incomplete(unfinished: u64) -> Problem {
    let title = format!(
        "nothing is deleted: the source has {unfinished} unfinished files of copies, which may not \
         be complete"
    );
    Problem::new(ProblemCode::DeleteRefused, title).exit(Exit::SomeFailed).hint(
        "finish these copies, or remove their files with `penstock copy --clean SRC`, and run it \
         again; `--exclude '.pst-*'` deletes all the same",
    )
}

/// Checks the guard that counts: `found` entries would be deleted of `existed` entries at the
/// target.
///
/// # Errors
/// Code `delete-refused`.
pub(crate) fn check_amount(
    update: &UpdateOptions,
    found: u64,
    existed: u64,
) -> Result<(), Problem> {
    match update.max_delete {
        Some(most) if found > most => {
            let title = format!(
                "nothing is deleted: {found} items would go, more than the {most} that \
                 --max-delete allows"
            );
            Err(refused(title))
        }
        None if found > existed => {
            let title = format!(
                "nothing is deleted: {found} of the {} items at the target would go, more \
                 than half",
                found + existed
            );
            let hint = format!("if that is right, say so: --max-delete {found}");
            Err(refused(title).hint(hint))
        }
        _ => Ok(()),
    }
}
