"""What a report is about: sweeps, soaks, comparisons of movers, and results of storage."""

from pathlib import Path

from penstock_eval import formats, rivals, rundir, soakdir, storagedir
from penstock_eval.formats import BrokenFileError
from penstock_eval.rivals import Rivals
from penstock_eval.rundir import Run
from penstock_eval.soakdir import Soak
from penstock_eval.storagedir import StorageResult

Subject = Run | Soak | Rivals | StorageResult
KINDS = {
    "run.json": rundir.parts,
    "soak.json": soakdir.parts,
    rivals.FILE: rivals.parts,
    storagedir.FILE: storagedir.parts,
}
"""The files that tell what a directory is of, and those that are checked then."""
KNOWN = (
    "run.json of `penstock bench sweep`, soak.json of `penstock soak`, "
    f"{rivals.FILE} of `penstock-bench rivals`, {storagedir.FILE} of `penstock bench storage`"
)
NETWORK = "the JSON of `penstock bench network` has no report: its table is all"


def kind(path: Path) -> str:
    """The file that tells what a directory is of.

    Raises:
        BrokenFileError: It is no directory, or of nothing that is known.
    """
    if not path.is_dir():
        why = f"no directory ({NETWORK})" if path.exists() else "no such directory"
        raise BrokenFileError(f"{path}: {why}; name a directory with one of {KNOWN}")
    found = next((name for name in KINDS if (path / name).exists()), None)
    if found:
        return found
    if not any(path.iterdir()):
        raise BrokenFileError(f"{path}: empty: nothing was measured into it")
    raise BrokenFileError(f"{path}: none of {KNOWN} is in it; {NETWORK}")


def read(path: Path) -> Subject:
    """Reads a directory of any kind.

    Raises:
        BrokenFileError: It is of none, or a file of it is missing or broken.
    """
    readers = {
        "run.json": Run,
        "soak.json": Soak,
        rivals.FILE: Rivals,
        storagedir.FILE: StorageResult,
    }
    return readers[kind(path)](path)


def read_all(paths: list[Path]) -> list[Subject]:
    """Reads directories for one report, each once.

    Raises:
        BrokenFileError: As of [`read`]; one is given twice, or is a copy of another.
    """
    found: list[Subject] = []
    known: dict[str, Path] = {}
    for path in paths:
        subject = read(path)
        mark = str(path.resolve()) if isinstance(subject, Rivals) else str(subject.about["id"])
        if mark in known:
            raise BrokenFileError(f"{path}: the same as {known[mark]}: give it once")
        known[mark] = path
        found.append(subject)
    return found


def complaints(path: Path) -> list[str]:
    """Sentences on all that breaks the schema in a directory, each with its place."""
    found: list[str] = []
    for file, part in KINDS[kind(path)](path):
        try:
            if part == "rivals":
                Rivals(path)
            elif file.suffix == ".jsonl":
                for _ in formats.lines(file, part):
                    pass
            else:
                formats.document(file, part)
        except BrokenFileError as error:
            found.append(str(error))
    if not found:
        try:
            read(path)
        except BrokenFileError as error:
            found.append(str(error))
    return found
