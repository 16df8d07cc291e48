"""The two sites that the tests share: `lab` with the store `raw`, `hpc` with `scratch`."""

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


@pytest.fixture(scope="session")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("sites")
    pair = Pair(Site(directory, "lab", "raw"), Site(directory, "hpc", "scratch", web=True))
    both = (pair.lab, pair.hpc)
    try:
        for site in both:
            site.start()
        with pair.lab.client() as lab, pair.hpc.client() as hpc:
            paired = hpc.sites.pair(lab.sites.offer().token)
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
