"""Clients of a daemon, many at a time: streams of events, and requests at a steady rate.

Each kind is a process of its own, so that neither waits for the other. They speak HTTP/1.1 over the
Unix socket or HTTPS by hand: what is measured is the daemon, and a general client would cost more
than it does.
"""

import asyncio
import http.client
import json
import multiprocessing
import resource
import socket
import ssl
import time

from bench.base.processes import Failed

CONNECT_AT_A_TIME = 50
"""Handshakes under way: a daemon has places for 64 of one source."""
CONNECT_ATTEMPTS = 5
ANSWER_SECONDS = 30
MARK = b"\nid: "


class Door:
    """Where the API is, and who asks: the path of a socket, or a port with tokens of users."""

    def __init__(self, socket=None, port=None, authority=None, tokens=()):
        self.socket, self.port, self.authority = socket, port, authority
        self.tokens = list(tokens) or [None]

    def context(self):
        if self.socket:
            return None
        return ssl.create_default_context(cadata=self.authority)

    async def connect(self, factory, number, context):
        """A connection as the user of this number, with a source address of that user's own."""
        loop = asyncio.get_running_loop()
        if self.socket:
            return await loop.create_unix_connection(factory, self.socket)
        source = (f"127.0.0.{2 + number % len(self.tokens)}", 0)
        return await loop.create_connection(
            factory,
            "127.0.0.1",
            self.port,
            ssl=context,
            server_hostname="localhost",
            local_addr=source,
        )

    def head(self, method, path, number, body=b""):
        token = self.tokens[number % len(self.tokens)]
        lines = [f"{method} {path} HTTP/1.1", "host: localhost"]
        if token:
            lines.append(f"authorization: Bearer {token}")
        if body:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Process:
    """A process of clients, and the pipe by which it takes orders and answers them."""

    def __init__(self, work, *arguments):
        context = multiprocessing.get_context("fork")
        self.pipe, end = context.Pipe()
        self.process = context.Process(target=run, args=(work, end, arguments), daemon=True)
        self.process.start()
        end.close()

    def ask(self, *order, seconds=120):
        self.pipe.send(order)
        if not self.pipe.poll(seconds):
            raise Failed(f"the clients do not answer to {order[0]}")
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise Failed(f"the clients failed: {answer!r}")
        return answer

    def cpu(self):
        """CPU seconds of the process so far."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def stop(self):
        self.process.terminate()
        self.process.join()


def run(work, pipe, arguments):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    asyncio.run(serve(work(*arguments), pipe))


async def serve(work, pipe):
    """Does what comes over the pipe, one order after the other."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pipe.fileno(), ready.set)
    while True:
        await ready.wait()
        ready.clear()
        while pipe.poll():
            name, *arguments = pipe.recv()
            try:
                pipe.send(await getattr(work, name)(*arguments))
            except Exception as error:  # noqa: BLE001 - it is of whoever has given the order.
                pipe.send(error)


class Stream(asyncio.Protocol):
    """One stream of events: counts them, and notices what is lost."""

    def __init__(self, head, opened):
        self.head, self.opened = head, opened
        self.bytes = self.events = self.resets = 0
        self.first = self.last = None
        self.rest = b""
        self.lost = False
        self.ends = False

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.head)

    def data_received(self, data):
        if not self.opened.done():
            head = self.rest + data
            if b"\r\n\r\n" not in head:
                self.rest = head
                return
            status = head.split(b" ", 2)[1].decode()
            self.opened.set_result(status)
            data, self.rest = head.partition(b"\r\n\r\n")[2], b""
        self.bytes += len(data)
        # A mark may lie across two parts.
        data = self.rest + data
        count = data.count(MARK)
        if count:
            self.events += count
            if self.first is None:
                self.first = number_at(data, data.find(MARK))
            self.last = number_at(data, data.rfind(MARK)) or self.last
        if b'"reset"' in data:
            self.resets += data.count(b'"type":"reset"')
        at = data.rfind(MARK)
        # An id that is cut is counted with the next part.
        cut = at >= 0 and b"\n" not in data[at + len(MARK) :]
        if cut:
            self.events -= 1
        self.rest = data[at:] if cut else data[-len(MARK) + 1 :]

    def connection_lost(self, error):
        self.lost = not self.ends
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(f"a stream ended at once: {error}"))


def number_at(data, at):
    """The number of the event whose mark is there; None if the text ends before it does."""
    line, end, _ = data[at + len(MARK) : at + len(MARK) + 40].partition(b"\n")
    return int(line.strip().rpartition(b"-")[2]) if end else None


class Listeners:
    """So many streams of events at a time."""

    def __init__(self, door):
        self.door, self.context, self.streams = door, door.context(), []

    async def begin(self, count):
        """Opens them. Seconds until all had their heads."""
        begun, loop = time.monotonic(), asyncio.get_running_loop()
        turns = asyncio.Semaphore(CONNECT_AT_A_TIME)

        async def once(number):
            head = self.door.head("GET", "/api/v1/events", number)
            stream = Stream(head, loop.create_future())
            await self.door.connect(lambda: stream, number, self.context)
            return stream, await asyncio.wait_for(stream.opened, ANSWER_SECONDS)

        async def one(number):
            async with turns:
                for attempt in range(CONNECT_ATTEMPTS):
                    try:
                        stream, status = await once(number)
                        break
                    except (TimeoutError, OSError):
                        # A handshake that takes too long is cut; a client tries again.
                        if attempt + 1 == CONNECT_ATTEMPTS:
                            raise
            if status != "200":
                raise Failed(f"a stream was answered with status {status}")
            self.streams.append(stream)

        await asyncio.gather(*(one(number) for number in range(count)))
        return time.monotonic() - begun

    async def end(self):
        """Closes them. What they have seen."""
        streams, self.streams = self.streams, []
        seen = [stream for stream in streams if stream.first is not None]
        gaps = [stream.last - stream.first + 1 - stream.events for stream in seen]
        result = {
            "streams": len(streams),
            "events": sum(stream.events for stream in streams),
            "bytes": sum(stream.bytes for stream in streams),
            "silent": len(streams) - len(seen),
            "broken": sum(stream.lost for stream in streams),
            "resets": sum(stream.resets for stream in streams),
            "missed": sum(gap for gap in gaps if gap),
            "behind": max((stream.last for stream in seen), default=0)
            - min((stream.last for stream in seen), default=0),
        }
        for stream in streams:
            stream.ends = True
            stream.transport.abort()
        await asyncio.sleep(0.1)
        return result


class Exchange(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self):
        self.waiter, self.buffer = None, bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def ask(self, head):
        """A future with status and bytes of the body of the answer."""
        self.waiter = asyncio.get_running_loop().create_future()
        self.buffer.clear()
        self.left = None
        self.transport.write(head)
        return self.waiter

    def data_received(self, data):
        self.buffer += data
        if self.left is None:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.buffer[:end]).lower()
            self.status = int(head[9:12])
            self.begin = end + 4
            _, has_length, length = head.partition(b"\r\ncontent-length: ")
            self.is_chunked = not has_length and b"chunked" in head
            self.left = int(length.split(b"\r", 1)[0]) if has_length else 0
        length = len(self.buffer) - self.begin
        is_whole = self.buffer.endswith(b"0\r\n\r\n") if self.is_chunked else length >= self.left
        if is_whole and not self.waiter.done():
            self.waiter.set_result((self.status, length))

    def connection_lost(self, error):
        if self.waiter and not self.waiter.done():
            self.waiter.set_exception(ConnectionError(f"the connection was lost: {error}"))


class Requests:
    """Requests of a mix at a steady rate, over connections that stay open."""

    def __init__(self, door, connections, mix):
        self.door, self.context, self.mix = door, door.context(), mix
        self.connections, self.tasks = connections, []
        self.seen, self.failed = [], {}

    async def begin(self, rate):
        """Begins to send `rate` requests a second."""
        self.seen, self.failed, self.late = [], {}, 0
        self.queue = asyncio.Queue()
        exchanges = []
        for number in range(self.connections):
            _, exchange = await self.door.connect(Exchange, number, self.context)
            exchanges.append(exchange)
        work = [self.work(number, exchange) for number, exchange in enumerate(exchanges)]
        self.tasks = [asyncio.ensure_future(task) for task in (*work, self.plan(rate))]
        self.begun = time.monotonic()

    async def plan(self, rate):
        """Puts requests into the queue when they are due, whatever became of earlier ones."""
        begun, number = time.monotonic(), 0
        while True:
            due = begun + number / rate
            wait = due - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self.queue.put_nowait((due, self.mix[number % len(self.mix)], number))
            number += 1

    async def work(self, number, exchange):
        while True:
            due, (kind, method, paths, body), at = await self.queue.get()
            head = self.door.head(method, paths[at % len(paths)], number, body)
            try:
                status, length = await exchange.ask(head)
            except ConnectionError:
                status, length = 0, 0
                _, exchange = await self.door.connect(Exchange, number, self.context)
            if status not in (200, 201):
                key = f"{kind}: {status}"
                self.failed[key] = self.failed.get(key, 0) + 1
            else:
                # From when it was due: one that waits for others has waited too.
                self.seen.append((kind, time.monotonic() - due, length))

    async def end(self):
        """Ends them. Latencies by kind, in seconds, and what failed."""
        seconds, left = time.monotonic() - self.begun, self.queue.qsize()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        times = {}
        for kind, took, length in self.seen:
            times.setdefault(kind, ([], []))[0].append(took)
            times[kind][1].append(length)
        return {
            "seconds": seconds,
            "answered": len(self.seen),
            "failed": self.failed,
            "left": left,
            "times": {kind: lists[0] for kind, lists in times.items()},
            "bytes": {kind: sum(lists[1]) // len(lists[1]) for kind, lists in times.items()},
        }


class Caller:
    """One request after the other, over a connection that stays open."""

    def __init__(self, door, number=0):
        self.door, self.number, self.connection = door, number, None

    def connect(self):
        if not self.door.socket:
            return http.client.HTTPSConnection(
                "localhost", self.door.port, timeout=ANSWER_SECONDS, context=self.door.context()
            )
        connection = http.client.HTTPConnection("localhost", timeout=ANSWER_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(ANSWER_SECONDS)
        connection.sock.connect(self.door.socket)
        return connection

    def ask(self, method, path, body=None):
        """Status, and the JSON of the answer.

        Raises OSError or http.client.HTTPException if the daemon does not answer; the next request
        connects anew.
        """
        token = self.door.tokens[self.number % len(self.door.tokens)]
        headers = {"authorization": f"Bearer {token}"} if token else {}
        text = None if body is None else json.dumps(body)
        if text:
            headers["content-type"] = "application/json"
        try:
            self.connection = self.connection or self.connect()
            self.connection.request(method, path, text, headers)
            answer = self.connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
