"""The script that restarts a daemon after an upgrade, with stand-ins for what it calls."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "restart.sh"
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>{calls}
case "$1" in
is-active) echo {unit} ;;
restart) exit {restart} ;;
esac
"""
PENSTOCK = """#!/bin/sh
case "$*" in *--wait*) [ -z "{hang}" ] || trap 'echo stopped >>{calls}; exit 143' TERM ;; esac
echo "penstock $*" >>{calls}
case "$1 $2" in
"config show") echo 'peer   "dtn2"   default' ;;
"peer list")
    echo 'PEER  STATE'
    printf '{peers}'
    ;;
"peer drain")
    case "$*" in
    *--wait*)
        [ -z "{hang}" ] || while :; do sleep 0.05; done
        exit {wait}
        ;;
    *--undo*) ;;
    *) exit {drain} ;;
    esac
    ;;
esac
"""
TWO = r"dtn1  up 3 h, controller 2 h\ndtn2  up 3 h\n"
DRAINED = r"dtn1  up 3 h\ndtn2  up 3 h, draining 1 h\n"


class Restart:
    """The script with stand-ins in a directory, for what it calls and for /run."""

    def __init__(self, directory: Path, peers: str, *, seconds: str = "60", **how: object) -> None:
        self.log = directory / "calls"
        self.mark = directory / "mark"
        self.log.touch()
        answers = {"unit": "active", "drain": 0, "wait": 0, "restart": 0, "hang": "", **how}
        for name, text in (("systemctl", SYSTEMCTL), ("penstock", PENSTOCK)):
            script = directory / name
            script.write_text(text.format(calls=self.log, peers=peers, **answers))
            script.chmod(0o755)
        self.environment = {
            **os.environ,
            "PATH": f"{directory}:{os.environ['PATH']}",
            "PENSTOCK_DRAIN_SECONDS": seconds,
            "PENSTOCK_RESTART_MARK": str(self.mark),
        }

    def start(self) -> subprocess.Popen[str]:
        """Starts the script."""
        # A shell cannot trap what it was started with as ignored, as under nohup.
        words = ["env", "--default-signal", "sh", str(SCRIPT)]
        return subprocess.Popen(words, env=self.environment, stderr=subprocess.PIPE, text=True)

    def run(self, status: int = 0) -> str:
        """Runs the script, which ends with a status, and returns what it says."""
        script = self.start()
        said = script.communicate()[1]
        assert script.returncode == status, said
        return said

    @property
    def calls(self) -> list[str]:
        """What the script has called, but for questions and the count of failed starts."""
        questions = (
            "systemctl is-active",
            "systemctl reset-failed",
            "penstock config",
            "penstock peer list",
        )
        lines = self.log.read_text().splitlines()
        return [line for line in lines if not line.startswith(questions)]


RESTART = "systemctl restart penstock.service"
UNDO = "penstock peer drain dtn2 --undo"
DRAIN = [
    "penstock peer drain dtn2",
    "penstock peer drain dtn2 --wait --timeout 60",
    RESTART,
    UNDO,
]


def test_a_peer_of_several_is_drained(tmp_path: Path) -> None:
    """Promise: at a site of several peers, the others take the work, and the peer gets work
    again (E20)."""
    restart = Restart(tmp_path, TWO)
    restart.run()
    assert restart.calls == DRAIN
    assert not restart.mark.exists()


def test_a_wait_that_is_over_ends_in_a_restart(tmp_path: Path) -> None:
    """Promise: work that does not end in time does not keep the old program."""
    restart = Restart(tmp_path, TWO, wait=1)
    restart.run()
    assert restart.calls == DRAIN


def test_a_drain_without_an_answer_is_ended(tmp_path: Path) -> None:
    """Promise: a drain that may have been granted, though its request failed, is ended."""
    restart = Restart(tmp_path, TWO, drain=1)
    restart.run()
    assert restart.calls == [DRAIN[0], RESTART, UNDO]


@pytest.mark.parametrize(
    ("peers", "seconds"),
    [(r"dtn2  up 3 h\n", "60"), (TWO, "0"), (DRAINED, "60"), ("", "60")],
    ids=["one peer", "no wait", "drained before", "no answer"],
)
def test_others_are_restarted(tmp_path: Path, peers: str, seconds: str) -> None:
    """Promise: a site of one peer is not drained, and one drained by hand stays so (E20)."""
    restart = Restart(tmp_path, peers, seconds=seconds)
    restart.run()
    assert restart.calls == [RESTART]


@pytest.mark.parametrize("unit", ["inactive", "failed", "activating"])
def test_a_daemon_that_does_not_run_stays_so(tmp_path: Path, unit: str) -> None:
    """Promise: an upgrade starts nothing."""
    restart = Restart(tmp_path, TWO, unit=unit)
    restart.run()
    assert restart.calls == []


@pytest.mark.parametrize("unit", ["active", "failed", "activating"])
def test_a_failed_restart_is_mended_by_the_next(tmp_path: Path, unit: str) -> None:
    """Promise: a daemon that does not start again leaves the peer drained, and says how to end
    that. The next restart starts it, and ends the drain (E20)."""
    restart = Restart(tmp_path, TWO, restart=1)
    said = restart.run(status=1)
    assert restart.calls == DRAIN[:3]
    assert UNDO in said
    again = Restart(tmp_path, DRAINED, unit=unit)
    again.log.write_text("")
    again.run()
    assert again.calls == [RESTART, UNDO]
    assert not again.mark.exists()
    # systemd may have given it up, and would refuse the start.
    lines = again.log.read_text().splitlines()
    assert lines.index("systemctl reset-failed penstock.service") < lines.index(RESTART)


@pytest.mark.parametrize("unit", ["failed", "activating"])
def test_a_failed_restart_without_a_drain_is_mended(tmp_path: Path, unit: str) -> None:
    """Promise: the daemon of a site of one peer that does not start again, as with an older release
    that refuses its state, is started by the next installation (E20)."""
    one = r"dtn2  up 3 h\n"
    said = Restart(tmp_path, one, restart=1).run(status=1)
    assert UNDO not in said
    again = Restart(tmp_path, "", unit=unit)
    again.log.write_text("")
    again.run()
    assert again.calls == [RESTART]
    assert not again.mark.exists()


def test_a_mark_of_a_drain_that_has_ended_is_none(tmp_path: Path) -> None:
    """Promise: a peer that somebody has undrained since is drained and undrained as any other."""
    restart = Restart(tmp_path, TWO)
    restart.mark.write_text("dtn2\n")
    restart.run()
    assert restart.calls == DRAIN


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_drain(tmp_path: Path, number: signal.Signals) -> None:
    """Promise: an upgrade that is interrupted while the others take the work leaves the peer
    undrained, and the daemon with the program that it has (E20)."""
    restart = Restart(tmp_path, TWO, hang="yes")
    script = restart.start()
    while len(restart.calls) < 2:
        assert script.poll() is None
        time.sleep(0.01)
    script.send_signal(number)
    said = script.communicate()[1]
    assert script.returncode == 128 + number
    assert restart.calls == [*DRAIN[:2], "stopped", UNDO]
    assert "interrupted" in said
    assert not restart.mark.exists()
