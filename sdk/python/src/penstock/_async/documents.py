"""Files that a transfer offers."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import anyio

from .._files import beside
from .._operations import Operation
from .connection import AsyncConnection


class AsyncDocument:
    """A document of the daemon, fetched each time it is read. Its length may be any."""

    def __init__(
        self, connection: AsyncConnection, operation: Operation, segments: Mapping[str, str]
    ) -> None:
        self._connection = connection
        self._operation = operation
        self._segments = segments

    async def read(self) -> bytes:
        """Returns all of it at once."""
        return await self._connection.read(self._operation, self._segments)

    def lines(self) -> AsyncIterator[bytes]:
        """Iterates over its lines, without their ends, as they come."""
        return self._connection.lines(self._operation, self._segments)

    async def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes it to a file, which gets its name when it is complete."""
        with beside(path) as temporary:
            async with (
                self._connection.stream(self._operation, self._segments) as response,
                await anyio.open_file(temporary, "wb") as file,
            ):
                async for part in response.aiter_bytes():
                    await file.write(part)
        return Path(path)
