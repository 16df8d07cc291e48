"""Tests of the command line, and of how a comparison goes without any mover of the network."""

import contextlib
import importlib
import io
import json
import os
import shutil
import tempfile
import unittest
from unittest import mock

from bench import cli
from bench.hosts import movers


def bench(*words: str) -> tuple[int, str, str]:
    """Runs a command: exit code, output, errors."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = cli.main(list(words))
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


class CommandLine(unittest.TestCase):
    def test_help_has_every_command_and_each_has_its_own(self) -> None:
        code, told, _ = bench("--help")
        self.assertEqual(code, 0)
        for name in cli.COMMANDS:
            with self.subTest(name):
                self.assertIn(f"\n  {name} ", told)
                code, of_command, _ = bench(name, "--help")
                self.assertEqual(code, 0)
                self.assertIn(f"penstock-bench {name}", of_command)

    def test_every_module_is_a_command(self) -> None:
        package = importlib.import_module("bench.commands")
        there = {name[:-3] for name in os.listdir(package.__path__[0]) if name.endswith(".py")}
        self.assertEqual(there - {"__init__"}, set(cli.COMMANDS))

    def test_an_unknown_command_is_wrong_usage(self) -> None:
        code, _, told = bench("rival")
        self.assertEqual(code, 2)
        self.assertIn("no command `rival`; there are: rivals", told)


class Rivals(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        for name in ("source", "target"):
            os.mkdir(self.path(name))
        for number in range(3):
            with open(self.path("source", f"f{number}"), "w") as out:
                out.write(f"text {number}")
        state = mock.patch("bench.commands.rivals.end_on_signals")
        state.start()
        self.addCleanup(state.stop)

    def path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def rivals(self, *words: str) -> tuple[int, str, str]:
        return bench(
            "rivals",
            "--source",
            self.path("source"),
            "--target",
            self.path("target"),
            "--out",
            self.path("out"),
            "--repeats",
            "1",
            *words,
        )

    def lines(self) -> list[dict[str, object]]:
        with open(self.path("out", "rivals.jsonl")) as lines:
            return [json.loads(line) for line in lines]

    def test_two_movers_are_compared_verified_and_reported(self) -> None:
        code, told, err = self.rivals(
            "--rivals", "cp,tar-nc,scp", "--durable", "--seed", "7", "--repeats", "2"
        )
        self.assertEqual(code, 0, told + err)
        first, *runs = self.lines()
        able = ["cp", "tar-nc"] if shutil.which("nc") else ["cp"]
        self.assertEqual((first["kind"], first["seed"]), ("bench", 7))
        self.assertEqual(sorted(first["movers"]), able)
        self.assertEqual(first["missing"]["scp"], ["it needs two hosts"])
        self.assertEqual(len(runs), 3 * len(able))
        for run in runs:
            self.assertEqual((run["kind"], run["verified"], run["error"]), ("run", True, None))
            self.assertEqual((run["files"], run["bytes"]), (3, 18))
            self.assertGreaterEqual(run["wall_s"], run["sync_s"])
        with open(self.path("out", "rivals.md")) as report:
            self.assertIn("| cp | ", report.read())
        self.assertEqual(os.listdir(self.path("target")), [])

    def test_a_mover_that_damages_data_is_found(self) -> None:
        def damage(job: movers.Job) -> movers.Plan:
            return movers.Plan(f"cp -a {job.source}/. {job.out} && echo more > {job.out}/f1")

        broken = movers.Mover(damage, ("cp",), (), "no", "no", "no")
        with mock.patch.dict(movers.MOVERS, {"cp": broken}):
            code, told, _ = self.rivals("--rivals", "cp", "--no-warm-up")
        self.assertEqual(code, 1)
        self.assertIn("- cp, round 1: names or sizes of files differ", told)
        self.assertEqual(os.listdir(self.path("target")), [])

    def test_a_mover_that_fails_says_why_and_the_others_run(self) -> None:
        options = ("--options", "cp=--no-such-option")
        code, told, _ = self.rivals("--rivals", "cp", "--no-warm-up", *options)
        self.assertEqual(code, 1)
        self.assertIn("exit code 1: cp: unrecognized option", told)

    def test_what_was_measured_is_not_written_over(self) -> None:
        self.assertEqual(self.rivals("--rivals", "cp", "--no-warm-up")[0], 0)
        code, _, err = self.rivals("--rivals", "cp", "--no-warm-up")
        self.assertEqual(code, 1)
        self.assertIn("name another directory", err)

    def test_wrong_usage_says_what_is_right(self) -> None:
        for words, said in (
            (("--rivals", "ftp"), "no mover `ftp`; there are: penstock, rsync"),
            (("--ports", "9-1"), "is no range of ports"),
            (("--options", "rsync -z"), "is not MOVER=OPTIONS"),
            (("--sets", "huge"), "no data set `huge`"),
        ):
            with self.subTest(words):
                code, _, err = self.rivals(*words)
                self.assertEqual(code, 2)
                self.assertIn(said, err)

    def test_movers_that_open_a_port_to_anybody_need_to_be_named_for_two_hosts(self) -> None:
        open_ones = {name for name, mover in movers.MOVERS.items() if mover.is_open}
        self.assertEqual(open_ones, {"tar-nc", "gridftp", "xrootd"})


if __name__ == "__main__":
    unittest.main()
