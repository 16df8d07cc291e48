"""Statistics of transfers and peers: figures over time, and summaries of them."""

from datetime import datetime

from .base import View


class SeriesColumn(View):
    """One figure over time.

    The lists are as long as `at` of its series; `None` is where the figure is unknown.
    """

    name: str = ""
    """Name of the figure, with its unit at the end, as `rate_bits_per_s`."""
    of: str = ""
    """The card or the disk, where each has a column; empty for figures of the whole host."""
    min: list[float | None] = []
    """Least value within each point."""
    mean: list[float | None] = []
    """Mean value within each point."""
    max: list[float | None] = []
    """Greatest value within each point."""


class PeerSeries(View):
    """The figures of one peer over time."""

    peer: str
    """The peer that has seen them."""
    at: list[int] = []
    """Begin of each point, in seconds since 1970, ascending."""
    seconds: list[int] = []
    """Length of each point, in seconds."""
    columns: list[SeriesColumn] = []
    """The figures."""


class TransferSeries(View):
    """The figures of a transfer over time, as the peers of this site have seen them."""

    transfer: str
    """The transfer."""
    peers: list[PeerSeries] = []
    """The peers that have worked for it."""
    silent: list[str] = []
    """Peers that were asked and did not answer."""


class Spread(View):
    """Spread of a figure, over the seconds in which it was known.

    Quantiles are those of Hyndman and Fan's type 7, as NumPy and R have by default: linear between
    the two values next to them. Least, greatest and mean value are of all seconds; quantiles of
    those that are kept one by one, and of means of longer points for what is older.
    """

    seconds: int = 0
    """Number of seconds."""
    min: float = 0.0
    """Least value."""
    p5: float = 0.0
    """5 % of the values are below it."""
    q1: float = 0.0
    """A quarter of the values is below it."""
    median: float = 0.0
    """Half of the values is below it."""
    q3: float = 0.0
    """Three quarters of the values are below it."""
    p95: float = 0.0
    """95 % of the values are below it."""
    p99: float = 0.0
    """99 % of the values are below it."""
    max: float = 0.0
    """Greatest value."""
    mean: float = 0.0
    """Mean value."""


class ColumnSpread(View):
    """Spread of one figure."""

    name: str = ""
    """Name of the figure, with its unit at the end, as `rate_bits_per_s`."""
    spread: Spread = Spread()
    """Its spread."""


class CoreSpread(View):
    """Spread of the time that one processor was busy."""

    core: int = 0
    """Number of the processor."""
    busy_percent: Spread = Spread()
    """Spread of its busy time, in percent of each second, rounded to whole ones."""


class CipherEnergy(View):
    """Energy that a host used while it moved payload under one cipher."""

    cipher: str = ""
    """`AES-128-GCM`, `AES-256-GCM`, `ChaCha20-Poly1305`; `clear` for lanes that are authenticated
    and not sealed; `none` where there were no lanes.
    """
    bytes: int = 0
    """Bytes of payload that the peer moved meanwhile."""
    seconds: int = 0
    """Seconds."""
    shared_seconds: int = 0
    """Seconds of these in which the peer worked for other transfers too. The energy is that of the
    whole host, so figures with such seconds are too great.
    """
    package_joules: float | None = None
    """Energy of the processors, in joules."""
    dram_joules: float | None = None
    """Energy of the memory, in joules; none where the processor does not count it."""
    package_joules_per_tib: float | None = None
    """Energy of the processors for each TiB of payload."""
    dram_joules_per_tib: float | None = None
    """Energy of the memory for each TiB of payload."""


class Energy(View):
    """Energy that a host used."""

    is_available: bool = False
    """True if the host counts its energy."""
    why: str = ""
    """Reason why energy is not measurable there; empty if it is."""
    ciphers: list[CipherEnergy] = []
    """The energy with each cipher that protected lanes; of a transfer one."""


class PeerStatistics(View):
    """Summary of the figures of a transfer at one peer."""

    peer: str
    """The peer that has seen them."""
    cipher: str = ""
    """Cipher of its lanes, as `AES-128-GCM`; `clear` without encryption, `none` where it moved
    within its host, empty before the first lane.
    """
    since: datetime | None = None
    """Begin of the first second."""
    until: datetime | None = None
    """Begin of the last second."""
    columns: list[ColumnSpread] = []
    """The figures."""
    cores: list[CoreSpread] = []
    """The processors."""
    energy: Energy = Energy()
    """Energy of the host while it worked for the transfer."""


class TransferStatistics(View):
    """Summary of the figures of a transfer, as the peers of this site have seen them."""

    transfer: str
    """The transfer."""
    peers: list[PeerStatistics] = []
    """The peers that have worked for it."""
    silent: list[str] = []
    """Peers that were asked and did not answer."""


class ProcessorTime(View):
    """Time of all processors of a host together, since its boot, as its kernel counts it.

    Two of them make exact figures of the time between: `busy_s` by `total_s` is the share that was
    busy.
    """

    processors: int = 0
    """Processors that are online."""
    busy_s: float = 0.0
    """Time of user code, the kernel, interrupts and guests."""
    iowait_s: float = 0.0
    """Idle time in which a disk was awaited."""
    steal_s: float = 0.0
    """Time that the hypervisor gave to others."""
    total_s: float = 0.0
    """All time of all processors, idle time included."""


class PeerHistory(View):
    """A peer over time."""

    series: PeerSeries
    """Its figures over time."""
    columns: list[ColumnSpread] = []
    """Summaries of the figures that are of the whole host, over the same time."""
    cores: list[CoreSpread] = []
    """Its processors over the last ten minutes."""
    processors: ProcessorTime | None = None
    """Time of its processors until this answer. Absent where the kernel does not show it, or the
    peer is of an earlier release.
    """
    energy: Energy = Energy()
    """Its energy by cipher, over all transfers that are kept."""


class SiteStatistics(View):
    """The peers of the site over time."""

    site: str = ""
    """The site."""
    peers: list[PeerHistory] = []
    """Its peers that have answered."""
    silent: list[str] = []
    """Peers that were asked and did not answer."""
