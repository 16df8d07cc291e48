"""What the machine itself does, measured in the same run: the parts that bounds are made of."""

import json
import os
import statistics
import subprocess
import time

from bench.base.groups import spent
from bench.base.processes import Failed, free_port, wait_listening, wait_process
from bench.movers.rivals import program

GIB = 2**30
IPERF_SECONDS = 2
STREAMS = (1, 2, 4)


def iperf(group, streams, control=None, cores=(None,)):
    """One iperf3 pair, or several at once with both ends on one core; figures as a row."""
    try:
        return iperf_pairs(group, streams, control, cores)
    finally:
        group.kill()


def iperf_pairs(group, streams, control, cores):
    pairs = [(free_port(), core) for core in cores]
    for port, core in pairs:
        pin = [] if core is None else ["-A", str(core)]
        group.start(
            ["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port), *pin],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_listening(port)
    before, clients = group.cpu(), []
    for port, core in pairs:
        words = [
            "iperf3",
            "-c",
            "127.0.0.1",
            "-p",
            str(port),
            "-t",
            str(IPERF_SECONDS),
            "-P",
            str(streams),
            "-J",
        ]
        words += ["-C", control] if control else []
        words += [] if core is None else ["-A", f"{core},{core}"]
        clients.append(
            group.start(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
    size, wall = 0, 0.0
    for client in clients:
        text = client.stdout.read()
        if wait_process(client, time.monotonic() + 10):
            raise Failed(f"iperf3: {json.loads(text or '{}').get('error')}")
        received = json.loads(text)["end"]["sum_received"]
        size += received["bytes"]
        wall = max(wall, received["seconds"])
    return {"bytes": size, "wall_s": wall, "cpu_s": spent(group, before)}


def iperf_movers():
    """Names and arguments of the iperf3 runs, as far as this machine has what they need."""
    if not program("iperf3"):
        return {}
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as text:
        controls = {text.read().strip(): None, **cubic()}
    return {
        f"iperf3 {name} -P {streams}": (streams, control)
        for name, control in controls.items()
        for streams in STREAMS
    }


def cubic():
    """The lighter control of short paths, where the kernel has it."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as text:
        return {"cubic": "cubic"} if "cubic" in text.read().split() else {}


def measure(group, penstock, work):
    """One round of all primitives: rows of name, bytes, wall and CPU seconds."""
    rows = {}
    for name, (streams, control) in iperf_movers().items():
        rows[name] = iperf(group, streams, control)
    if program("iperf3"):
        cores = sorted(os.sched_getaffinity(0))[:2]
        control = cubic().get("cubic")
        rows["iperf3 pair on one core"] = iperf(group, 1, control, cores[:1])
        if len(cores) == 2:
            rows["two iperf3 pairs, a core each"] = iperf(group, 1, control, cores)
    return rows | steps(penstock, work)


def steps(penstock, work):
    """The steps of a data path by themselves, by the program beside the release binary."""
    steps = os.path.join(os.path.dirname(penstock), "examples", "primitives")
    if not os.path.exists(steps):
        return {}
    done = subprocess.run([steps, work, "1"], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{steps}: {done.stderr.strip()}")
    return {name: {"cost": cost} for name, cost in json.loads(done.stdout).items()}


def summary(rounds):
    """Medians of several rounds: name -> GB/s and CPU s/GiB, or the cost of a step."""
    result = {}
    for name in dict.fromkeys(name for rows in rounds for name in rows):
        rows = [rows[name] for rows in rounds if name in rows]
        if "cost" in rows[0]:
            result[name] = {"cost": statistics.median(row["cost"] for row in rows)}
            continue
        rate = statistics.median(row["bytes"] / row["wall_s"] / 1e9 for row in rows)
        cpu = [row["cpu_s"] / (row["bytes"] / GIB) for row in rows if row["cpu_s"] is not None]
        result[name] = {"GBps": rate, "cpu": statistics.median(cpu) if cpu else None}
    return result
