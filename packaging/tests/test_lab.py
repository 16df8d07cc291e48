"""Tests of the laboratory itself: what other tests of packaging rely on."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import lab as labs
from conftest import root
from lab import Lab

_VICTIM = """
import sys
from pathlib import Path
import lab as labs
lab = labs.Lab()
host = lab.host("victim", [Path(sys.argv[1])])
host.wait_running()
print(lab.directory, host.init, flush=True)
sys.stdin.read()
"""


def test_hosts_boot_and_reach_each_other(lab: Lab) -> None:
    """Promise: hosts of both releases start all their units, and reach one another by name."""
    hosts = [lab.host(suite, [root(suite)], disks=["/scratch"]) for suite in labs.SUITES]
    for host in hosts:
        host.wait_running()
    for host, other in zip(hosts, reversed(hosts), strict=True):
        assert host.run("getent", "hosts", other.name).split()[0] == other.address
        assert host.run("findmnt", "-no", "TARGET", "/scratch") == "/scratch\n"
        # A port without a listener refuses at once: packets come and go.
        words = ["bash", "-c", f"exec 3<>/dev/tcp/{other.address}/9"]
        assert "Connection refused" in host.try_run(*words).stderr


def test_hosts_do_not_touch_the_machine(lab: Lab) -> None:
    """Promise: what a host does to its devices, names and parameters stays in it."""
    places = [Path(place) for place in ("/dev/null", "/etc/hosts", "/etc/hostname")]
    before = [place.stat() for place in places]
    host = lab.host("d13", [root("trixie")])
    lab.host("d12", [root("bookworm")], is_started=False)
    host.wait_running()
    host.run("chmod", "600", "/dev/null")
    assert host.try_run("sysctl", "-w", "vm.swappiness=1").returncode != 0
    assert "d12" in host.read("/etc/hosts")
    after = [place.stat() for place in places]
    assert [(s.st_mode, s.st_mtime) for s in after] == [(s.st_mode, s.st_mtime) for s in before]


def test_files_outlive_a_crash(lab: Lab) -> None:
    """Promise: a host that is killed keeps its files, and boots again."""
    host = lab.host("d12", [root("bookworm")])
    host.wait_running()
    host.write("/srv/kept", "kept\n")
    host.kill()
    host.start()
    host.wait_running()
    assert host.read("/srv/kept") == "kept\n"
    host.stop()
    assert not host.is_up


def test_nothing_outlives_a_killed_test() -> None:
    """Promise: a test that is killed leaves no process, and its files go with the next lab."""
    victim = subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(root("bookworm"))],
        cwd=labs.HERE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with victim:
        assert victim.stdout is not None
        directory, init = victim.stdout.readline().split()
        victim.send_signal(signal.SIGKILL)
    until = time.monotonic() + 20
    while Path(f"/proc/{init}").exists():
        assert time.monotonic() < until, "the first process of the host lives on"
        time.sleep(0.05)
    assert Path(directory).is_dir()
    with Lab():
        assert not Path(directory).exists()
    assert not list(labs.cgroup_base().glob(f"penstock-lab-{Path(directory).name}"))


def test_ssh_reaches_hosts(lab: Lab) -> None:
    """Promise: the key of a lab logs in to its hosts as root, and their keys are known."""
    host = lab.host("d13", [root("trixie", *labs.SSH)])
    host.wait_running()
    host.allow_ssh()
    done = lab.control(
        [
            "ssh",
            "-F",
            "/dev/null",
            "-o",
            f"UserKnownHostsFile={lab.known_hosts()}",
            "-o",
            "BatchMode=yes",
            "-i",
            str(lab.ssh_key()),
            f"root@{host.address}",
            "hostname",
        ]
    )
    assert done.stdout == "d13\n", done.stderr
