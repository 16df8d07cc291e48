"""Use of processors, as htop counts it, with stolen time apart.

htop: `(ΔTotal - ΔIdle) / ΔTotal`, where Idle = idle + iowait, and Total has all of user, nice,
system, idle, iowait, irq, softirq and steal. Guest time is within user time. So time that the
hypervisor gave to others counts as busy: shares here tell it apart. Busy time of a record, and of
the samples of a daemon, is without it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Shares of all time of all processors of a host, from 0 to 1."""

    busy: float
    """As htop shows it: all but idle and waiting for disks."""
    steal: float
    """Part of `busy` that other virtual machines had."""
    own: float
    """`busy` without `steal`: work that was done."""
    iowait: float


def usage(
    busy_s: float, steal_s: float, iowait_s: float, cores: int, seconds: float
) -> Usage | None:
    """Shares from seconds that were summed over all processors; `busy_s` is without `steal_s`.

    Counters of the kernel may step back, and samples may be a little longer than the run: shares
    are kept between 0 and 1.

    Returns:
        None where there was no time.
    """
    total = cores * seconds
    if total <= 0:
        return None
    own, steal = _share(busy_s / total), _share(steal_s / total)
    return Usage(_share(own + steal), steal, own, _share(iowait_s / total))


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)
