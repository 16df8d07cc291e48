"""The image, and the files by which containers of it are started.

There is no engine here: buildah builds the image, and runc runs its containers on a host of the
laboratory, as the compose file says.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from compose_pydantic import ComposeSpecification
from pydantic import ValidationError

from conftest import cannot_run, root
from lab import Host, Lab
from sites import REPOSITORY

CONTAINER = REPOSITORY / "packaging" / "container"
COMPOSE = CONTAINER / "compose.yaml"
KUBERNETES = sorted((CONTAINER / "kubernetes").glob("*.yaml"))
USER = 65532


class Image:
    """An image, in a store of its own."""

    def __init__(self, directory: Path, program: Path) -> None:
        self.name = "penstock:test"
        self._environment = {
            **os.environ,
            "STORAGE_DRIVER": "vfs",
            "CONTAINERS_STORAGE_CONF": str(directory / "storage.conf"),
            "SOURCE_DATE_EPOCH": "1700000000",
        }
        text = f'[storage]\ndriver = "vfs"\ngraphroot = "{directory}/graph"\n'
        text += f'runroot = "{directory}/run"\n'
        (directory / "storage.conf").write_text(text)
        self._run(str(CONTAINER / "build.sh"), str(program), self.name)

    @property
    def configuration(self) -> dict[str, Any]:
        """What it says of the processes of its containers."""
        told = json.loads(self._run("buildah", "inspect", "--type=image", self.name))
        return told["OCIv1"]["config"]

    @property
    def digest(self) -> str:
        """The digest of its configuration, and so of all that is in it."""
        told = json.loads(self._run("buildah", "inspect", "--type=image", self.name))
        return str(told["FromImageID"])

    def unpack(self, to: Path) -> None:
        """Makes a bundle for runc: its file system, and a configuration."""
        layout = to.with_suffix(".oci")
        self._run("buildah", "push", self.name, f"oci:{layout}:test")
        self._run("umoci", "unpack", "--image", f"{layout}:test", str(to))
        shutil.rmtree(layout)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            words, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, program: Path) -> Iterator[Image]:
    """Builds the image of the program under test."""
    if os.geteuid() != 0:
        cannot_run("an image is built here by root")
    for tool in ("buildah", "umoci"):
        if shutil.which(tool) is None:
            cannot_run(f"there is no {tool} (Debian: buildah umoci)")
    directory = tmp_path_factory.mktemp("image")
    yield Image(directory, program)
    shutil.rmtree(directory)


def compose() -> dict[str, Any]:
    """Returns the compose file, with its anchors resolved, without its fragments."""
    text = yaml.safe_load(COMPOSE.read_text())
    return {key: value for key, value in text.items() if not key.startswith("x-")}


def commands() -> list[str]:
    """Returns the commands in the head of the compose file, in their order."""
    return re.findall(r"^#   (\S.*)$", COMPOSE.read_text(), re.MULTILINE)


class Engine:
    """As much of an engine as the compose file needs, on a host that has runc and /bundles."""

    def __init__(self, host: Host, image: Image) -> None:
        self.host = host
        self._image = image

    def make(self, name: str) -> dict[str, Any]:
        """Makes the bundle of a service, and returns what the service says."""
        service: dict[str, Any] = compose()["services"][name]
        assert service["network_mode"] == "host"
        bundle = self.host.disk("/bundles") / name
        self._image.unpack(bundle)
        configuration = json.loads((bundle / "config.json").read_text())
        process = configuration["process"]
        process["terminal"] = False
        assert process["user"] == {"uid": USER, "gid": USER}
        process["args"] = [process["args"][0], *service.get("command", process["args"][1:])]
        if service["cap_drop"] == ["ALL"]:
            process["capabilities"] = {}
        process["noNewPrivileges"] = "no-new-privileges:true" in service["security_opt"]
        # More than its own limit only a process with CAP_SYS_RESOURCE may give (setrlimit(2)).
        files = min(
            int(service["ulimits"]["nofile"]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        )
        process["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": files, "soft": files}]
        configuration["root"]["readonly"] = service["read_only"]
        namespaces = configuration["linux"]["namespaces"]
        configuration["linux"]["namespaces"] = [
            one for one in namespaces if one["type"] != "network"
        ]
        for volume in service["volumes"]:
            source, _, place = volume.rpartition(":")
            mount = {"source": self._volume(source), "destination": place}
            configuration["mounts"].append({**mount, "type": "bind", "options": ["rbind", "rw"]})
        for place in service.get("tmpfs", []):
            mount = {"source": "tmpfs", "destination": place, "options": ["mode=1777"]}
            configuration["mounts"].append({**mount, "type": "tmpfs"})
        (bundle / "config.json").write_text(json.dumps(configuration))
        return service

    def _volume(self, source: str) -> str:
        """Returns the directory of a volume, made as an engine does where it is not there.

        A named volume begins as a copy of what the image has there. What is mounted from the host
        is root's.
        """
        if source.startswith("${"):
            place = f"/srv/{source.removesuffix('}').rpartition(':-')[2]}"
            self.host.run("mkdir", "-p", place)
        else:
            place = f"/srv/{source}"
            words = ["install", "-d", "-m", "700", "-o", str(USER), "-g", str(USER)]
            self.host.run(*words, place)
        return place

    def up(self, name: str) -> None:
        """Starts a service, after those that it depends on have ended well."""
        service = self.make(name)
        for before, rule in service.get("depends_on", {}).items():
            assert rule["condition"] == "service_completed_successfully"
            self.make(before)
            for _ in range(2):
                # Given twice, as at each start of the service.
                self.host.run("runc", "run", "-b", f"/bundles/{before}", before)
        unit = ["systemd-run", "--quiet", f"--unit=container-{name}", "-p", "Delegate=yes"]
        self.host.run(*unit, "runc", "run", "-b", f"/bundles/{name}", name)
        self.host.wait_until(f"service {name}", *self.words(name, "site", "list"))

    def words(self, name: str, *command: str) -> list[str]:
        """Returns what runs a command of Penstock in the container of a service."""
        entry = self._image.configuration["Entrypoint"]
        return ["runc", "exec", name, *entry, *command]

    def run(self, command: str) -> str:
        """Runs a command that is written for an engine with compose, as root in /srv."""
        if command == "docker compose up -d":
            for name in ("a", "b"):
                self.up(name)
            return ""
        translated = re.sub(
            r"docker compose exec (?:-T )?(\S+) penstock",
            lambda found: " ".join(self.words(found[1])),
            command.removeprefix("sudo "),
        )
        assert "docker" not in translated, command
        return self.host.run("bash", "-c", f"set -o pipefail; cd /srv && {translated}")


def test_the_image_is_small_and_unprivileged(image: Image, tmp_path: Path) -> None:
    """Promise: the image names a user that is not root, and has the program and little else."""
    configuration = image.configuration
    assert configuration["User"] == f"{USER}:{USER}"
    assert configuration["Entrypoint"] == ["/usr/bin/penstock"]
    assert set(configuration["ExposedPorts"]) == {"7444/tcp", "7443/tcp"}
    image.unpack(tmp_path / "bundle")
    tree = tmp_path / "bundle" / "rootfs"
    files = [str(file.relative_to(tree)) for file in tree.rglob("*") if not file.is_dir()]
    libraries = [file for file in files if file.startswith("lib")]
    others = set(files) - set(libraries)
    assert others == {
        "usr/bin/penstock",
        "etc/passwd",
        "etc/group",
        "etc/nsswitch.conf",
        "etc/ssl/certs/ca-certificates.crt",
    }
    assert len(libraries) < 10, libraries
    state = (tree / "var/lib/penstock").stat()
    assert (state.st_uid, state.st_mode & 0o7777) == (USER, 0o700)


def test_the_same_program_gives_the_same_image(image: Image, program: Path, tmp_path: Path) -> None:
    """Promise: an image can be built again, bit by bit, by somebody who doubts it."""
    assert Image(tmp_path, program).digest == image.digest


def test_two_sites_of_the_compose_file_move_a_data_set(lab: Lab, image: Image) -> None:
    """Promise: each command in the head of the compose file works: two sites start and move a set.

    They have no capability, and a file system that they cannot write to.
    """
    host = lab.host("docker", [root("bookworm", "runc")], disks=["/bundles"])
    host.wait_running()
    engine = Engine(host, image)
    assert any("transfer submit" in command for command in commands())
    for command in commands():
        engine.run(command)
    sums = "cd {} && find . -type f -exec sha256sum {{}} + | sort -k 2"
    sent = host.run("sh", "-c", sums.format("/srv/data-a/run7"))
    assert sent.count("\n") > 10
    assert host.run("sh", "-c", sums.format("/srv/data-b/run7")) == sent
    assert host.run("find", "/srv/data-b/run7", "!", "-uid", str(USER)) == ""
    status = host.read(f"/proc/{host.processes('penstock')[0]}/status")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    host.run("runc", "kill", "b", "TERM")
    ended = "! systemctl is-active container-b"
    host.wait_until("the end of b", "sh", "-c", ended)
    assert host.property("container-b", "Result") in ("success", "")


def test_the_compose_file_is_valid() -> None:
    """Promise: the compose file is one by the specification's own schema."""
    text = compose()
    ComposeSpecification.model_validate(text)
    text["services"]["a"]["read_onyl"] = True
    with pytest.raises(ValidationError):
        ComposeSpecification.model_validate(text)


@pytest.mark.parametrize("file", KUBERNETES, ids=lambda file: file.name)
def test_kubernetes_takes_the_manifests(file: Path) -> None:
    """Promise: the API server of Kubernetes knows every field of the manifests."""
    documents = list(yaml.safe_load_all(file.read_text()))
    assert documents
    for document in documents:
        kubernetes_validate.validate(document, "1.31", strict=True)
    documents[-1]["spec"]["templates"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(documents[-1], "1.31", strict=True)


def test_the_pod_is_confined() -> None:
    """Promise: containers of the DaemonSet have no rights beside the network of their node."""
    documents = list(yaml.safe_load_all(KUBERNETES[0].read_text()))
    pod = documents[-1]["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == USER
    for container in [*pod["initContainers"], *pod["containers"]]:
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
    assert {"hostPID", "hostIPC"}.isdisjoint(pod)
