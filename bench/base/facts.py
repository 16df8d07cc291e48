"""Facts about the machine and the programs that a run is made with."""

import os
import platform
import subprocess


def machine(binary, argv):
    """Machine, versions and command line of a run."""

    def first(*words):
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return "-"
        return ((done.stdout or done.stderr).strip().splitlines() or ["-"])[0]

    model = "-"
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":")[1].strip()
                break
    with open("/proc/meminfo") as lines:
        memory = int(lines.readline().split()[1]) / 2**20
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as text:
        control = text.read().strip()
    items = [
        ("command", " ".join(argv)),
        ("begun (UTC)", first("date", "-u", "+%F %H:%M")),
        ("penstock", first(binary, "--version")),
        ("commit", first("git", "describe", "--always", "--dirty", "--abbrev=12")),
        ("machine", f"{os.cpu_count()} CPUs, {model}, {memory:.0f} GiB, load {load()}"),
        ("kernel", platform.release()),
        ("default congestion control", control),
        ("rsync", first("rsync", "--version")),
        ("iperf3", first("iperf3", "--version")),
        ("gridftp", first("globus-url-copy", "-version")),
        ("xrootd", first("xrdcp", "--version")),
        ("openssl", first("openssl", "version")),
        ("ssh", first("ssh", "-V")),
        ("escp", first(os.environ.get("ESCP", "escp"), "--version")),
    ]
    return "\n".join(f"- {name}: {value}" for name, value in items)


def load():
    return f"{os.getloadavg()[0]:.2f}"
