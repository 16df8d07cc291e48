"""Block devices below a store, and their part in the rates of the storage benchmark."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock_eval import stats, units
from penstock_eval.drawing import LeftOutError, Request
from penstock_eval.rundir import Json, many
from penstock_eval.storagedir import StorageResult
from penstock_eval.tables import Table

BYTES = {"read": "read_bytes", "write": "written_bytes"}
"""The counter of a device that an operation is compared with."""
NONE = (
    "no device below a store is known: it is on none, as a network file system, or an earlier "
    "release measured it"
)


@dataclass(frozen=True)
class Device:
    """A block device; of several peers those with the same name, kind, label and depth."""

    name: str
    kind: str
    label: str
    depth: int
    """Number of devices between it and the file system."""

    @property
    def words(self) -> str:
        """Its name, with kind and label."""
        return f"{self.name} ({f'{self.kind} {self.label}'.rstrip()})"


@dataclass(frozen=True)
class Layer:
    """A layer of a store while files of one size were read or written, over its repeats."""

    device: Device | None
    """None for the file system."""
    rates: list[float] = field(default_factory=list[float])
    """Bytes per second until all bytes of files were durable."""
    ratios: list[float] = field(default_factory=list[float])
    """Bytes of the layer by bytes of files."""
    busy: list[float] = field(default_factory=list[float])
    """Share of the time in which the busiest peer's device had a request; empty if not known."""


@dataclass(frozen=True)
class Step:
    """The layers of an operation on files of one size, from the file system to the disks."""

    operation: str
    size: int
    threads: int
    layers: list[Layer]


def steps(results: Iterable[Json]) -> list[Step]:
    """Steps of results of one store whose layers are known, by operation, size and threads."""
    found: dict[tuple[str, int, int], dict[Device | None, Layer]] = {}
    for result in results:
        devices = _devices(result)
        for point in result["points"]:
            operation = point["operation"]
            if operation not in BYTES or not any(run.get("traffic") for run in point["runs"]):
                continue
            key = (operation, point["size_bytes"], point.get("threads") or 0)
            layers = found.setdefault(key, {None: Layer(None)})
            for device, peers in devices.items():
                layers.setdefault(device, Layer(device))
                for run in point["runs"]:
                    _add(layers[device], peers, operation, run)
            for run in point["runs"]:
                layers[None].rates.append(run["bytes"] / run["durable_s"])
                layers[None].ratios.append(1.0)
    made: list[Step] = []
    for (operation, size, threads), layers in sorted(found.items(), key=lambda item: item[0]):
        known = [layer for layer in layers.values() if layer.rates]
        known.sort(key=lambda layer: -1 if layer.device is None else layer.device.depth)
        if len(known) > 1:
            made.append(Step(operation, size, threads, known))
    return made


def largest(results: Iterable[Json], operation: str) -> Step | None:
    """Step of an operation with the largest files, and the greatest rate of these."""
    of_it = [step for step in steps(results) if step.operation == operation]
    return max(
        of_it, key=lambda step: (step.size, stats.median(step.layers[0].rates)), default=None
    )


def together(layers: list[Layer], most: int) -> list[Layer]:
    """Layers of devices, with those of one depth and kind as one where these are more than `most`.

    Bytes are sums, the busy share is that of the busiest.
    """
    groups: dict[tuple[int, str], list[Layer]] = {}
    for layer in layers:
        if layer.device is not None:
            groups.setdefault((layer.device.depth, layer.device.kind), []).append(layer)
    made: list[Layer] = []
    for (depth, kind), group in groups.items():
        if len(group) <= most:
            made += group
            continue
        device = Device(f"{len(group)} devices", kind, "", depth)
        every = [[layer.rates, layer.ratios, layer.busy] for layer in group]
        rates, ratios, busy = (
            [list(values) for values in zip(*series, strict=False)]
            for series in zip(*every, strict=True)
        )
        made.append(
            Layer(
                device,
                [sum(values) for values in rates],
                [sum(values) for values in ratios],
                [max(values) for values in busy],
            )
        )
    return made


def of_run(request: Request) -> Table:
    """T21 of a sweep: layers of both stores."""
    run = request.run
    table = _table()
    for store in dict.fromkeys(run.ends("forward")):
        _fill(table, store, run.benchmarks(store))
    if not table.rows:
        raise LeftOutError(NONE)
    return table


def of_result(result: StorageResult) -> Table:
    """T21 of a storage benchmark."""
    table = _table()
    _fill(table, result.about["store"], [result.about])
    if not table.rows:
        raise LeftOutError(NONE)
    return table


def _devices(result: Json) -> dict[Device, list[str]]:
    """Devices with the peers that have each."""
    found: dict[Device, list[str]] = {}
    for peer in many(result, "peers"):
        for item in many(peer, "devices"):
            device = Device(item["name"], item["kind"], item.get("label") or "", item["depth"])
            found.setdefault(device, []).append(peer["peer"])
    return found


def _add(layer: Layer, peers: list[str], operation: str, run: Json) -> None:
    """Adds a run to a layer, unless a peer that has the device has no figures of it."""
    device = layer.device
    items = [
        item
        for item in many(run, "traffic")
        if device and item["device"] == device.name and item["peer"] in peers
    ]
    if len(items) < len(peers) or not run["bytes"]:
        return
    total = sum(item[BYTES[operation]] for item in items)
    layer.rates.append(total / run["durable_s"])
    layer.ratios.append(total / run["bytes"])
    busiest = max(item["busy_ms"] for item in items) / 1000
    layer.busy.append(min(1.0, busiest / run["durable_s"]))


def _table() -> Table:
    return Table(
        ["store", "operation", "file size", "threads", "layer", "device", "label", "depth", "n",
         "median Gbit/s", "ratio", "busy %"],
        "Block devices below each store while the storage benchmark read or wrote, in the order of "
        "their distance from the file system. `ratio` is bytes of the device by bytes of files: "
        "above 1 the layers above it write more than files have, below 1 a cache answered. `busy` "
        "is the share of the time with a request in work. All are medians of the runs; of several "
        "peers bytes are sums, and the busiest counts. The kernel counts for the whole host.",
    )  # fmt: skip


def _fill(table: Table, store: str, results: list[Json]) -> None:
    kinds = sorted({result.get("file_system", {}).get("kind", "") for result in results})
    for step in steps(results):
        for layer in step.layers:
            device = layer.device
            kind = device.kind if device else "file system"
            name = device.name if device else ", ".join(kinds)
            table.rows.append(
                [store, step.operation, units.size(step.size), step.threads or None, kind, name,
                 device.label if device else "", device.depth if device else None,
                 len(layer.rates), units.gigabits(stats.median(layer.rates)),
                 stats.median(layer.ratios), 100 * stats.median(layer.busy) if layer.busy else None]
            )  # fmt: skip
