"""Files that appear complete or not at all."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def beside(path: str | os.PathLike[str]) -> Generator[Path]:
    """Names a temporary file beside `path`, which takes its name if the block ends well."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
