"""Tests of hosts, targets, data sets and comparing, on this host only."""

import os
import tempfile
import time
import unittest

from bench.base.processes import Failed, free_port
from bench.hosts import place, sets, shell, verify

PROC_NET_TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C350 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0100007F:C351 0100007F:5719 01 00000000:00000000 00:00000000 00000000     0        0 2
"""


class Targets(unittest.TestCase):
    def test_a_colon_before_any_slash_names_a_host(self) -> None:
        remote = place.parse_target("me@far:/scratch/")
        self.assertEqual((remote.destination, remote.path), ("me@far", "/scratch"))
        local = place.parse_target("/data/odd:name")
        self.assertEqual((local.destination, local.path), ("", "/data/odd:name"))

    def test_a_host_that_ssh_takes_for_an_option_is_refused(self) -> None:
        for text in ("-oProxyCommand=x:/d", ":/d", "me@:/d", "far:relative"):
            with self.subTest(text), self.assertRaises(ValueError):
                place.parse_target(text)

    def test_settings_of_ssh_name_only_files_that_exist(self) -> None:
        with tempfile.NamedTemporaryFile() as key:
            told = (
                f"hostname 10.0.0.1\nuser me\nport 22\nidentityfile /none\n"
                f"identityfile {key.name}\nuserknownhostsfile /none {key.name}\nciphers x\n"
            )
            known = place.read_settings(told)
        self.assertEqual(known["hostname"], "10.0.0.1")
        self.assertEqual(known["identityfile"], key.name)
        self.assertEqual(known["userknownhostsfile"], key.name)
        self.assertNotIn("ciphers", known)


class Sets(unittest.TestCase):
    def test_names_shapes_and_presets(self) -> None:
        read = sets.parse_sets("small,20x50MiB,3x4K,esnet@3GiB")
        self.assertEqual(read["20x50MiB"], ["--files", "20", "--size", "50M"])
        self.assertEqual(read["3x4K"], ["--files", "3", "--size", "4K"])
        self.assertEqual(read["esnet@3GiB"], ["--preset", "esnet", "--bytes", "3G"])
        self.assertEqual(list(read), ["small", "20x50MiB", "3x4K", "esnet@3GiB"])

    def test_an_unknown_name_is_told_with_those_there_are(self) -> None:
        with self.assertRaisesRegex(ValueError, "large, medium, small, mixed"):
            sets.parse_sets("huge")

    def test_every_named_set_has_a_text(self) -> None:
        self.assertEqual(set(sets.NAMED), set(sets.TEXTS))


class Sockets(unittest.TestCase):
    def test_a_port_of_a_connection_is_used_though_nothing_listens(self) -> None:
        self.assertTrue(shell.is_listening(PROC_NET_TCP, 50000))
        self.assertFalse(shell.is_listening(PROC_NET_TCP, 50001))
        self.assertTrue(shell.is_used(PROC_NET_TCP, 50001))
        self.assertFalse(shell.is_used(PROC_NET_TCP, 50002))

    def test_busy_seconds_leave_out_idle_and_waiting(self) -> None:
        line = "cpu  100 200 300 4000 5000 60 70 80 0 0"
        self.assertAlmostEqual(shell.busy_seconds(line), 7.3)


class Local(unittest.TestCase):
    def setUp(self) -> None:
        self.host = shell.LocalHost()
        self.addCleanup(self.host.close)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name

    def write(self, tree: str, name: str, text: str) -> None:
        path = os.path.join(self.root, tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as out:
            out.write(text)

    def read(self, tree: str, every: int = 1) -> verify.Manifest:
        return verify.manifest(self.host, os.path.join(self.root, tree), every, 30)

    def test_a_failed_script_says_what_it_said(self) -> None:
        with self.assertRaisesRegex(Failed, "no such thing"):
            self.host.ask("echo no such thing >&2; exit 3")

    def test_servers_are_waited_for_and_ended(self) -> None:
        port, log = free_port(), os.path.join(self.root, "log")
        serve = (
            f"exec python3 -c 'import socket; s = socket.create_server((\"\", {port})); s.accept()'"
        )
        number = self.host.start(serve, log)
        shell.wait_listening(self.host, port)
        self.host.stop()
        self.assertFalse(shell.is_listening(shell.sockets(self.host), port))
        self.assertFalse(os.path.exists(f"/proc/{number}/fd"))

    def test_a_failure_before_a_pipe_is_the_exit_code(self) -> None:
        number = self.host.start("false | cat", os.path.join(self.root, "log"))
        self.assertEqual(self.host.wait(number, time.monotonic() + 30), 1)

    def test_equal_trees_are_the_same_whatever_their_order(self) -> None:
        for number in range(300):
            self.write("a", f"d{number % 7}/f {number}", f"text {number}")
        for number in reversed(range(300)):
            self.write("b", f"d{number % 7}/f {number}", f"text {number}")
        self.assertIsNone(verify.compare(self.read("a"), lambda: self.read("b")))

    def test_changed_contents_and_missing_files_are_told_apart(self) -> None:
        for tree, text in (("a", "one"), ("b", "two"), ("c", "one")):
            self.write(tree, "f\nwith a line", text)
        self.write("c", "more", "x")
        expected = self.read("a")
        self.assertEqual(
            verify.compare(expected, lambda: self.read("b")), "contents of files differ"
        )
        self.assertEqual(verify.compare(expected, lambda: self.read("c")), "2 files instead of 1")
        self.assertIn("cannot be compared", str(verify.compare(expected, lambda: self.read("d"))))

    def test_without_contents_only_names_and_sizes_count(self) -> None:
        self.write("a", "f", "one")
        self.write("b", "f", "two")
        self.assertIsNone(verify.compare(self.read("a", 0), lambda: self.read("b", 0)))

    def test_a_sample_is_of_at_most_so_many_files(self) -> None:
        self.assertEqual(verify.step("sample", 10), 1)
        for files in (201, 400, 12_345):
            self.assertLessEqual(files / verify.step("sample", files), verify.SAMPLE_FILES)

    def test_only_the_own_directory_at_the_target_is_touched(self) -> None:
        self.write("target", "precious", "text")
        target = place.Target("", os.path.join(self.root, "target"))
        own = place.Place(target, ["ssh"], None, "bench-1")
        out, work = own.clear()
        self.write("target/bench-1/out", "f", "x")
        own.clear()
        self.assertEqual(os.listdir(out), [])
        self.assertEqual(os.listdir(work), [])
        own.close()
        self.assertEqual(os.listdir(target.path), ["precious"])
        self.assertFalse(os.path.exists(own.work))

    def test_a_directory_that_is_there_is_never_taken(self) -> None:
        self.write("target/bench-1", "precious", "text")
        target = place.Target("", os.path.join(self.root, "target"))
        with self.assertRaisesRegex(Failed, "name one that you may write to"):
            place.Place(target, ["ssh"], None, "bench-1")
        self.assertTrue(os.path.exists(os.path.join(target.path, "bench-1/precious")))


if __name__ == "__main__":
    unittest.main()
