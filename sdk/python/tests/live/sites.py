"""Two sites with a real daemon each, on this host."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock import Penstock

REPOSITORY = Path(__file__).resolve().parents[4]
READY_S = 60.0


def program() -> Path:
    """The program under test; skips the test where there is none."""
    path = Path(os.environ.get("PENSTOCK_BIN", REPOSITORY / "target/debug/penstock"))
    if not path.exists():
        reason = f"there is no {path}: `cargo build --package penstock` makes it"
        if "CI" in os.environ:
            pytest.fail(reason)
        pytest.skip(f"SKIPPED: {reason}")
    return path


class Site:
    """A site of one host. Its daemon can be killed and started again at the same address."""

    def __init__(self, directory: Path, name: str, store: str, *, web: bool = False) -> None:
        self.directory = directory / name
        self.store = directory / f"{name}-{store}"
        self.store.mkdir()
        self._log = directory / f"{name}.log"
        self._listen = "127.0.0.1:0"
        self._daemon: subprocess.Popen[bytes] | None = None
        self.run(
            "site", "init", "--name", name, "--listen", self._listen, "--store",
            f"{store}={self.store}", *(["--web=127.0.0.1:0"] if web else []),
        )  # fmt: skip

    @property
    def url(self) -> str:
        return f"unix://{self.directory}/penstock.sock"

    @property
    def web_url(self) -> str:
        """Where the daemon that runs now serves the API over HTTPS."""
        address = re.findall(r"served over HTTPS\b.*?address=(\S+)", self._log.read_text())[-1]
        return f"https://{address}"

    def client(self, **arguments: Any) -> Penstock:
        return Penstock(self.url, **arguments)

    def configure(self, table: str) -> None:
        """Adds a table to the configuration, for the next start."""
        with (self.directory / "penstock.toml").open("a") as file:
            file.write(f"\n{table}\n")

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Runs a command of the program, and returns what it prints."""
        command = [program(), *arguments, "--dir", self.directory]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def start(self) -> None:
        """Starts the daemon, and returns when it is ready."""
        with self._log.open("ab") as log:
            self._daemon = subprocess.Popen(
                [program(), "daemon", "--dir", self.directory, "--listen", self._listen],
                stdout=subprocess.PIPE,
                stderr=log,
            )
        stdout = self._daemon.stdout
        assert stdout is not None
        line = stdout.readline().decode()
        assert line.startswith("ready:"), f"{line}{self._log.read_text()}"
        self._listen = line.split()[-1]

    def kill(self) -> None:
        """Kills the daemon as a power cut would, but for the page cache."""
        assert self._daemon is not None
        self._daemon.kill()
        self._reap()

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        """Ends the daemon, if it runs."""
        if self._daemon is not None and self._daemon.poll() is None:
            self._daemon.terminate()
            self._reap()

    def _reap(self) -> None:
        assert self._daemon is not None
        self._daemon.wait(READY_S)
        if self._daemon.stdout is not None:
            self._daemon.stdout.close()


def data_set(directory: Path, files: int, size: int) -> None:
    """Makes files of `size` bytes that differ from each other."""
    directory.mkdir(parents=True)
    for number in range(files):
        (directory / f"{number:04}").write_bytes(number.to_bytes(4) * (size // 4))


def assert_same(one: Path, other: Path) -> None:
    """Compares two directories of files byte by byte."""
    names = sorted(path.name for path in one.iterdir())
    assert sorted(path.name for path in other.iterdir()) == names
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
