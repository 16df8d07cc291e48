"""`make install` and `make uninstall`, below a directory."""

from __future__ import annotations

from pathlib import Path

import packages


def make(goal: str, destination: Path, program: Path) -> str:
    """Runs a goal of the Makefile for the prefix /opt/penstock-test."""
    words = ["make", "--silent", "-C", packages.ROOT, goal, "PREFIX=/opt/penstock-test"]
    return packages.run(*words, f"DESTDIR={destination}", PROGRAM=str(program))


def test_what_was_installed_goes(program: Path, tmp_path: Path) -> None:
    """Promise: `make uninstall` removes all that `make install` wrote but configuration, which a
    second installation leaves as it is, though it replaces the unit. Files of others stay."""
    prefix = tmp_path / "opt" / "penstock-test"
    configuration = tmp_path / "etc" / "penstock" / "penstock.toml"
    make("install", tmp_path, program)
    assert packages.run(prefix / "bin" / "penstock", "--version").startswith("penstock ")
    # systemd does not look below this prefix.
    unit = tmp_path / "etc" / "systemd" / "system" / "penstock.service"
    assert "ExecStart=/opt/penstock-test/bin/penstock daemon" in unit.read_text()
    assert (tmp_path / "etc" / "sysusers.d" / "penstock.conf").exists()
    assert not (prefix / "lib").exists()
    assert (tmp_path / "etc" / "penstock" / "conf.d").is_dir()
    assert (prefix / "share" / "man" / "man1" / "penstock-copy.1.gz").exists()

    configuration.write_text("# changed\n")
    unit.write_text("# of an older release\n")
    other = prefix / "share" / "doc" / "other"
    other.write_text("of another program\n")
    assert f"kept {configuration}" in make("install", tmp_path, program)
    assert configuration.read_text() == "# changed\n"
    assert "ExecStart=/opt/penstock-test/bin/penstock daemon" in unit.read_text()

    make("uninstall", tmp_path, program)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"etc/penstock/penstock.toml", "opt/penstock-test/share/doc/other"}
    named = [path for path in prefix.rglob("*penstock*") if path.is_dir()]
    assert named == []
