"""Runs by the round-trip time between their sites."""

from dataclasses import dataclass

from penstock_eval import stats, units
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.rundir import Cell, Dataset, Run
from penstock_eval.stats import Summary
from penstock_eval.tables import Table, ends

NEAR = 1.25
"""Ratio of two round trips below which they are one distance."""
NEAR_MS = 0.2
"""Difference in milliseconds below which they are one, however great the ratio."""
NEEDED = "it needs two round-trip times: give the sweeps over each of them to one report"


@dataclass(frozen=True)
class Distance:
    """Cells that count whose sites were equally far from each other."""

    rtt_ms: float
    """Median of their round trips in milliseconds."""
    cells: list[Cell]

    def select(self, dataset: str, mode: str, direction: str) -> list[Cell]:
        """Cells of one data set, mode and direction."""
        return [
            cell
            for cell in self.cells
            if (cell.dataset, cell.mode, cell.direction) == (dataset, mode, direction)
        ]


@dataclass(frozen=True)
class Place:
    """Repeats of one data set over one distance."""

    rtt_ms: float
    rate: Summary
    """Effective rates in Gbit/s."""
    share: Summary
    """Ratio of each repeat to the median over the shortest distance."""


def distances(runs: list[Run]) -> list[Distance]:
    """Distances of runs, the shortest first."""
    known = [(run.round_trip(cell), cell) for run in runs for cell in run.counted]
    trips = [(trip, cell) for trip, cell in known if trip is not None]
    trips.sort(key=lambda pair: pair[0])
    groups: list[list[tuple[float, Cell]]] = []
    for trip, cell in trips:
        first = groups[-1][0][0] if groups else 0.0
        if groups and trip <= max(NEAR * first, first + NEAR_MS):
            groups[-1].append((trip, cell))
        else:
            groups.append([(trip, cell)])
    return [
        Distance(stats.median([trip for trip, _ in group]), [cell for _, cell in group])
        for group in groups
    ]


def places(found: list[Distance], dataset: str, mode: str, direction: str) -> list[Place]:
    """Repeats by distance; fewer than two where the data set went over one distance only."""
    groups = [(item.rtt_ms, item.select(dataset, mode, direction)) for item in found]
    groups = [(trip, cells) for trip, cells in groups if cells]
    if not groups:
        return []
    near = stats.median([cell.effective for cell in groups[0][1]])
    return [
        Place(
            trip,
            stats.summary([units.gigabits(cell.effective) for cell in cells]),
            stats.ratio_summary([cell.effective / near for cell in cells]),
        )
        for trip, cells in groups
    ]


def datasets(runs: list[Run]) -> list[Dataset]:
    """Data sets of all runs by the size of their files, each name once."""
    named = {item.name: item for run in reversed(runs) for item in run.datasets}
    return sorted(named.values(), key=by_size)


def by_size(item: Dataset) -> tuple[float, int, str]:
    """Order of data sets by the size of their files."""
    return item.file_size, item.bytes, item.name


def modes(runs: list[Run]) -> list[str]:
    """Names of the modes of all runs, in their order."""
    return list(dict.fromkeys(mode.name for run in runs for mode in run.modes))


def directions(runs: list[Run]) -> list[str]:
    """Directions in which any run has cells, forward first."""
    return sorted({way for run in runs for way in run.directions})


def by_round_trip(request: Request) -> Table:
    """T15: rates by round-trip time, and their ratio to the shortest."""
    runs = request.runs
    found = distances(runs)
    table = Table(
        ["direction", "data set", "mode", "round trip ms", "n", "median Gbit/s", "low", "high",
         "cover %", "ratio to the shortest", "ratio low", "ratio high"],
        "Effective rates by the round trip between the sites, as asked before each block. Round "
        f"trips within {100 * NEAR - 100:.0f} % or {NEAR_MS} ms of each other are one. Ratios are "
        "those of each repeat to the median over the shortest round trip, since runs over "
        "different distances share no blocks: a drift of the machines in between is in them.",
    )  # fmt: skip
    for way in directions(runs):
        for item in datasets(runs):
            for mode in modes(runs):
                rows = places(found, item.name, mode, way)
                for row in rows if len(rows) > 1 else []:
                    low, high, _ = ends(row.share)
                    table.rows.append(
                        [way, item.name, mode, row.rtt_ms, row.rate.count, row.rate.median,
                         *ends(row.rate), row.share.median, low, high]
                    )  # fmt: skip
    if not table.rows:
        raise LeftOutError(NEEDED)
    return table
