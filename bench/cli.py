"""The command line: the commands, what each measures, and how long it takes."""

import importlib
import subprocess
import sys
from dataclasses import dataclass

from bench.base.processes import Failed


@dataclass(frozen=True)
class Command:
    """A command of the module with its name in `bench.commands`."""

    measures: str
    takes: str


COMMANDS = {
    "rivals": Command(
        "movers that are installed, on one host or from this one to another by ssh",
        "repeats x movers x one transfer; --quick: 3 s",
    ),
    "loopback": Command(
        "Penstock beside rivals on this host, judged by our targets", "1 hour; --quick: 10 s"
    ),
    "wan": Command(
        "two hosts of the laboratory with delay and loss, judged by our targets",
        "40 minutes; --quick: 3 minutes",
    ),
    "scale": Command("sites of 1 to 4 peers with 1 to 2 cards, in the laboratory", "2 hours"),
    "disk": Command("files onto ext4 and XFS, durable, beside fio and a plain mover", "1 hour"),
    "storage": Command(
        "`penstock bench storage` beside fio and a plain program, on ext4 and XFS", "1 hour"
    ),
    "flat": Command("whether the cost of a file stays the same up to 10^7 files", "10 minutes"),
    "grid": Command("automatic lanes and piece sizes beside sixteen fixed ones", "40 minutes"),
    "load": Command("the daemon with a long queue and many clients", "15 minutes; --quick: 30 s"),
    "turns": Command("builds of Penstock, or options of one, by turns", "10 minutes a set"),
}
USAGE = "usage: penstock-bench COMMAND [OPTION...]\n       penstock-bench COMMAND --help"


def overview():
    """The help of the whole."""
    lines = [
        USAGE,
        "",
        "Benchmarks of Penstock. Commands, what they measure, how long they take:",
        "",
    ]
    for name, command in COMMANDS.items():
        lines += [f"  {name:<10}{command.measures}", f"  {'':<10}  {command.takes}"]
    return "\n".join(lines)


def main(words):
    """Runs a command; its exit code: 0 if all went well, 1 if a run did not, 2 for wrong usage."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0 if words else 2
    name, *rest = words
    if name not in COMMANDS:
        known = ", ".join(COMMANDS)
        print(f"error: no command `{name}`; there are: {known}\n{USAGE}", file=sys.stderr)
        return 2
    command = importlib.import_module(f"bench.commands.{name}")
    try:
        return command.main(rest) or 0
    except (Failed, subprocess.SubprocessError) as error:
        print(f"error: {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was begun has been ended and removed", file=sys.stderr)
        return 130
