"""The playbooks of packaging/ansible, on hosts that Ansible reaches by ssh."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import fleet as fleets
import lab as labs
from conftest import cannot_run, root
from fleet import Fleet, digests, main_pid, make_package, sent_bytes, versions
from sites import commands

MIB = 1 << 20


class Ready:
    """The fleet, after its playbooks have run once."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.fresh_checks = [fleet.play("site", "--check"), fleet.play("pair", "--check")]
        self.first = [fleet.play("site", "-vvv"), fleet.play("pair", "-vvv")]


@pytest.fixture(scope="module")
def ready(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """Makes the fleet, and has Ansible make both sites and pair them."""
    try:
        fleets.playbook_program()
        lab = labs.Lab()
    except labs.CannotRunError as error:
        cannot_run(error)
        raise
    with lab:
        three = root("bookworm", *labs.SSH, "etcd-server")
        plain = root("trixie", *labs.SSH)
        yield Ready(Fleet(lab, plain, three, program, tmp_path_factory.mktemp("ssh")))


@pytest.fixture
def fleet(ready: Ready) -> Fleet:
    """Returns the fleet with both sites at work."""
    for play in ready.first:
        play.check()
    return ready.fleet


def make_set(fleet: Fleet, name: str, *sizes: str) -> None:
    """Makes a data set at the site `lab`."""
    words = ["penstock", "dataset", "make", f"/srv/raw/{name}", "--files", "40", "--sizes", *sizes]
    fleet.solo.run(*words, user="penstock")


def test_the_inventory_of_the_readme_is_one(tmp_path: Path) -> None:
    """Promise: Ansible reads the inventory of the README, whose variables the role has."""
    readme = (fleets.PLAYBOOKS / "README.md").read_text()
    block = re.search(r"```yaml\n(.*?)```", readme, re.DOTALL)
    assert block is not None
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(block.group(1))
    tool = fleets.playbook_program().with_name("ansible-inventory")
    words = [tool, "-i", inventory, "--host", "h2.hpc.example.org"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    variables = json.loads(done.stdout)
    assert variables["penstock_site"] == "hpc"
    defaults = (fleets.PLAYBOOKS / "roles/penstock/defaults/main.yml").read_text()
    known = set(re.findall(r"^(penstock_\w+):", defaults, re.MULTILINE))
    assert set(variables) <= known
    assert set(re.findall(r"`(penstock_[a-z_]+)", readme)) <= known


def firewall_rules(directory: Path, *prefixes: str) -> list[str]:
    """Returns the rules that the role has for firewalld at a site of several hosts."""
    role = fleets.PLAYBOOKS / "roles" / "penstock"
    site = {"penstock_site": "hpc", "penstock_journal": "/scratch/.journal"}
    words = [fleets.playbook_program().with_name("ansible"), "all", "-i", "h1,"]
    words += ["-m", "ansible.builtin.debug", "-a", "var=penstock_ports"]
    for name in ("defaults", "vars"):
        words += ["-e", f"@{role / name / 'main.yml'}"]
    words += ["-e", json.dumps({**site, "penstock_site_prefixes": prefixes})]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_HOME": str(directory / "ansible")}
    done = subprocess.run(
        words, cwd=directory, env=environment, capture_output=True, text=True, check=True
    )
    ports = json.loads(done.stdout.partition("=>")[2])["penstock_ports"]
    return [port["firewalld"] for port in ports]


def test_rules_for_prefixes_have_a_family(tmp_path: Path) -> None:
    """Promise: each rule of firewalld that names addresses names their family, IPv4 or IPv6."""
    rules = firewall_rules(tmp_path, "fd00:1::/64", "10.20.0.0/24")
    rest = "port port=7445-7446 protocol=tcp accept"
    assert rules == [
        "port=7444/tcp",
        f"rich-rule=rule family=ipv4 source address=10.20.0.0/24 {rest}",
        f"rich-rule=rule family=ipv6 source address=fd00:1::/64 {rest}",
    ]


def test_firewalld_takes_the_rules(lab: labs.Lab, tmp_path: Path) -> None:
    """Promise: firewalld itself takes each rule of the role, of both families."""
    host = lab.host("fw", [root("trixie", "firewalld")])
    host.wait_running()
    for rule in firewall_rules(tmp_path, "fd00:1::/64", "10.20.0.0/24"):
        host.run("firewall-offline-cmd", f"--add-{rule}")
        host.run("firewall-offline-cmd", f"--query-{rule}")


def test_a_check_of_fresh_hosts_fails_nowhere(ready: Ready) -> None:
    """Promise: `--check` on hosts without Penstock ends well, and says that much would change."""
    site, pair = (play.check() for play in ready.fresh_checks)
    assert all(counts["changed"] > 0 for counts in site.recap.values()), site.text
    assert pair.changed == 0


def test_a_second_run_changes_nothing(fleet: Fleet) -> None:
    """Promise: what is as the inventory says stays untouched, daemons too."""
    before = [main_pid(host) for host in fleet.hosts]
    for words in (("site",), ("pair",), ("site", "--check")):
        play = fleet.play(*words).check()
        assert play.changed == 0, play.text
    assert [main_pid(host) for host in fleet.hosts] == before


def test_sites_are_what_the_inventory_says(fleet: Fleet) -> None:
    """Promise: three hosts are one site with etcd on each, its settings are in force, its users
    are there, and its daemons start at boot."""
    status = json.loads(fleet.three[2].run("penstock", "site", "status", "--json"))
    assert status["level"] == "ok", status
    assert {peer["peer"] for peer in status["peers"]["peers"]} == {"h1", "h2", "h3"}
    assert len(status["cluster"]["etcd"]) == 3
    shown = json.loads(fleet.three[0].run("penstock", "config", "show", "--json"))
    settings = {each["key"]: each["value"] for each in shown["settings"]}
    assert (settings["running_max"], settings["web.names"]) == (3, ["dtn.example.org"])
    assert settings["store[scratch].write"] == ["lab"]
    listed = fleet.three[1].run("penstock", "user", "list", "--json").splitlines()
    users = {user["name"]: user for user in map(json.loads, listed)}
    assert users["anna"]["role"] == "operator"
    assert users["ben"]["group"] == "beamline"
    assert users["ben"]["grants"]["scratch"]["write"]
    for host in fleet.hosts:
        assert host.run("systemctl", "is-enabled", "penstock").strip() == "enabled"


def test_a_daemon_needs_the_mount_of_the_journal_and_not_those_of_stores(fleet: Fleet) -> None:
    """Promise: the file systems of stores are mounted before the daemon starts, and one that is
    unmounted stops it only if the journal lies on it."""
    assert "srv.mount" in fleet.solo.property("penstock", "Wants")
    assert "srv.mount" in fleet.solo.property("penstock", "After")
    assert "srv.mount" not in fleet.solo.property("penstock", "Requires")
    required = fleet.three[0].property("penstock", "RequiresMountsFor").split()
    assert "/scratch/.penstock-journal" in required
    assert "/scratch/data" not in required


def test_secrets_are_in_no_output_and_no_log(fleet: Fleet, ready: Ready) -> None:
    """Promise: tokens for joining and pairing are neither in the output of Ansible with `-vvv`,
    nor in logs of the hosts, nor in words of a process."""
    for play in ready.first:
        assert fleets.TOKEN not in play.text
    assert fleet.seen_tokens == []
    for host in fleet.hosts:
        assert fleets.TOKEN not in host.run("journalctl", "--no-pager", "-b")


def test_paired_sites_move_a_data_set(fleet: Fleet) -> None:
    """Promise: after site.yml and pair.yml a data set moves, verified."""
    make_set(fleet, "moved", "1K-1M")
    words = ("lab:raw/moved", "hpc:scratch/", "--wait")
    fleet.solo.run("penstock", "transfer", "submit", *words)
    assert digests(fleet.three[1], "/scratch/data/moved") == digests(fleet.solo, "/srv/raw/moved")


def test_an_upgrade_leaves_a_transfer_at_work(fleet: Fleet) -> None:
    """Promise: hosts are upgraded one after the other while a transfer runs, which ends verified;
    of what it moves, less than a tenth is sent twice. A second run changes nothing."""
    make_set(fleet, "kept", "2M-16M")
    total = int(fleet.solo.run("du", "-sb", "/srv/raw/kept").split()[0])
    newer = make_package(fleet.directory, "0.1.0-2", fleet.program)
    before = [main_pid(host) for host in fleet.hosts]
    sent = sent_bytes(fleet.solo)
    words = ("lab:raw/kept", "hpc:scratch/", "--bwlimit", "2Mbit/s", "--piece-size", "1M")
    identity = fleet.solo.run("penstock", "transfer", "submit", *words).strip()
    # It moves while its hosts go, and would last for twenty minutes at this rate.
    fleet.play("upgrade", "-e", f"penstock_package={newer}").check()
    assert fleet.transfer(identity)["state"] == "running"
    assert fleet.transfer(identity)["progress"]["bytes"] > 0
    fleet.three[0].run("penstock", "transfer", "limit", identity, "--bwlimit", "none")
    fleet.solo.run("penstock", "transfer", "wait", identity, seconds=600)
    assert digests(fleet.three[0], "/scratch/data/kept") == digests(fleet.solo, "/srv/raw/kept")
    assert fleet.transfer(identity)["progress"]["bytes_resent"] < total / 10
    assert sent_bytes(fleet.solo) - sent < total * 1.1 + 8 * MIB
    assert set(versions(fleet.hosts)) == {"0.1.0-2"}
    assert all(main_pid(host) != old for host, old in zip(fleet.hosts, before, strict=True))
    events = fleet.three[0].run("penstock", "site", "events", "--limit", "200")
    for host in fleet.three:
        assert f"peer `{host.name}` is draining" in events
    listed = fleet.three[0].run("penstock", "peer", "list", "--json").splitlines()
    assert [json.loads(peer)["draining"] for peer in listed] == [None] * 3
    again = fleet.play("upgrade", "-e", f"penstock_package={newer}").check()
    assert again.changed == 0, again.text


def test_an_upgrade_stops_at_its_first_failure(fleet: Fleet) -> None:
    """Promise: a release that does not start ends the upgrade at its first host, which is named;
    the others work. The next run, with a release that starts, mends it."""
    broken = make_package(fleet.directory, "0.1.0-3", "#!/bin/sh\nexit 7\n")
    mended = make_package(fleet.directory, "0.1.0-4", fleet.program)
    others = fleet.three[1:]
    before = [(versions([host]), main_pid(host)) for host in others]
    limits = ("--limit", "hpc", "-e", "penstock_health_seconds=60")
    failed = fleet.play("upgrade", *limits, "-e", f"penstock_package={broken}")
    assert failed.status != 0
    assert "the upgrade of h1 has failed" in failed.text
    assert [(versions([host]), main_pid(host)) for host in others] == before
    fleet.play("upgrade", *limits, "-e", f"penstock_package={mended}").check()
    assert set(versions(fleet.three)) == {"0.1.0-4"}
    status = json.loads(fleet.three[0].run("penstock", "site", "status", "--json"))
    assert status["level"] == "ok", status
    assert [peer["draining"] for peer in status["peers"]["peers"]] == [None] * 3


def test_an_upgrade_that_failed_is_completed_by_the_same_package(fleet: Fleet) -> None:
    """Promise: a daemon that does not start, for what is wrong with its host, ends the upgrade
    there. Once that is mended, a run with the same package starts it, ends its drain and upgrades
    the other hosts; with `penstock_drain_seconds=0` nothing is drained."""
    wrong = "/etc/systemd/system/penstock.service.d/99-wrong.conf"
    package = make_package(fleet.directory, "0.1.0-5", fleet.program)
    words = ("--limit", "hpc", "-e", "penstock_health_seconds=60")
    words = (*words, "-e", f"penstock_package={package}")
    first = fleet.three[0]
    first.write(wrong, "[Service]\nExecStartPre=/bin/false\n")
    failed = fleet.play("upgrade", *words)
    assert failed.status != 0
    assert "the upgrade of h1 has failed" in failed.text
    assert versions(fleet.three)[0] == "0.1.0-5"
    assert "0.1.0-5" not in versions(fleet.three[1:])
    first.run("rm", wrong)
    assert drained_since(fleet, "") >= {"h1"}
    begun = first.run("date", "--utc", "+%FT%TZ").strip()
    fleet.play("upgrade", *words, "-e", "penstock_drain_seconds=0").check()
    assert set(versions(fleet.three)) == {"0.1.0-5"}
    status = json.loads(first.run("penstock", "site", "status", "--json"))
    assert status["level"] == "ok", status
    assert [peer["draining"] for peer in status["peers"]["peers"]] == [None] * 3
    # The daemon of h1 starts while it is drained, and records that again.
    assert drained_since(fleet, begun) <= {"h1"}
    again = fleet.play("upgrade", *words).check()
    assert again.changed == 0, again.text


def drained_since(fleet: Fleet, time: str) -> set[str]:
    """Returns the peers of the site `hpc` that began to drain at a time or later."""
    lines = fleet.three[1].run("penstock", "site", "events", "--json", "--limit", "1000")
    events = [json.loads(line) for line in lines.splitlines()]
    return {each["subject"] for each in events if each["kind"] == "drain" and each["at"] >= time}


def test_a_restored_backup_resumes_its_transfers(fleet: Fleet) -> None:
    """Promise: the commands of docs/upgrade.md save a site of one host and bring it back, with the
    drop-ins of its unit: a transfer that ran ends verified, pairings and users are there. What was
    there before is moved aside. An archive that is torn changes nothing."""
    fleet.three[0].run("install", "-d", "-o", "penstock", "/scratch/data/back")
    make = ["penstock", "dataset", "make", "/scratch/data/back/set", "--files", "40"]
    fleet.three[0].run(*make, "--sizes", "256K-2M", user="penstock")
    fleet.solo.run("penstock", "user", "set", "dora", "--role", "viewer")
    words = ("hpc:scratch/back/set", "lab:raw/", "--bwlimit", "1MB/s", "--piece-size", "1M")
    identity = fleet.solo.run("penstock", "transfer", "submit", *words).strip()
    show = ("penstock", "transfer", "show", identity, "--json")
    moves = f"penstock transfer show {identity} --json | grep -q '\"bytes\":[1-9]'"
    fleet.solo.wait_until("the first bytes", "sh", "-c", moves)
    assert "FAILED" not in fleet.solo.run("sh", "-c", commands("back up a site of one host"))
    archive = "/root/penstock-state.tar.gz"
    fleet.solo.run("cp", archive, "/root/whole")
    fleet.solo.run("truncate", "--size=-1000", archive)
    before = main_pid(fleet.solo)
    torn = fleet.solo.try_run("sh", "-c", commands("restore a site of one host"))
    assert torn.returncode != 0
    assert main_pid(fleet.solo) == before
    fleet.solo.run("mv", "/root/whole", archive)
    fleet.solo.run("rm", "-r", "/etc/systemd/system/penstock.service.d")
    fleet.solo.run("sh", "-c", commands("restore a site of one host"))
    assert fleet.solo.exists("/var/lib/penstock.before/trust/authority.key")
    assert fleet.solo.exists("/etc/systemd/system/penstock.service.d/50-ansible.conf")
    assert json.loads(fleet.solo.run(*show))["state"] in {"queued", "running"}
    fleet.solo.run("penstock", "transfer", "limit", identity, "--bwlimit", "none")
    fleet.solo.run("penstock", "transfer", "wait", identity, seconds=300)
    assert digests(fleet.solo, "/srv/raw/set") == digests(fleet.three[0], "/scratch/data/back/set")
    assert "dora" in fleet.solo.run("penstock", "user", "list")
    assert "hpc" in fleet.solo.run("penstock", "site", "list")


def test_a_removal_leaves_data(fleet: Fleet) -> None:
    """Promise: remove.yml leaves data, keys and state, so that the site is back by site.yml, and no
    drain. A second run changes nothing. With `penstock_purge` keys and state go, data stays, the
    site forgets the host though its daemon is gone, and the other hosts of the site work on."""
    fleet.play("remove", "--limit", "solo").check()
    assert not fleet.solo.exists("/usr/bin/penstock")
    assert fleet.solo.exists("/srv/raw")
    assert fleet.solo.exists("/var/lib/penstock/trust/authority.key")
    assert fleet.play("remove", "--limit", "solo").check().changed == 0
    gone = fleet.three[2]
    gone.write("/scratch/data/stays", "data\n")
    fleet.play("remove", "--limit", "h3").check()
    listed = fleet.three[0].run("penstock", "peer", "list", "--json").splitlines()
    peers = {peer["peer"]: peer for peer in map(json.loads, listed)}
    assert peers["h3"]["draining"] is None
    # Its daemon is gone now, and the site still trusts its keys.
    purge = ("remove", "--limit", "h3", "-e", "penstock_purge=true")
    fleet.play(*purge).check()
    assert fleet.play(*purge).check().changed == 0
    assert not gone.exists("/var/lib/penstock"), gone.run("find", "/var/lib/penstock")
    assert not gone.exists("/etc/penstock")
    assert gone.read("/scratch/data/stays") == "data\n"
    listed = fleet.three[0].run("penstock", "peer", "list", "--json").splitlines()
    assert {json.loads(peer)["peer"] for peer in listed} == {"h1", "h2"}
    fleet.play("site").check()
    fleet.play("pair").check()
    make_set(fleet, "again", "1K-64K")
    fleet.solo.run("penstock", "transfer", "submit", "lab:raw/again", "hpc:scratch/", "--wait")
    assert digests(gone, "/scratch/data/again") == digests(fleet.solo, "/srv/raw/again")
    status = json.loads(gone.run("penstock", "site", "status", "--json"))
    assert status["level"] == "ok", status
