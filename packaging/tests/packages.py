"""Packages under test, made from a program, and repacked with other versions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from lab import TARGET, CannotRunError

ROOT = TARGET.parent
ZIG = TARGET / "tools" / "zig" / "bin" / "python"
"""A Python that has zig, as `cargo xtask verify long packages` installs it."""
_PARTS = ("docs", "packaging/deb", "packaging/rpm", "packaging/scripts", "packaging/system")
_WORK = TARGET / "packaging" / "tests"


def run(*words: str | Path, **variables: str) -> str:
    """Runs a program of this machine, and returns what it prints.

    Raises:
        AssertionError: it failed; the text has what it printed.
    """
    done = subprocess.run(
        [str(word) for word in words],
        env={**os.environ, **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shown = " ".join(str(word) for word in words)
    assert done.returncode == 0, f"`{shown}` ended with {done.returncode}:\n{done.stdout}"
    return done.stdout


def need(*tools: str) -> None:
    """Checks that programs are there.

    Raises:
        CannotRunError: one is missing.
    """
    for tool in tools:
        if shutil.which(tool) is None:
            raise CannotRunError(f"there is no {tool}")


def made(program: Path) -> dict[str, Path]:
    """Returns the packages of a program by their kinds, made again if a part of them is newer.

    `PENSTOCK_PACKAGES` names a directory with others, such as those of `make packages`.

    Raises:
        CannotRunError: a tool is missing.
    """
    named = os.environ.get("PENSTOCK_PACKAGES")
    out = Path(named) if named else _WORK / "packages"
    if named is None:
        need("dpkg-deb", "rpmbuild", "cargo")
        sums = out / "SHA256SUMS"
        parts = [program, *(file for part in _PARTS for file in (ROOT / part).rglob("*"))]
        if not sums.exists() or sums.stat().st_mtime < max(file.stat().st_mtime for file in parts):
            run("cargo", "xtask", "package", "--program", program, "--out", out, "--level", "0")
    return {
        "deb": next(out.glob("penstock_*_amd64.deb")),
        "rpm": next(out.glob("penstock-*.x86_64.rpm")),
    }


def build(tree: Path, version: str, directory: Path) -> Path:
    """Makes a package for Debian of an extracted one, with a version, and removes the tree."""
    control = tree / "DEBIAN" / "control"
    text = re.sub(r"^Version: .*", f"Version: {version}", control.read_text(), flags=re.MULTILINE)
    control.write_text(text)
    path = directory / f"penstock_{version}_amd64.deb"
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, path)
    shutil.rmtree(tree)
    return path


def upgraded_deb(deb: Path, directory: Path) -> Path:
    """Returns the same package as a newer version, with another default configuration."""
    tree = directory / "tree"
    run("dpkg-deb", "--raw-extract", deb, tree)
    configuration = tree / "etc" / "penstock" / "penstock.toml"
    configuration.write_text(configuration.read_text() + "# a newer default\n")
    return build(tree, "99.0-1", directory)


def stand_in(directory: Path, glibc: str) -> Path:
    """Returns a program that calls a function of one version of glibc, and of no newer one.

    Raises:
        CannotRunError: there is no zig.
    """
    if not ZIG.exists():
        raise CannotRunError("there is no zig: `cargo xtask verify long packages` installs it")
    # Both came with that version: fcntl64 with 2.28, pthread_create of libc.so.6 with 2.34.
    code = directory / "main.c"
    code.write_text(
        "#define _FILE_OFFSET_BITS 64\n#include <fcntl.h>\n#include <pthread.h>\n"
        "static void *run(void *p) { return p; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, run, 0);\n"
        "    return fcntl(0, F_GETFD) < 0; }\n"
    )
    path = directory / f"penstock-{glibc}"
    target = f"x86_64-linux-gnu.{glibc}"
    words = ["-fPIE", "-pie", "-lpthread", "-Wl,-z,relro", "-o", str(path), str(code)]
    run(ZIG, "-m", "ziglang", "cc", "-target", target, *words)
    return path
