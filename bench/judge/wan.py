"""The targets over distance, and the figures that a run is judged by."""

import statistics

GIB = 2**30
TARGETS = [
    # row, mover, figure, against (row, mover, figure) or a limit, must, what it is
    (
        "large",
        "penstock tls blake3",
        "steady",
        ("large", "iperf3", "rate"),
        0.97,
        "4 GiB TLS, steady state / iperf3 -P 8",
    ),
    (
        "large",
        "penstock tls blake3",
        "rate",
        ("large", "iperf3", "rate"),
        0.94,
        "4 GiB TLS, whole command / iperf3 -P 8",
    ),
    (
        "large",
        "penstock tls blake3",
        "steady",
        ("large", "penstock clear blake3", "steady"),
        0.99,
        "4 GiB, TLS / clear, steady state",
    ),
    (
        "medium",
        "penstock tls blake3",
        "rate",
        ("medium", "iperf3", "rate"),
        0.80,
        "512 MiB TLS, whole command / iperf3 -P 8",
    ),
    (
        "medium",
        "penstock tls blake3",
        "rate",
        ("medium", "rival", "rate"),
        1.0,
        "512 MiB TLS / fastest rival",
    ),
    ("small", "penstock tls blake3", "wall_s", None, 2.0, "5,000 x 4 KiB TLS, s"),
    (
        "small",
        "penstock tls blake3",
        "rate",
        ("small", "rival", "rate"),
        None,
        "5,000 x 4 KiB TLS / fastest rival",
    ),
    (
        "medium",
        "penstock tls blake3",
        "first_byte_s",
        None,
        0.50,
        "first byte, 512 MiB, s (5 x 90 ms + 50 ms)",
    ),
    (
        "small",
        "penstock tls blake3",
        "first_byte_s",
        None,
        0.50,
        "first byte, 5,000 x 4 KiB, s (5 x 90 ms + 50 ms)",
    ),
    (
        "loss 0.01%",
        "penstock tls blake3",
        "steady",
        ("medium", "penstock tls blake3", "steady"),
        0.90,
        "0.01 % loss, BBR, steady / no loss",
    ),
    (
        "loss 0.1%",
        "penstock tls blake3",
        "steady",
        ("medium", "penstock tls blake3", "steady"),
        0.90,
        "0.1 % loss, BBR, steady / no loss",
    ),
    (
        "loss 0.01%",
        "penstock tls blake3",
        "rate",
        ("medium", "penstock tls blake3", "rate"),
        0.90,
        "0.01 % loss, BBR, whole command / no loss",
    ),
    (
        "loss 0.1%",
        "penstock tls blake3",
        "rate",
        ("medium", "penstock tls blake3", "rate"),
        0.90,
        "0.1 % loss, BBR, whole command / no loss",
    ),
    (
        "cubic 0.01%",
        "penstock tls blake3",
        "rate",
        ("cubic 0.01%", "rival", "rate"),
        1.0,
        "0.01 % loss, CUBIC / fastest rival",
    ),
    (
        "cubic 0.1%",
        "penstock tls blake3",
        "rate",
        ("cubic 0.1%", "rival", "rate"),
        1.0,
        "0.1 % loss, CUBIC / fastest rival",
    ),
    (
        "cubic 0.01%",
        "penstock tls blake3",
        "rate",
        ("cubic 0.01%", "iperf3", "rate"),
        None,
        "0.01 % loss, CUBIC / iperf3 -P 8",
    ),
    (
        "cubic 0.1%",
        "penstock tls blake3",
        "rate",
        ("cubic 0.1%", "iperf3", "rate"),
        None,
        "0.1 % loss, CUBIC / iperf3 -P 8",
    ),
    (
        "fat",
        "penstock clear xxh3",
        "steady",
        ("fat", "iperf3", "rate"),
        0.90,
        "10 Gbit/s, 150 ms, clear xxh3, steady / iperf3",
    ),
    (
        "fat",
        "penstock tls blake3",
        "steady",
        ("fat", "iperf3", "rate"),
        None,
        "10 Gbit/s, 150 ms, TLS blake3, steady / iperf3",
    ),
    ("any", "penstock", "peak_mib", None, 256.0, "peak memory of a daemon, MiB"),
]


def median(rows, row, mover, figure):
    """Median of a mover's good runs in a row of the table; none if there is none. `rival` is the
    best of the movers that are not ours, `iperf3` the best number of streams that was tried."""
    if figure == "peak_mib":
        peaks = [max(one["peak_mib"]) for one in rows if one.get("peak_mib")]
        return max(peaks) if peaks else None
    there = {one["mover"] for one in rows if one["row"] == row}
    if mover == "rival":
        movers = {one for one in there if not one.startswith(("penstock", "iperf3"))}
    elif mover == "iperf3":
        movers = {one for one in there if one.startswith("iperf3")}
    else:
        movers = {mover}
    known = []
    for name in movers:
        values = [
            one[figure]
            for one in rows
            if one["row"] == row
            and one["mover"] == name
            and not one["error"]
            and one.get(figure) is not None
        ]
        known += [statistics.median(values)] if values else []
    return max(known) if known else None


def table(rows):
    lines = [
        "\n| row | mover | wall s | Mbit/s | steady Mbit/s | first byte s | CPU s/GiB | "
        "peak MiB a, b | runs |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row, mover in dict.fromkeys((one["row"], one["mover"]) for one in rows):
        runs = [one for one in rows if (one["row"], one["mover"]) == (row, mover)]
        good = [one for one in runs if not one["error"]]
        cells = [
            cell(median(rows, row, mover, figure), scale, digits)
            for figure, scale, digits in (
                ("wall_s", 1, 2),
                ("rate", 8e-6, 0),
                ("steady", 8e-6, 0),
                ("first_byte_s", 1, 3),
            )
        ]
        cpus = [
            one["cpu_s"] / one["bytes"] * GIB
            for one in good
            if one.get("cpu_s") and one.get("bytes")
        ]
        cells.append(cell(statistics.median(cpus) if cpus else None, 1, 2))
        peaks = [one["peak_mib"] for one in good if "peak_mib" in one]
        cells.append(", ".join(str(max(pair)) for pair in zip(*peaks)) if peaks else "-")
        stopped = sum(one.get("ended") is False for one in good)
        note = f"{len(good)}/{len(runs)}" + (f", {stopped} stopped at the limit" if stopped else "")
        lines.append(f"| {row} | {mover} | {' | '.join(cells)} | {note} |")
    return "\n".join(lines)


def cell(value, scale, digits):
    return "-" if value is None else f"{value * scale:.{digits}f}"


def targets_table(rows):
    lines = ["\n| target | figure | against | ratio | must | met |", "|---|---|---|---|---|---|"]
    for row, mover, figure, against, must, what in TARGETS:
        value = median(rows, row, mover, figure)
        if value is None:
            continue
        if against is None:
            met = "yes" if value <= must else "no"
            lines.append(f"| {what} | {value:.3g} | | | ≤ {must:g} | {met} |")
            continue
        other = median(rows, *against)
        if not other:
            continue
        ratio = value / other
        met = "-" if must is None else "yes" if ratio >= must else "no"
        limit = "" if must is None else f"≥ {must:g}"
        lines.append(
            f"| {what} | {value * 8e-6:.0f} Mbit/s | {other * 8e-6:.0f} Mbit/s | "
            f"{ratio:.3f} | {limit} | {met} |"
        )
    return "\n".join(lines)
