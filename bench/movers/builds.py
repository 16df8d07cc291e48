"""Builds of Penstock for levels of a processor, each in a target directory of its own."""

import argparse
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping

from bench.base.processes import Failed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
NATIVE = "native"
LEVELS = {
    "v1": "",
    "v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
    "v3": "abm avx avx2 bmi1 bmi2 f16c fma movbe xsave",
    "v4": "avx512bw avx512cd avx512dq avx512f avx512vl",
}
"""Levels of x86-64 (its psABI, 3.1.1): the flags of /proc/cpuinfo that each adds to the last."""
SEPARATOR = "\x1f"
"""Between the flags in CARGO_ENCODED_RUSTFLAGS."""


def read_levels(text: str) -> list[str]:
    """Reads names of levels, by commas; only those that this processor has."""
    names = [name.strip() for name in text.split(",")]
    known = [*LEVELS, NATIVE]
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"no level `{name}`; there are: {', '.join(known)}")
        lacks = missing(name, platform.machine(), processor_flags())
        if lacks:
            raise argparse.ArgumentTypeError(
                f"a build for {name} cannot run here: this processor {lacks}; leave {name} out"
            )
    return list(dict.fromkeys(names))


def processor_flags() -> set[str]:
    """The flags of the first processor in /proc/cpuinfo."""
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return set()


def missing(level: str, machine: str, flags: set[str]) -> str | None:
    """The reason that a processor cannot run builds for a level, after `this processor`."""
    if level == NATIVE:
        return None
    if machine != "x86_64":
        return f"is {machine}, and the level is of x86-64"
    names = list(LEVELS)
    needed = " ".join(LEVELS[name] for name in names[: names.index(level) + 1]).split()
    lacks = [flag for flag in needed if flag not in flags]
    return f"lacks {' '.join(lacks)}" if lacks else None


class Configuration:
    """The settings of cargo for a directory: its files, and the environment before them.

    <https://doc.rust-lang.org/cargo/reference/config.html> has the places and their order.
    """

    def __init__(self, directory: str, environment: Mapping[str, str]) -> None:
        self.environment = environment
        parents, above = [directory], os.path.dirname(directory)
        while above != parents[-1]:
            parents.append(above)
            above = os.path.dirname(above)
        home = environment.get("CARGO_HOME") or os.path.expanduser("~/.cargo")
        folders = [*(os.path.join(parent, ".cargo") for parent in parents), home]
        self.files: dict[str, dict] = {}
        """By path, the one that counts least first."""
        for folder in reversed(list(dict.fromkeys(folders))):
            for name in ("config", "config.toml"):
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    self.files[path] = read(path)
                    break

    def values(self, *keys: str) -> list:
        """What the files have for a key, and then the environment."""
        found = []
        for table in self.files.values():
            for key in keys:
                table = table.get(key) if isinstance(table, dict) else None
            if table is not None:
                found.append(table)
        name = "_".join(["CARGO", *keys]).upper().replace("-", "_")
        return [*found, self.environment[name]] if name in self.environment else found

    def triple(self) -> str:
        """The target of builds if one is set, else an empty text."""
        texts = [one for one in self.values("build", "target") if isinstance(one, str)]
        return texts[-1] if texts else ""

    def rustflags(self, triple: str) -> list[str]:
        """The flags of the compiler, by the first source that has any, as cargo takes them."""
        if "CARGO_ENCODED_RUSTFLAGS" in self.environment:
            encoded = self.environment["CARGO_ENCODED_RUSTFLAGS"]
            return encoded.split(SEPARATOR) if encoded else []
        if "RUSTFLAGS" in self.environment:
            return self.environment["RUSTFLAGS"].split()
        for path, table in self.files.items():
            for key, target in table.get("target", {}).items():
                if key.startswith("cfg(") and "rustflags" in target:
                    raise Failed(
                        f"{path} sets `target.'{key}'.rustflags`, which --build does not read: "
                        "set RUSTFLAGS to all flags that the builds need"
                    )
        own = self.values("target", triple, "rustflags")
        return joined(own) or joined(self.values("build", "rustflags"))


def read(path: str) -> dict:
    """Reads a file of TOML."""
    try:
        with open(path, "rb") as text:
            return tomllib.load(text)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Failed(f"cannot read the settings of cargo in {path}: {error}") from error


def joined(values: list) -> list[str]:
    """Flags of several sources: an array extends those before it, a text replaces them."""
    flags: list[str] = []
    for value in values:
        flags = value.split() if isinstance(value, str) else [*flags, *value]
    return flags


class Builder:
    """Builds the release profile of this checkout for levels of the processor."""

    def __init__(self) -> None:
        self.cargo = shutil.which("cargo")
        if not self.cargo:
            raise Failed("--build needs cargo, and PATH has none; `. scripts/env.sh` may find it")
        metadata = self.told("metadata", "--no-deps", "--format-version", "1")
        self.target = json.loads(metadata)["target_directory"]
        configuration = Configuration(ROOT, os.environ)
        self.triple = configuration.triple()
        self.flags = configuration.rustflags(self.triple or self.host())

    def told(self, *words: str) -> str:
        """The output of a command of cargo."""
        done = subprocess.run([self.cargo, *words], cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"cargo {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def host(self) -> str:
        """The target triple of this host."""
        lines = [line.partition(": ") for line in self.told("-vV").splitlines()]
        return next(value for key, _, value in lines if key == "host")

    def build(self, level: str) -> str:
        """Builds for a level; the path of the program. The first build of each takes minutes."""
        cpu = level if level == NATIVE else "x86-64" + ("" if level == "v1" else f"-{level}")
        directory = os.path.join(self.target, "levels", level)
        flags = [*self.flags, "-C", f"target-cpu={cpu}"]
        words = ["build", "--release", "--locked", "--package", "penstock"]
        words += ["--target-dir", directory]
        said = f"RUSTFLAGS={shlex.quote(' '.join(flags))} cargo {shlex.join(words)}"
        print(f"$ {said}", file=sys.stderr)
        environment = {**os.environ, "CARGO_ENCODED_RUSTFLAGS": SEPARATOR.join(flags)}
        done = subprocess.run([self.cargo, *words], cwd=ROOT, env=environment)
        if done.returncode:
            raise Failed(f"the build for {level} failed with exit code {done.returncode}")
        return os.path.join(directory, self.triple, "release", "penstock")
