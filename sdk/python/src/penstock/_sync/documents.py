# Written by tools/generate.py from _async/documents.py: change that file.
"""Files that a transfer offers."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from .._files import beside
from .._operations import Operation
from .connection import Connection


class Document:
    """A document of the daemon, fetched each time it is read. Its length may be any."""

    def __init__(
        self, connection: Connection, operation: Operation, segments: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._segments = segments

    def read(self) -> bytes:
        """Returns all of it at once."""
        return self._connection.read(self._operation, self._segments)

    def lines(self) -> Iterator[bytes]:
        """Iterates over its lines, without their ends, as they come."""
        return self._connection.lines(self._operation, self._segments)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes it to a file, which gets its name when it is complete."""
        with beside(path) as temporary:
            with (
                self._connection.stream(self._operation, self._segments) as response,
                open(temporary, "wb") as file,
            ):
                for part in response.iter_bytes():
                    file.write(part)
        return Path(path)
