"""Files for firewalld and ufw, judged by these programs."""

from __future__ import annotations

import re
from pathlib import Path

from conftest import root
from lab import Lab
from sites import REPOSITORY, system_layer

PORTS = {"7444": "Penstock", "7443": "Penstock Web", "7445:7446": "Penstock etcd"}


def test_firewalld_takes_the_service(lab: Lab) -> None:
    """Promise: firewalld knows the service, finds no fault in it, and opens port 7444 by it."""
    host = lab.host("fw", [system_layer(), root("trixie", "firewalld")])
    host.wait_running()
    assert "penstock" in host.run("firewall-offline-cmd", "--get-services").split()
    told = host.run("firewall-offline-cmd", "--info-service=penstock")
    assert re.search(r"ports: 7444/tcp\n", told)
    host.run("firewall-offline-cmd", "--check-config")
    host.run("firewall-offline-cmd", "--zone=public", "--add-service=penstock")
    shown = host.run("firewall-offline-cmd", "--zone=public", "--list-services")
    assert "penstock" in shown.split()


def test_ufw_takes_the_profiles(lab: Lab) -> None:
    """Promise: ufw knows three profiles, each with its ports."""
    host = lab.host("fw", [system_layer(), root("trixie", "ufw")])
    host.wait_running()
    listed = host.run("ufw", "app", "list")
    for ports, profile in PORTS.items():
        assert f"  {profile}\n" in listed
        assert f"{ports}/tcp" in host.run("ufw", "app", "info", profile)


def test_documented_ports_are_those_of_the_program() -> None:
    """Promise: the ports of the documentation and of these files are the program's defaults."""
    source = REPOSITORY / "crates" / "penstock-daemon" / "src"
    text = "".join(path.read_text() for path in [source / "config.rs", *_files(source / "config")])
    found = dict(re.findall(r"pub const (\w*PORT_DEFAULT): u16 = ([0-9_]+);", text))
    ports = {name: int(value.replace("_", "")) for name, value in found.items()}
    assert ports == {"PORT_DEFAULT": 7444, "WEB_PORT_DEFAULT": 7443, "ETCD_PORT_DEFAULT": 7445}
    deploy = (REPOSITORY / "docs" / "deploy.md").read_text()
    for port in ("7443", "7444", "7445, 7446"):
        assert f"| TCP {port} |" in deploy


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.rs"))
