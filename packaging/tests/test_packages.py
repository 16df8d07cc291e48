"""Packages on hosts of their own: dpkg and rpm under systemd, dnf beside the glibc of EL8."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import packages
from conftest import cannot_run, root
from lab import SUITES, TARGET, CannotRunError, Host, Lab

# Names of symbol versions of the glibc of EL8, 2.28, on x86-64: those in sysdeps/unix/sysv/linux/
# x86_64/64/*.abilist of its sources.
EL8 = {
    "libc.so.6": "2.2.5 2.2.6 2.3 2.3.2 2.3.3 2.3.4 2.4 2.5 2.6 2.7 2.8 2.9 2.10 2.11 2.12 2.13 "
    "2.14 2.15 2.16 2.17 2.18 2.22 2.23 2.24 2.25 2.26 2.27 2.28",
    "libm.so.6": "2.2.5 2.15 2.18 2.23 2.24 2.25 2.27 2.28",
    "libpthread.so.0": "2.2.5 2.2.6 2.3.2 2.3.3 2.3.4 2.4 2.11 2.12 2.18 2.28",
    "libdl.so.2": "2.2.5 2.3.3 2.3.4",
    "librt.so.1": "2.2.5 2.3.3 2.3.4 2.4 2.7",
    "ld-linux-x86-64.so.2": "2.2.5 2.3 2.4",
}
STATE = "/var/lib/penstock"


@pytest.fixture(scope="session")
def made(program: Path) -> dict[str, Path]:
    """Returns the packages of the program under test."""
    try:
        return packages.made(program)
    except CannotRunError as error:
        cannot_run(error)
        raise


def host_of(lab: Lab, suite: str, *more: str) -> Host:
    """Boots a host of a release of Debian."""
    host = lab.host(f"{suite}", [root(suite, *more)], disks=["/scratch"])
    host.wait_running()
    return host


def make_site(host: Host) -> None:
    """Makes a site of the daemon's user, with a store on a disk, and starts it."""
    host.run("install", "-d", "-o", "penstock", "-m", "755", "/scratch/data")
    words = ["penstock", "site", "init", "--name", "lab", "--store", "data=/scratch/data"]
    host.run(*words, user="penstock")
    host.run("systemctl", "enable", "--now", "penstock.service")


def unit(host: Host, name: str) -> str:
    """Returns a property of the daemon's unit."""
    return host.property("penstock.service", name)


def outlive(host: Host) -> None:
    """Leaves a process in the group of the daemon, as a crash leaves etcd."""
    group = "/sys/fs/cgroup/system.slice/penstock.service/cgroup.procs"
    host.write("/root/outlive", f"#!/bin/sh\necho $$ >{group}\nexec sleep 1000\n", mode=0o755)
    host.run("systemd-run", "--quiet", "/root/outlive")
    moved = f"for pid in $(cat {group}); do grep -x sleep /proc/$pid/comm && exit; done; exit 1"
    host.wait_until("its move", "sh", "-c", moved, seconds=20)


def wait_ended(host: Host) -> None:
    """Waits for the end of the process that `outlive` has left."""
    host.wait_until("its end", "sh", "-c", "! grep -lxF sleep /proc/[0-9]*/comm", seconds=20)


@pytest.mark.parametrize("suite", SUITES)
def test_deb_is_installed_upgraded_removed_and_purged(
    lab: Lab, made: dict[str, Path], suite: str, tmp_path: Path
) -> None:
    """Promise: a fresh installation starts nothing. An upgrade restarts a daemon that runs, and
    keeps changed configuration. Removal stops it, and what outlived a crash of it; an upgrade does
    not. A purge leaves keys, state and data."""
    host = host_of(lab, suite)
    host.copy(made["deb"], "/root/penstock.deb")
    host.copy(packages.upgraded_deb(made["deb"], tmp_path), "/root/newer.deb")
    host.run("dpkg", "--install", "/root/penstock.deb")
    assert host.run("dpkg", "--verify", "penstock") == ""
    assert unit(host, "ActiveState") == "inactive"
    assert unit(host, "UnitFileState") == "disabled"
    assert host.run("id", "-un", "penstock") == "penstock\n"
    assert host.run("penstock", "--version").startswith("penstock ")
    assert "# bash" in host.run(
        "bash",
        "-c",
        ". /usr/share/bash-completion/completions/penstock; complete -p penstock; echo '# bash'",
    )

    make_site(host)
    assert unit(host, "ActiveState") == "active"
    before = unit(host, "MainPID")
    outlive(host)
    host.write("/etc/penstock/penstock.toml", "# changed by the administrator\n")
    host.run("dpkg", "--force-confold", "--install", "/root/newer.deb")
    assert unit(host, "ActiveState") == "active"
    assert unit(host, "MainPID") not in {before, "0"}
    assert host.read("/etc/penstock/penstock.toml") == "# changed by the administrator\n"
    assert unit(host, "UnitFileState") == "enabled"
    # The way back is the same way.
    host.run("dpkg", "--force-confold", "--install", "/root/penstock.deb")
    assert unit(host, "ActiveState") == "active"
    assert len(host.processes("sleep")) == 1

    host.run("dpkg", "--remove", "penstock")
    assert unit(host, "MainPID") == "0"
    wait_ended(host)
    assert not host.exists("/usr/bin/penstock")
    assert not host.exists("/etc/systemd/system/multi-user.target.wants/penstock.service")
    assert host.exists("/etc/penstock/penstock.toml")
    host.run("dpkg", "--purge", "penstock")
    assert not host.exists("/etc/penstock")
    assert host.exists(f"{STATE}/trust")
    left = "find / -xdev -name '*penstock*' -not -path '/proc/*' -not -path '/root/*'"
    found = host.run("sh", "-c", left).split()
    assert [place for place in found if not place.startswith(STATE)] == []


def test_state_is_purged_on_request_but_no_store(lab: Lab, made: dict[str, Path]) -> None:
    """Promise: PENSTOCK_PURGE_STATE=yes removes keys and state, and nothing that Penstock has not
    made: a store in the site directory that was only ever read from stays, though its name is that
    of a part of the state, and is named. Files of a store elsewhere stay in each case (E21)."""
    host = host_of(lab, "bookworm")
    host.copy(made["deb"], "/root/penstock.deb")
    ask = {"PENSTOCK_PURGE_STATE": "yes"}
    host.run("dpkg", "--install", "/root/penstock.deb")
    make_site(host)
    host.write("/scratch/data/result", "data\n")
    for directory in ("raw", "source"):
        host.run("mkdir", "-p", f"{STATE}/{directory}")
        host.write(f"{STATE}/{directory}/run7", "data\n")
    purged = host.try_run("dpkg", "--purge", "penstock", environment=ask)
    assert purged.returncode == 0
    assert f"{STATE} stays" in purged.stderr
    left = host.run("find", STATE, "-type", "f").split()
    assert sorted(left) == [f"{STATE}/raw/run7", f"{STATE}/source/run7"]
    assert purged.stderr.split()[-2:] == ["raw", "source"]
    host.run("rm", "-r", f"{STATE}/raw", f"{STATE}/source")
    host.run("dpkg", "--install", "/root/penstock.deb")
    make_site(host)
    host.run("dpkg", "--purge", "penstock", environment=ask)
    assert not host.exists(STATE)
    assert host.read("/scratch/data/result") == "data\n"


def test_what_an_administrator_owns_stays(lab: Lab, made: dict[str, Path]) -> None:
    """Promise: an installation leaves a site directory of another user as it is. A purge removes
    the file of `penstock doctor --write-sysctl`, and leaves one that somebody has changed
    (E41)."""
    host = host_of(lab, "bookworm")
    host.copy(made["deb"], "/root/penstock.deb")
    host.run("dpkg", "--install", "/root/penstock.deb")
    look = ("stat", "-c", "%U %a", STATE)
    assert host.run(*look) == "penstock 700\n"
    host.run("chown", "daemon", STATE)
    host.run("chmod", "750", STATE)
    host.run("dpkg", "--install", "/root/penstock.deb")
    assert host.run(*look) == "daemon 750\n"

    settings = "/etc/sysctl.d/90-penstock.conf"
    written = host.try_run("penstock", "doctor", "--write-sysctl")
    assert host.exists(settings), written.stderr
    host.run("sh", "-c", f"echo '# mine' >>{settings}")
    assert f"{settings} stays" in host.try_run("dpkg", "--purge", "penstock").stderr
    assert host.read(settings).endswith("# mine\n")
    host.run("sed", "-i", "$d", settings)
    host.run("dpkg", "--install", "/root/penstock.deb")
    host.run("dpkg", "--purge", "penstock")
    assert not host.exists(settings)


@pytest.mark.parametrize("suite", SUITES)
def test_deb_needs_no_systemd(made: dict[str, Path], suite: str, tmp_path: Path) -> None:
    """Promise: in a container without systemd the package is installed, and the command line
    works."""
    base = root(suite)
    upper, work, merged = (tmp_path / name for name in ("upper", "work", "merged"))
    for directory in (upper, work, merged):
        directory.mkdir()
    script = f"""
        mount -t overlay overlay -o lowerdir={base},upperdir={upper},workdir={work} {merged}
        cp {made["deb"]} {merged}/root/penstock.deb
        rm {merged}/bin/systemctl {merged}/bin/systemd-sysusers
        chroot {merged} dpkg --install /root/penstock.deb
        mkdir {merged}/a
        echo text >{merged}/a/file
        chroot {merged} penstock copy /a/ /b/
        cmp {merged}/a/file {merged}/b/file
        chroot {merged} dpkg --purge penstock
    """
    packages.run("unshare", "--mount", "--propagation=private", "sh", "-euc", script)


def test_rpm_is_installed_upgraded_and_erased(lab: Lab, made: dict[str, Path]) -> None:
    """Promise: the scriptlets of the rpm do under systemd what those of the deb do."""
    host = host_of(lab, "bookworm", "rpm")
    host.copy(made["rpm"], "/root/penstock.rpm")
    # The libraries are dpkg's here, of which rpm knows nothing.
    install = ["rpm", "--install", "--nodeps", "/root/penstock.rpm"]
    host.run(*install)
    assert unit(host, "UnitFileState") == "disabled"
    assert unit(host, "ActiveState") == "inactive"
    assert host.run("id", "-un", "penstock") == "penstock\n"
    make_site(host)
    before = unit(host, "MainPID")
    outlive(host)
    host.write("/etc/penstock/penstock.toml", "# changed by the administrator\n")
    again = ["rpm", "--upgrade", "--replacepkgs", "--nodeps", "/root/penstock.rpm"]
    host.run(*again)
    assert unit(host, "ActiveState") == "active"
    assert unit(host, "MainPID") not in {before, "0"}
    assert host.read("/etc/penstock/penstock.toml") == "# changed by the administrator\n"
    assert len(host.processes("sleep")) == 1
    host.run("rpm", "--erase", "penstock")
    assert unit(host, "MainPID") == "0"
    wait_ended(host)
    assert not host.exists("/usr/bin/penstock")
    assert host.exists(f"{STATE}/trust")
    assert host.read("/etc/penstock/penstock.toml.rpmsave").startswith("# changed")


def test_dnf_takes_the_glibc_of_el8(program: Path, tmp_path: Path) -> None:
    """Promise: dnf installs, upgrades and downgrades the rpm beside the glibc of EL8. It refuses a
    program that asks for a newer one, and names the symbol."""
    try:
        packages.need("dnf", "rpmbuild", "createrepo_c")
        old, new = (packages.stand_in(tmp_path, glibc) for glibc in ("2.28", "2.34"))
    except CannotRunError as error:
        cannot_run(error)
        raise
    repository = tmp_path / "repository"
    repository.mkdir()
    # That of `make packages`, if it was made, and a stand-in else.
    released = TARGET / "x86_64-unknown-linux-gnu" / "release" / "penstock"
    first = released if released.exists() else old
    _el8(tmp_path, repository)
    for version, file in (("1.0.0", first), ("1.1.0", old), ("2.0.0", new)):
        _rpm(tmp_path, repository, program, version, file)
    packages.run("createrepo_c", "--quiet", repository)
    configuration = tmp_path / "dnf.conf"
    configuration.write_text(
        "[main]\ngpgcheck=0\nreposdir=/nowhere\nplugins=0\ninstall_weak_deps=0\n"
        f"cachedir={tmp_path}/cache\nlogdir={tmp_path}\n"
        f"[el8]\nname=el8\nbaseurl=file://{repository}\n"
    )
    installed = tmp_path / "root"
    words = ["dnf", "-y", "-c", configuration, f"--installroot={installed}", "--releasever=8"]
    words += ["--setopt=tsflags=noscripts"]
    packages.run(*words, "install", "penstock-1.0.0")
    assert _version(installed) == "1.0.0"
    packages.run(*words, "upgrade", "penstock-1.1.0")
    packages.run(*words, "downgrade", "penstock-1.0.0")
    assert _version(installed) == "1.0.0"
    newer = subprocess.run(
        [*map(str, words), "install", "penstock-2.0.0"], capture_output=True, text=True
    )
    assert newer.returncode != 0
    assert "libc.so.6(GLIBC_2.34)(64bit)" in newer.stdout + newer.stderr
    packages.run(*words, "remove", "penstock")
    assert not (installed / "usr/bin/penstock").exists()


def _version(installed: Path) -> str:
    return packages.run("rpm", "--root", installed, "-q", "--qf", "%{VERSION}", "penstock")


def _rpm(directory: Path, out: Path, papers: Path, version: str, program: Path) -> None:
    """Makes a package of a program by the project's own spec, with a version."""
    single = directory / f"made-{version}"
    words = ["cargo", "xtask", "package", "--program", str(program), "--papers", str(papers)]
    packages.run(*words, "--out", single, "--version", version, "--level", "0")
    next(single.glob("*.rpm")).rename(out / f"penstock-{version}.rpm")


def _el8(directory: Path, out: Path) -> None:
    """Makes a package that provides what packages of EL8 do."""
    provides = [
        f"Provides: {library}(GLIBC_{version})(64bit)"
        for library, versions in EL8.items()
        for version in versions.split()
    ]
    provides += [f"Provides: {library}()(64bit)" for library in EL8]
    spec = directory / "el8.spec"
    spec.write_text(
        "Name: el8\nVersion: 8\nRelease: 1\nSummary: What EL8 has\nLicense: Apache-2.0\n"
        "BuildArch: x86_64\nProvides: /bin/sh rtld(GNU_HASH)\n"
        + "\n".join(provides)
        + "\n%description\nNothing.\n%files\n"
    )
    packages.run("rpmbuild", "-bb", "--define", f"_topdir {directory}/el8", spec)
    next((directory / "el8" / "RPMS").rglob("*.rpm")).rename(out / "el8.rpm")
