"""The service under a real systemd, on hosts of the releases that are supported."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path

import pytest

from lab import CommandError, Host, Lab
from sites import Site, drop_in, system_layer

# Exposure that `systemd-analyze security` may count, from 0 to 10 (docs/deploy.md).
EXPOSURE_MAX = 2.2
# What a restart in the middle may send again: what was in flight, and the last second's reports.
AGAIN_BYTES_MAX = 16 * 1024 * 1024
# Failed starts after which systemd gives the daemon up (docs/deploy.md).
STARTS = 60
DROP_INS = "/etc/systemd/system/penstock.service.d"


@pytest.fixture
def host(lab: Lab, program_layer: Path, debian: Path) -> Host:
    """Boots a host that has the files of a package."""
    made = lab.host("dtn1", [program_layer, system_layer(), debian], disks=["/scratch"])
    made.wait_running()
    return made


def set_up(host: Host, name: str, text: str) -> None:
    """Gives the service a drop-in."""
    host.write(f"{DROP_INS}/{name}.conf", text)
    host.run("systemctl", "daemon-reload")


def test_user_and_directories_are_made(host: Host) -> None:
    """Promise: installation makes the user and its closed directory, and twice does no harm.

    A directory that an administrator has given to another user remains that user's.
    """
    for _ in range(2):
        Site.install(host)
        entry = host.run("getent", "passwd", "penstock").strip().split(":")
        assert entry[5:] == ["/var/lib/penstock", "/usr/sbin/nologin"]
        found = host.run("stat", "-c", "%U:%G %a", "/var/lib/penstock")
        assert found == "penstock:penstock 700\n"
    host.run("chown", "games:games", "/var/lib/penstock")
    Site.install(host)
    assert host.run("stat", "-c", "%U:%G", "/var/lib/penstock") == "games:games\n"
    assert not host.exists("/etc/systemd/system/multi-user.target.wants/penstock.service")


def test_active_means_that_it_serves(host: Host) -> None:
    """Promise: the service is active once the daemon has reported READY=1, and not before.

    Root makes the site, and the daemon of another user can read all of it.
    """
    site = Site.install(host)
    site.init([])
    others = host.run("find", "/var/lib/penstock", "!", "-user", "penstock")
    assert others == ""
    wait = "until test -e /run/go; do sleep 0.05; done; exec"
    command = "/usr/bin/penstock daemon --dir /var/lib/penstock"
    set_up(host, "wait", f'[Service]\nExecStart=\nExecStart=/bin/sh -c "{wait} {command}"\n')
    host.run("systemctl", "start", "--no-block", "penstock")
    host.wait_until(
        "the main process", "sh", "-c", "! systemctl show -P MainPID penstock | grep ^0"
    )
    assert host.property("penstock", "ActiveState") == "activating"
    host.write("/run/go", "")
    host.run("systemctl", "start", "penstock")
    assert site.json("site", "status")["site"]["name"] == "dtn1"
    assert "controller" in host.property("penstock", "StatusText")


def test_no_site_is_no_restart(host: Host) -> None:
    """Promise: a daemon without a configuration is not started again, and says what to do."""
    site = Site.install(host)
    with pytest.raises(CommandError):
        host.run("systemctl", "start", "penstock")
    assert host.property("penstock", "ActiveState") == "failed"
    assert site.restarts == 0
    assert "penstock site init" in host.journal("penstock")


def test_a_daemon_that_never_starts_is_given_up(host: Host) -> None:
    """Promise: systemd gives up a daemon after sixty failed starts, and starts it again after
    `systemctl reset-failed`."""
    site = Site.install(host)
    site.init([])
    set_up(host, "fails", '[Service]\nExecStartPre=/bin/sh -c "exit 7"\nRestartSec=0\n')
    assert host.try_run("systemctl", "start", "penstock").returncode != 0
    host.wait_until("the last start", "systemctl", "is-failed", "--quiet", "penstock")
    assert site.restarts >= STARTS - 1
    host.run("rm", f"{DROP_INS}/fails.conf")
    host.run("systemctl", "daemon-reload")
    assert site.restarts <= STARTS
    assert host.try_run("systemctl", "start", "penstock").returncode != 0
    host.run("systemctl", "reset-failed", "penstock")
    host.run("systemctl", "start", "penstock")
    assert site.json("site", "status")["site"]["name"] == "dtn1"


def test_a_daemon_that_hangs_is_started_again(host: Host) -> None:
    """Promise: the watchdog ends a daemon that does not move, and starts another one."""
    site = Site.install(host)
    site.init([])
    set_up(host, "watchdog", "[Service]\nWatchdogSec=2\n")
    host.run("systemctl", "start", "penstock")
    before = site.main_pid
    host.run("sh", "-c", f"kill -STOP {before}")
    again = 'test "$(systemctl show -P NRestarts penstock)" = 1 && systemctl is-active penstock'
    host.wait_until("the restart", "sh", "-c", again)
    assert site.main_pid not in (0, before)
    assert site.json("site", "status")["site"]["name"] == "dtn1"
    assert "watchdog" in host.journal("penstock").lower()


def test_a_crash_is_followed_by_a_start(host: Host) -> None:
    """Promise: a daemon that is killed comes back by itself."""
    site = Site.start(host, [])
    before = site.main_pid
    host.run("sh", "-c", f"kill -KILL {before}")
    again = 'test "$(systemctl show -P NRestarts penstock)" = 1 && systemctl is-active penstock'
    host.wait_until("the restart", "sh", "-c", again)
    assert site.main_pid not in (0, before)


def test_a_transfer_continues_after_a_stop(lab: Lab, host: Host) -> None:
    """Promise: `systemctl stop` ends in order; after a start the transfer continues, verified."""
    other = lab.host("dtn2", host.layers, disks=["/scratch"])
    other.wait_running()
    source = Site.start(host, ["/scratch/raw"])
    target = Site.start(other, ["/scratch/in"])
    source.pair(target)
    make = ["dataset", "make", "/scratch/raw/set", "--files", "40", "--size", "1M", "--seed", "1"]
    source.penstock(*make)
    host.run("chown", "-R", "penstock:", "/scratch/raw")
    words = ["dtn1:raw/set", "dtn2:in/", "--bwlimit", "8MB/s"]
    transfer = target.penstock("transfer", "submit", *words).split()[0]
    moving = f"penstock transfer show {transfer} --json | grep -E '\"bytes\": ?[1-9][0-9]{{6}}'"
    other.wait_until("the first megabytes", "sh", "-c", moving)
    other.run("systemctl", "stop", "penstock")
    assert other.property("penstock", "Result") == "success"
    assert other.property("penstock", "ExecMainStatus") == "0"
    assert other.processes("penstock") == []
    other.run("systemctl", "start", "penstock")
    target.penstock("transfer", "limit", transfer, "--bwlimit", "none")
    target.penstock("transfer", "watch", transfer)
    done = target.json("transfer", "show", transfer)
    assert done["state"] == "done"
    received = int(other.read("/sys/class/net/eth0/statistics/rx_bytes"))
    assert received < 40 * 1024 * 1024 + AGAIN_BYTES_MAX
    sums = "cd {} && find . -type f | sort | xargs sha256sum"
    before = host.run("sh", "-c", sums.format("/scratch/raw/set"))
    assert other.run("sh", "-c", sums.format("/scratch/in/set")) == before


def test_reload_takes_changes(host: Host) -> None:
    """Promise: `systemctl reload` has the daemon take changes, and a fault changes nothing."""
    site = Site.start(host, [])
    pid = site.main_pid
    assert "10-mounts" not in host.run("ls", DROP_INS, check=False)
    host.write("/etc/penstock/conf.d/20-dtn.toml", "running_max = 6\n")
    host.run("systemctl", "reload", "penstock")
    assert re.search(r"running_max +6 ", site.penstock("config", "show"))
    host.write("/etc/penstock/conf.d/20-dtn.toml", "running_mxa = 7\n")
    assert host.try_run("systemctl", "reload", "penstock").returncode != 0
    assert "unknown key `running_mxa`" in host.journal("penstock")
    host.write("/etc/penstock/conf.d/20-dtn.toml", "running_max = 6\n")
    assert site.main_pid == pid
    assert re.search(r"running_max +6 ", site.penstock("config", "show"))


def test_lines_of_the_journal_have_priorities(host: Host) -> None:
    """Promise: journald knows warnings from information, and its lines have no codes in them."""
    site = Site.start(host, [])
    host.write("/etc/penstock/conf.d/20-dtn.toml", "running_mxa = 7\n")
    assert host.try_run("systemctl", "reload", "penstock").returncode != 0
    told = "journalctl -b -u penstock -p warning | grep running_mxa"
    host.wait_until("the fault in the log", "sh", "-c", told)
    text = host.run("journalctl", "-b", "-o", "json", f"_PID={site.main_pid}")
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"6"} < {line["PRIORITY"] for line in lines}
    for line in lines:
        message = line["MESSAGE"]
        assert isinstance(message, str)
        assert not message.startswith("<")
        assert "\x1b" not in message


def test_exposure_stays_low(host: Host) -> None:
    """Promise: systemd's own judge of units finds little that the daemon may do without need."""
    Site.install(host)
    judged = host.run("systemd-analyze", "security", "--no-pager", "penstock.service")
    found = re.search(r"exposure level for penstock\.service: ([0-9.]+)", judged)
    assert found is not None, judged
    assert float(found[1]) <= EXPOSURE_MAX, judged


def test_the_daemon_has_limits_and_no_rights(host: Host) -> None:
    """Promise: the daemon has descriptors enough, no capability, and no way to the system."""
    site = Site.start(host, [])
    assert host.property("penstock", "LimitNOFILE") == "1048576"
    limits = host.read(f"/proc/{site.main_pid}/limits")
    # Where this machine lets nobody raise its limit, systemd gives what there is.
    most = min(1048576, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    found = re.search(r"Max open files +([0-9]+) +([0-9]+)", limits)
    assert found is not None
    assert int(found[2]) in (most, 1048576)
    assert re.search(r"Max core file size +0 +0", limits)
    status = site.status()
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"].strip() == "1"
    enter = ["nsenter", "-m", "-t", str(site.main_pid), "--"]
    for place in ("/usr", "/etc", "/boot"):
        assert "Read-only" in host.try_run(*enter, "touch", f"{place}/x").stderr
    host.run(*enter, "touch", "/scratch/x", "/srv/x")


def test_root_keeps_owners(host: Host) -> None:
    """Promise: with the documented drop-in for root a transfer keeps owners of files."""
    site = Site.install(host)
    set_up(host, "20-root", drop_in(f"{DROP_INS}/20-root.conf"))
    host.run("chown", "-R", "root:", "/var/lib/penstock")
    host.run("mkdir", "/scratch/a", "/scratch/b")
    site.init(["/scratch/a", "/scratch/b"])
    host.run("systemctl", "start", "penstock")
    host.write("/scratch/a/set/secret", "x", mode=0o600)
    host.run("chown", "1234:5678", "/scratch/a/set/secret")
    host.run("mknod", "/scratch/a/set/device", "c", "1", "3")
    site.penstock("transfer", "submit", "dtn1:a/set", "dtn1:b/", "--wait")
    found = host.run("stat", "-c", "%u:%g %a", "/scratch/b/set/secret")
    assert found == "1234:5678 600\n"
    assert host.run("stat", "-c", "%F %t:%T", "/scratch/b/set/device").endswith(" 1:3\n")


def test_files_belong_to_the_mapped_account(host: Host) -> None:
    """Promise: with the documented drop-ins an account of the host moves its own files.

    It asks by the socket of its group, without a password. What is written is the account's, though
    the daemon is no root and its user reads nothing of that.
    """
    site = Site.install(host)
    host.run("groupadd", "penstock-users")
    host.run("useradd", "-m", "-G", "penstock-users", "anna")
    for name in ("20-accounts", "20-socket"):
        set_up(host, name, drop_in(f"{DROP_INS}/{name}.conf"))
    host.run("install", "-d", "-m", "700", "-o", "anna", "-g", "anna", "/scratch/home")
    text = 'stores = "home=/scratch/home"\nsite = "dtn1"\nweb = "none"\n'
    host.write("/root/answers.toml", text)
    site.init(["/scratch/home"])
    more = '[auth]\nsocket_group = "penstock-users"\n[auth.unix]\n"anna" = "role:operator"\n'
    host.write("/etc/penstock/conf.d/20-accounts.toml", more)
    main = "/var/lib/penstock/penstock.toml"
    host.run("sed", "-i", '/^path = "/a account = "mapped"', main)
    # The identity of a store is the daemon's own, where its user may make it.
    private = "/scratch/home/.penstock-store-7q2mv0kd9j"
    host.run("install", "-d", "-o", "penstock", "-g", "penstock", private)
    host.run("chmod", "711", "/scratch/home")
    host.run("systemctl", "start", "penstock")
    assert int(site.status()["CapEff"], 16) == (1 << 6) | (1 << 7)
    host.run("sh", "-c", "mkdir ~/../../scratch/home/set; echo x >/scratch/home/set/f", user="anna")
    host.run("chmod", "600", "/scratch/home/set/f")
    words = ["transfer", "submit", "dtn1:home/set", "dtn1:home/copy/", "--wait"]
    site.penstock(*words, user="anna")
    found = host.run("stat", "-c", "%U:%G %a", "/scratch/home/copy/set/f")
    assert found == "anna:anna 600\n"


def test_stores_are_mounted_first(host: Host) -> None:
    """Promise: a site that root makes has systemd mount its stores before the daemon starts.

    One that cannot be mounted does not keep the daemon from starting.
    """
    site = Site.install(host)
    lines = ["tmpfs /data/raw tmpfs mode=1777 0 0", "/dev/absent /data/lost ext4 nofail 0 0", ""]
    host.write("/etc/fstab", "\n".join(lines))
    host.run("mkdir", "-p", "/data/raw", "/data/lost")
    told = site.init(["/data/raw/in", "/data/lost"])
    assert f"{DROP_INS}/10-mounts.conf" in told
    set_up(host, "fast", "[Unit]\nJobTimeoutSec=30\n")
    assert host.try_run("mountpoint", "-q", "/data/raw").returncode != 0
    host.run("systemctl", "set-property", "--runtime", "penstock", "TasksMax=1000", check=False)
    host.write("/etc/systemd/system/dev-absent.device.d/t.conf", "[Unit]\nJobTimeoutSec=1\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", "penstock")
    host.run("mountpoint", "-q", "/data/raw")
    host.run("umount", "/data/raw")
    host.run("systemctl", "is-active", "penstock")


def test_nothing_but_state_is_left(host: Host) -> None:
    """Promise: at the end of the service there is nothing of it in /run, /tmp and of processes."""
    site = Site.start(host, ["/scratch/raw"])
    assert host.processes("penstock") == [site.main_pid]
    host.run("systemctl", "disable", "--now", "penstock")
    assert not host.exists("/run/penstock")
    assert host.run("find", "/tmp", "/var/tmp", "-name", "*penstock*") == ""
    assert host.processes("penstock") == []
