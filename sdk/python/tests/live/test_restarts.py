"""Daemons that are killed under waits and iterations."""

from pathlib import Path
from threading import Thread

import anyio

from penstock import (
    AsyncPenstock,
    Limits,
    Penstock,
    ResetEvent,
    SummaryEvent,
    TransferEvent,
    TransferOptions,
)
from tests.live.conftest import Pair
from tests.live.sites import Site, assert_same, data_set

KILLS = 5
FILES = 24
SLOW = TransferOptions(limits=Limits(rate_bits_per_s=1_000_000))


class Killer:
    """Kills a daemon each time it has told something, and lets the last one end the work."""

    def __init__(self, site: Site, transfer: str) -> None:
        self.site = site
        self.transfer = transfer
        self.kills = 0
        self._starting: Thread | None = None

    def told(self) -> None:
        """Kills the daemon that has told something; another one starts meanwhile."""
        if self._starting is not None:
            self._starting.join()
            self._starting = None
        if self.kills < KILLS:
            self.kills += 1
            self.site.kill()
            self._starting = Thread(target=self.site.start)
            self._starting.start()
        elif self.kills == KILLS:
            self.kills += 1
            with self.site.client() as client:
                client.transfers.limit(self.transfer, None)


def test_a_wait_survives_kills(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: a daemon killed again and again loses no end and makes no second transfer."""
    data_set(run7, FILES, 100_000)
    before = {transfer.id for transfer in hpc.transfers.list()}
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=SLOW)
    killer = Killer(sites.hpc, transfer.id)
    end = transfer.wait(timeout=300, progress=lambda _: killer.told())
    assert killer.kills > KILLS
    assert (end.state, end.progress.files) == ("done", FILES)
    assert_same(run7, sites.hpc.store / run7.name)
    assert {one.id for one in hpc.transfers.list()} - before == {transfer.id}


def test_events_survive_kills(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: an iteration over events goes on after each kill, to the summary."""
    data_set(run7, FILES, 100_000)
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=SLOW)
    killer, last = Killer(sites.hpc, transfer.id), None
    for event in transfer.events():
        killer.told()
        last = event
    assert killer.kills > KILLS
    assert isinstance(last, SummaryEvent)
    assert last.state == "done"


def test_events_of_all_survive_a_kill(sites: Pair, hpc: Penstock, run7: Path) -> None:
    """Promise: the gap of a restart is marked, and events follow."""
    data_set(run7, FILES, 100_000)
    transfer = hpc.transfers.submit(f"lab:raw/{run7.name}", "hpc:scratch/", options=SLOW)
    has_gap = False
    for event in hpc.transfers.all_events():
        if isinstance(event, ResetEvent):
            has_gap = True
            transfer.cancel()
        elif isinstance(event, SummaryEvent):
            assert (event.id, event.state) == (transfer.id, "cancelled")
            break
        elif isinstance(event, TransferEvent) and not has_gap:
            sites.hpc.restart()
    assert has_gap


def test_an_asynchronous_wait_survives_a_kill(sites: Pair, run7: Path) -> None:
    """Promise: the asynchronous client survives what the other one does."""
    data_set(run7, FILES, 100_000)
    source, events = f"lab:raw/{run7.name}", list[TransferEvent]()

    def told(event: TransferEvent) -> None:
        if not events:
            sites.hpc.restart()
        events.append(event)

    async def main() -> str:
        async with AsyncPenstock(sites.hpc.url) as client:
            transfer = await client.transfers.submit(source, "hpc:scratch/")
            return (await transfer.wait(timeout=120, progress=told)).state

    assert anyio.run(main) == "done"
