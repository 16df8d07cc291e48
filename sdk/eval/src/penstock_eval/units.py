"""Numbers as readers expect them: sizes in powers of 1,024, rates in powers of 1,000."""

KIB = 1024
GIGABIT = 1e9 / 8
"""Bytes of 10^9 bits."""
TIB = 1024**4

_SIZES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]


def size(count: float) -> str:
    """Size in the largest unit that leaves at least one: `4 KiB`, `1.5 GiB`."""
    unit = 0
    while abs(count) >= KIB and unit < len(_SIZES) - 1:
        count /= KIB
        unit += 1
    return f"{count:.3g} {_SIZES[unit]}" if count < 1000 else f"{count:.0f} {_SIZES[unit]}"


def number(value: float, *, zeros: bool = False) -> str:
    """Number with three figures, without an exponent, thousands set apart by commas.

    Args:
        value: The number.
        zeros: Keep zeros at the end, so that columns align.
    """
    if value == 0:
        return "0"
    text = f"{value:#.3g}" if zeros else f"{value:.3g}"
    if "e" not in text and abs(float(text)) < 1000:
        return text.removesuffix(".")
    return f"{float(text):,.0f}" if abs(value) >= 1 else f"{value:.2g}"


def seconds(value: float) -> str:
    """Duration: `0.42 s`, `3 min 20 s`, `2 h 05 min`."""
    if value < 120:
        return f"{number(value)} s"
    whole = round(value)
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def clock(value: float, *, hours: bool) -> str:
    """Time since the begin as h:mm:ss, or m:ss."""
    whole = round(value)
    if not hours:
        return f"{whole // 60}:{whole % 60:02d}"
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


def gigabits(bytes_per_s: float) -> float:
    """Rate in Gbit/s."""
    return bytes_per_s / GIGABIT


def terabytes_per_day(bytes_per_s: float) -> float:
    """Rate in TB (10^12 bytes) a day."""
    return bytes_per_s * 86_400 / 1e12
