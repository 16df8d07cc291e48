"""What the machine itself does, measured in the same run: the parts that bounds are made of."""

import json
import os
import re
import statistics
import subprocess
import time

from harness import Failed, free_port, spent, wait_listening, wait_process
from rivals import program

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
        group.start(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port), *pin],
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_listening(port)
    before, clients = group.cpu(), []
    for port, core in pairs:
        words = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(IPERF_SECONDS),
                 "-P", str(streams), "-J"]
        words += ["-C", control] if control else []
        words += [] if core is None else ["-A", f"{core},{core}"]
        clients.append(group.start(words, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True))
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
    return {f"iperf3 {name} -P {streams}": (streams, control)
            for name, control in controls.items() for streams in STREAMS}


def cubic():
    """The lighter control of short paths, where the kernel has it."""
    with open("/proc/sys/net/ipv4/tcp_available_congestion_control") as text:
        return {"cubic": "cubic"} if "cubic" in text.read().split() else {}


def measure(group, work):
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
    rows["cp of 1 GiB"] = copy_file(group, work)
    rows |= digests(group, work)
    if program("openssl"):
        rows["aes-128-gcm, openssl"] = openssl_speed()
    return rows


def copy_file(group, work):
    source, target = os.path.join(work, "cp.from"), os.path.join(work, "cp.to")
    if not os.path.exists(source):
        with open(source, "wb") as out:
            for _ in range(64):
                out.write(os.urandom(GIB // 64))
    before, begun = group.cpu(), time.monotonic()
    client = group.start(["cp", "--reflink=never", source, target])
    if wait_process(client, begun + 60):
        raise Failed("cp failed")
    row = {"bytes": GIB, "wall_s": time.monotonic() - begun, "cpu_s": spent(group, before)}
    os.remove(target)
    return row


def digests(group, work):
    """Digests of data in the cache, one thread: the same MiB many times over."""
    rows = {}
    hot = os.path.join(work, "hot")
    with open(hot, "wb") as out:
        out.write(os.urandom(2**20))
    times = 1000  # and all of them on one command line
    if program("b3sum"):
        before, begun = group.cpu(), time.monotonic()
        client = group.start(["b3sum", "--num-threads", "1", *[hot] * times],
                             stdout=subprocess.DEVNULL)
        wait_process(client, begun + 60)
        rows["blake3, b3sum"] = {"bytes": times * 2**20, "wall_s": time.monotonic() - begun,
                                 "cpu_s": spent(group, before)}
    if program("xxhsum"):
        done = subprocess.run(["xxhsum", "-b11", "-i1", "-B262144"], capture_output=True,
                              text=True)
        speeds = re.findall(r"XXH128[^\n]*?([0-9.]+) MB/s", done.stdout + done.stderr)
        if speeds:
            wall = GIB / (float(speeds[-1]) * 2**20)
            rows["xxh3-128, xxhsum"] = {"bytes": GIB, "wall_s": wall, "cpu_s": wall}
    return rows


def openssl_speed():
    done = subprocess.run(["openssl", "speed", "-elapsed", "-seconds", "1", "-bytes", "16384",
                           "-evp", "aes-128-gcm"], capture_output=True, text=True)
    kilobytes = float(done.stdout.split()[-1].rstrip("k"))
    wall = GIB / (kilobytes * 1000)
    return {"bytes": GIB, "wall_s": wall, "cpu_s": wall}


def summary(rounds):
    """Medians of several rounds: name -> GB/s and CPU s/GiB."""
    result = {}
    for name in dict.fromkeys(name for rows in rounds for name in rows):
        rows = [rows[name] for rows in rounds if name in rows]
        rate = statistics.median(row["bytes"] / row["wall_s"] / 1e9 for row in rows)
        cpu = [row["cpu_s"] / (row["bytes"] / GIB) for row in rows if row["cpu_s"] is not None]
        result[name] = {"GBps": rate, "cpu": statistics.median(cpu) if cpu else None}
    return result
