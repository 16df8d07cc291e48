"""Sends requests to a daemon, again where that helps and harms nothing."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
import httpx2

from .._lines import Lines
from .._operations import Operation
from .._reply import api_error, connection_failed, parsed
from .._settings import Settings
from ..errors import PenstockError

_T = TypeVar("_T")
_CONNECT_TIMEOUT_S = 5.0


class AsyncConnection:
    """The connections to one daemon."""

    def __init__(self, settings: Settings, transport: httpx2.AsyncBaseTransport | None) -> None:
        self.settings = settings
        address = settings.address
        if transport is None and address.socket is not None:
            # TLS is not spoken on a socket: the host's authorities need not be loaded.
            transport = httpx2.AsyncHTTPTransport(uds=address.socket, verify=False)
        self._client = httpx2.AsyncClient(
            transport=transport,
            base_url=address.url,
            headers=settings.headers(),
            verify=settings.ssl_context() if transport is None else False,
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def call(
        self,
        operation: Operation,
        answer: type[_T],
        segments: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        json: object = None,
        timeout: float | None = None,
    ) -> _T:
        """Sends a request, and returns what the JSON of its reply says."""
        body = await self.read(operation, segments, query=query, json=json, timeout=timeout)
        return parsed(operation, answer, body)

    async def read(
        self,
        operation: Operation,
        segments: Mapping[str, str] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        json: object = None,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Sends a request, and returns the body of its reply."""
        request = self._request(operation, segments, timeout, query, json, content, form)
        response = await self._send(operation, request, is_whole=True)
        return response.content

    @asynccontextmanager
    async def stream(
        self,
        operation: Operation,
        segments: Mapping[str, str] | None = None,
        *,
        json: object = None,
        timeout: float | None = None,
        once: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """Sends a request, and opens the body of its reply; `once` sends it one time only."""
        request = self._request(operation, segments, timeout, json=json)
        request.headers.update(headers or {})
        response = await self._send(operation, request, is_whole=False, once=once)
        try:
            yield response
        except httpx2.TransportError as cause:
            raise connection_failed(self.settings.address, cause) from cause
        finally:
            await response.aclose()

    async def lines(
        self,
        operation: Operation,
        segments: Mapping[str, str] | None = None,
        *,
        json: object = None,
        timeout: float | None = None,
    ) -> AsyncIterator[bytes]:
        """Sends a request, and iterates over the lines of its reply as they come."""
        cut = Lines()
        async with self.stream(operation, segments, json=json, timeout=timeout) as response:
            async for part in response.aiter_bytes():
                for line in cut.of(part):
                    yield line
            for line in cut.last():
                yield line

    def _request(
        self,
        operation: Operation,
        segments: Mapping[str, str] | None,
        timeout: float | None,
        query: Mapping[str, str] | None = None,
        json: object = None,
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
    ) -> httpx2.Request:
        patience = self.settings.timeout if timeout is None else timeout
        return self._client.build_request(
            operation.method,
            operation.path(segments or {}),
            params=query,
            json=json,
            content=content,
            data=form,
            timeout=httpx2.Timeout(patience, connect=min(patience, _CONNECT_TIMEOUT_S)),
        )

    async def _send(
        self,
        operation: Operation,
        request: httpx2.Request,
        *,
        is_whole: bool,
        once: bool = False,
    ) -> httpx2.Response:
        """Sends a request until it is answered well, or no further try is to be made."""
        tries = 0
        while True:
            tries += 1
            try:
                return await self._send_once(request, is_whole=is_whole)
            except PenstockError as error:
                chance = random.random()
                retries = self.settings.retries
                wait = retries.wait_before_next(operation, error, tries, chance)
                if wait is None or once:
                    raise
            await anyio.sleep(wait)

    async def _send_once(self, request: httpx2.Request, *, is_whole: bool) -> httpx2.Response:
        try:
            response = await self._client.send(request, stream=True)
            if is_whole or not response.is_success:
                await response.aread()
        except httpx2.TransportError as cause:
            raise connection_failed(self.settings.address, cause) from cause
        if response.is_success:
            return response
        raise api_error(response)
