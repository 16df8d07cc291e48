"""Tests of a host behind ssh. The ssh is a script that runs commands on this host."""

import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
import time
import unittest
from unittest import mock

from bench import cli
from bench.base.processes import Failed, free_port
from bench.hosts import movers, place, remote, rounds, shell

SSH = """\
#!/bin/sh
# Runs the command in a session of its own, as sshd does: the end of ssh does not end it.
if [ "$1" = -G ]; then echo 'hostname 127.0.0.1'; exit; fi
shift
exec setsid --wait sh -c "$*"
"""
BROKEN_SSH = "#!/bin/sh\necho 'no route to host' >&2\nexit 255\n"
SILENT = "read line < {}"
"""A script that has no answer, with a FIFO that nobody writes to."""
SHORT_S = 0.2
"""A time limit that a question without an answer breaks."""
LISTEN = "import socket, sys; socket.create_server(('', int(sys.argv[1]))).accept()"


def listener(port: int) -> str:
    """A command of a server that ends with its first connection."""
    return shlex.join([sys.executable, "-c", LISTEN, str(port)])


def is_running(number: int) -> bool:
    """Whether a process is there, and no zombie whose parent has gone."""
    try:
        with open(f"/proc/{number}/stat") as stat:
            return stat.read().rpartition(") ")[2][0] not in "XZ"
    except FileNotFoundError:
        return False


class Case(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.ssh = self.path("ssh")
        self.write_ssh(SSH)
        os.mkfifo(self.path("fifo"))
        self.addCleanup(self.end_silent)
        self.silent = SILENT.format(shlex.quote(self.path("fifo")))
        self.local = shell.LocalHost()
        self.addCleanup(self.local.close)
        self.target = self.path("target")
        os.mkdir(self.target)

    def path(self, *names: str) -> str:
        return os.path.join(self.root, *names)

    def write_ssh(self, text: str) -> None:
        with open(self.ssh, "w") as out:
            out.write(text)
        os.chmod(self.ssh, 0o755)

    def end_silent(self) -> None:
        """Lets a shell that no test has ended read the end of the FIFO."""
        os.close(os.open(self.path("fifo"), os.O_RDWR | os.O_NONBLOCK))

    def listens(self, port: int) -> bool:
        return shell.is_listening(shell.sockets(self.local), port)


class Questions(Case):
    def setUp(self) -> None:
        super().setUp()
        self.host = remote.RemoteHost([self.ssh], "far")
        self.addCleanup(self.host.close)

    def test_a_question_after_a_time_out_has_its_own_answer(self) -> None:
        """Promise: no late answer is taken for that of another question."""
        with self.assertRaisesRegex(Failed, "over the time limit"):
            self.host.ask(f"echo $$ > {self.path('asked')}; {self.silent}; echo late", SHORT_S)
        self.assertEqual([self.host.ask(f"echo {word}") for word in "ab"], ["a\n", "b\n"])
        with open(self.path("asked")) as asked:
            self.assertFalse(is_running(int(asked.read())))

    def test_an_interrupted_question_is_as_one_without_an_answer(self) -> None:
        """Promise: after Ctrl-C the removal of the directories is answered right."""
        with (
            mock.patch("bench.hosts.remote.select.select", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.host.ask("echo late")
        self.assertEqual(self.host.ask("echo next"), "next\n")

    def test_a_failed_script_keeps_the_shell(self) -> None:
        """Promise: an exit code is no lost answer, and costs no other log-in."""
        before = self.host.shell
        with self.assertRaisesRegex(Failed, "no such thing"):
            self.host.ask("echo no such thing >&2; (exit 3)")
        self.assertEqual(self.host.ask("echo next"), "next\n")
        self.assertIs(self.host.shell, before)

    def test_a_connection_that_ends_is_replaced(self) -> None:
        """Promise: the end of a connection fails one question, and no later one."""
        with self.assertRaisesRegex(Failed, "the connection has ended"):
            self.host.ask("kill -9 $$")
        self.assertEqual(self.host.ask("echo next"), "next\n")

    def test_what_was_waited_for_too_long_is_ended(self) -> None:
        """Promise: the end of a run does not wait behind the question that timed out."""
        port = free_port()
        number = self.host.start(f"exec {listener(port)}", self.path("log"))
        shell.wait_listening(self.host, port)
        with self.assertRaisesRegex(Failed, "over the time limit"):
            self.host.wait(number, time.monotonic() + SHORT_S)
        self.host.stop()
        self.assertFalse(self.listens(port))
        self.assertEqual(self.host.ask("echo next"), "next\n")

    def test_a_pipe_is_ended_whole(self) -> None:
        """Promise: of `nc -l | tar -x` neither part stays, though another shell ends them."""
        port = free_port()
        self.host.start(f"{listener(port)} | {self.silent}", self.path("log"))
        shell.wait_listening(self.host, port)
        with self.assertRaises(Failed):
            self.host.ask(self.silent, SHORT_S)
        self.host.stop()
        self.assertFalse(self.listens(port))

    def test_a_server_whose_number_is_unknown_is_ended(self) -> None:
        """Promise: a server is ended even if the answer to its start was lost."""
        port = free_port()
        start = f"setsid {listener(port)} > {self.path('log')} 2>&1 &"
        with self.assertRaises(Failed):
            self.host.ask(f"{start}\n{self.silent}", SHORT_S)
        shell.wait_listening(self.local, port)
        self.host.ask("true")
        self.assertFalse(self.listens(port))

    def test_a_process_of_a_lost_shell_has_no_exit_code(self) -> None:
        """Promise: the shell that did not start a process makes no exit code up."""
        number = self.host.start("exit 0", self.path("log"))
        with self.assertRaises(Failed):
            self.host.ask(self.silent, SHORT_S)
        with self.assertRaisesRegex(Failed, "its exit code went with the connection"):
            self.host.wait(number, time.monotonic() + 30)

    def test_a_host_that_is_back_is_used_again(self) -> None:
        """Promise: a host that cannot be reached for a while fails questions only meanwhile."""
        self.write_ssh(BROKEN_SSH)
        with self.assertRaises(Failed):
            self.host.ask(self.silent, SHORT_S)
        with self.assertRaisesRegex(Failed, "no route to host"):
            self.host.ask("echo next")
        self.write_ssh(SSH)
        self.assertEqual(self.host.ask("echo next"), "next\n")

    def test_a_host_without_a_program_is_told(self) -> None:
        """Promise: the error names the program that the other host lacks."""
        with (
            mock.patch("bench.hosts.remote.NEEDS", "bash no-such-program"),
            self.assertRaisesRegex(Failed, "cannot be used by ssh: no no-such-program"),
        ):
            remote.RemoteHost([self.ssh], "far")


class Places(Case):
    def setUp(self) -> None:
        super().setUp()
        target = place.Target("far", self.target)
        self.place = place.Place(target, [self.ssh], None, "bench-1")

    def test_the_own_directory_is_removed_after_a_time_out(self) -> None:
        """Promise: what a comparison made at the other host is gone at its end."""
        out, _ = self.place.clear()
        port = free_port()
        self.place.there.start(f"exec {listener(port)}", os.path.join(out, "log"))
        shell.wait_listening(self.place.there, port)
        with self.assertRaises(Failed):
            self.place.there.ask(self.silent, SHORT_S)
        self.place.close()
        self.assertEqual(os.listdir(self.target), [])
        self.assertFalse(os.path.exists(self.place.work))
        self.assertFalse(self.listens(port))

    def test_a_host_that_is_gone_at_the_end_is_warned_of(self) -> None:
        """Promise: the end of a comparison names what it has left, and hides no error."""
        self.place.there.start("true", os.path.join(self.place.base, "log"))
        with self.assertRaises(Failed):
            self.place.there.ask(self.silent, SHORT_S)
        self.write_ssh(BROKEN_SSH)
        with contextlib.redirect_stderr(io.StringIO()) as err:
            self.place.close()
        self.assertRegex(err.getvalue(), "far: processes may still run: .*no route to host")
        self.assertRegex(err.getvalue(), "bench-1 at far is not removed: .*no route to host")
        self.assertFalse(os.path.exists(self.place.work))


class Ends(unittest.TestCase):
    def test_a_run_keeps_its_first_error(self) -> None:
        """Promise: processes that cannot be ended do not hide why a run failed."""
        there, here = mock.Mock(), mock.Mock()
        there.name, there.stop.side_effect = "far", Failed("no route")
        own = mock.Mock(there=there, here=here)
        all_rounds = rounds.Rounds(own, mock.Mock(), [], mock.Mock())
        run = mock.Mock(error="exit code 1")
        with mock.patch("bench.hosts.rounds.replace", side_effect=lambda _, error: error):
            error = all_rounds.ended(run)
        self.assertEqual(error, "exit code 1; processes at far may still run: no route")
        here.stop.assert_called_once()


class Comparison(Case):
    def test_a_mover_that_hangs_loses_no_other_run_and_leaves_no_port(self) -> None:
        """Promise: after a time-out the next runs are good, and nothing listens any more."""
        ports: list[int] = []

        def hang(job: movers.Job) -> movers.Plan:
            ports.append(job.port(job.there))
            return movers.Plan("true", (job.serve(job.there, listener(ports[0]), ports[0]),))

        def copy(job: movers.Job) -> movers.Plan:
            return movers.Plan(f"cp -a {shlex.quote(job.source)}/. {shlex.quote(job.out)}")

        os.mkdir(self.path("source"))
        with open(self.path("source", "f"), "w") as out:
            out.write("text")
        free = free_port()
        words = ["rivals", "--source", self.path("source"), "--target", f"far:{self.target}"]
        words += ["--ssh", self.ssh, "--rivals", "hang,copy", "--out", self.path("out")]
        words += ["--repeats", "2", "--no-warm-up", "--limit", "3", "--ports", f"{free}-{free}"]
        # By this seed `hang` is the first of the first round.
        words += ["--seed", "1"]
        self.assertEqual(rounds.order(1, "source", 1, ["hang", "copy"])[0], "hang")
        own = {
            name: movers.Mover(plan, (), (), "no", "no", "no")
            for name, plan in (("hang", hang), ("copy", copy))
        }
        with (
            mock.patch.dict(movers.MOVERS, own),
            mock.patch("bench.commands.rivals.end_on_signals"),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as err,
        ):
            code = cli.main(words)
        self.assertEqual(code, 1)
        with open(self.path("out", "rivals.jsonl")) as lines:
            runs = [json.loads(line) for line in lines][1:]
        self.assertEqual(len(runs), 4)
        for run in runs:
            hung = run["mover"] == "hang"
            self.assertEqual(run["error"], "over the time limit" if hung else None)
            self.assertEqual(run["verified"], None if hung else True)
        self.assertFalse(self.listens(free))
        self.assertEqual(os.listdir(self.target), [])
        self.assertNotIn("warning", err.getvalue())


if __name__ == "__main__":
    unittest.main()
