"""Writes the synchronous client from the asynchronous one.

Usage: python tools/generate.py

The program needs ruff. A test fails if a file is not what this program would write.
"""

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PACKAGE = PROJECT / "src/penstock"

_SYNC = [
    (r"\bawait anyio\.open_file\(", "open("),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\banyio\.sleep\b", "time.sleep"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\baclosing\b", "closing"),
    (r"\b__a(enter|exit|iter)__\b", r"__\1__"),
    (r"\ba(close|read|iter_bytes)\b", r"\1"),
    (r"\bAsync(?=[A-Z])", ""),
]


def sync_of(source: str, name: str) -> str:
    """Returns the synchronous form of a module of `_async`."""
    for pattern, replacement in _SYNC:
        source = re.sub(pattern, replacement, source)
    has_sleep = "time.sleep" in source
    source = re.sub(r"^import anyio\n", "import time\n" if has_sleep else "", source, flags=re.M)
    return f"# Written by tools/generate.py from _async/{name}: change that file.\n{source}"


def formatted(source: str, path: Path) -> str:
    """Returns the source with its imports sorted, and as the formatter writes it."""
    for command in (["check", "--quiet", "--fix-only", "--select", "I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        source = subprocess.run(
            ruff, input=source, capture_output=True, text=True, check=True, cwd=PROJECT
        ).stdout
    return source


def written() -> dict[Path, str]:
    """Returns the text of each file that is written."""
    files: dict[Path, str] = {}
    for module in sorted((PACKAGE / "_async").glob("*.py")):
        if module.name != "__init__.py":
            files[PACKAGE / "_sync" / module.name] = sync_of(module.read_text(), module.name)
    return {path: formatted(source, path) for path, source in files.items()}


def differing() -> list[Path]:
    """Returns the files that are not what this program would write, or that it would not write."""
    files = written()
    wrong = [
        path for path, source in files.items() if not path.exists() or path.read_text() != source
    ]
    present = sorted((PACKAGE / "_sync").glob("*.py"))
    return wrong + [path for path in present if path.name != "__init__.py" and path not in files]


def main() -> None:
    """Runs the program."""
    (PACKAGE / "_sync").mkdir(exist_ok=True)
    for path, source in written().items():
        path.write_text(source)


if __name__ == "__main__":
    main()
