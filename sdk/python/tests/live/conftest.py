"""The two sites that the tests share: `lab` with the store `raw`, `hpc` with `scratch`."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock import Penstock
from tests.live.sites import Site


@dataclass
class Pair:
    lab: Site
    hpc: Site
    receiver_port: int
    """Port of this host to which `hpc` may send webhooks."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("sites")
    lab, hpc = Site(directory, "lab", "raw"), Site(directory, "hpc", "scratch", web=True)
    pair = Pair(lab, hpc, _free_port())
    hpc.configure(f'[webhook]\nallow = ["http://127.0.0.1:{pair.receiver_port}/"]')
    both = (pair.lab, pair.hpc)
    try:
        for site in both:
            site.start()
        with lab.client() as source, hpc.client() as target:
            paired = target.sites.pair(source.sites.offer().token)
            assert paired.site.name == "lab"
        yield pair
    finally:
        for site in both:
            site.stop()


@pytest.fixture
def hpc(sites: Pair) -> Iterator[Penstock]:
    """A client of the target's daemon, which owns the transfers."""
    with sites.hpc.client() as client:
        yield client


@pytest.fixture
def run7(sites: Pair, request: pytest.FixtureRequest) -> Path:
    """A directory of the test's own within the source's store."""
    return sites.lab.store / request.node.name
