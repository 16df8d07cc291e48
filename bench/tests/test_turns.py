"""Tests of the arguments of `turns`, and of builds for levels, with a cargo that builds nothing."""

import contextlib
import io
import os
import tempfile
import unittest
from unittest import mock

from bench import cli
from bench.base.processes import Failed
from bench.commands import turns
from bench.movers import builds

TRIPLE = "x86_64-unknown-linux-gnu"
CARGO = """\
#!/bin/sh
case $1 in
    metadata) echo '{{"target_directory": "{target}"}}' ;;
    -vV) printf 'cargo 1.95.0\\nhost: {triple}\\n' ;;
    *) echo "$CARGO_ENCODED_RUSTFLAGS|$*" >> {log}; exit {code} ;;
esac
"""


def refused(*words: str) -> str:
    """The error of `turns` for wrong usage."""
    with contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            code = cli.main(["turns", *words])
        except SystemExit as end:
            code = end.code
    assert code == 2, f"exit code {code}"
    return err.getvalue()


class Arguments(unittest.TestCase):
    def test_variants_and_builds_are_compared_in_this_order(self) -> None:
        """Promise: the first variant, which the others are compared with, is the first named."""
        words = ["base=/bin/sh --lanes 2", "--build", "native,v1"]
        with mock.patch("bench.movers.builds.platform.machine", return_value="x86_64"):
            read = turns.read_arguments(words)
        self.assertEqual(read.variants, [("base", ["/bin/sh", "--lanes", "2"])])
        self.assertEqual(read.build, ["native", "v1"])

    def test_sets_that_turns_cannot_move_are_refused(self) -> None:
        """Promise: a set of `loopback` only is wrong usage, and no traceback after a minute."""
        for name in ("mem", "both"):
            with self.subTest(name):
                said = refused("a=/bin/sh", "--sets", f"small,{name}")
                self.assertIn(f"`{name}` is a data set of `penstock-bench loopback` only", said)
        self.assertIn("no data set `huge`; there are: one, large", refused("--sets", "huge"))
        read = turns.read_arguments(["a=/bin/sh", "--sets", "tiny,esnet"])
        self.assertEqual(read.sets, ["tiny", "esnet"])

    def test_wrong_usage_says_what_is_right(self) -> None:
        """Promise: the error names the argument, and what would be right."""
        for words, said in (
            ((), "name what to compare: NAME=BINARY for each variant, or --build"),
            (("penstock",), "`penstock` is not NAME=BINARY"),
            (("new=",), "`new=` is not NAME=BINARY"),
            (("new=/no/penstock",), "no program /no/penstock for `new`: build it first"),
            (("--build", "v9"), "no level `v9`; there are: v1, v2, v3, v4, native"),
            (("native=/bin/sh", "--build", "native"), "there are two variants `native`"),
        ):
            with self.subTest(words):
                self.assertIn(said, refused(*words))

    def test_a_level_that_the_processor_lacks_is_refused(self) -> None:
        """Promise: no build is made that would end with an illegal instruction."""
        v2 = set(builds.LEVELS["v2"].split())
        with (
            mock.patch("bench.movers.builds.platform.machine", return_value="x86_64"),
            mock.patch("bench.movers.builds.processor_flags", return_value=v2),
        ):
            said = refused("--build", "v1,v2,native,v3")
        self.assertIn("a build for v3 cannot run here: this processor lacks abm avx avx2", said)
        self.assertIsNone(builds.missing("v2", "x86_64", v2))
        self.assertIsNone(builds.missing("native", "aarch64", set()))
        self.assertIn("is aarch64", builds.missing("v1", "aarch64", set()) or "")


class Settings(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.checkout = os.path.join(self.root, "checkout")
        self.home = os.path.join(self.root, "home")

    def write(self, folder: str, text: str) -> None:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.toml"), "w") as out:
            out.write(text)

    def rustflags(self, **environment: str) -> list[str]:
        environment = {"CARGO_HOME": self.home, **environment}
        return builds.Configuration(self.checkout, environment).rustflags(TRIPLE)

    def test_arrays_of_all_files_are_joined_and_the_nearest_is_last(self) -> None:
        """Promise: flags of a checkout and of a user both stay, as cargo joins them."""
        self.assertEqual(self.rustflags(), [])
        self.write(self.home, "[build]\nrustflags = ['-C', 'a']")
        self.write(os.path.join(self.root, ".cargo"), "[build]\nrustflags = ['-C', 'b']")
        self.write(os.path.join(self.checkout, ".cargo"), "[build]\nrustflags = ['-C', 'c']")
        self.assertEqual(self.rustflags(), ["-C", "a", "-C", "b", "-C", "c"])
        self.write(os.path.join(self.checkout, ".cargo"), "[build]\nrustflags = '-C d'")
        with self.subTest("a text"):
            self.write(os.path.join(self.root, ".cargo"), "")
            self.write(self.home, "")
            self.assertEqual(self.rustflags(), ["-C", "d"])

    def test_flags_of_a_target_replace_those_of_all_builds(self) -> None:
        """Promise: only the flags that cargo itself would take are added to."""
        text = f"[build]\nrustflags = ['a']\n[target.{TRIPLE}]\nrustflags = ['b']"
        self.write(os.path.join(self.checkout, ".cargo"), text)
        self.assertEqual(self.rustflags(), ["b"])
        name = "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS"
        self.assertEqual(self.rustflags(**{name: "c d"}), ["c", "d"])

    def test_the_environment_replaces_the_files(self) -> None:
        """Promise: RUSTFLAGS are kept, and the files are then ignored, as by cargo."""
        self.write(os.path.join(self.checkout, ".cargo"), "[build]\nrustflags = ['a']")
        self.assertEqual(self.rustflags(RUSTFLAGS="-C b"), ["-C", "b"])
        self.assertEqual(self.rustflags(RUSTFLAGS=""), [])
        encoded = {"CARGO_ENCODED_RUSTFLAGS": "-C\x1fc d", "RUSTFLAGS": "b"}
        self.assertEqual(self.rustflags(**encoded), ["-C", "c d"])

    def test_flags_by_cfg_are_an_error(self) -> None:
        """Promise: flags that are not understood are never dropped in silence."""
        text = "[target.'cfg(unix)']\nrustflags = ['a']"
        self.write(os.path.join(self.checkout, ".cargo"), text)
        with self.assertRaisesRegex(Failed, r"config.toml sets `target.'cfg\(unix\)'.rustflags`"):
            self.rustflags()
        self.assertEqual(self.rustflags(RUSTFLAGS="-C b"), ["-C", "b"])

    def test_a_broken_file_is_named(self) -> None:
        """Promise: the error has the path of the file that cannot be read."""
        self.write(os.path.join(self.checkout, ".cargo"), "[build")
        with self.assertRaisesRegex(Failed, "checkout/.cargo/config.toml: "):
            self.rustflags()


class Builds(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name
        self.target = os.path.join(self.root, "target")
        self.log = os.path.join(self.root, "log")
        patch = mock.patch.dict(os.environ, {"PATH": self.root, "RUSTFLAGS": "-C debuginfo=1"})
        patch.start()
        self.addCleanup(patch.stop)
        for name in ("CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"):
            os.environ.pop(name, None)

    def write_cargo(self, code: int = 0) -> None:
        path = os.path.join(self.root, "cargo")
        with open(path, "w") as out:
            out.write(CARGO.format(target=self.target, triple=TRIPLE, log=self.log, code=code))
        os.chmod(path, 0o755)

    def build(self, *levels: str) -> list[str]:
        with contextlib.redirect_stderr(io.StringIO()):
            builder = builds.Builder()
            return [builder.build(level) for level in levels]

    def test_each_level_has_its_flag_and_a_directory_of_its_own(self) -> None:
        """Promise: the levels differ by `target-cpu` only, and no build replaces another."""
        self.write_cargo()
        paths = self.build("v1", "v3", "native")
        with open(self.log) as lines:
            asked = [line.rstrip("\n").split("|") for line in lines]
        cpus = ("x86-64", "x86-64-v3", "native")
        for level, cpu, path, (flags, words) in zip(
            ("v1", "v3", "native"), cpus, paths, asked, strict=True
        ):
            directory = os.path.join(self.target, "levels", level)
            self.assertEqual(path, os.path.join(directory, "release", "penstock"))
            wanted = ["-C", "debuginfo=1", "-C", f"target-cpu={cpu}"]
            self.assertEqual(flags.split("\x1f"), wanted)
            self.assertIn(f"--package penstock --target-dir {directory}", words)

    def test_without_cargo_the_error_says_so(self) -> None:
        """Promise: the error names cargo, and the next step."""
        with self.assertRaisesRegex(Failed, "--build needs cargo, and PATH has none; `. scripts"):
            self.build("v1")

    def test_a_build_that_fails_is_named(self) -> None:
        """Promise: a failed build ends the command before anything is measured."""
        self.write_cargo(code=101)
        with self.assertRaisesRegex(Failed, "the build for v1 failed with exit code 101"):
            self.build("v1")

    def test_builds_are_variants_after_those_that_are_named(self) -> None:
        """Promise: the command measures the builds that it made."""
        self.write_cargo()
        with (
            mock.patch("bench.commands.turns.memory.Held"),
            mock.patch("bench.commands.turns.Turns") as made,
            mock.patch("bench.commands.turns.end_on_signals"),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            made.return_value.run.return_value = ["a table"]
            words = ["a=/bin/sh", "--build", "native", "--root", self.root, "--sets", "tiny"]
            cli.main(["turns", *words])
        path = os.path.join(self.target, "levels", "native", "release", "penstock")
        self.assertEqual(made.call_args.args[0].variants, [("a", ["/bin/sh"]), ("native", [path])])


if __name__ == "__main__":
    unittest.main()
