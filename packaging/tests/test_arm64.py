"""The static program for arm64, under qemu-user: a copy, a copy over ssh, and a daemon."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

import packages
from conftest import cannot_run
from lab import TARGET, CannotRunError

BUILT = TARGET / "aarch64-unknown-linux-musl" / "release" / "penstock"


@pytest.fixture
def arm64(tmp_path: Path) -> Path:
    """Returns a script that runs the program for arm64."""
    try:
        packages.need("qemu-aarch64-static")
    except CannotRunError as error:
        cannot_run(error)
    if not BUILT.exists():
        # It takes minutes to build: only `make packages` does.
        print("SKIPPED: there is no program for arm64: make packages")  # noqa: T201
        pytest.skip("there is no program for arm64: make packages")
    script = tmp_path / "bin" / "penstock"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec qemu-aarch64-static {BUILT} "$@"\n')
    script.chmod(0o755)
    return script


def make_files(directory: Path) -> None:
    """Makes some files, one of them of several pieces."""
    for number in range(20):
        file = directory / f"d{number % 3}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(hashlib.sha256(str(number).encode()).digest() * (number + 1))
    (directory / "large").write_bytes(bytes(range(256)) * (9 << 12))


def same(one: Path, other: Path) -> bool:
    """Whether two directories have the same files."""
    return subprocess.run(["diff", "-r", str(one), str(other)]).returncode == 0


def test_copy(arm64: Path, tmp_path: Path) -> None:
    """Promise: the program for arm64 copies a tree, and another run of it finds nothing to do."""
    source, target = tmp_path / "source", tmp_path / "target"
    make_files(source)
    packages.run(arm64, "copy", f"{source}/", f"{target}/")
    assert same(source, target)
    packages.run(arm64, "copy", "--sync", f"{source}/", f"{target}/")


def test_copy_over_ssh(arm64: Path, program: Path, tmp_path: Path) -> None:
    """Promise: hosts of two kinds copy over ssh, in both directions."""
    source, there, back = (tmp_path / name for name in ("source", "there", "back"))
    make_files(source)
    with sshd(tmp_path) as port:
        words = [
            "-o",
            f"UserKnownHostsFile={tmp_path}/known",
            "-o",
            f"IdentityFile={tmp_path}/user",
        ]
        ssh = f"ssh -F none -p {port} {' '.join(words)}"
        options = ["--ssh", ssh, "--remote-penstock", str(arm64)]
        packages.run(program, "copy", *options, f"{source}/", f"127.0.0.1:{there}/")
        assert same(source, there)
        packages.run(program, "copy", *options, f"127.0.0.1:{there}/", f"{back}/")
        assert same(source, back)


@contextlib.contextmanager
def sshd(directory: Path) -> Generator[int]:
    """Runs an sshd of its own, and gives its port."""
    for key in ("host", "user"):
        packages.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", directory / key)
    port = free_port()
    host = (directory / "host.pub").read_text()
    (directory / "known").write_text(f"[127.0.0.1]:{port} {host}")
    configuration = directory / "sshd_config"
    configuration.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/user.pub\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin yes\n"
    )
    # sshd of Debian wants it if it is root, and its service makes it.
    Path("/run/sshd").mkdir(exist_ok=True)
    with process("/usr/sbin/sshd", "-D", "-e", "-f", str(configuration)):
        wait_for_port(port)
        yield port


def test_daemon(arm64: Path, program: Path, tmp_path: Path) -> None:
    """Promise: a daemon for arm64 and one for x86-64 pair, and move a data set in each
    direction."""
    source = tmp_path / "a" / "data" / "set"
    make_files(source)
    (tmp_path / "b" / "data").mkdir(parents=True)
    with contextlib.ExitStack() as daemons:
        for name, site in (("a", arm64), ("b", program)):
            start_site(daemons, site, tmp_path / name, name)
        token = packages.run(arm64, "site", "pair", "--dir", tmp_path / "a" / "site")
        token = next(word for word in token.split() if word.startswith("pst1:"))
        grants = ["--dir", str(tmp_path / "b" / "site")]
        packages.run(program, "site", "pair", *grants, token)
        submit = [program, "transfer", "submit", "--wait", *grants]
        packages.run(*submit, "a:data/set", "b:data/")
        assert same(source, tmp_path / "b" / "data" / "set")
        back = [arm64, "transfer", "submit", "--wait", "--dir", tmp_path / "a" / "site"]
        packages.run(*back, "b:data/set", "a:data/back/")
        assert same(source, tmp_path / "a" / "data" / "back" / "set")


def start_site(daemons: contextlib.ExitStack, program: Path, place: Path, name: str) -> None:
    """Makes a site of one store, and starts its daemon."""
    port, site = free_port(), place / "site"
    words = [program, "site", "init", "--name", name, "--store", f"data={place}/data"]
    listen = ["--listen", f"127.0.0.1:{port}", "--advertise", f"127.0.0.1:{port}"]
    packages.run(*words, *listen, "--dir", site)
    daemons.enter_context(process(str(program), "daemon", "--dir", str(site)))
    wait_for_port(port)
    # Commands meet the daemon there, which it makes after the port.
    wait_until(f"{site}/penstock.sock", (site / "penstock.sock").exists)


@contextlib.contextmanager
def process(*words: str) -> Generator[None]:
    """Runs a program until the end of the block."""
    # The kernel ends it with this process, however that ends.
    running = subprocess.Popen(
        ["setpriv", "--pdeathsig", "TERM", "--", *words],
        stdout=sys.stderr,
        stdin=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        running.terminate()
        try:
            running.wait(timeout=30)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def free_port() -> int:
    """Returns a port that no outgoing connection takes (ip_local_port_range, ip(7))."""
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in range(low - 1, 1024, -1):
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def wait_for_port(port: int) -> None:
    """Waits until a process listens."""

    def listens() -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    wait_until(f"a listener at port {port}", listens)


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Waits until a question is answered with yes."""
    end = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < end, f"{what}: not there"
        time.sleep(0.05)
